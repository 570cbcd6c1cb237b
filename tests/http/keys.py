#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Who is let in: keys on every route but /health, their limits, and what other machines may reach without any."""
import concurrent.futures
import hashlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import BUILD, SRC, need  # noqa: E402
from daemon import Daemon  # noqa: E402
from fake import Fake, chat  # noqa: E402
from plugins import until  # noqa: E402

CHAT = "/v1/chat/completions"
ROUTE = re.compile(r'^ROUTE\("(\w+)",\s*"([^"]+)",\s*(\w+)', re.M)


def routes():
    """(method, path, access) of every row of routes.def."""
    with open(os.path.join(SRC, "api", "http", "routes.def"), encoding="utf-8") as f:
        found = ROUTE.findall(f.read())
    assert len(found) > 8, found
    return found


def line(name, key, *limits):
    """A key's line, made here and not by dsv4ctl, so that both sides of the format are held to it."""
    salt = secrets.token_bytes(16)
    return " ".join([name, f"sha256${salt.hex()}${hashlib.sha256(salt + key.encode()).hexdigest()}", *limits]) + "\n"


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


class KeyFile:
    """A key file in a directory of its own."""

    def __init__(self, *lines):
        self.dir = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.dir.name, "keys")
        self.write(*lines)

    def write(self, *lines, mode=0o600):
        with open(self.path, "w", encoding="utf-8") as f:
            f.writelines(lines)
        os.chmod(self.path, mode)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.dir.cleanup()


class Refused(unittest.TestCase):
    def refused(self, status, got, headers, body):
        self.assertEqual(got, status, body)
        e = body["error"]
        self.assertTrue(e["message"] and e["type"] and e["code"], e)
        self.assertIn("param", e)
        self.assertTrue(headers["x-request-id"])
        return e


class OnFake(Refused):
    LINES = (line("alice", "a-key"), line("bob", "b-key"))

    def setUp(self):
        self.file = self.enterContext(KeyFile(*self.LINES))
        self.fake = self.enterContext(Fake(keys=self.file.path))

    def post(self, script, key, **fields):
        return self.fake.http("POST", CHAT, chat(script, **fields), bearer(key))


class Routes(OnFake):
    def test_every_route_without_a_key_is_401_but_health(self):
        self.assertEqual([r[1] for r in routes() if r[2] == "OPEN"], ["/health"])
        for method, path, access in routes():
            path = path.replace("*", "fake")
            for headers in ({}, bearer("wrong"), bearer(""), {"Authorization": "a-key"},
                            {"Authorization": "Basic YS1rZXk6"},
                            {"x-api-key": "wrong"}, {"x-api-key": ""}, {"Cookie": "key=a-key"},
                            {"Authorization": "Bearer"}):
                with self.subTest(method=method, path=path, headers=headers):
                    got = self.fake.http(method, path, "{}" if method == "POST" else None, headers)
                    if access == "OPEN":
                        self.assertEqual(got[0], 200)
                        continue
                    e = self.refused(401, *got)
                    self.assertEqual((e["type"], e["code"]), ("authentication_error", "invalid_api_key"))
                    self.assertEqual(got[1]["www-authenticate"], "Bearer")
            if access != "OPEN":
                got = self.fake.http(method, path, "{}" if method == "POST" else None, bearer("a-key"))
                self.assertNotEqual(got[0], 401, path)
                self.assertEqual(self.fake.http("HEAD", path)[0], 401)
        self.assertEqual(self.fake.command("counts"), "0 0")

    def test_what_is_not_there_looks_the_same_without_a_key(self):
        for method, path in (("GET", "/"), ("GET", "/nowhere"), ("POST", "/nowhere"), ("GET", CHAT), ("POST", CHAT),
                             ("DELETE", "/v1/models"),
                             ("POST", "/health"), ("GET", "/health/"), ("GET", "/health/../v1/models"),
                             ("GET", "//health"),
                             ("GET", "/health%2f..%2fv1/models"), ("GET", "/health%00"), ("GET", "/health%00/x"),
                             ("GET", "/HEALTH"), ("OPTIONS", CHAT)):
            got = self.fake.http(method, path, "{}" if method == "POST" else None)
            self.refused(401, *got)
            self.assertTrue(got[1]["x-request-id"].startswith("req-"))
            self.assertNotIn("allow", got[1])
        self.assertEqual(self.fake.http("GET", "/nowhere", headers=bearer("b-key"))[0], 404)
        self.assertEqual(self.fake.http("GET", CHAT, headers=bearer("b-key"))[0], 405)

    def test_either_header_with_any_case(self):
        for headers in (bearer("a-key"), {"authorization": "bearer a-key"}, {"AUTHORIZATION": "BEARER  a-key"},
                        {"X-Api-Key": "b-key"}, {**bearer("wrong"), "x-api-key": "a-key"},
                        {**bearer("a-key"), "x-api-key": "wrong"}):
            self.assertEqual(self.fake.http("GET", "/version", headers=headers)[0], 200, headers)

    def test_a_request_without_a_key_costs_no_body_memory(self):
        with Fake(keys=self.file.path, max_body=1 << 16) as f:
            big = json.dumps(chat("s", x="x" * 100000))
            self.assertEqual(f.http("POST", CHAT, big)[0], 401)
            self.assertEqual(f.http("POST", CHAT, big, bearer("a-key"))[0], 413)
            self.assertEqual(f.http("POST", CHAT, chat("s"), bearer("a-key"))[0], 200)

    def test_errors_below_messages_have_that_protocols_form(self):
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            status, headers, b = self.fake.http("POST", path, "{}")
            self.assertEqual((status, b["type"], b["error"]["type"]), (401, "error", "authentication_error"))
            self.assertEqual(b["request_id"], headers["x-request-id"])

    def test_the_name_goes_with_the_request_and_the_key_does_not(self):
        self.assertEqual(self.post("s", "a-key")[0], 200)
        last = self.fake.command("last")
        self.assertEqual(json.loads(last)["label"], "http:alice")
        self.assertNotIn("a-key", last)


class Blanks(OnFake):
    def test_blanks_after_a_key_are_no_part_of_it(self):
        for header in (b"x-api-key: a-key ", b"Authorization: Bearer a-key \t", b"x-api-key: a-key"):
            with socket.create_connection(("127.0.0.1", self.fake.port), 60) as c:
                c.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + header + b"\r\n\r\n")
                self.assertTrue(c.recv(65536).startswith(b"HTTP/1.1 200 "), header)


class Limits(OnFake):
    LINES = (line("one", "one", "concurrent=1"), line("few", "few", "concurrent=2"),
             line("slow", "slow", "requests_per_minute=3"), line("free", "free"))

    def limited(self, got):
        e = self.refused(429, *got)
        self.assertEqual((e["type"], e["code"]), ("rate_limit_error", "rate_limit_exceeded"))
        self.assertGreaterEqual(int(got[1]["retry-after"]), 1)
        return e

    def test_a_key_deleted_and_added_again_still_counts_its_streams(self):
        streams = [self.fake.stream(chat("w|cx|s"), headers=bearer("few")) for _ in range(2)]
        for lines in (("# nobody\n",), self.LINES):
            self.file.write(*lines)
            self.assertEqual(self.fake.command("reload"), "ok")
        self.limited(self.post("s", "few"))
        for _ in streams:
            self.fake.command("release")
        for s in streams:
            self.assertEqual(list(s)[-1], "[DONE]")
        self.assertEqual(self.post("s", "few")[0], 200)

    def test_requests_per_minute(self):
        self.assertEqual([self.post("s", "slow")[0] for _ in range(3)], [200] * 3)
        self.assertIn("3 requests per minute", self.limited(self.post("s", "slow"))["message"])
        self.assertEqual(self.post("s", "free")[0], 200)

    def test_who_has_read_the_answer_may_ask_again_at_once(self):
        self.assertEqual([self.post("s", "one")[0] for _ in range(200)], [200] * 200)
        for _ in range(100):
            s = self.fake.stream(chat("s"), headers=bearer("one"))
            self.assertEqual((s.status, list(s)[-1]), (200, "[DONE]"))

    def test_several_answers_of_one_request_count_each(self):
        e = self.refused(400, *self.post("s", "few", n=3))
        self.assertIn("3 answers at once: the key few may have 2", e["message"])
        self.assertEqual(self.fake.http("POST", "/v1/completions", {"prompt": ["a", "b", "c"], "max_tokens": 1},
                                        bearer("few"))[0], 400)
        self.assertEqual(self.fake.command("counts"), "0 0")
        s = self.fake.stream(chat("w|s"), headers=bearer("few"))
        self.assertEqual(s.status, 200)
        self.assertIn("2 answers at once, and 1 are running", self.limited(self.post("s", "few", n=2))["message"])
        self.fake.command("wait-live 1")
        self.fake.command("release")
        self.assertEqual(list(s)[-1], "[DONE]")
        two = self.fake.stream(chat("w|s", n=2), headers=bearer("few"))
        self.assertEqual(two.status, 200)
        self.limited(self.post("s", "few"))
        self.fake.command("wait-live 2")
        self.fake.command("release")
        self.fake.command("release")
        self.assertEqual(list(two)[-1], "[DONE]")
        for _ in range(20):
            self.assertEqual(self.post("s", "few", n=2)[0], 200)
        self.assertEqual(self.post("s", "free", n=16)[0], 200)

    def test_concurrent_requests_are_given_back_on_every_path(self):
        def whole(script="w|s"):
            return pool.submit(self.post, script, "few")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            for end in ("answered", "streamed", "vanished", "refused", "malformed", "failed"):
                with self.subTest(end=end):
                    self.fake.command("wait-live 0")  # those of the round before may be about still
                    if end in ("answered", "streamed"):
                        jobs = [whole(), whole()]
                        self.fake.command("wait-live 2")
                        self.assertIn("2 concurrent", self.limited(self.post("s", "few"))["message"])
                        self.assertEqual(self.post("s", "free")[0], 200)
                        self.fake.command("release")
                        self.fake.command("release")
                        self.assertEqual([j.result()[0] for j in jobs], [200, 200])
                    elif end == "vanished":
                        streams = [self.fake.stream(chat("w|s"), headers=bearer("few")) for _ in range(2)]
                        self.assertEqual([s.status for s in streams], [200, 200])
                        self.limited(self.post("s", "few"))
                        for s in streams:
                            s.vanish()
                        self.fake.command("wait-live 2")
                        self.fake.command("tick")
                        self.fake.command("wait-live 0")
                    else:
                        script = {"refused": "Q", "failed": "xbroken", "malformed": "s"}[end]
                        for _ in range(5):
                            got = self.post(script, "few", **({"temperature": "x"} if end == "malformed" else {}))
                            self.assertIn(got[0], (400, 500, 503), end)
                    until(lambda: self.post("s", "few")[0] == 200, f"room after {end}", 60)
        with concurrent.futures.ThreadPoolExecutor() as pool:  # and the limit is where it was
            jobs = [whole(), whole()]
            self.fake.command("wait-live 2")
            self.limited(self.post("s", "few"))
            self.fake.command("release")
            self.fake.command("release")
            self.assertEqual([j.result()[0] for j in jobs], [200, 200])


class Reload(OnFake):
    def test_new_keys_count_at_once_and_old_ones_no_more(self):
        self.file.write(line("alice", "new-key"), line("carol", "c-key"))
        self.assertEqual(self.post("s", "c-key")[0], 401)
        self.assertEqual(self.fake.command("reload"), "ok")
        self.assertEqual([self.post("s", k)[0] for k in ("a-key", "b-key", "new-key", "c-key")], [401, 401, 200, 200])

    def test_a_bad_file_keeps_the_old_one_and_says_so(self):
        for lines, mode, says in (((line("x", "x"), "alice sk-oops\n"), 0o600, f"{self.file.path}:2: "),
                                  ((line("x", "x"),), 0o644, "chmod")):
            self.file.write(*lines, mode=mode)
            said = self.fake.command("reload")
            self.assertIn(says, said)
            self.assertNotIn("oops", said)
            self.assertEqual([self.post("s", k)[0] for k in ("a-key", "b-key", "x")], [200, 200, 401])
        os.unlink(self.file.path)
        self.assertIn("No such file", self.fake.command("reload"))
        self.assertEqual(self.post("s", "a-key")[0], 200)

    def test_a_stream_outlives_its_key(self):
        s = self.fake.stream(chat("w|cx|s"), headers=bearer("a-key"))
        self.file.write("# nobody\n")
        self.assertEqual(self.fake.command("reload"), "ok")
        self.assertEqual(self.post("s", "a-key")[0], 401)
        self.fake.command("release")
        self.assertEqual(list(s)[-1], "[DONE]")


class Open(Refused):
    def test_without_a_key_file_any_key_will_do_here(self):
        with Fake() as f:
            self.assertEqual(f.http("GET", "/version", headers=bearer("anything"))[0], 200)
            self.assertEqual(f.http("POST", CHAT, chat("s"))[0], 200)
            self.assertEqual(json.loads(f.command("last"))["label"], "http")

    def test_without_keys_a_page_cannot_pass_for_this_machine_by_its_own_name(self):
        def got(f, host, headers=None):
            return [f.http(m, p, b, {"Host": host, **(headers or {})})[0] for m, p,
                    b in (("GET", "/v1/models", None), ("POST", CHAT, chat("s")))]
        with Fake() as f:
            for host in ("evil.example", f"evil.example:{f.port}", "127.0.0.1.evil.example", "1.2.3.4.",
                         "localhost.evil.example:80", "x.localhost.x"):
                self.assertEqual(got(f, host), [200 if host == "1.2.3.4." else 403] * 2, host)
            self.refused(403, *f.http("GET", "/health", headers={"Host": "evil.example"}))
            for host in ("127.0.0.1", f"127.0.0.1:{f.port}", "localhost", f"localhost:{f.port}", "[::1]", "[::1]:80",
                         "a.localhost:1", "dsv4d", "10.0.0.1"):
                self.assertEqual(got(f, host), [200, 200], host)
        with Fake(allow_no_keys=1) as f:
            self.assertEqual(got(f, "evil.example"), [200, 200])
        with KeyFile(line("a", "a-key")) as file, Fake(keys=file.path) as f:
            self.assertEqual(got(f, "api.example", bearer("a-key")), [200, 200])


class OnDaemon(unittest.TestCase):
    def conf(self, text):
        f = self.enterContext(tempfile.NamedTemporaryFile("w", suffix=".conf"))
        f.write(text)
        f.flush()
        return f

    def ctl(self, *words):
        r = subprocess.run([os.path.join(BUILD, "dsv4ctl"), *words], capture_output=True, text=True, check=False)
        return r.returncode, r.stdout, r.stderr

    def test_other_machines_need_a_key_or_an_explicit_word(self):
        for address in ("0.0.0.0:0", "[::]:0"):
            for text, code in (("", 78), ("[http]\nallow_no_keys = yes\n", 0)):
                with self.subTest(address=address, text=text):
                    conf = self.conf(text)
                    try:
                        with Daemon("--config", conf.name, "--listen", address):
                            self.assertEqual(code, 0)
                    except RuntimeError as e:
                        self.assertIn("allow_no_keys", str(e))
                        self.assertEqual(code, 78)

    def test_from_new_key_to_revoked(self):
        openai = need("openai")
        code, made, key = self.ctl("key", "new", "alice", "--concurrent", "3")
        self.assertEqual(code, 0)
        key = key.strip()
        self.assertRegex(made, r"^alice sha256\$[0-9a-f]{32}\$[0-9a-f]{64} concurrent=3\n$")
        self.assertNotIn(key, made)
        both = json.loads(self.ctl("key", "new", "bob", "--json")[1])
        with KeyFile(made) as file:
            with Daemon("--config", self.conf(f"[http]\nkeys = {file.path}\n").name) as d:
                ask = {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
                with self.assertRaises(openai.AuthenticationError) as e:
                    d.openai().chat.completions.create(**ask)
                self.assertEqual(e.exception.code, "invalid_api_key")
                client = d.openai(api_key=key)
                rid = client.chat.completions.create(**ask).id
                code, out, err = d.ctl("request", "show", rid)
                self.assertEqual(code, 0, err)
                self.assertIn("http:alice", out)
                file.write(made, both["line"] + "\n")
                self.assertEqual(self.reloaded(d), {"added": 1, "removed": 0, "changed": 0, "keys": 2})
                file.write(made.replace("concurrent=3", "concurrent=4"), both["line"] + "\n")
                self.assertEqual(self.reloaded(d), {"added": 0, "removed": 0, "changed": 1, "keys": 2})
                file.write("# nobody\n")
                self.assertEqual(self.reloaded(d), {"added": 0, "removed": 2, "changed": 0, "keys": 0})
                self.assertRegex(d.log(), r"<4>keys_empty why=.*nobody may call")
                file.write(made, both["line"] + "\n")
                self.assertEqual(self.reloaded(d), {"added": 2, "removed": 0, "changed": 0, "keys": 2})
                self.assertTrue(d.openai(api_key=both["key"]).models.list().data)
                file.write("nonsense\n")
                code, out, err = d.ctl("reload")
                self.assertEqual((code, ":1: " in err), (1, True), err)
                self.assertTrue(client.models.list().data)
                file.write(both["line"] + "\n")
                d.process.send_signal(signal.SIGHUP)
                until(lambda: d.http("GET", "/version", headers=bearer(key))[0] == 401, "the key revoked", 60)
                self.assertIn("key=alice", d.log())
                for secret in (key, both["key"]):
                    self.assertNotIn(secret, d.log())
                    self.assertNotIn(secret, d.ctl("request", "show", rid)[1])

    def reloaded(self, d):
        code, out, err = d.ctl("reload", "--json")
        self.assertEqual(code, 0, err)
        return json.loads(out)["keys"]

    def test_dsv4ctl_key_new_refuses(self):
        for words in ((), ("a/b",), ("a", "b"), ("a", "--concurrent"), ("a", "--concurrent", "0"),
                      ("a", "--concurrent=x"),
                      ("a", "--what", "1"), ("a", "--concurrent", "1", "--concurrent", "2"), ("x" * 27,)):
            code, out, err = self.ctl("key", "new", *words)
            self.assertEqual((code, out), (2, ""), words)
            self.assertTrue(err.startswith("dsv4ctl: "), err)

    def test_a_bad_key_file_ends_the_start_before_the_model_is_read(self):
        with KeyFile("alice\n") as file:
            conf = self.conf(f"[http]\nkeys = {file.path}\n").name
            for extra in ((), ("-t",)):
                r = subprocess.run([os.path.join(BUILD, "dsv4d"), "--config", conf, *extra], capture_output=True,
                                   text=True,
                                   check=False, timeout=60)
                self.assertEqual(r.returncode, 78, r.stderr)
                self.assertIn(f"{file.path}:1: ", r.stderr)


def lost(path, cid):
    """A history whose reasoning got lost, in each protocol's form."""
    if path == "/v1/responses":
        return {"input": [{"role": "user", "content": "x"},
                          {"type": "function_call", "call_id": cid, "name": "f", "arguments": "{}"},
                          {"type": "function_call_output", "call_id": cid, "output": "x"},
                          {"role": "user", "content": "s"}]}
    if path == "/v1/messages":
        return {"model": "claude-x", "max_tokens": 9, "thinking": {"type": "adaptive"}, "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": cid, "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": cid}]},
            {"role": "user", "content": "s"}]}
    return {"messages": [{"role": "user", "content": "x"},
                         {"role": "assistant",
                          "tool_calls":
                          [{"id": cid, "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
                         {"role": "tool", "tool_call_id": cid, "content": "x"}, {"role": "user", "content": "s"}],
            "tools": [{"type": "function", "function": {"name": "f"}}]}


class Reasoning(unittest.TestCase):
    """What one key's answer thought was told to whoever named its call."""

    def told(self, fake, path, cid, headers):
        status, _, reply = fake.http("POST", path, lost(path, cid), headers)
        self.assertEqual(status, 200, reply)
        return "as I thought" in (json.dumps(reply) if path == "/apply-template" else fake.command("last"))

    def test_reasoning_is_told_to_no_other_key(self):
        paths = (CHAT, "/apply-template", "/v1/messages", "/v1/responses")
        with KeyFile(line("alice", "a-key"),
                     line("bob", "b-key")) as f, Fake(keys=f.path) as fake, Fake() as open_to_all:
            for path in paths:
                for server, headers, label in ((fake, bearer("a-key"), "http:alice"),
                                               (fake, bearer("b-key"), "http:bob"), (open_to_all, {}, "http")):
                    for owner in ("http:alice", "http:bob", "http"):
                        with self.subTest(path=path, label=label, owner=owner):
                            self.assertEqual(self.told(server, path, f"call of {owner}", headers), owner == label)


if __name__ == "__main__":
    unittest.main()
