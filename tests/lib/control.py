# SPDX-License-Identifier: MIT
"""The control socket by hand: raw messages, and a checker of replies against the interface descriptions.

    with Control(d.control) as c:
        reply = c.call("io.dsv4.Daemon.Status")     # checked; raises Error for an error reply
"""
import json
import os
import re
import socket

from client import SRC

IFACES = os.path.join(SRC, "ctl", "iface")


class Error(Exception):
    def __init__(self, name, parameters):
        super().__init__(f"{name} {parameters}")
        self.name, self.parameters = name, parameters


# ---- interface descriptions ----

TOKEN = re.compile(r"\s+|#[^\n]*|(->|\[\]|\[string\]|[A-Za-z_][A-Za-z0-9_.-]*|[():,?])")
BUILTIN = {"bool": bool, "int": int, "string": str, "float": (int, float), "object": object}


class Interface:
    """One parsed description: types, methods {name: (in, out)}, errors. A struct is {field: type}, an enum a list."""

    def __init__(self, text):
        self.tokens, at = [], 0
        while at < len(text):
            m = TOKEN.match(text, at)
            assert m, f"cannot read at {text[at:at + 40]!r}"
            at = m.end()
            if m.group(1):
                self.tokens.append(m.group(1))
        self.types, self.methods, self.errors = {}, {}, {}
        self.take("interface")
        self.name = self.next()
        assert re.fullmatch(r"[a-z]+(\.[A-Za-z0-9-]+)+", self.name), self.name
        while self.tokens:
            self.member()

    def next(self):
        return self.tokens.pop(0)

    def take(self, token):
        got = self.next()
        assert got == token, f"{token} expected, found {got}"

    def member(self):
        kind, name = self.next(), self.next()
        assert re.fullmatch("[A-Z][A-Za-z0-9]*", name), name
        if kind == "type":
            self.types[name] = self.composite()
        elif kind == "error":
            self.errors[name] = self.composite()
        else:
            assert kind == "method", kind
            given = self.composite()
            self.take("->")
            self.methods[name] = (given, self.composite())

    def composite(self):
        self.take("(")
        fields, words = {}, []
        while self.tokens[0] != ")":
            name = self.next()
            assert re.fullmatch("[A-Za-z](_?[A-Za-z0-9])*", name), name
            if self.tokens[0] == ":":
                self.next()
                fields[name] = self.type()
            else:
                words.append(name)
            if self.tokens[0] != ")":
                self.take(",")
        self.next()
        assert not (fields and words), "enum and struct mixed"
        return words or fields

    def type(self):
        if self.tokens[0] == "(":
            return self.composite()
        t = self.next()
        if t in ("?", "[]", "[string]"):
            return (t, self.type())
        return t

    def check(self, t, value, path):
        """Raises AssertionError naming the path where value is not of type t."""
        if isinstance(t, tuple):
            kind, inner = t
            if kind == "?":
                if value is not None:
                    self.check(inner, value, path)
            elif kind == "[]":
                assert isinstance(value, list), f"{path}: no array: {value!r}"
                for i, v in enumerate(value):
                    self.check(inner, v, f"{path}[{i}]")
            else:
                assert isinstance(value, dict), f"{path}: no map: {value!r}"
                for k, v in value.items():
                    self.check(inner, v, f"{path}.{k}")
        elif isinstance(t, list):
            assert value in t, f"{path}: {value!r} is none of {t}"
        elif isinstance(t, dict):
            self.check_struct(t, value, path)
        elif t in BUILTIN:
            assert isinstance(value, BUILTIN[t]), f"{path}: {value!r} is no {t}"
            assert not (isinstance(value, bool) and t in ("int", "float")), f"{path}: {value!r} is no {t}"
        else:
            assert t in self.types, f"{path}: unknown type {t}"
            self.check(self.types[t], value, path)

    def check_struct(self, t, value, path):
        assert isinstance(value, dict), f"{path}: no object: {value!r}"
        for k in value:
            assert k in t, f"{path}.{k}: not described"
        for k, inner in t.items():
            if k in value:
                self.check(inner, value[k], f"{path}.{k}")
            else:
                assert isinstance(inner, tuple) and inner[0] == "?", f"{path}.{k}: missing"


def interfaces():
    found = {}
    for name in sorted(os.listdir(IFACES)):
        with open(os.path.join(IFACES, name), encoding="utf-8") as f:
            i = Interface(f.read())
        assert i.name + ".varlink" == name, name
        found[i.name] = i
    return found


# ---- the wire ----

class Control:
    def __init__(self, path, timeout=30):
        self.ifaces = interfaces()
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(timeout)
        self.sock.connect(path)
        self.data = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, message):
        if not isinstance(message, bytes):
            message = json.dumps(message).encode() + b"\0"
        self.sock.sendall(message)

    def receive(self):
        """The next reply, or None when the daemon closed the connection."""
        while b"\0" not in self.data:
            try:
                got = self.sock.recv(65536)
            except ConnectionResetError:
                return None
            if not got:
                return None
            self.data += got
        one, _, self.data = self.data.partition(b"\0")
        return json.loads(one)

    def check(self, method, reply):
        """Holds a reply against the description of the method and of its error."""
        interface, name = method.rsplit(".", 1)
        error = reply.get("error")
        if error is None:
            i = self.ifaces[interface]
            i.check(i.methods[name][1], reply["parameters"], method)
        else:
            where, name = error.rsplit(".", 1)
            i = self.ifaces[where]
            assert name in i.errors, f"{error} is not described"
            i.check(i.errors[name], reply["parameters"], error)
        assert set(reply) <= {"error", "parameters", "continues"}, reply

    def calls(self, method, more=True, **parameters):
        """Yields the replies' parameters, the last one too."""
        message = {"method": method, "parameters": parameters}
        if more:
            message["more"] = True
        self.send(message)
        while True:
            reply = self.receive()
            assert reply is not None, "the daemon hung up"
            self.check(method, reply)
            if "error" in reply:
                raise Error(reply["error"], reply["parameters"])
            yield reply["parameters"]
            if not reply.get("continues"):
                return

    def call(self, method, **parameters):
        return list(self.calls(method, more=False, **parameters))[-1]
