#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Probes against servers by their URL: what is said of it, its key, servers that want to be asked otherwise, and dsv4d itself."""
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import BUILD  # noqa: E402
from daemon import Daemon  # noqa: E402
from probing import CONNECT, ERROR, FAIL, PASS, USAGE, WARN, bad_checks, dsv4ctl, probe  # noqa: E402
from scenario import ok  # noqa: E402
from scripted import Served, Sound  # noqa: E402

USAGE_LONG = {"prompt_tokens": 12, "completion_tokens": 5000, "total_tokens": 5012}


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


if __name__ == "__main__":
    unittest.main()
