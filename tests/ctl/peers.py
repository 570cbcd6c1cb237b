# SPDX-License-Identifier: MIT
"""Hostile and clumsy peers of the control socket: each is refused by name, bounded, and harms no other."""
import json
import os
import re
import socket
import time

from control import Control, Error
from daemon import Daemon

STATUS = {"method": "io.dsv4.Daemon.Status"}


def one(d, message):
    """Sends one message on a connection of its own; the error's name and whether the daemon hung up after it."""
    with Control(d.control) as c:
        c.send(message)
        reply = c.receive()
        c.check("org.varlink.service.GetInfo", reply)
        try:
            c.send(STATUS)
        except BrokenPipeError:
            pass
        return reply["error"].rsplit(".", 1)[1], c.receive() is None


def nested(n):
    return b'{"method":"io.dsv4.Daemon.Status","parameters":{"x":' + b"[" * n + b"]" * n + b"}}\0"


def malformed(d):
    cases = [(b"\0", "Malformed", True), (b"x\0", "Malformed", True), (b"[]\0", "Malformed", True),
             (b'{"method":"a.B","method":"a.B"}\0', "Malformed", True), (nested(31), "Malformed", True),
             (nested(100000), "Malformed", True), (b"{}\0", "InvalidValue", False),
             (nested(30), "InvalidParameter", False),
             (b'{"method":"a.B","parameters":[]}\0', "InvalidValue", False),
             (b'{"method":"io.dsv4.Daemon.Status","upgrade":true}\0', "InvalidValue", False)]
    for message, error, hangs_up in cases:
        assert one(d, message) == (error, hangs_up), (message[:60], one(d, message))


def size(d):
    def status(bytes_in_all):
        head = b'{"method":"io.dsv4.Daemon.Status"'
        return head + b" " * (bytes_in_all - len(head) - 1) + b"}"
    with Control(d.control) as c:
        c.send(status(1 << 20) + b"\0")
        assert "error" not in c.receive()
        c.send(status((1 << 20) + 1))
        reply = c.receive()
        assert reply["error"] == "io.dsv4.Daemon.TooLarge" and c.receive() is None, reply


def connections(d):
    held = [Control(d.control) for _ in range(8)]
    with Control(d.control) as c:
        reply = c.receive()
        assert reply["error"] == "io.dsv4.Daemon.Busy" and c.receive() is None, reply
    code, _, err = d.ctl("status")
    assert code == 5 and "too many connections of this user" in err, err
    for c in held:
        assert c.call("io.dsv4.Daemon.Status")["state"] == "ready"
        c.sock.close()
    assert d.ctl("status")[0] == 0


def pipelining(d):
    """Calls are answered in order; oneway ones not at all, but they take effect."""
    with Control(d.control) as c:
        set_level = {"method": "io.dsv4.Daemon.SetLogLevel", "parameters": {"level": "debug"}, "oneway": True}
        wait = {"method": "io.dsv4.Daemon.Wait", "parameters": {"condition": "drained", "timeout": 0}}
        later = {"method": "io.dsv4.Daemon.Wait", "parameters": {"condition": "drained", "timeout": 1}, "more": True}
        bad = {"method": "a.b.C", "oneway": True}
        c.send(b"".join(json.dumps(m).encode() + b"\0" for m in [STATUS, set_level, bad, wait, later, STATUS]))
        assert c.receive()["parameters"]["log_level"] == "info"
        assert c.receive()["error"] == "io.dsv4.Daemon.Timeout"
        first = c.receive()
        assert first["continues"] and first["parameters"]["state"] == "ready", first
        assert c.receive()["error"] == "io.dsv4.Daemon.Timeout"
        assert c.receive()["parameters"]["log_level"] == "debug"
        c.call("io.dsv4.Daemon.SetLogLevel", level="info")


def leaves_while_waiting(d):
    for _ in range(20):
        with Control(d.control) as c:
            c.send({"method": "io.dsv4.Daemon.Wait", "parameters": {"condition": "drained", "timeout": 1000},
                    "more": True})
            assert c.receive()["continues"]
        with Control(d.control) as c:
            c.send({"method": "io.dsv4.Probes.Run", "parameters": {"names": ["recall"]}, "more": True})
    assert d.ctl("wait", "ready")[0] == 0
    with Control(d.control) as c:
        c.send(STATUS)
        c.sock.shutdown(socket.SHUT_WR)
        assert c.receive()["parameters"]["state"] == "ready"


def deadlines(d):
    """Half a call, and replies that nobody reads: closed after ten seconds; others are served meanwhile."""
    half, deaf = Control(d.control), Control(d.control)
    half.send(b'{"method"')
    deaf.sock.setblocking(False)
    call = json.dumps({"method": "io.dsv4.Engine.ParamList"}).encode() + b"\0"
    sent = 0
    try:
        while sent < 64 << 20:
            sent += deaf.sock.send(call * 1000)
    except BlockingIOError:
        pass
    assert sent < 8 << 20, "the daemon reads on although its replies wait"
    start = time.monotonic()
    assert d.ctl("status")[0] == 0 and time.monotonic() - start < 5
    assert half.receive() is None
    assert 8 < time.monotonic() - start < 20
    deaf.sock.settimeout(20)
    while deaf.receive() is not None:
        pass
    # the deaf one's last call may be half a call too, and which of its deadlines is first is the machine's to say
    why = re.findall(r'control_deadline .*why="([^"]*)"', d.log())
    assert len(why) == 2 and "half a call" in why and set(why) <= {"half a call", "a reply not read"}, d.log()


def memory(d):
    with open(f"/proc/{d.process.pid}/status", encoding="ascii") as f:
        return int(next(line for line in f if line.startswith("RssAnon")).split()[1])


def sanitized(d):
    """Sanitizers keep freed memory back."""
    with open(f"/proc/{d.process.pid}/maps", encoding="ascii") as f:
        return "libasan" in (maps := f.read()) or "libtsan" in maps


def descriptors(d):
    return len(os.listdir(f"/proc/{d.process.pid}/fd"))


with Daemon() as d:
    assert d.ctl("status")[0] == 0
    fds = descriptors(d)
    malformed(d)
    size(d)
    connections(d)
    pipelining(d)
    before = memory(d)
    for _ in range(20):
        malformed(d)
        size(d)
    assert sanitized(d) or memory(d) - before < 4096, (before, memory(d))
    deadlines(d)
    leaves_while_waiting(d)
    try:
        Control(d.control).call("io.dsv4.Daemon.Status", x=1)
    except Error as e:
        assert e.parameters == {"parameter": "x"}
    assert d.ctl("wait", "idle")[0] == 0
    assert descriptors(d) <= fds + 1, (fds, descriptors(d))
print("ok")
