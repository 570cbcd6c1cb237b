#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Probes against servers by their URL: a sound one of another make passes, each fault of a server is told by its
check's name, and dsv4d itself passes through its own front."""
import gzip
import hashlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import BUILD  # noqa: E402
from daemon import Daemon  # noqa: E402
from scenario import ok  # noqa: E402
from scripted import MODEL, REASONING, WORDS, Served, Sound  # noqa: E402

CHECKS = {"model", "chat", "reasoning", "tools", "stream", "fields", "auth", "errors"}
PASS, ERROR, USAGE, CONNECT, WARN, FAIL = 0, 1, 2, 3, 10, 11


def dsv4ctl(*words, env=None):
    """(exit status, standard output, standard error), with no daemon to ask."""
    r = subprocess.run([os.path.join(BUILD, "dsv4ctl"), "--socket", "/nonexistent", *words], stdin=subprocess.DEVNULL,
                       capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **(env or {})})
    return r.returncode, r.stdout, r.stderr


def probe(url, *words, name="api", key="right"):
    """(exit status, result) of one probe."""
    code, out, err = dsv4ctl("--json", "probe", "run", name, "--url", url, *words, env={"DSV4_PROBE_KEY": key})
    lines = out.splitlines()
    assert lines, (code, err)
    reply = json.loads(lines[-1])
    assert code in (PASS, WARN, FAIL) and len(reply["results"]) == 1, (code, reply, err)
    assert all("progress" in json.loads(line) for line in lines[:-1]), out
    return code, reply["results"][0]


def bad_checks(result):
    figures = result["figures"]
    assert {n for n in figures if n.startswith("check_")} == {f"check_{n}" for n in CHECKS}, figures
    return {n for n in CHECKS if figures[f"check_{n}"] != 1}


# ---- servers, each wrong in one way ----

class NoDone(Sound):
    """no [DONE] ends the stream"""
    def stream(self, body):
        return list(super().stream(body))[:-1]


class TwoFinishes(Sound):
    """2 chunks have a finish_reason"""
    def chunks(self, body):
        for c in super().chunks(body):
            yield c
            if c["choices"] and c["choices"][0]["finish_reason"]:
                yield c


class NoFinish(Sound):
    """without a finish_reason"""
    def chunks(self, body):
        return [c for c in super().chunks(body) if not c["choices"] or not c["choices"][0]["finish_reason"]]


class NoRole(Sound):
    """the first chunk has no role"""
    def chunks(self, body):
        return list(super().chunks(body))[1:]


class OneChunk(Sound):
    """the answer is one chunk only"""
    def reasons(self, body):
        return super().reasons(body) and not body.get("stream")

    def chunks(self, body):
        chunks = list(super().chunks(body))
        if body.get("tools"):
            return chunks
        return [self.chunk({"role": "assistant", "content": "".join(WORDS)}), *chunks[-2:]]


class TextAfterFinish(Sound):
    """text comes after the finish_reason"""
    def chunks(self, body):
        *before, finish, usage = super().chunks(body)
        return [*before[:-1], finish, before[-1], usage]


class NoUsage(Sound):
    """no usage came"""
    def chunks(self, body):
        return [{**c, "usage": None} for c in super().chunks(body)]


class Garbage(Sound):
    """a line that no event stream has: "<b>busy</b>\""""
    def stream(self, body):
        yield from list(super().stream(body))[:2]
        yield b"<b>busy</b>\n\n"


class HalfJson(Sound):
    """an event is no JSON object"""
    def stream(self, body):
        return [e.replace(b"}", b"", 1) if b"[DONE]" not in e else e for e in super().stream(body)]


class NotStreamed(Sound):
    """the stream's type is "application/json\""""
    def chat(self, body):
        self.answer(200, self.whole(body))


class Drops(Sound):
    """the connection broke after"""
    def pieces(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        first = next(iter(events))
        self.wfile.write(b"%x\r\n%b\r\n" % (len(first), first))
        self.vanish()


class Hangs(Sound):
    """nothing came for 1 seconds"""
    def pieces(self, events):
        self.server.gone.wait(120)
        self.vanish()


class CommentsForEver(Sound):
    """no whole answer within 5 seconds"""
    def stream(self, body):
        while not self.server.gone.wait(0.1):
            yield b": still here\n\n"


class GzippedAnswer(Sound):
    """HTTP 200 in the Content-Encoding "gzip", which nobody asked for"""
    def whole(self, body):
        return gzip.compress(json.dumps(super().whole(body)).encode())

    def answer(self, status, body, kind="application/json"):
        self.zipped = isinstance(body, bytes) and body[:2] == b"\x1f\x8b"
        super().answer(status, body, kind)

    def end_headers(self):
        if getattr(self, "zipped", False):
            self.send_header("Content-Encoding", "gzip")
        self.zipped = False
        super().end_headers()


class ReasoningInContent(Sound):
    """reasoning stands inside the content"""
    def whole(self, body):
        c = super().whole(body)
        if self.reasons(body):
            c["choices"][0]["message"].update(reasoning=None, content=f"<think>{REASONING}</think>Eight.")
        return c


class ReasoningLost(Sound):
    """reasoning is lost in the stream"""
    def chunks(self, body):
        return [c for c in super().chunks(body) if not c["choices"] or "reasoning" not in c["choices"][0]["delta"]]


class BrokenArguments(Sound):
    """the arguments are no JSON object"""
    def call(self):
        return {**super().call(), "function": {"name": "get_weather", "arguments": "{'city': 'Berlin'}"}}


class ArgumentsObject(Sound):
    """the arguments are no string"""
    def call(self):
        return {**super().call(), "function": {"name": "get_weather", "arguments": {"city": "Berlin"}}}


class MarkupOfCalls(Sound):
    """markup of a call stands inside the content"""
    def whole(self, body):
        c = super().whole(body)
        if body.get("tools"):
            c["choices"][0]["message"].update(content='<tool_call>{"name": "get_weather"}</tool_call>', tool_calls=[])
            c["choices"][0]["finish_reason"] = "stop"
        return c


class CallLost(Sound):
    """the call is lost in the stream"""
    def chunks(self, body):
        return super().chunks({**body, "tools": None})


class CallWithoutIndex(Sound):
    """tool_calls[].index in a chunk is no small number"""
    def call_chunks(self, call):
        for c in super().call_chunks(call):
            for choice in c["choices"]:
                for t in choice["delta"].get("tool_calls", []):
                    del t["index"]
            yield c


class AnyKey(Sound):
    """a wrong key is accepted, while none gets HTTP 401"""
    def admit(self, key):
        return key != ""


class WrongKeyForbidden(Sound):
    """a wrong key gets HTTP 400, not 401"""
    def refuse(self, status, message, code):
        super().refuse(400, message, code)


class HtmlError(Sound):
    """no {"error": {}} but text/html"""
    def refuse(self, status, message, code):
        if status == 401:
            super().refuse(status, message, code)
        else:
            self.answer(status, b"<html><h1>Bad Request</h1></html>", "text/html")


class BareError(Sound):
    """error.param (missing)"""
    def refuse(self, status, message, code):
        self.answer(status, {"error": {"message": message, "type": "x", "code": code}})


class AnythingGoes(Sound):
    """a bad request gets HTTP 200"""
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.admit((self.headers["Authorization"] or "").removeprefix("Bearer ")):
            self.refuse(401, "wrong key", "invalid_api_key")
        else:
            self.chat(body)


class MissingField(Sound):
    """usage.total_tokens (missing)"""
    def completion(self, message, finish):
        return {**super().completion(message, finish), "usage": {"prompt_tokens": 1, "completion_tokens": 1}}


class MistypedField(Sound):
    """of the wrong type: completion.created (string)"""
    def completion(self, message, finish):
        return {**super().completion(message, finish), "created": "today"}


class NegativeUsage(Sound):
    """untrue: usage.prompt_tokens (negative)"""
    def completion(self, message, finish):
        return {**super().completion(message, finish),
                "usage": {"prompt_tokens": -5, "completion_tokens": 9, "total_tokens": 4}}


class WrongSum(Sound):
    """untrue: usage.total_tokens (not the sum)"""
    def completion(self, message, finish):
        return {**super().completion(message, finish),
                "usage": {"prompt_tokens": 5, "completion_tokens": 1 << 62, "total_tokens": 14}}


class OtherModel(Sound):
    """GET /models lists no model"""
    def models(self):
        return {"object": "list", "data": []}


class EmptyContent(Sound):
    """the content is empty"""
    def completion(self, message, finish):
        return super().completion({**message, "content": message["content"] and ""}, finish)


# The checks that tell of each: these and no others. What breaks any stream breaks that of a call, too.
STREAM, BOTH = {"stream"}, {"stream", "tools"}
FAULTS = [
    (STREAM, NoDone), (STREAM, TwoFinishes), (BOTH, NoFinish), (STREAM, NoRole), (STREAM, OneChunk),
    (STREAM, TextAfterFinish), (STREAM, NoUsage), (BOTH, Garbage), (BOTH, HalfJson), (BOTH, NotStreamed), (BOTH, Drops),
    (BOTH, CommentsForEver), ({"chat", "reasoning", "tools", "fields"}, GzippedAnswer),
    (BOTH, Hangs), (STREAM, ReasoningLost), ({"reasoning"}, ReasoningInContent), ({"tools"}, BrokenArguments),
    ({"tools"}, MarkupOfCalls), ({"tools"}, CallLost), ({"tools", "fields"}, CallWithoutIndex), ({"auth"}, AnyKey),
    ({"auth"}, WrongKeyForbidden), ({"errors"}, HtmlError), ({"errors"}, BareError), ({"errors"}, AnythingGoes),
    ({"fields"}, MissingField), ({"fields"}, MistypedField),
    ({"fields"}, NegativeUsage), ({"fields"}, WrongSum), ({"model"}, OtherModel), ({"chat"}, EmptyContent),
]


class Faults(unittest.TestCase):
    def test_a_sound_server_of_another_make_passes(self):
        with Served(Sound) as url:
            code, result = probe(url)
        self.assertEqual((code, result["verdict"], bad_checks(result)), (PASS, "pass", set()), result["why"])
        self.assertEqual(result["figures"]["context"], 32768)
        self.assertGreater(len(result["requests"]), 3)
        self.assertIn("fields: not OpenAI's, but known: ", result["why"])
        self.assertIn("completion.kv_transfer_params (null)", result["why"])

    def test_each_fault_is_told_by_its_name(self):
        for checks, handler in FAULTS:
            with self.subTest(handler.__name__), Served(handler) as url:
                code, result = probe(url, "--patience", "1")
                self.assertEqual((code, result["verdict"]), (FAIL, "fail"), result)
                self.assertEqual(bad_checks(result), checks, result["why"])
                for check in checks:
                    self.assertIn(f"{check}: ", result["why"])
                self.assertIn(handler.__doc__, result["why"])

    def test_arguments_that_are_an_object_are_of_the_wrong_type_too(self):
        with Served(ArgumentsObject) as url:
            code, result = probe(url)
        self.assertEqual((code, bad_checks(result)), (FAIL, {"tools", "fields"}), result["why"])
        self.assertIn("function.arguments (object)", result["why"])

    def test_fields_that_nobody_knows_are_a_warning(self):
        class Extra(Sound):
            def completion(self, message, finish):
                return {**super().completion(message, finish), "mood": "sunny"}

        with Served(Extra) as url:
            code, result = probe(url)
        self.assertEqual((code, result["verdict"], bad_checks(result)), (WARN, "warn", {"fields"}), result["why"])
        self.assertIn("unknown: completion.mood (string)", result["why"])

    def test_every_check_runs_on_a_server_that_answers_nothing(self):
        class Broken(Sound):
            def do_POST(self):
                self.vanish()

            do_GET = do_POST

        with Served(Broken) as url:
            code, result = probe(url, "--model", MODEL)
        self.assertEqual((code, bad_checks(result)), (FAIL, CHECKS), result["why"])


class Keys(unittest.TestCase):
    SECRET = "sk-not-to-be-seen-0123456789"

    def test_without_a_key_the_server_is_open_on_this_machine(self):
        class Open(Sound):
            def admit(self, key):
                return True

        with Served(Open) as url:
            code, result = probe(url, key="")
        self.assertEqual((code, bad_checks(result)), (PASS, set()), result["why"])
        self.assertIn("auth: open, no key is needed", result["why"])

    def test_the_key_comes_from_an_option_a_file_or_the_environment(self):
        with Served(Sound) as url, tempfile.NamedTemporaryFile("w") as f:
            f.write("right\nand a comment\n")
            f.flush()
            for words, env in ([["--key", "right"], {}], [["--key-file", f.name], {}],
                               [[], {"DSV4_PROBE_KEY": "right"}],
                               [["--key=right"], {"DSV4_PROBE_KEY": "wrong"}]):
                code, out, err = dsv4ctl("probe", "run", "api", "--url", url, *words, env=env)
                self.assertEqual(code, PASS, (words, out, err))

    def test_a_server_that_repeats_the_key_does_not_get_it_shown(self):
        with Served(Sound) as url:
            for words in (["--json", "probe"], ["probe"]):
                code, out, err = dsv4ctl(*words, "run", "api", "--url", url, "--key", self.SECRET)
                self.assertEqual(code, FAIL, err)
                self.assertIn("wrong key Bearer ****", out)
                self.assertNotIn(self.SECRET, out + err)

    def test_the_key_is_not_in_the_command_line_while_it_runs(self):
        seen, child, started = [], [], threading.Event()

        class Looks(Sound):
            def do_GET(self):
                assert started.wait(60)
                with open(f"/proc/{child[0].pid}/cmdline", "rb") as f:
                    seen.append(f.read().split(b"\0"))
                super().do_GET()

        for words in (["--key", "right"], ["--key=right"]):
            started.clear()
            with Served(Looks) as url, subprocess.Popen(
                    [os.path.join(BUILD, "dsv4ctl"), "probe", "run", "api", "--url", url, *words],
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as p:
                child[:] = [p]
                started.set()
                p.communicate(timeout=300)
            self.assertEqual(p.returncode, PASS)
            self.assertIn(b"--key", seen[-1][-3] + seen[-1][-2])
            self.assertTrue(seen[-1][-2].endswith(b"*****"), seen[-1])
            self.assertNotIn(b"right", b" ".join(seen[-1]))


class Said(unittest.TestCase):
    def refused(self, expected, text, *words):
        code, out, err = dsv4ctl(*words)
        self.assertEqual((code, out), (expected, ""), (words, err))
        self.assertIn(text, err)

    def test_what_is_said_wrongly_is_refused(self):
        with Served(Sound) as url:
            self.refused(ERROR, "no probe named 'x'", "probe", "run", "x", "--url", url)
            self.refused(ERROR, "no option", "probe", "run", "api", "--url", url, "--x", "1")
            self.refused(ERROR, "http or https", "probe", "run", "api", "--url", "ftp://127.0.0.1/")
            self.refused(ERROR, "without user", "probe", "run", "api", "--url", url.replace("//", "//me:secret@"))
            self.refused(ERROR, "no header takes", "probe", "run", "api", "--url", url, "--key", "a\nb")
            self.refused(USAGE, "one of them", "probe", "run", "api", "--url", url, "--key", "a", "--key-file", "b")
            self.refused(USAGE, "does not go with --url", "probe", "run", "api", "--url", url, "--set", "ref")
            self.refused(USAGE, "go with --url", "probe", "run", "api", "--model", "x")
        self.refused(CONNECT, "no connection", "probe", "run", "api", "--url", url)

    def test_without_a_name_every_probe_is_run(self):
        with Served(Sound) as url, Daemon() as d:
            names = {p["name"] for p in ok(d, "probe", "list")["probes"]}
            code, out, err = dsv4ctl("--json", "probe", "run", "--quick", "--url", url, env={"DSV4_PROBE_KEY": "right"})
        results = {r["name"]: r for r in json.loads(out.splitlines()[-1])["results"]}
        self.assertEqual((code, set(results)), (FAIL, names), err)
        # It answers every question alike, so that it remembers nothing.
        self.assertEqual([results[n]["verdict"] for n in ("api", "recall")], ["pass", "fail"], results)

    def test_redirects_are_not_followed(self):
        class Moved(Sound):
            def chat(self, body):
                self.send_response(307)
                self.send_header("Location", "/v1/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

        with Served(Moved) as url:
            code, result = probe(url)
        self.assertEqual(code, FAIL)
        self.assertIn('chat: HTTP 307 to "/v1/elsewhere": redirects are not followed', result["why"])

    def test_a_server_that_refuses_unknown_fields_is_asked_without_them(self):
        asked = []

        class Strict(Sound):
            def chat(self, body):
                asked.append(body)
                if "thinking" in body or "chat_template_kwargs" in body:
                    self.refuse(400, "Unknown parameter: 'thinking'", None)
                else:
                    super().chat(body)

            def reasons(self, body):
                return True

        with Served(Strict) as url:
            code, result = probe(url)
        self.assertEqual((code, bad_checks(result)), (PASS, set()), result["why"])
        self.assertIn("fields: asked without thinking and chat_template_kwargs, which the server refuses: HTTP 400: "
                      "Unknown parameter: 'thinking'", result["why"])
        self.assertEqual(len([b for b in asked if "thinking" in b]), 1, "it learns")

    def test_thinking_is_said_in_every_form(self):
        asked = []

        class Listens(Sound):
            def chat(self, body):
                asked.append(body)
                super().chat(body)

        with Served(Listens) as url:
            probe(url)
        for on in (True, False):
            said = [b for b in asked if b.get("thinking") == {"type": "enabled" if on else "disabled"}]
            self.assertTrue(said, asked)
            for b in said:
                self.assertEqual(b["chat_template_kwargs"], {"thinking": on, "enable_thinking": on})

    def test_the_base_may_have_any_path(self):
        class Below(Sound):
            def do_GET(self):
                assert self.path.startswith("/gateway/api/"), self.path
                self.path = self.path.replace("/gateway/api", "/v1")
                super().do_GET()

            def do_POST(self):
                assert self.path == "/gateway/api/chat/completions", self.path
                super().do_POST()

        with Served(Below) as url:
            self.assertEqual(probe(url + "/gateway/api/")[0], PASS)


class Others(unittest.TestCase):
    """The other probes on a server by its URL."""

    def test_reasoning_of_another_name_and_streams_reach_every_probe(self):
        article = "".join(f"w{i * 7919 % 10007}{' ' if i % 9 else '.' + chr(10)}" for i in range(4000))

        class Writes(Sound):
            def chunks(self, body):
                yield self.chunk({"role": "assistant"})
                yield self.chunk({"reasoning": "An article it is."})
                for i in range(0, len(article), 500):
                    yield self.chunk({"content": article[i:i + 500]})
                yield self.chunk({}, "stop")
                yield self.chunk(usage={**USAGE_LONG})

        with Served(Writes) as url:
            code, result = probe(url, name="longgen")
        self.assertEqual((code, result["verdict"]), (PASS, "pass"), result)
        self.assertEqual(result["figures"]["content_bytes"], len(article))
        self.assertEqual(result["figures"]["reasoning_bytes"], len("An article it is."))

    def test_a_looping_stream_is_dropped_early(self):
        sent = []

        class Loops(Sound):
            def stream(self, body):
                for i in range(100000):
                    sent.append(i)
                    loop = self.chunk({"role": "assistant", "content": "again " * 50})
                    yield b"data: " + json.dumps(loop).encode() + b"\n\n"

        with Served(Loops) as url:
            code, result = probe(url, name="longgen")
        self.assertEqual((code, result["verdict"]), (FAIL, "fail"), result)
        self.assertLess(len(sent), 100000)

    def test_an_error_in_the_stream_is_told(self):
        class Fails(Sound):
            def stream(self, body):
                yield b'data: {"error": {"message": "out of memory"}}\n\n'
                yield b"data: [DONE]\n\n"

        with Served(Fails) as url:
            code, result = probe(url, name="longgen")
        self.assertEqual((code, result["verdict"]), (WARN, "inconclusive"), result)
        self.assertIn("the server broke off: out of memory", result["why"])


class Dsv4d(unittest.TestCase):
    def test_dsv4d_passes_by_its_url(self):
        with Daemon() as d:
            code, result = probe(d.url)
            self.assertEqual((code, bad_checks(result)), (PASS, set()), result["why"])
            code, result = probe(d.url + "/v1", "--facts", "1", "--turns", "1", name="recall")
            self.assertEqual((code, result["verdict"]), (PASS, "pass"), result)
            # Its ids are those that the daemon keeps.
            self.assertEqual(d.ctl("request", "show", result["requests"][0])[0], 0)


class Front(unittest.TestCase):
    """`probe run api` of the daemon goes through the daemon's own front."""

    def setUp(self):
        self.dir = self.enterContext(tempfile.TemporaryDirectory())

    def file(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, 0o600)
        return path

    def key_file(self, *limits):
        salt = secrets.token_bytes(16)
        digest = hashlib.sha256(salt + b"users").hexdigest()
        return self.file("keys", " ".join(["user", f"sha256${salt.hex()}${digest}", *limits]) + "\n")

    def api(self, d):
        result = ok(d, "probe", "run", "api")["results"][0]
        self.assertEqual((result["verdict"], bad_checks(result)), ("pass", set()), result["why"])
        return result

    def test_without_keys(self):
        with Daemon() as d:
            self.assertIn("auth: open, no key is needed; only this machine", self.api(d)["why"])
            self.assertIn("method=GET path=/v1/models", d.log())

    def test_with_keys_it_has_one_of_its_own_past_every_limit(self):
        keys = self.key_file("requests_per_minute=1", "concurrent=1")
        with Daemon("--config", self.file("conf", f"[http]\nkeys = {keys}\n")) as d:
            for _ in range(2):
                result = self.api(d)
            self.assertNotIn("open", result["why"])
            self.assertEqual(len(result["requests"]), 5)
            labels = {r["label"] for r in ok(d, "request", "list")["requests"]}
            self.assertEqual(labels, {"probe"})
            self.assertEqual(d.http("GET", "/v1/models")[0], 401)
            # Whoever looks finds no key.
            self.assertNotIn("sk-dsv4-", d.log())

    def test_its_key_is_another_at_each_start_and_no_one_elses(self):
        keys = self.key_file()
        with Daemon("--config", self.file("conf", f"[http]\nkeys = {keys}\n")) as d:
            for key in ("", "probe", "users2", "sk-dsv4-" + "0" * 48):
                self.assertEqual(d.http("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})[0], 401, key)
            self.assertEqual(d.http("GET", "/v1/models", headers={"Authorization": "Bearer users"})[0], 200)

    def test_over_tls(self):
        cert, key = os.path.join(self.dir, "cert"), os.path.join(self.dir, "key")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "2", "-subj", "/CN=elsewhere.example", "-keyout", key, "-out", cert],
                       check=True, capture_output=True)
        os.chmod(key, 0o600)
        with Daemon("--config", self.file("conf", f"[http]\ntls_cert = {cert}\ntls_key = {key}\n")) as d:
            self.api(d)
            # Others have its certificate checked.
            code, _, err = dsv4ctl("probe", "run", "api", "--url", f"https://127.0.0.1:{d.port}", "--patience", "5")
            self.assertEqual(code, CONNECT, err)
            self.assertIn("certificate", err)

    def test_over_a_unix_socket(self):
        path = os.path.join(self.dir, "http")
        with Daemon("--listen", f"unix:{path}") as d:
            self.api(d)
            code, result = probe(f"unix:{path}")
            self.assertEqual((code, bad_checks(result)), (PASS, set()), result["why"])

    def test_any_address_is_reached_by_the_loopback_one(self):
        with Daemon("--config", self.file("conf", "[http]\nallow_no_keys = yes\n"), "--listen", "0.0.0.0:0") as d:
            result = ok_or(d, WARN, "probe", "run", "api")["results"][0]
            self.assertEqual((result["verdict"], bad_checks(result)), ("warn", {"auth"}), result["why"])
            self.assertIn("auth: open, no key is needed, and other machines can reach it", result["why"])


def ok_or(d, expected, *words):
    code, out, err = d.ctl("--json", *words, timeout=600)
    assert code == expected, (code, out, err)
    return json.loads(out.splitlines()[-1])


USAGE_LONG = {"prompt_tokens": 12, "completion_tokens": 5000, "total_tokens": 5012}

if __name__ == "__main__":
    unittest.main()
