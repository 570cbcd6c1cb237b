#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tools with the official openai client against the real daemon on the tiny model."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import need  # noqa: E402
from daemon import Daemon  # noqa: E402

openai = need("openai")

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather for a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
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

    def chat(self, messages, extra=None, **kw):
        kw.setdefault("temperature", 0)
        kw.setdefault("max_tokens", 200)
        return self.client.chat.completions.create(model="tiny", messages=messages, extra_body=extra, **kw)


class Tools(OnDaemon):
    ASK = [{"role": "user", "content": "What is the weather in Milan?"}]

    def test_round_trip(self):
        r = self.chat(self.ASK, OFF, tools=[WEATHER])
        c = r.choices[0]
        self.assertEqual(c.finish_reason, "tool_calls")
        call = c.message.tool_calls[0]
        self.assertEqual((call.function.name, json.loads(call.function.arguments)), ("get_weather", {"city": "Milan"}))
        self.assertNotIn("DSML", c.message.content or "")
        answer = self.chat([*self.ASK, c.message.model_dump(exclude_none=True),
                            {"role": "tool", "tool_call_id": call.id, "content": "sunny, 22 degrees"}], OFF,
                           tools=[WEATHER])
        self.assertTrue(answer.choices[0].message.content)

    def test_stream_equals_whole(self):
        chunks = list(self.chat(self.ASK, OFF, tools=[WEATHER], stream=True))
        calls = [t for c in chunks for t in c.choices[0].delta.tool_calls or []]
        self.assertEqual((calls[0].function.name, calls[0].type, bool(calls[0].id)), ("get_weather", "function", True))
        self.assertEqual(json.loads("".join(t.function.arguments or "" for t in calls)), {"city": "Milan"})
        self.assertEqual([c.choices[0].finish_reason for c in chunks if c.choices[0].finish_reason], ["tool_calls"])
        self.assertNotIn("DSML", "".join(c.choices[0].delta.content or "" for c in chunks))

    def test_markup_of_calls_is_in_no_logprobs(self):
        def told(lp):
            return [[t["token"] for t in (lp or {}).get(part) or []] for part in ("content", "reasoning_content")]

        for extra in (OFF, {}):
            m = self.chat(self.ASK, extra, tools=[WEATHER], logprobs=True).choices[0].model_dump()
            self.assertTrue(m["message"]["tool_calls"])
            content, reasoning = told(m["logprobs"])
            self.assertEqual("".join(content), m["message"]["content"] or "")
            self.assertEqual("".join(reasoning), m["message"].get("reasoning_content") or "")
            chunks = [told(c.choices[0].model_dump()["logprobs"])
                      for c in self.chat(self.ASK, extra, tools=[WEATHER], logprobs=True, stream=True)]
            self.assertEqual([sum(x, []) for x in zip(*chunks)], [content, reasoning])

    def prompt_of(self, messages):
        """What a request of these was computed from, and what the messages are said to lack."""
        r = self.chat(messages, tools=[WEATHER], max_tokens=1)
        code, prompt, err = daemon.ctl("request", "prompt", r.id)
        self.assertEqual(code, 0, err)
        code, kept, err = daemon.ctl("request", "messages", r.id)
        self.assertEqual(code, 0, err)
        return prompt, [m["reasoning_gap"] for m in json.loads(kept) if "reasoning_gap" in m]

    def test_history_without_reasoning_gets_the_server_s_own_copy(self):
        m = self.chat(self.ASK, tools=[WEATHER]).choices[0].message.model_dump(exclude_none=True)
        self.assertTrue(m["reasoning_content"] and m["tool_calls"])
        result = {"role": "tool", "tool_call_id": m["tool_calls"][0]["id"], "content": "rain"}
        lost = {k: v for k, v in m.items() if k != "reasoning_content"}
        whole, gaps = self.prompt_of([*self.ASK, m, result])
        self.assertIn(m["reasoning_content"], whole)
        self.assertEqual(gaps, [])
        self.assertEqual(self.prompt_of([*self.ASK, lost, result]), (whole, ["filled"]))
        # As does one whose call was interrupted before it had a result.
        interrupted, gaps = self.prompt_of([*self.ASK, lost, {"role": "user", "content": "Never mind."}])
        self.assertIn(m["reasoning_content"], interrupted)
        self.assertEqual(gaps, ["filled"])
        # Who says that there was none is believed.
        none = whole.replace(m["reasoning_content"], "")
        self.assertEqual(self.prompt_of([*self.ASK, {**lost, "reasoning_content": ""}, result]), (none, []))

    def test_history_of_another_server_is_accepted_and_marked(self):
        call = {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Milan"}'}}
        for calls, result in (([call], "c1"), ([{**call, "id": "c2"}, call], "c1"), ([call], None)):
            prompt, gaps = self.prompt_of([*self.ASK, {"role": "assistant", "content": None, "tool_calls": calls},
                                           {"role": "tool", "tool_call_id": result, "content": "rain"} if result
                                           else self.ASK[0]])
            self.assertIn("<think></think>", prompt)
            self.assertEqual(gaps, ["open"])

    def test_cut_off_call_is_not_a_call(self):
        whole = self.chat(self.ASK, OFF, tools=[WEATHER]).usage.completion_tokens
        for n in (1, 9, 17, 25, whole - 4):
            c = self.chat(self.ASK, OFF, tools=[WEATHER], max_tokens=n).choices[0]
            self.assertEqual(c.finish_reason, "length", n)
            # One whose own end came, before the block's end, is whole.
            for call in c.message.tool_calls or []:
                self.assertEqual((json.loads(call.function.arguments), n > whole - 8), ({"city": "Milan"}, True), n)
            self.assertNotIn("DSML", c.message.content or "")

    def test_a_call_that_was_not_offered_is_no_call(self):
        for fields in ({"tools": [WEATHER], "tool_choice": "none"}, {}):
            c = self.chat(self.ASK, OFF, **fields).choices[0]
            self.assertEqual((c.message.tool_calls, c.finish_reason), (None, "stop"), fields)
            self.assertNotIn("DSML", c.message.content or "")


if __name__ == "__main__":
    unittest.main()
