#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""POST /v1/completions on scripted generations, and /tokenize, /detokenize, /apply-template: as tables of bodies."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from fake import Fake  # noqa: E402

PATH = "/v1/completions"
BOS, USER_MARK = "<｜begin▁of▁sentence｜>", "<｜User｜>"
fake = None


def setUpModule():
    global fake
    fake = Fake()
    unittest.addModuleCleanup(fake.__exit__, None, None, None)


def post(path=PATH, **body):
    return fake.http("POST", path, body)


def tokens(text, **fields):
    return post("/tokenize", prompt=text, **fields)[2]["tokens"]


# (body, the param that the error must name)
WRONG = [
    ({}, "prompt"), ({"prompt": None}, "prompt"), ({"prompt": 3}, "prompt"), ({"prompt": {}}, "prompt"),
    ({"prompt": ""}, "prompt"),
    ({"prompt": []}, "prompt"), ({"prompt": [[]]}, "prompt[0]"), ({"prompt": ["s", ""]}, "prompt[1]"),
    ({"prompt": [-1]}, "prompt[0]"), ({"prompt": [[-1]]}, "prompt[0][0]"), ({"prompt": [[5, -1]]}, "prompt[0][1]"),
    ({"prompt": [[5], [5, 1 << 40]]}, "prompt[1][1]"), ({"prompt": [5, 1 << 30]}, "prompt[1]"),
    ({"prompt": [5, "a"]}, "prompt[1]"),
    ({"prompt": [5, 1.5]}, "prompt[1]"), ({"prompt": [[5, True]]}, "prompt[0][1]"),
    ({"prompt": [[5, None]]}, "prompt[0][1]"),
    ({"prompt": [None]}, "prompt[0]"), ({"prompt": ["s", 5]}, "prompt[1]"), ({"prompt": ["s", ["s"]]}, "prompt[1]"),
    ({"prompt": [[5], "s"]}, "prompt[1]"), ({"prompt": [[5], 5]}, "prompt[1]"), ({"prompt": [[["s"]]]}, "prompt[0][0]"),
    ({"prompt": ["s"] * 17}, "prompt"), ({"prompt": ["s"] * 9, "n": 2}, "prompt"), ({"prompt": "s", "n": 17}, "n"),
    ({"prompt": "s", "suffix": "end"}, "suffix"), ({"prompt": "s", "best_of": 3}, "best_of"),
    ({"prompt": "s", "best_of": 1, "n": 2}, "best_of"),
    ({"prompt": "s", "logprobs": 21}, "logprobs"), ({"prompt": "s", "logprobs": True}, "logprobs"),
    ({"prompt": "s", "logprobs": -1}, "logprobs"),
    ({"prompt": "s", "logprobs": 0, "echo": True}, "logprobs"), ({"prompt": "s", "echo": 1}, "echo"),
    ({"prompt": "s", "max_tokens": 0}, "max_tokens"), ({"prompt": "s", "temperature": 3}, "temperature"),
    ({"prompt": "s", "stop": [""]}, "stop[0]"),
    ({"prompt": "s", "messages": [{}]}, "messages"), ({"prompt": "s", "tools": [{}]}, "tools"),
    ({"prompt": "s", "prompt_embeds": "x"}, "prompt_embeds"),
    ({"prompt": "s", "response_format": {"type": "json_object"}}, "response_format"),
    ({"prompt": "s", "guided_json": {"a": 1}}, "guided_json"),
    ({"prompt": "s", "min_tokens": 4}, "min_tokens"), ({"prompt": "s", "parse_special": 1}, "parse_special"),
    ({"prompt": "s", "model": 3}, "model"),
]

# (body, what of the spec it must become)
RIGHT = [
    ({"prompt": "s"}, {"parse": False, "max_tokens": 16, "label": "http", "calls": "auto", "logprobs": False}),
    ({"prompt": ["s"], "max_tokens": 5, "temperature": 0, "stop": "x", "seed": 3},
     {"max_tokens": 5, "temperature": 0, "stop": ["x"], "seed": 3}),
    ({"prompt": "s", "logprobs": 3}, {"logprobs": True, "top_logprobs": 3}),
    ({"prompt": "s", "logprobs": 0}, {"logprobs": True, "top_logprobs": 0}),
    ({"prompt": "s", "logprobs": None, "suffix": None, "best_of": None, "echo": False, "user": "u"},
     {"logprobs": False}),
    ({"prompt": "s", "suffix": "", "best_of": 1, "n": 1, "response_format": {"type": "text"}}, {"parse": False}),
    ({"prompt": "s", "n": 2, "best_of": 2, "logit_bias": {"7": 1}}, {"bias": {"7": 1.0}}),
]


class Fields(unittest.TestCase):
    def test_wrong(self):
        before = fake.command("counts")
        for body, param in WRONG:
            for stream in (False, True):
                with self.subTest(body=body):
                    status, headers, b = post(**body, stream=stream)
                    self.assertEqual(status, 400, b)
                    e = b["error"]
                    self.assertEqual(e["param"], param)
                    self.assertTrue(param in e["message"] and e["type"] and e["code"], e)
                    self.assertEqual(e["request_id"], headers["x-request-id"])
        self.assertEqual(fake.command("counts"), before)

    def test_right(self):
        for body, want in RIGHT:
            with self.subTest(body=body):
                status, _, b = post(**body)
                self.assertEqual(status, 200, b)
                last = json.loads(fake.command("last"))
                self.assertEqual({k: last.get(k) for k in want}, want)
                self.assertNotIn("messages", last)

    def test_another_model(self):
        for path, body in ((PATH, {"prompt": "s"}), ("/tokenize", {"text": "s"}), ("/detokenize", {"tokens": [5]})):
            status, _, b = post(path, model="other", **body)
            self.assertEqual((status, b["error"]["code"], b["error"]["param"]), (404, "model_not_found", "model"))

    def test_prompts_are_raw(self):
        marked = BOS + USER_MARK + "s"
        for prompt, want in (("s", tokens("s")), (["s"], tokens("s")), (tokens("s"), tokens("s")),
                             ([tokens("s")], tokens("s")),
                             (marked, tokens(marked)), (tokens(marked), tokens(marked))):
            self.assertEqual(post(prompt=prompt)[0], 200)
            self.assertEqual(json.loads(fake.command("last"))["tokens"], want)
        self.assertEqual(len(tokens(marked)), 2 + len(tokens("s")))
        post(prompt="s|" + USER_MARK, parse_special=False)  # the script ends before it
        self.assertEqual(json.loads(fake.command("last"))["tokens"], tokens("s|" + USER_MARK, parse_special=False))
        self.assertGreater(len(tokens(USER_MARK, parse_special=False)), 1)


class Whole(unittest.TestCase):
    def test_answer(self):
        status, headers, b = post(prompt="cone |ctwo|s")
        self.assertEqual((status, b["object"], b["model"], b["id"]),
                         (200, "text_completion", "fake", headers["x-request-id"]))
        self.assertTrue(b["id"].startswith("cmpl-"))
        self.assertEqual(b["choices"],
                         [{"index": 0, "text": "one two", "logprobs": None, "finish_reason": "stop",
                           "finish_detail": "eos"}])
        self.assertEqual(b["usage"]["total_tokens"], b["usage"]["prompt_tokens"] + b["usage"]["completion_tokens"])
        self.assertEqual(post(prompt="cx|n")[2]["choices"][0]["finish_reason"], "length")

    def test_several_prompts_each_n_times(self):
        b = post(prompt=["ca|d|s", "cb|d|s"], n=2)[2]
        self.assertEqual([(c["index"], c["text"]) for c in b["choices"]], [(0, "a0"), (1, "a1"), (2, "b2"), (3, "b3")])
        one = post(prompt="ca|d|s")[2]["usage"]
        self.assertEqual((b["usage"]["prompt_tokens"], b["usage"]["completion_tokens"]),
                         (2 * one["prompt_tokens"], 4 * one["completion_tokens"]))

    def test_each_prompt_begins_at_the_seed(self):
        post(prompt=["s", "s", "s"], n=2, seed=10)
        self.assertEqual(json.loads(fake.command("last"))["seed"], 11)

    def test_echo(self):
        ids = tokens("cx|s")
        for prompt in ("cx|s", ["cx|s"], ids, [ids]):
            self.assertEqual(post(prompt=prompt, echo=True)[2]["choices"][0]["text"], "cx|sx")
        self.assertEqual([c["text"] for c in post(prompt=["ca|s", "cb|s"], echo=True, n=2)[2]["choices"]],
                         ["ca|sa"] * 2 + ["cb|sb"] * 2)

    def test_logprobs(self):
        (a,), (o,) = tokens("A"), tokens("o")
        lp = post(prompt=f"l{a}|cA|l{o}|co|s", logprobs=1)[2]["choices"][0]["logprobs"]
        self.assertEqual(lp, {"tokens": ["A", "o"], "token_logprobs": [-0.25, -0.25],
                              "top_logprobs": [{"A": -0.25}, {"o": -0.25}],
                              "text_offset": [0, 1]})

    def test_tokens_of_no_text_are_in_no_list(self):
        a, o = tokens("A")[0], tokens("o")[0]
        lp = post(prompt=f"m0|l{a}|cA|m1|l{o}|co|m2|s", logprobs=0)[2]["choices"][0]["logprobs"]
        self.assertEqual((lp["tokens"], lp["text_offset"]), (["A", "o"], [0, 1]))
        lp = post(prompt="m0|m1|s", logprobs=0)[2]["choices"][0]["logprobs"]
        self.assertEqual(lp, {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []})

    def test_logprobs_of_parts_of_a_character(self):
        ids = tokens("日")
        self.assertGreater(len(ids), 1)
        script = "|".join(f"l{i}" for i in ids) + "|c日|s"
        lp = post(prompt=script, logprobs=0)[2]["choices"][0]["logprobs"]
        raw = b"".join(bytes.fromhex(t.removeprefix("bytes:").replace("\\x", "")) for t in lp["tokens"])
        self.assertEqual(raw.decode(), "日")
        self.assertEqual(lp["text_offset"], [0] * len(ids))  # all of them are of the character that begins there

    def test_errors(self):
        for script, status, code, param in (("xbroken", 500, "kernel", None), ("y", 499, "cancelled", None),
                                            ("Q", 503, "busy", None),
                                            ("D", 503, "draining", None),
                                            ("P", 400, "context_length_exceeded", "prompt")):
            got, _, b = post(prompt=script)
            self.assertEqual((got, b["error"]["code"], b["error"]["param"]), (status, code, param), script)
        self.assertEqual((b["error"]["prompt_tokens"], b["error"]["context_length"]), (5000, 4096))
        self.assertEqual(post(prompt=["s", "xbroken"])[0], 500)
        status, _, b = post(prompt=["w|s", "K1|s"])
        self.assertEqual(status, 503)
        fake.command("wait-live 0")


class Streams(unittest.TestCase):
    def events(self, prompt, **fields):
        s = fake.stream({"prompt": prompt, **fields}, PATH)
        self.assertEqual((s.status, s.headers["content-type"]), (200, "text/event-stream"))
        e = list(s)
        self.assertEqual((e[-1], e.count("[DONE]")), ("[DONE]", 1))
        return [json.loads(x) for x in e[:-1]]

    def text(self, events, index=0):
        return "".join(c["text"] for e in events for c in e.get("choices", []) if c["index"] == index)

    def finishes(self, events, index=0):
        return [c["finish_reason"] for e in events for c in e.get("choices", []) if c["index"] == index
                and c["finish_reason"]]

    def test_equals_whole(self):
        for prompt, fields in (("cone |ctwo|n", {}), (["ca|d|s", "cb|d|n"], {"n": 2}), ("cx|s", {"echo": True}),
                               ([tokens("cx|s"), tokens("cy|s")], {"echo": True}), ("cď|c漢字|c\U0001f600|s", {})):
            whole = post(prompt=prompt, **fields)[2]
            e = self.events(prompt, **fields)
            self.assertEqual({x["object"] for x in e}, {"text_completion"})
            for c in whole["choices"]:
                self.assertEqual((self.text(e, c["index"]), self.finishes(e, c["index"])),
                                 (c["text"], [c["finish_reason"]]))
            self.assertTrue(all("usage" not in x for x in e))

    def test_usage_only_when_asked(self):
        e = self.events(["ca|s", "cb|s"], stream_options={"include_usage": True})
        self.assertEqual((e[-1]["choices"], e[-1]["usage"]), ([], post(prompt=["ca|s", "cb|s"])[2]["usage"]))
        self.assertTrue(all(x["usage"] is None for x in e[:-1]))

    def test_logprobs(self):
        a, o = tokens("A")[0], tokens("o")[0]
        found = [c["logprobs"] for x in self.events(f"l{a}|cA|l{o}|co|s", logprobs=1) for c in x["choices"]
                 if c["logprobs"]]
        self.assertEqual([(f["tokens"], f["text_offset"]) for f in found], [(["A"], [0]), (["o"], [1])])

    def test_errors_midway_are_in_band(self):
        for script, code in (("chalf|xbroken", "kernel"), ("chalf|y", "cancelled"), ("chalf|z", "draining")):
            e = self.events(script)
            self.assertEqual((e[-1]["error"]["code"], self.finishes(e)), (code, []))
            self.assertTrue(e[-1]["error"]["request_id"].startswith("cmpl-"))

    def test_refused_before_the_stream(self):
        status, _, b = post(prompt=["s", "P"], stream=True)
        self.assertEqual((status, b["error"]["param"]), (400, "prompt"))

    def test_client_that_leaves_cancels_all(self):
        fake.command("wait-live 0")
        before = [int(n) for n in fake.command("counts").split()]
        s = fake.stream({"prompt": ["ca|w|s", "cb|w|s"]}, PATH)
        s.line()
        fake.command("wait-live 2")
        s.vanish()
        fake.command("tick")
        fake.command("wait-live 0")
        self.assertEqual([int(n) for n in fake.command("counts").split()], [n + 2 for n in before])


class Tokens(unittest.TestCase):
    def test_names_of_other_servers(self):
        ids = tokens("A b")
        for body in ({"text": "A b"}, {"prompt": "A b", "add_special_tokens": True},
                     {"content": "A b", "add_special": False},
                     {"prompt": "A b", "add_special_tokens": False, "model": "fake"}):
            status, _, b = post("/tokenize", **body)
            self.assertEqual((status, b), (200, {"count": len(ids), "max_model_len": 4096, "tokens": ids}))

    def test_strings_and_pieces(self):
        for text in ("A b", "日 x", ""):
            ids = tokens(text)
            b = post("/tokenize", prompt=text, return_token_strs=True)[2]
            self.assertEqual((b["tokens"], len(b["token_strs"])), (ids, len(ids)))
            self.assertEqual("".join(b["token_strs"]) == text, "�" not in "".join(b["token_strs"]))
            pieces = post("/tokenize", content=text, with_pieces=True)[2]["tokens"]
            self.assertEqual([p["id"] for p in pieces], ids)
            self.assertEqual(b"".join(p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"])
                                      for p in pieces).decode(), text)

    def test_markers_in_text_are_text(self):
        self.assertGreater(post("/tokenize", text=USER_MARK)[2]["count"], 1)
        for body in ({"text": USER_MARK, "parse_special": True}, {"prompt": USER_MARK}, {"content": USER_MARK}):
            self.assertEqual(post("/tokenize", **body)[2]["count"], 1, body)

    def test_detokenize(self):
        for text in ("A b", "日 x", "", USER_MARK + "x"):
            b = post("/detokenize", tokens=tokens(text))[2]
            self.assertEqual((b["text"], b["prompt"], b["content"]), (text,) * 3)
        ids = tokens(USER_MARK + "x")
        for name in ("skip_special", "skip_special_tokens"):
            self.assertEqual(post("/detokenize", tokens=ids, **{name: True})[2]["text"], "x")

    def test_messages_with_what_renders_them(self):
        ask = {"messages": [{"role": "user", "content": "hi"}]}
        tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
        for fields, inside in (({}, "<think>"), ({"chat_template_kwargs": {"thinking": False}}, "</think>"),
                               ({"thinking": {"type": "disabled"}}, "</think>"), ({"tools": [tool]}, "get_weather"),
                               ({"reasoning_effort": "max"}, "Reasoning Effort"),
                               ({"add_generation_prompt": True}, "hi")):
            b = post("/apply-template", **ask, **fields)[2]
            self.assertIn(inside, b["prompt"], fields)
            t = post("/tokenize", **ask, **fields, return_token_strs=True)[2]
            self.assertEqual((t["count"], t["tokens"], len(t["token_strs"])),
                             (b["count"], tokens(b["prompt"]), b["count"]), fields)
        self.assertNotIn("get_weather", post("/apply-template", **ask, tools=[tool], tool_choice="none")[2]["prompt"])

    def test_refusals(self):
        ask = {"messages": [{"role": "user", "content": "x"}]}
        for path, body, param in (
                ("/tokenize", {}, "text"), ("/tokenize", {"text": 3}, "text"),
                ("/tokenize", {"prompt": ["a"]}, "prompt"),
                ("/tokenize", {"text": "a", "return_token_strs": 1}, "return_token_strs"),
                ("/tokenize", {"text": "a", "with_pieces": "x"}, "with_pieces"),
                ("/tokenize", {"text": "a", "add_special_tokens": 1}, "add_special_tokens"),
                ("/tokenize", {"messages": []}, "messages"),
                ("/tokenize", {**ask, "add_generation_prompt": False}, "add_generation_prompt"),
                ("/detokenize", {}, "tokens"), ("/detokenize", {"tokens": "5"}, "tokens"),
                ("/detokenize", {"tokens": [5, -1]}, "tokens[1]"),
                ("/detokenize", {"tokens": [[5]]}, "tokens[0]"), ("/detokenize", {"tokens": [1 << 40]}, "tokens[0]"),
                ("/detokenize", {"tokens": [1.5]}, "tokens[0]"),
                ("/detokenize", {"tokens": [5], "skip_special_tokens": 1}, "skip_special_tokens"),
                ("/apply-template", {}, "messages"),
                ("/apply-template", {**ask, "chat_template": "x"}, "chat_template"),
                ("/apply-template", {**ask, "continue_final_message": True}, "continue_final_message")):
            with self.subTest(path=path, body=body):
                status, headers, b = post(path, **body)
                self.assertEqual((status, b["error"]["param"]), (400, param))
                self.assertTrue(b["error"]["message"] and b["error"]["code"])
                self.assertEqual(b["error"]["request_id"], headers["x-request-id"])


if __name__ == "__main__":
    unittest.main()
