#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The official openai client against the real daemon on the tiny model."""
import concurrent.futures
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import need  # noqa: E402
from daemon import Daemon  # noqa: E402

openai = need("openai")

HELLO = [{"role": "user", "content": "Hello"}]
RECALL = [{"role": "user", "content": "Remember this: my codeword is poppy."},
          {"role": "assistant", "content": "Noted. The codeword is poppy."},
          {"role": "user", "content": "What is my codeword?"}]
OFF = {"thinking": {"type": "disabled"}}
daemon = None


def setUpModule():
    global daemon
    daemon = Daemon().start()
    unittest.addModuleCleanup(daemon.__exit__, None, None, None)


class OnDaemon(unittest.TestCase):
    def setUp(self):
        self.client = daemon.openai()
        self.addCleanup(self.client.close)

    def chat(self, messages=None, extra=None, **kw):
        kw.setdefault("temperature", 0)
        kw.setdefault("max_tokens", 200)
        return self.client.chat.completions.create(model="tiny", messages=messages or HELLO, extra_body=extra, **kw)


class Chat(OnDaemon):
    def test_models(self):
        m = self.client.models.list().data
        self.assertEqual([x.id for x in m], ["tiny"])
        self.assertEqual(self.client.models.retrieve("tiny").context_length, 16384)
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("other")

    def test_answer_reasoning_and_usage(self):
        r = self.chat(RECALL)
        m, u = r.choices[0].message, r.usage
        self.assertIn("poppy", m.content)
        self.assertTrue(m.reasoning_content)
        self.assertEqual(r.choices[0].finish_reason, "stop")
        self.assertGreater(u.completion_tokens_details.reasoning_tokens, 0)
        self.assertLess(u.completion_tokens_details.reasoning_tokens, u.completion_tokens)
        self.assertEqual(u.total_tokens, u.prompt_tokens + u.completion_tokens)

    def test_thinking_controls(self):
        for extra, on in ((None, True), (OFF, False), ({"thinking": {"type": "enabled"}}, True),
                          ({"chat_template_kwargs": {"thinking": False}}, False),
                          ({"chat_template_kwargs": {"enable_thinking": False}}, False),
                          ({"reasoning_effort": "none"}, False), ({"reasoning_effort": "low"}, True)):
            m = self.chat(RECALL, extra).choices[0].message
            self.assertEqual(bool(getattr(m, "reasoning_content", None)), on, extra)
            self.assertIn("poppy", m.content)

    def test_effort_max_is_in_the_prompt(self):
        def prompt(**kw):
            return daemon.http("POST", "/apply-template", {"messages": HELLO, **kw})[2]["prompt"]
        for word in ("xhigh", "max"):
            self.assertIn("Reasoning Effort: Absolute maximum", prompt(reasoning_effort=word))
        self.assertNotIn("Reasoning Effort", prompt(reasoning_effort="medium"))

    def test_parts_equal_a_string(self):
        parts = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
        a, b = self.chat(parts), self.chat()
        self.assertEqual(a.choices[0].message.content, b.choices[0].message.content)
        self.assertEqual(a.usage.prompt_tokens, b.usage.prompt_tokens)

    def test_max_tokens(self):
        for name in ("max_tokens", "max_completion_tokens"):
            r = self.client.chat.completions.create(model="tiny", messages=HELLO, temperature=0, **{name: 3})
            self.assertEqual((r.choices[0].finish_reason, r.usage.completion_tokens), ("length", 3))

    def test_seed_repeats(self):
        def text(seed):
            r = self.chat(RECALL, temperature=1.5, seed=seed)
            return r.choices[0].message.reasoning_content, r.choices[0].message.content
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            texts = list(pool.map(text, [7, 7, 7, 7, 8, 9, 10, 11]))
        self.assertEqual(len(set(texts[:4])), 1)
        self.assertGreater(len(set(texts)), 1)

    def test_choices_are_what_their_seeds_give_alone(self):
        kw = {"temperature": 1.5, "max_tokens": 40}
        alone = [self.chat(RECALL, seed=7 + i, **kw).choices[0].message for i in range(3)]
        r = self.chat(RECALL, seed=7, n=3, **kw)
        self.assertEqual([(c.index, c.message.content, c.message.reasoning_content) for c in r.choices],
                         [(i, m.content, m.reasoning_content) for i, m in enumerate(alone)])
        text = {}
        for chunk in self.chat(RECALL, seed=7, n=3, stream=True, **kw):
            for c in chunk.choices:
                text[c.index] = text.get(c.index, "") + (c.delta.content or "")
        self.assertEqual([text[i] for i in range(3)], [m.content for m in alone])

    def test_stop_strings_never_leak(self):
        full = self.chat(extra=OFF).choices[0].message.content
        self.assertEqual(full, "Hello! How can I help you?")
        for stop in ("can I", [" help", "zzz"], "o! H", "?"):
            first = min(full.find(s) for s in ([stop] if isinstance(stop, str) else stop) if s in full)
            r = self.chat(extra=OFF, stop=stop)
            self.assertEqual((r.choices[0].message.content, r.choices[0].finish_reason), (full[:first], "stop"))
            pieces = [c.choices[0].delta.content or "" for c in self.chat(extra=OFF, stop=stop, stream=True)]
            self.assertEqual("".join(pieces), full[:first])
        # An almost-match is given out once.
        self.assertEqual(self.chat(extra=OFF, stop="help me").choices[0].message.content, full)

    def test_logit_bias_bans_a_token(self):
        token = daemon.http("POST", "/tokenize", {"text": "Hello"})[2]["tokens"][0]
        r = self.chat(extra=OFF, logit_bias={str(token): -100}, max_tokens=5)
        self.assertFalse(r.choices[0].message.content.startswith("Hello"))


class Logprobs(OnDaemon):
    def check(self, entries, text):
        self.assertEqual(b"".join(bytes(t.bytes) for t in entries).decode(), text)
        for t in entries:
            self.assertLessEqual(t.logprob, 0)
            self.assertEqual(len(t.top_logprobs), 3)
            self.assertEqual(t.token, t.top_logprobs[0].token)  # greedy: the chosen one is the best
            self.assertAlmostEqual(t.logprob, t.top_logprobs[0].logprob, places=5)

    def test_whole(self):
        c = self.chat(extra=OFF, logprobs=True, top_logprobs=3).choices[0]
        text = c.message.content
        entries = c.logprobs.content
        if len(entries) > 1 and bytes(entries[-1].bytes).decode().startswith("<"):
            entries = entries[:-1]  # the end token
        self.check(entries, text)

    def test_stream_equals_whole(self):
        whole = self.chat(logprobs=True, top_logprobs=3).choices[0].logprobs
        content, reasoning = [], []
        for chunk in self.chat(logprobs=True, top_logprobs=3, stream=True):
            lp = chunk.choices[0].logprobs
            content += lp.content if lp else []
            reasoning += lp.reasoning_content if lp else []
        self.assertEqual([(t.token, t.logprob) for t in content], [(t.token, t.logprob) for t in whole.content])
        self.assertEqual([(t["token"], t["logprob"]) for t in reasoning],
                         [(t["token"], t["logprob"]) for t in whole.reasoning_content])


class Streams(OnDaemon):
    def test_stream_equals_whole(self):
        whole = self.chat(RECALL).choices[0].message
        chunks = list(self.chat(RECALL, stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertGreaterEqual(len(chunks), 5)  # slow readers get longer pieces
        deltas = [c.choices[0].delta for c in chunks if c.choices]
        self.assertEqual("".join(d.content or "" for d in deltas), whole.content)
        self.assertEqual("".join(getattr(d, "reasoning_content", None) or "" for d in deltas), whole.reasoning_content)
        self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason],
                         ["stop"])
        self.assertEqual((chunks[-1].choices, chunks[-1].usage.completion_tokens_details.reasoning_tokens > 0),
                         ([], True))

    def test_many_streams_at_once_equal_one(self):
        def text(i):
            stream = self.chat(RECALL if i % 2 else HELLO, stream=True)
            return "".join(c.choices[0].delta.content or "" for c in stream)
        alone = [text(0), text(1)]
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            self.assertEqual(list(pool.map(text, range(12))), alone * 6)

    def test_client_that_leaves_cancels_its_request(self):
        stream = daemon.stream({"messages": HELLO, "ignore_eos": True, "max_tokens": 15000,
                                "thinking": {"type": "disabled"}})
        rid = stream.headers["x-request-id"]
        for _ in range(5):
            stream.line()
        stream.vanish()
        code, out, err = daemon.ctl("wait", "idle")
        self.assertEqual(code, 0, err)
        code, out, err = daemon.ctl("request", "show", rid, "--json")
        self.assertEqual(code, 0, err)
        self.assertIn("cancelled", out)

    def test_operator_cancels_a_stream(self):
        stream = daemon.stream({"messages": HELLO, "ignore_eos": True, "max_tokens": 15000,
                                "thinking": {"type": "disabled"}})
        stream.line()
        self.assertEqual(daemon.ctl("request", "cancel", stream.headers["x-request-id"])[0], 0)
        events = list(stream)
        self.assertEqual(json.loads(events[-2])["error"]["code"], "cancelled")
        self.assertEqual(events[-1], "[DONE]")

    def test_operator_cancels_one_of_three(self):
        stream = daemon.stream({"messages": HELLO, "ignore_eos": True, "max_tokens": 15000,
                                "thinking": {"type": "disabled"}, "n": 3})
        stream.line()
        self.assertEqual(daemon.ctl("request", "cancel", stream.headers["x-request-id"] + "-1")[0], 0)
        events = list(stream)
        self.assertEqual((json.loads(events[-2])["error"]["code"], events[-1]), ("cancelled", "[DONE]"))
        self.assertEqual(daemon.ctl("wait", "idle")[0], 0)  # the others have stopped too


class Errors(OnDaemon):
    def test_classes_of_the_client(self):
        with self.assertRaises(openai.BadRequestError) as e:
            self.chat(temperature=9)
        self.assertEqual((e.exception.param, e.exception.code), ("temperature", "invalid_value"))
        self.assertTrue(e.exception.request_id)
        with self.assertRaises(openai.NotFoundError) as e:
            self.client.chat.completions.create(model="other", messages=HELLO)
        self.assertEqual(e.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as e:
            self.chat([{"role": "nobody", "content": "x"}])
        self.assertTrue(e.exception.param.startswith("messages[0]"), e.exception.param)

    def test_too_long_a_prompt_names_both_numbers(self):
        for stream in (False, True):
            with self.assertRaises(openai.BadRequestError) as e:
                self.chat([{"role": "user", "content": "hello " * 20000}], stream=stream)
            self.assertEqual(e.exception.code, "context_length_exceeded")
            self.assertEqual(e.exception.body["context_length"], 16384)
            self.assertGreater(e.exception.body["prompt_tokens"], 16384)


class Tokens(unittest.TestCase):
    def post(self, path, **body):
        return daemon.http("POST", path, body)

    def test_round_trip(self):
        for text in ("Hello world", "", "ď漢字\U0001f600\n\t x", "<｜User｜>"):
            status, _, b = self.post("/tokenize", text=text)
            self.assertEqual((status, b["count"]), (200, len(b["tokens"])))
            self.assertEqual(self.post("/detokenize", tokens=b["tokens"])[2]["text"], text)

    def test_control_tokens_only_when_asked_for(self):
        self.assertGreater(self.post("/tokenize", text="<｜User｜>")[2]["count"], 1)
        one = self.post("/tokenize", text="<｜User｜>", parse_special=True)[2]
        self.assertEqual(one["count"], 1)

    def test_template_equals_what_a_request_is_made_of(self):
        status, _, b = self.post("/apply-template", messages=RECALL)
        self.assertEqual(status, 200)
        self.assertTrue(b["prompt"].startswith("<｜begin▁of▁sentence｜><｜User｜>"), b["prompt"])
        r = self.post("/v1/chat/completions", messages=RECALL, max_tokens=1)[2]
        self.assertEqual(r["usage"]["prompt_tokens"], b["count"])
        code, out, err = daemon.ctl("request", "prompt", r["id"])
        self.assertEqual((code, out.rstrip("\n")), (0, b["prompt"]), err)
        self.assertEqual(self.post("/tokenize", messages=RECALL)[2]["count"], b["count"])

    def test_refusals(self):
        for path, body, param in (("/tokenize", {}, "text"), ("/tokenize", {"text": 3}, "text"),
                                  ("/detokenize", {}, "tokens"),
                                  ("/detokenize", {"tokens": [[-1]]}, "tokens[0]"),
                                  ("/detokenize", {"tokens": [5, -1]}, "tokens[1]"),
                                  ("/detokenize", {"tokens": [1 << 30]}, "tokens[0]"),
                                  ("/apply-template", {}, "messages"),
                                  ("/apply-template", {"messages": [{"role": "x"}]}, "messages[0].role")):
            status, _, b = daemon.http("POST", path, body)
            self.assertEqual((status, b["error"]["param"]), (400, param), (path, body))


class Ending(unittest.TestCase):
    LONG = {"messages": HELLO, "ignore_eos": True, "thinking": {"type": "disabled"}}

    def terminate(self, d, max_tokens):
        stream = d.stream({**self.LONG, "max_tokens": max_tokens})
        stream.line()
        d.process.terminate()
        events = list(stream)
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual(d.process.wait(60), 0)
        return json.loads(events[-2])

    def test_a_short_answer_is_finished_first(self):
        with Daemon() as d:
            self.assertEqual(self.terminate(d, 100)["choices"][0]["finish_reason"], "length")

    def test_a_long_one_is_cut_off_with_an_error_and_done(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write("[daemon]\ndrain_timeout = 0\n")
            conf.flush()
            with Daemon("--config", conf.name) as d:
                self.assertTrue(self.terminate(d, 16000)["error"]["message"])


if __name__ == "__main__":
    unittest.main()
