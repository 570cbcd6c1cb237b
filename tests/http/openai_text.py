#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The official openai client's text completions against the real daemon on the tiny model."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import need  # noqa: E402
from daemon import Daemon  # noqa: E402

openai = need("openai")

RECALL = [{"role": "user", "content": "Remember this: my codeword is poppy."},
          {"role": "assistant", "content": "Noted. The codeword is poppy."},
          {"role": "user", "content": "What is my codeword?"}]
daemon = None


def setUpModule():
    global daemon
    daemon = Daemon().start()
    unittest.addModuleCleanup(daemon.__exit__, None, None, None)


def post(path, **body):
    return daemon.http("POST", path, body)[2]


class Text(unittest.TestCase):
    def setUp(self):
        self.client = daemon.openai()
        self.addCleanup(self.client.close)
        self.prompt = post("/apply-template", messages=RECALL)["prompt"]

    def complete(self, prompt=None, **kw):
        kw = {"temperature": 0, "max_tokens": 200, **kw}
        return self.client.completions.create(model="tiny", prompt=prompt or self.prompt, **kw)

    def test_a_rendered_prompt_is_continued_as_the_chat_is(self):
        chat = self.client.chat.completions.create(model="tiny", messages=RECALL, temperature=0, max_tokens=200)
        m = chat.choices[0].message
        ids = post("/tokenize", prompt=self.prompt)["tokens"]
        for prompt in (self.prompt, ids, [self.prompt], [ids]):
            r = self.complete(prompt)
            self.assertEqual(r.choices[0].text, m.reasoning_content + "</think>" + m.content)
            self.assertEqual((r.choices[0].finish_reason, r.usage.prompt_tokens), ("stop", chat.usage.prompt_tokens))
        self.assertIn("poppy", m.content)

    def test_stream_equals_whole(self):
        for kw in ({}, {"echo": True}, {"n": 3}, {"max_tokens": 5},
                   {"prompt": [self.prompt, "Hello"], "n": 2, "echo": True}):
            whole = self.complete(**kw)
            text, finish = {}, {}
            for chunk in self.complete(**kw, stream=True):
                for c in chunk.choices:
                    text[c.index] = text.get(c.index, "") + c.text
                    if c.finish_reason:
                        self.assertNotIn(c.index, finish)
                        finish[c.index] = c.finish_reason
            self.assertEqual((text, finish),
                             ({c.index: c.text for c in whole.choices},
                              {c.index: c.finish_reason for c in whole.choices}), kw)

    def test_echo_is_the_prompt_and_then_the_answer(self):
        plain = self.complete().choices[0].text
        self.assertEqual(self.complete(echo=True).choices[0].text, self.prompt + plain)

    def test_logprobs(self):
        lp = self.complete(logprobs=2).choices[0].logprobs
        text = self.complete().choices[0].text
        self.assertEqual("".join(lp.tokens), text)
        self.assertEqual(lp.text_offset, [len("".join(lp.tokens[:i])) for i in range(len(lp.tokens))])
        for token, p, top in zip(lp.tokens, lp.token_logprobs, lp.top_logprobs):
            self.assertEqual((max(top.values()), top[token], len(top)), (p, p, 2))  # greedy: the chosen one is the best
        bare = self.complete(logprobs=0).choices[0].logprobs
        self.assertEqual((bare.tokens, bare.token_logprobs, set(bare.top_logprobs)),
                         (lp.tokens, lp.token_logprobs, {None}))
        streamed = [c.choices[0].logprobs for c in self.complete(logprobs=2, stream=True)]
        self.assertEqual([t for x in streamed if x for t in x.tokens], lp.tokens)
        self.assertEqual([t for x in streamed if x for t in x.text_offset], lp.text_offset)

    def test_each_token_stands_where_it_is_said_to_be(self):
        for kw in ({"stop": ["</think>"]}, {"temperature": 1.5, "seed": 3, "n": 4, "max_tokens": 60},
                   {"extra_body": {"logit_bias": {str(i): 40 for i in range(8)}, "ignore_eos": True}, "max_tokens": 12,
                    "temperature": 1}):
            for c in self.complete(logprobs=0, **kw).choices:
                lp = c.logprobs
                whole = [(t, at) for t, at in zip(lp.tokens, lp.text_offset)
                         if not t.startswith("bytes:")] if lp else []
                self.assertEqual([c.text[at:at + len(t)] for t, at in whole],
                                 [t[:max(0, len(c.text) - at)] for t, at in whole], kw)
                if lp and len(whole) == len(lp.tokens):
                    self.assertTrue("".join(lp.tokens).startswith(c.text), kw)

    def test_stop_and_length(self):
        full = self.complete().choices[0].text
        r = self.complete(stop=["</think>", "zzz"]).choices[0]
        self.assertEqual((r.text, r.finish_reason), (full.partition("</think>")[0], "stop"))
        self.assertEqual(self.client.completions.create(model="tiny", prompt="Hello", temperature=0,
                                                        extra_body={"ignore_eos": True}).usage.completion_tokens, 16)

    def test_seeds(self):
        r = self.complete(n=3, temperature=1.5, seed=7)
        alone = [self.complete(temperature=1.5, seed=7 + i).choices[0].text for i in range(3)]
        self.assertEqual([c.text for c in r.choices], alone)

    def test_errors(self):
        for prompt, param in (([[-1]], "prompt[0][0]"), ([], "prompt"), ([5, 1 << 30], "prompt[1]"),
                              ("hello " * 20000, "prompt")):
            with self.assertRaises(openai.BadRequestError) as e:
                self.client.completions.create(model="tiny", prompt=prompt)
            self.assertEqual(e.exception.param, param)
        self.assertEqual((e.exception.code, e.exception.body["context_length"]), ("context_length_exceeded", 16384))
        self.assertGreater(e.exception.body["prompt_tokens"], 16384)


if __name__ == "__main__":
    unittest.main()
