#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bodies as clients of this model send them, recorded from them or written by their documentation: all are taken, and
mean what the client means."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from fake import Fake  # noqa: E402

USER = {"role": "user", "content": "s"}
TRIP = {"properties": {"city": {"title": "City", "type": "string"}, "days": {"title": "Days", "type": "integer"}},
        "required": ["city", "days"], "title": "Trip", "type": "object", "additionalProperties": False}
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
NAMED = {"type": "function", "function": {"name": "get_weather"}}
CALL = {"type": "function", "id": "c1", "function": {"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}}
TRIP_FORMAT = {"type": "json_schema", "json_schema": {"schema": TRIP, "name": "Trip", "strict": True}}
JS_SCHEMA = "http://json-schema.org/draft-07/schema#"

# (client, what it is asked to do, fields beside the messages, what of the spec they become)
CHATS = [
    ("LangChain", "settings", {"model": "fake", "stream": False, "max_completion_tokens": 20, "n": 1, "seed": 1,
                               "stop": ["x"], "temperature": 0.0,
                               "top_p": 0.9}, {"max_tokens": 20, "seed": 1, "stop": ["x"], "temperature": 0.0}),
    ("LangChain", "bind_tools", {"model": "fake", "stream": False, "tools": [WEATHER]},
     {"tools": [WEATHER], "calls": "auto"}),
    ("LangChain", "bind_tools, any",
     {"model": "fake", "stream": False, "tools": [WEATHER], "parallel_tool_calls": False, "tool_choice": "required"},
     {"calls": "required", "one_call": True}),
    ("LangChain", "bind_tools, by name",
     {"model": "fake", "stream": False, "tools": [WEATHER], "parallel_tool_calls": False, "tool_choice": NAMED},
     {"calls": "named", "function": "get_weather", "one_call": True}),
    ("LangChain", "structured output, json_schema", {"model": "fake", "stream": False, "response_format": TRIP_FORMAT},
     {"format": "json_schema", "schema": TRIP}),
    ("LangChain", "structured output, json_mode",
     {"model": "fake", "stream": False, "response_format": {"type": "json_object"}},
     {"format": "json_object"}),
    ("LangChain", "logprobs and effort",
     {"model": "fake", "stream": False, "frequency_penalty": 0.1, "logit_bias": {"5": 1}, "logprobs": True,
      "presence_penalty": 0.1, "reasoning_effort": "high", "top_logprobs": 2,
      "chat_template_kwargs": {"thinking": True}},
     {"logprobs": True, "top_logprobs": 2, "effort": 1, "thinking": True, "bias": {"5": 1.0}}),
    ("LiteLLM", "stream", {"model": "fake", "stream": True, "stream_options": {"include_usage": True}},
     {"thinking": True}),
    ("LiteLLM", "tools, required",
     {"model": "fake", "tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False},
     {"calls": "required", "one_call": True}),
    ("LiteLLM", "response_format=Trip", {"model": "fake", "response_format": TRIP_FORMAT},
     {"format": "json_schema", "schema": TRIP}),
    ("LiteLLM", "hosted_vllm, thinking", {"model": "fake", "reasoning_effort": "low"}, {"thinking": True, "effort": 1}),
    ("LiteLLM", "deepseek, thinking", {"model": "fake", "thinking": {"type": "enabled"}, "reasoning_effort": "low"},
     {"thinking": True, "effort": 1}),
    ("LiteLLM", "settings", {"model": "fake", "temperature": 0.5, "top_p": 0.9, "n": 1, "stop": ["x"], "max_tokens": 10,
                             "presence_penalty": 0,
                             "frequency_penalty": 0, "logit_bias": {"5": 1}, "seed": 1},
     {"max_tokens": 10, "bias": {"5": 1.0}}),
    ("opencode", "a turn", {"model": "fake", "max_tokens": 32000, "temperature": 0, "top_p": 1, "stream": True,
                            "stream_options": {"include_usage": True},
                            "tool_choice": "auto", "tools": [{"type": "function", "function": {
                                "name": "bash", "description": "Runs a command.", "parameters": {
                                    "$schema": JS_SCHEMA, "type": "object",
                                    "properties": {"command": {"type": "string"}},
                                    "required": ["command"], "additionalProperties": False}}}]},
     {"max_tokens": 32000, "calls": "auto"}),
    ("opencode", "effort by variant", {"model": "fake", "max_tokens": 32000, "reasoning_effort": "max", "stream": True,
                                       "thinking": {"type": "enabled"}}, {"effort": 2, "thinking": True}),
    ("OpenRouter's form", "effort",
     {"model": "fake", "reasoning": {"effort": "high"}, "include_reasoning": True, "usage": {"include": True}},
     {"effort": 1}),
    ("vLLM's form", "budget",
     {"model": "fake", "thinking_token_budget": 512, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0,
      "skip_special_tokens": True, "add_generation_prompt": True, "chat_template_kwargs": {"enable_thinking": True}},
     {"max_reasoning": 512, "top_k": 0}),
]

# (client, messages, the roles and contents that the engine is given; None: the same)
HISTORIES = [
    ("LangChain",
     [{"content": "s", "role": "system"},
      {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "role": "user"},
      {"content": None, "role": "assistant", "tool_calls": [CALL]},
      {"content": "rain", "role": "tool", "tool_call_id": "c1"}],
     [("system", "s"), ("user", "a\n\nb"), ("assistant", None), ("tool", "rain")]),
    ("LiteLLM", [USER, {"role": "assistant", "reasoning_content": "r", "tool_calls": [CALL]},
                 {"role": "tool", "tool_call_id": "c1", "name": "get_weather", "content": "rain"}],
     [("user", "s"), ("assistant", None), ("tool", "rain")]),
    ("opencode",
     [{"role": "system", "content": "You are opencode."}, {"role": "user", "content": [{"type": "text", "text": "hi"}]},
      {"role": "assistant", "content": "", "reasoning_content": "r", "tool_calls": [CALL]},
      {"role": "tool", "tool_call_id": "c1", "content": "a<b>"}, {"role": "user", "content": "go on"}],
     [("system", "You are opencode."), ("user", "hi"), ("assistant", ""), ("tool", "a<b>"), ("user", "go on")]),
    ("OpenAI", [{"role": "developer", "content": "d"}, {**USER, "name": "ann"},
                {"role": "assistant", "content": "x", "refusal": None, "annotations": [], "audio": None,
                 "function_call": None, "tool_calls": None}, USER],
     [("developer", "d"), ("user", "s"), ("assistant", "x"), ("user", "s")]),
    ("OpenRouter's form",
     [USER,
      {"role": "assistant", "content": "x", "reasoning": "r",
       "reasoning_details": [{"type": "reasoning.text", "text": "r"}]},
      USER], [("user", "s"), ("assistant", "x"), ("user", "s")]),
]

TEXTS = [
    ("LangChain", {"model": "fake", "prompt": ["s"], "frequency_penalty": 0, "logprobs": None, "max_tokens": 256,
                   "n": 1, "presence_penalty": 0,
                   "seed": None, "temperature": 0.7, "top_p": 1}, {"max_tokens": 256, "has_seed": False}),
    ("LiteLLM", {"model": "fake", "prompt": "s", "max_tokens": 5}, {"max_tokens": 5}),
    ("vLLM's form",
     {"model": "fake", "prompt": "s", "max_tokens": 5, "add_special_tokens": True, "skip_special_tokens": True,
      "best_of": 1,
      "min_tokens": 0, "stop_token_ids": [], "use_beam_search": False}, {"max_tokens": 5}),
]


class Bodies(unittest.TestCase):
    def setUp(self):
        self.fake = self.enterContext(Fake())

    def becomes(self, path, body):
        if body.get("stream"):
            s = self.fake.stream(body, path)
            self.assertEqual((s.status, list(s)[-1]), (200, "[DONE]"))
        else:
            status, _, answer = self.fake.http("POST", path, body)
            self.assertEqual(status, 200, answer)
        return json.loads(self.fake.command("last"))

    def test_chats(self):
        for client, what, fields, want in CHATS:
            with self.subTest(client=client, what=what):
                last = self.becomes("/v1/chat/completions", {"messages": [USER], **fields})
                self.assertEqual({k: last.get(k) for k in want}, want)

    def test_histories(self):
        for client, messages, want in HISTORIES:
            with self.subTest(client=client):
                # The last message is the script of the answer: a user's that ends it.
                last = self.becomes("/v1/chat/completions", {"messages": [*messages, USER], "tools": [WEATHER]})
                self.assertEqual([(m["role"], m.get("content")) for m in last["messages"]], [*want, ("user", "s")])

    def test_histories_are_rendered(self):
        for client, messages, _ in HISTORIES:
            with self.subTest(client=client):
                status, _, answer = self.fake.http("POST", "/apply-template",
                                                   {"messages": messages, "tools": [WEATHER]})
                self.assertEqual(status, 200, answer)
                for m in messages:
                    if m["role"] == "tool":  # as it is: nothing is escaped
                        self.assertIn(f"<tool_result>{m['content']}</tool_result>", answer["prompt"])

    def test_texts(self):
        for client, body, want in TEXTS:
            with self.subTest(client=client):
                last = self.becomes("/v1/completions", body)
                self.assertEqual({k: last.get(k) for k in want}, want)


if __name__ == "__main__":
    unittest.main()
