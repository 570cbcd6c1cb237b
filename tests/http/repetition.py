#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Answers that loop: the guard ends them in every part and protocol, without it they go on; both are told."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from daemon import Daemon  # noqa: E402
from fake import Fake, chat  # noqa: E402
from plugins import sanitizer  # noqa: E402
from scenario import ok, said  # noqa: E402

HELLO = [{"role": "user", "content": "Hello"}]
QUIET = {"thinking": {"type": "disabled"}}
RUN = {"maxrun": 20, "maxline": 0, "period": 0}
PERIOD = {"maxrun": 0, "maxline": 0, "period": 40}
TOOL = {"type": "function", "function": {"name": "save", "parameters": {
    "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}}
daemon, no = None, None


def setUpModule():
    global daemon, no
    daemon = Daemon().start()
    unittest.addModuleCleanup(daemon.__exit__, None, None, None)
    # One token for ever: the model says " no" whatever it would.
    token = daemon.http("POST", "/tokenize", {"text": " no no"})[2]["tokens"][-1]
    no = {"logit_bias": {str(token): 100}}


def ask(path="/v1/chat/completions", **body):
    status, _, reply = daemon.http("POST", path, {"temperature": 0, "max_tokens": 60, **body}, timeout=600)
    assert status == 200, reply
    return reply


def looped(part, guard):
    """How many such answers the metrics tell."""
    name = f'dsv4d_requests_looped_total{{part="{part}",guard="{guard}"}} '
    return next(int(line[len(name):]) for line in said(daemon, "metrics").splitlines() if line.startswith(name))


class Guard(unittest.TestCase):
    def test_a_loop_is_ended_and_told(self):
        before = looped("content", "ended")
        r = ask(messages=HELLO, repetition_guard=RUN, **no, **QUIET)
        c = r["choices"][0]
        self.assertEqual((c["finish_reason"], c["finish_detail"]), ("length", "repetition"))
        # The last word is whole when the next begins.
        self.assertEqual((r["usage"]["completion_tokens"], c["message"]["content"].split()), (21, ["no"] * 21))
        shown = ok(daemon, "request", "show", r["id"])
        self.assertEqual((shown["finish"], shown["detail"]), ("length", "repetition"))
        self.assertEqual(shown["loop"],
                         {"part": "content", "what": "one word 20 times in a row", "token": 21, "ended": True})
        self.assertEqual(looped("content", "ended"), before + 1)
        self.assertIn(f'looped id={r["id"]} part=content what="one word 20 times in a row" token=21 ended=1',
                      daemon.log())

    def test_a_loop_is_told_in_every_protocol(self):
        """Clients know but one word for what was cut off: what it was stands beside it."""
        status, _, r = daemon.http("POST", "/v1/responses", {"input": "Hello", "max_output_tokens": 60,
                                                             "repetition_guard": RUN, **no}, timeout=600)
        self.assertEqual(status, 200, r)
        self.assertEqual(r["incomplete_details"], {"reason": "max_output_tokens", "finish_detail": "repetition"})
        body = {"model": "tiny", "messages": HELLO, "repetition_guard": RUN, **no}
        r = ask("/v1/messages", **body)
        self.assertEqual((r["stop_reason"], r["stop_detail"]), ("max_tokens", "repetition"))
        events = daemon.stream({**body, "temperature": 0, "max_tokens": 60}, path="/v1/messages").named()
        [last] = [e["delta"] for name, e in events if name == "message_delta"]
        self.assertEqual((last["stop_reason"], last["stop_detail"]), ("max_tokens", "repetition"))
        r = ask("/v1/messages", model="tiny", messages=HELLO, repetition_guard=False, **no)
        self.assertNotIn("stop_detail", r)

    def test_a_text_that_the_schema_forces_is_no_loop(self):
        """576 zeros ended at the 513th, in broken JSON."""
        text = "0 " * 60
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"const": text}}}
        r = ask(messages=HELLO, max_tokens=400, response_format=form,
                repetition_guard={"maxrun": 20, "maxline": 20, "period": 20},
                **QUIET)
        c = r["choices"][0]
        self.assertEqual((c["finish_reason"], c.get("finish_detail")), ("stop", "eos"))
        self.assertEqual(json.loads(c["message"]["content"]), text)
        # A string that the model may fill as it likes is watched as ever.
        form["json_schema"]["schema"] = {"type": "string"}
        c = ask(messages=HELLO, max_tokens=400, response_format=form, repetition_guard=RUN, **no, **QUIET)["choices"][0]
        self.assertEqual((c["finish_reason"], c["finish_detail"]), ("length", "repetition"))

    def test_what_comes_once_is_no_loop(self):
        for limit in ("maxrun", "maxline", "period"):
            status, _, body = daemon.http("POST", "/v1/chat/completions",
                                          {"messages": HELLO, "repetition_guard": {limit: 1}})
            self.assertEqual(status, 400)
            self.assertIn(f"repetition_guard.{limit}", json.dumps(body))

    def test_without_a_guard_it_runs_to_its_maximum(self):
        for guard in ({}, {"repetition_guard": False}, {"repetition_guard": {"maxrun": 0, "maxline": 0, "period": 0}},
                      {"repetition_guard": True}):  # whose limits are further away than this
            r = ask(messages=HELLO, **guard, **no, **QUIET)
            c = r["choices"][0]
            self.assertEqual((c["finish_reason"], c["finish_detail"], r["usage"]["completion_tokens"]),
                             ("length", "max_tokens", 60))
            self.assertNotIn("loop", ok(daemon, "request", "show", r["id"]))

    def test_the_guard_counts_the_reasoning_by_itself(self):
        r = ask(messages=HELLO, repetition_guard=RUN, **no)
        c = r["choices"][0]
        self.assertEqual((c["finish_detail"], c["message"]["content"], c["message"]["reasoning_content"].split()),
                         ("repetition", "", ["no"] * 21))
        self.assertEqual(ok(daemon, "request", "show", r["id"])["loop"]["part"], "reasoning")

    def test_a_call_that_loops_is_cut_off_and_never_a_call(self):
        body = {"messages": HELLO, "tools": [TOOL], "tool_choice": "required", "repetition_guard": PERIOD,
                "max_tokens": 200,
                **no, **QUIET}
        r = ask(**body)
        c = r["choices"][0]
        self.assertEqual((c["finish_reason"], c["finish_detail"]), ("length", "repetition"))
        self.assertNotIn("tool_calls", c["message"])
        self.assertEqual(ok(daemon, "request", "show", r["id"])["loop"],
                         {"part": "arguments", "what": "the same 1 tokens again and again",
                          "token": r["usage"]["completion_tokens"], "ended": True})
        chunks = [json.loads(e) for e in daemon.stream({"temperature": 0, **body}, timeout=600) if e != "[DONE]"]
        finish = [x["finish_reason"] for chunk in chunks for x in chunk["choices"] if x["finish_reason"]]
        self.assertEqual(finish, ["length"])
        self.assertTrue(any("tool_calls" in x["delta"] for chunk in chunks for x in chunk["choices"]))

    def test_a_text_completion_that_loops_is_cut_off(self):
        c = ask("/v1/completions", prompt="Hello", repetition_guard=RUN, **no)["choices"][0]
        self.assertEqual((c["finish_reason"], c["finish_detail"]), ("length", "repetition"))

    @unittest.skipIf(sanitizer(), "600 tokens")
    def test_a_loop_that_nobody_ends_is_told_too(self):
        before = looped("content", "off")
        r = ask(messages=HELLO, max_tokens=600, **no, **QUIET)
        self.assertEqual((r["choices"][0]["finish_detail"], r["usage"]["completion_tokens"]), ("max_tokens", 600))
        self.assertEqual(ok(daemon, "request", "show", r["id"])["loop"],
                         {"part": "content", "what": "one word 512 times in a row", "token": 513, "ended": False})
        self.assertEqual(looped("content", "off"), before + 1)
        self.assertIn(f'looped id={r["id"]} part=content', daemon.log())


# What each route's smallest body is, around a script of the fake engine that ends at once.
ROUTES = {
    "/v1/chat/completions": chat("s"),
    "/v1/completions": {"prompt": "s"},
    "/v1/messages": {"model": "fake", "max_tokens": 9, "messages": [{"role": "user", "content": "s"}]},
    "/v1/responses": {"input": "s"},
}
UNSAID, OFF, ON = 0, 1, 2
USUAL = {"maxrun": 512, "maxline": 512, "period": 4096}


class Probe(unittest.TestCase):
    def test_what_the_probe_stopped_can_be_looked_at(self):
        """One word is one too many, so that it stops at the first; the request is named like any other."""
        _, out, _ = daemon.ctl("--json", "probe", "run", "longgen", "--maxrun-fail", "1")
        result = json.loads(out.splitlines()[-1])["results"][0]
        self.assertEqual((result["verdict"], len(result["requests"])), ("fail", 1), result)
        self.assertIn("stopped there", result["why"])
        shown = ok(daemon, "request", "show", result["requests"][0])
        self.assertEqual((shown["label"], shown["finish"]), ("probe", "cancelled"), shown)


class Told(unittest.TestCase):
    """A call, then a second that is cut off in a loop, on an engine that follows a script."""
    script = "cHello|bf|a{}|e|bf|a{\"x\": \"no no|g"

    def test_in_the_nearest_words_that_each_protocol_has(self):
        tool = {"name": "f", "input_schema": {"type": "object"}}
        with Fake() as fake:
            c = fake.http("POST", "/v1/chat/completions", chat(self.script))[2]["choices"][0]
            self.assertEqual((c["finish_reason"], c["finish_detail"], len(c["message"]["tool_calls"])),
                             ("length", "repetition", 1))
            r = fake.http("POST", "/v1/messages", {"model": "fake", "max_tokens": 9, "tools": [tool],
                                                   "messages": [{"role": "user", "content": self.script}]})[2]
            self.assertEqual((r["stop_reason"], r["stop_detail"]), ("max_tokens", "repetition"), r)
            r = fake.http("POST", "/v1/responses", {"input": self.script})[2]
            self.assertEqual((r["status"], r["incomplete_details"]), ("incomplete", {
                "reason": "max_output_tokens", "finish_detail": "repetition"}))
            self.assertEqual([i["type"] for i in r["output"]], ["message", "function_call"])


class Field(unittest.TestCase):
    """In every protocol the same."""

    def told(self, fake, path, **field):
        status, _, reply = fake.http("POST", path, {**ROUTES[path], **field})
        self.assertEqual(status, 200, reply)
        spec = json.loads(fake.command("last"))
        return spec["guard"], {k: spec[k] for k in USUAL}

    def test_what_reaches_the_engine(self):
        off = dict.fromkeys(USUAL, 0)
        with Fake() as fake:
            for path in ROUTES:
                self.assertEqual(self.told(fake, path), (UNSAID, off), path)
                self.assertEqual(self.told(fake, path, repetition_guard=None), (UNSAID, off), path)
                self.assertEqual(self.told(fake, path, repetition_guard=False), (OFF, off), path)
                for on in (True, {}):
                    self.assertEqual(self.told(fake, path, repetition_guard=on), (ON, USUAL), path)
                self.assertEqual(self.told(fake, path, repetition_guard={"maxrun": 9, "period": 0}),
                                 (ON, {**USUAL, "maxrun": 9, "period": 0}), path)

    def test_the_configuration_speaks_for_requests_that_do_not(self):
        with Fake(repetition_guard="yes") as fake:
            for path in ROUTES:
                self.assertEqual(self.told(fake, path), (ON, USUAL), path)
                self.assertEqual(self.told(fake, path, repetition_guard=False)[0], OFF, path)
            self.assertEqual(self.told(fake, "/v1/chat/completions", ignore_eos=True)[0], UNSAID)

    def test_what_is_refused(self):
        with Fake() as fake:
            for path, body in ROUTES.items():
                for value, param in (("yes", ""), (1, ""), ([], ""), ({"maxrun": -1}, ".maxrun"),
                                     ({"maxline": "x"}, ".maxline"),
                                     ({"period": 1.5}, ".period"), ({"period": 1 << 30}, ".period"),
                                     ({"maxwords": 3}, ".maxwords")):
                    status, _, reply = fake.http("POST", path, {**body, "repetition_guard": value})
                    self.assertEqual(status, 400, (path, value, reply))
                    self.assertIn("repetition_guard" + param, json.dumps(reply), path)


if __name__ == "__main__":
    unittest.main()
