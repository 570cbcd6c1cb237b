#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Anthropic's /v1/messages on scripted generations: what a body becomes, what is refused, every way a stream can go."""
import base64
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from fake import Fake, OnFake  # noqa: E402
from message_events import message_of  # noqa: E402

PATH = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
USER = {"role": "user", "content": "s"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"name": "get_weather", "description": "d", "input_schema": SCHEMA}
USE = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Milan"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}
CACHE = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}


def ask(script, **fields):
    """A body whose last message is the script."""
    return {"model": "fake", "max_tokens": 100, "messages": [{"role": "user", "content": script}], **fields}


def text(s, **fields):
    return {"type": "text", "text": s, **fields}


def call(arguments, name="get_weather", cid="toolu_1"):
    return {"id": cid, "type": "function", "function": {"name": name, "arguments": arguments}}


FUNCTION = {"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": SCHEMA}}

# (system and messages, what the engine is given)
CONVERSATIONS = [
    ({"messages": [USER]}, [USER]),
    ({"system": "Be brief.", "messages": [USER]}, [{"role": "system", "content": "Be brief."}, USER]),
    ({"system": [text("A", **CACHE), text("B")], "messages": [USER]}, [{"role": "system", "content": "A\n\nB"}, USER]),
    ({"system": "", "messages": [USER]}, [USER]),
    ({"system": [], "messages": [USER]}, [USER]),
    # What changes with every request and is not for the model.
    ({"system": [text("x-anthropic-billing-header: cc_version=2; cch=1;"), text("You are")], "messages": [USER]},
     [{"role": "system", "content": "You are"}, USER]),
    ({"system": "x-anthropic-billing-header: cch=1;\nYou are", "messages": [USER]},
     [{"role": "system", "content": "You are"}, USER]),
    ({"messages": [{"role": "user", "content": [text("s", **CACHE), text("B")]}]},
     [{"role": "user", "content": "s\n\nB"}]),
    # Calls and their results.
    ({"messages": [USER, {"role": "assistant", "content": [text("Let me"), text(" see"), USE]},
                   {"role": "user", "content": [RESULT, text("s")]}]},
     [USER, {"role": "assistant", "content": "Let me see", "tool_calls": [call({"city": "Milan"})]},
      {"role": "tool", "tool_call_id": "toolu_1", "content": [text("sunny")]}, USER]),
    ({"messages": [USER, {"role": "assistant", "content": [USE, {**USE, "id": "toolu_2"}]},
                   {"role": "user", "content": [{**RESULT, "content": [text("a"), text("b", **CACHE)]},
                                                {"type": "tool_result", "tool_use_id": "toolu_2"}]}]},
     [USER,
      {"role": "assistant", "content": "",
       "tool_calls": [call({"city": "Milan"}), call({"city": "Milan"}, cid="toolu_2")]},
      {"role": "tool", "tool_call_id": "toolu_1", "content": [text("a"), text("b")]},
      {"role": "tool", "tool_call_id": "toolu_2", "content": []}]),
    ({"messages": [USER, {"role": "assistant", "content": [USE]},
                   {"role": "user", "content": [{**RESULT, "content": "no such city", "is_error": True}]}]},
     [USER, {"role": "assistant", "content": "", "tool_calls": [call({"city": "Milan"})]},
      {"role": "tool", "tool_call_id": "toolu_1", "content": [text("[error]"), text("no such city")]}]),
    ({"messages": [USER, {"role": "assistant", "content": [USE]},
                   {"role": "user", "content": [{**RESULT, "content": [{"type": "image", "source": {}}]}]}]},
     [USER, {"role": "assistant", "content": "", "tool_calls": [call({"city": "Milan"})]},
      {"role": "tool", "tool_call_id": "toolu_1", "content": [{"type": "image", "text": ""}]}]),
    ({"messages": [USER, {"role": "assistant", "content": [USE]},
                   {"role": "user",
                    "content": [{**RESULT, "content": [{"type": "tool_reference", "tool_name": "f"}]}]}]},
     [USER, {"role": "assistant", "content": "", "tool_calls": [call({"city": "Milan"})]},
      {"role": "tool", "tool_call_id": "toolu_1", "content": [text("The tool f can be called.")]}]),
    # Thinking of earlier turns is the assistant's reasoning, whoever signed it; redacted thinking nobody here can read.
    ({"messages":
      [USER,
       {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "EqQB=="}, text("A")]},
       USER]},
     [USER, {"role": "assistant", "content": "A", "reasoning_content": "hm"}, USER]),
    ({"messages": [USER, {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}, text("A")]},
                   USER]},
     [USER, {"role": "assistant", "content": "A"}, USER]),
    ({"messages": [USER, {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature":
      "dsv4.text." + base64.b64encode("hm ď".encode()).decode()}, text("A")]}, USER]},
     [USER, {"role": "assistant", "content": "A", "reasoning_content": "hm ď"}, USER]),
    ({"messages":
      [USER,
       {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "dsv4.text.?"}, text("A")]},
       USER]},
     [USER, {"role": "assistant", "content": "A"}, USER]),
    # Turns of one role in a row are one.
    ({"messages": [USER, {"role": "assistant", "content": "A"}, {"role": "assistant", "content": [text("B"), USE]},
                   {"role": "user", "content": [RESULT]}]},
     [USER, {"role": "assistant", "content": "AB", "tool_calls": [call({"city": "Milan"})]},
      {"role": "tool", "tool_call_id": "toolu_1", "content": [text("sunny")]}]),
    # The answer goes on with what the assistant is made to have begun.
    ({"messages": [USER, {"role": "assistant", "content": "so the answer is ("}]},
     [USER, {"role": "assistant", "content": "so the answer is (", "wo_eos": True}]),
    ({"messages": [{"role": "user", "content": "A"}, {"role": "system", "content": [text("Be kind.")]}, USER]},
     [{"role": "user", "content": "A"}, {"role": "user", "content": "Be kind."}, USER]),
    ({"system": "A", "messages": [{"role": "system", "content": "B"}, USER]},
     [{"role": "system", "content": "A\n\nB"}, USER]),
]

# (fields of a good body, what the engine is told)
RIGHT = [
    ({}, {"thinking": False, "effort": 0, "max_tokens": 100, "calls": "auto", "one_call": False, "format": "text",
          "max_reasoning": 0, "label": "http"}),
    ({"model": "claude-opus-4-8"}, {"max_tokens": 100}),
    ({"max_tokens": 7, "temperature": 0, "top_p": 0.5, "top_k": 3},
     {"max_tokens": 7, "temperature": 0, "top_p": 0.5, "top_k": 3}),
    ({"stop_sequences": ["a", "b"]}, {"stop": ["a", "b"]}),
    ({"thinking": {"type": "enabled", "budget_tokens": 2048}}, {"thinking": True, "max_reasoning": 2048, "effort": 0}),
    ({"thinking": {"type": "adaptive"}}, {"thinking": True, "max_reasoning": 0}),
    ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, {"thinking": True, "effort": 2}),
    ({"output_config": {"effort": "high"}}, {"thinking": True, "effort": 1}),
    ({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, {"thinking": False}),
    ({"tools": [TOOL]}, {"tools": [FUNCTION], "calls": "auto", "one_call": False}),
    ({"tools": [{**TOOL, "type": "custom", "strict": False, "eager_input_streaming": True, **CACHE}]},
     {"tools": [FUNCTION]}),
    ({"tools": [{**TOOL, "strict": True}]},
     {"tools": [{"type": "function", "function": {**FUNCTION["function"], "strict": True}}]}),
    ({"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
     {"calls": "auto", "one_call": True}),
    ({"tools": [TOOL], "tool_choice": {"type": "any"}}, {"calls": "required"}),
    ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "get_weather"}},
     {"calls": "named", "function": "get_weather"}),
    ({"tools": [TOOL], "tool_choice": {"type": "none"}}, {"calls": "none", "tools": None}),
    ({"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
     {"format": "json_schema", "schema": SCHEMA}),
    ({"output_format": {"type": "json_schema", "schema": SCHEMA}}, {"format": "json_schema", "schema": SCHEMA}),
    ({"metadata": {"user_id": "u"}, "service_tier": "auto", "container": None, "mcp_servers": [], "speed": "fast",
      **CACHE,
      "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}, {"max_tokens": 100}),
]

# (fields that override a good body, the param that the error must name)
WRONG = [
    ({"model": None}, "model"), ({"model": 3}, "model"), ({"model": "other"}, "model"),
    ({"max_tokens": None}, "max_tokens"), ({"max_tokens": 0}, "max_tokens"), ({"max_tokens": "7"}, "max_tokens"),
    ({"messages": None}, "messages"), ({"messages": []}, "messages"), ({"messages": "s"}, "messages"),
    ({"messages": ["s"]}, "messages[0]"),
    ({"messages": [{"content": "s"}]}, "messages[0].role"),
    ({"messages": [{"role": "tool", "content": "s"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": ["s"]}]}, "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": [{"text": "s"}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
    ({"messages": [{"role": "user", "content": [text("s"), {"type": "image", "source": {}}]}]},
     "messages[0].content[1].type"),
    ({"messages": [{"role": "user", "content": [{"type": "document", "source": {}}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"role": "user", "content": [USE]}]}, "messages[0].content[0].type"),
    ({"messages": [USER, {"role": "assistant", "content": [RESULT]}]}, "messages[1].content[0].type"),
    ({"messages": [USER, {"role": "assistant", "content": [{"type": "server_tool_use"}]}]},
     "messages[1].content[0].type"),
    ({"messages": [USER, {"role": "assistant", "content": [{**USE, "id": None}]}, USER]}, "messages[1].content[0].id"),
    ({"messages": [USER, {"role": "assistant", "content": [{**USE, "name": 'f" x="'}]}, USER]},
     "messages[1].content[0].name"),
    ({"messages": [USER, {"role": "assistant", "content": [{**USE, "input": "{}"}]}, USER]},
     "messages[1].content[0].input"),
    ({"messages": [USER, {"role": "assistant", "content": [{**USE, "input": None}]}, USER]},
     "messages[1].content[0].input"),
    ({"messages": [USER, {"role": "assistant", "content": [USE]}]}, "messages"),
    ({"messages": [USER, {"role": "assistant", "content": [{"type": "thinking"}]}, USER]},
     "messages[1].content[0].thinking"),
    ({"messages": [USER, {"role": "assistant", "content": [{"type": "redacted_thinking"}]}, USER]},
     "messages[1].content[0].data"),
    ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "messages[0].content[0].tool_use_id"),
    ({"messages": [{"role": "user", "content": [{**RESULT, "content": 3}]}]}, "messages[0].content[0].content"),
    ({"messages": [{"role": "user", "content": [{**RESULT, "content": [{}]}]}]},
     "messages[0].content[0].content[0].type"),
    ({"messages": [{"role": "user", "content": [{**RESULT, "is_error": "yes"}]}]}, "messages[0].content[0].is_error"),
    ({"system": 3}, "system"), ({"system": [{"type": "image"}]}, "system[0].type"),
    ({"system": [{"type": "text"}]}, "system[0].text"),
    ({"temperature": "1"}, "temperature"), ({"temperature": 3}, "temperature"), ({"top_p": 2}, "top_p"),
    ({"top_k": -2}, "top_k"),
    ({"stop_sequences": "x"}, "stop_sequences"), ({"stop_sequences": [""]}, "stop_sequences[0]"),
    ({"stop_sequences": ["x"] * 17}, "stop_sequences"), ({"stop_sequences": ["x", 1]}, "stop_sequences[1]"),
    ({"stream": "yes"}, "stream"),
    ({"thinking": True}, "thinking"), ({"thinking": {}}, "thinking.type"),
    ({"thinking": {"type": "on"}}, "thinking.type"),
    ({"thinking": {"type": "enabled", "budget_tokens": "x"}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "enabled", "display": "loud"}}, "thinking.display"),
    ({"output_config": {"effort": "huge"}}, "output_config.effort"),
    ({"output_config": {"format": {}}}, "output_config.format.type"),
    ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
    ({"output_format": {"type": "text"}}, "output_format.type"),
    ({"tools": {}}, "tools"), ({"tools": ["f"]}, "tools[0]"), ({"tools": [{**TOOL, "strict": 1}]}, "tools[0].strict"),
    ({"tools": [{}]}, "tools[0].name"), ({"tools": [TOOL] * 513}, "tools"),
    ({"tools": [TOOL, TOOL]}, "tools[1].name"),
    ({"tools": [{"name": "f"}]}, "tools[0].input_schema"), ({"tools": [{**TOOL, "name": "a b"}]}, "tools[0].name"),
    ({"tools": [TOOL, {"type": "web_search_20250305", "name": "web_search"}]}, "tools[1].type"),
    ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
    ({"tool_choice": "auto"}, "tool_choice"), ({"tool_choice": {}}, "tool_choice.type"),
    ({"tool_choice": {"type": "required"}}, "tool_choice.type"),
    ({"tool_choice": {"type": "any"}}, "tool_choice.type"),
    ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
    ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "f"}}, "tool_choice.name"),
    ({"mcp_servers": [{"url": "x"}]}, "mcp_servers"), ({"container": "c"}, "container"),
]


class OnMessages(OnFake):
    path, ask, put_together = PATH, staticmethod(ask), staticmethod(message_of)


class Bodies(OnMessages):
    def test_conversations(self):
        for fields, want in CONVERSATIONS:
            with self.subTest(fields=fields):
                self.assertEqual(self.told({**ask(""), **fields})["messages"], want)

    def test_fields(self):
        for fields, want in RIGHT:
            with self.subTest(fields=fields):
                told = self.told(ask("s", **fields))
                self.assertEqual({k: told.get(k) for k in want}, want)

    def test_refusals_name_the_field(self):
        for fields, param in WRONG:
            for stream in (False, True) if "stream" not in fields else (None,):
                with self.subTest(fields=fields):
                    status, headers, body = self.fake.http("POST", PATH, ask("s", **{"stream": stream, **fields}))
                    e = body["error"]
                    other = fields.get("model") == "other"
                    self.assertEqual((status, e["param"]), (404 if other else 400, param), e)
                    self.assertEqual((body["type"], e["type"]),
                                     ("error", "not_found_error" if other else "invalid_request_error"))
                    self.assertIn(param, e["message"])
                    self.assertEqual((body["request_id"], headers["request-id"]), (headers["x-request-id"],) * 2)
        self.assertEqual(self.fake.command("counts"), "0 0")

    def test_refusals_of_the_engine_name_the_clients_message(self):
        talk = [{"role": "user", "content": [RESULT, text("A")]}, {"role": "assistant", "content": "B"}]
        # The engine's messages are system, tool, user, assistant, user.
        for index, path in ((0, "system"), (1, "messages[0]"), (2, "messages[0]"), (3, "messages[1]"),
                            (4, "messages[2]"), (9, "messages")):
            script = f"Imessages[{index}].content"
            body = ask("", system="S", messages=[*talk, {"role": "user", "content": script}])
            status, _, reply = self.fake.http("POST", PATH, body)
            self.assertEqual((status, reply["error"]["param"]), (400, path))
            self.assertEqual(reply["error"]["message"], f"{path}: is not what the renderer takes")

    def test_count_tokens_takes_the_same_bodies(self):
        for fields, _ in CONVERSATIONS:
            body = {**ask(""), **fields, "tools": [TOOL], "max_tokens": None}
            status, _, reply = self.fake.http("POST", COUNT + "?beta=true", body)
            self.assertEqual((status, list(reply)), (200, ["input_tokens"]), reply)
        for fields, param in WRONG:
            if "max_tokens" not in fields:
                status, _, reply = self.fake.http("POST", COUNT, ask("s", **fields))
                self.assertEqual((status, reply["error"]["param"]),
                                 (404 if fields.get("model") == "other" else 400, param))
        self.assertEqual(self.fake.command("counts"), "0 0")

    def test_aliases_are_names_of_this_model_only(self):
        self.assertEqual(self.whole("s", model="claude-sonnet-5")["model"], "fake")
        for model in ("claude", "gpt-5", "fake2", ""):
            self.assertEqual(self.fake.http("POST", PATH, ask("s", model=model))[0], 404, model)


class Errors(OnMessages):
    def test_every_error_below_the_path_has_anthropics_form(self):
        for method, path, body, status, kind in (
                ("GET", PATH, None, 405, "invalid_request_error"),
                ("POST", PATH + "/batches", {}, 404, "not_found_error"),
                ("POST", PATH, b"{", 400, "invalid_request_error"),
                ("POST", PATH, b'"' + b"x" * (1 << 20) + b'"', 413, "request_too_large"),
                ("POST", PATH, ask("Q"), 503, "overloaded_error"), ("POST", PATH, ask("D"), 503, "overloaded_error"),
                ("POST", PATH, ask("P"), 400, "invalid_request_error"),
                ("POST", PATH, ask("chalf|xkernel"), 500, "api_error")):
            with self.subTest(method=method, path=path, status=status):
                got, headers, reply = self.fake.http(method, path, body)
                self.assertEqual((got, reply["type"], reply["error"]["type"]), (status, "error", kind))
                self.assertTrue(reply["error"]["message"])
                self.assertEqual(reply["request_id"], headers["request-id"])
        self.assertNotIn("type", self.fake.http("POST", "/v1/messagesx", {})[2])  # not below it

    def test_context_overflow_has_both_numbers(self):
        e = self.fake.http("POST", PATH, ask("P"))[2]["error"]
        self.assertEqual((e["prompt_tokens"], e["context_length"], e["param"]), (5000, 4096, "messages"))


# (script, fields, content, stop_reason, stop_sequence)
ENDS = [
    ("cHel|clo|s", {}, [text("Hello")], "end_turn", None),
    ("rh|rm|cHi|s", {}, [("hm",), text("Hi")], "end_turn", None),
    ("rhm|cHi|bget_weather|a{\"city\":|a \"Oslo\"}|e|t", {}, [("hm",), text("Hi"), ("get_weather", {"city": "Oslo"})],
     "tool_use", None),
    ("ba|a{}|e|bb|a{\"x\": 1}|e|t", {}, [("a", {}), ("b", {"x": 1})], "tool_use", None),
    ("cab|S1", {"stop_sequences": ["x", "yz"]}, [text("ab")], "stop_sequence", "yz"),
    ("S0", {"stop_sequences": ["x", "yz"]}, [], "stop_sequence", "x"),
    ("cab|n", {}, [text("ab")], "max_tokens", None),
    ("rab|n", {}, [("ab",)], "max_tokens", None),
    ("cab|o", {}, [text("ab")], "model_context_window_exceeded", None),
    ("s", {}, [], "end_turn", None),
    # In the order in which it came, however odd.
    ("rA|cB|rC|cD|s", {}, [("A",), text("B"), ("C",), text("D")], "end_turn", None),
    ("cA|bf|a{}|e|cB|bg|a{}|e|rC|t", {}, [text("A"), ("f", {}), text("B"), ("g", {}), ("C",)], "tool_use", None),
]


class Answers(OnMessages):
    def check(self, content, want):
        self.assertEqual(len(content), len(want), content)
        calls = 0
        for block, w in zip(content, want):
            if isinstance(w, tuple) and len(w) == 1:
                self.assertEqual((block["type"], block["thinking"], bool(block["signature"])), ("thinking", w[0], True))
            elif isinstance(w, tuple):
                calls += 1
                self.assertEqual((block["type"], block["id"], block["name"], block["input"]),
                                 ("tool_use", f"call_{calls}", *w))
            else:
                self.assertEqual(block, w)

    def test_whole_and_streamed_end_alike(self):
        for script, fields, want, reason, stop in ENDS:
            with self.subTest(script=script):
                m, s = self.whole(script, **fields), self.streamed(script, **fields)
                for one in (m, s):
                    self.check(one["content"], want)
                    self.assertEqual((one["stop_reason"], one["stop_sequence"], one["model"], one["role"]),
                                     (reason, stop, "fake", "assistant"))
                self.assertEqual(m["content"], s["content"])
                self.assertEqual(m["usage"], s["usage"])
                self.assertTrue(m["id"].startswith("msg_") and s["id"].startswith("msg_"))
                self.assertGreater(s["pings"], 0)

    def test_the_counts_of_input_add_up_to_the_prompt(self):
        u = self.whole("chi|s")["usage"]
        self.assertEqual((u["input_tokens"], u["cache_read_input_tokens"], u["cache_creation_input_tokens"]), (4, 3, 0))
        self.assertEqual(u["output_tokens_details"], {"thinking_tokens": 2})

    def test_thinking_that_is_not_shown_comes_back_by_its_signature(self):
        hidden = {"thinking": {"type": "enabled", "budget_tokens": 1024, "display": "omitted"}}
        for m in (self.whole("rhm|rm\\0|rm|cHi|s", **hidden), self.streamed("rhm|rm\\0|rm|cHi|s", **hidden)):
            self.assertEqual(m["content"][0]["thinking"], "")
            told = self.told(ask("", messages=[USER, {"role": "assistant", "content": m["content"]}, USER]))
            self.assertEqual(told["messages"][1], {"role": "assistant", "content": "Hi", "reasoning_content": "hmm\0m"})

    def test_cut_off_call_is_no_call(self):
        for script, reason in (("bget_weather|a{\"ci|i", "max_tokens"),
                               ("bget_weather|a{\"city\": \"Oslo\"|n", "max_tokens")):
            m, s = self.whole(script), self.streamed(script)
            self.assertEqual((m["content"], m["stop_reason"]), ([], reason))
            self.assertEqual((s["stop_reason"], s["closed"]), (reason, 1))
            self.assertIn("cut", s["content"][0])  # its input is no JSON

    def test_call_cut_off_before_its_first_argument_or_after_its_last_is_no_call(self):
        for script in ("bget_weather|n", "bget_weather|a{}|n", "bget_weather|a{\"city\": \"Oslo\"}|i"):
            m, s = self.whole(script), self.streamed(script)
            self.assertEqual((m["content"], m["stop_reason"], s["stop_reason"]), ([], "max_tokens", "max_tokens"))
            self.assertTrue(s["content"][0]["cut"], s)  # not even nothing, which clients take for {}

    def test_any_bytes_of_text_survive(self):
        s = self.streamed("cď|c漢字|c\U0001f600|c\"\\ \n\u2028|cnul\\0|s")
        self.assertEqual(s["content"][0]["text"], "ď漢字\U0001f600\"\\ \n\u2028nul\0")

    def test_failures_are_an_error_event_and_the_last(self):
        for script, kind, code in (("chalf|xthe kernel gave NaN", "api_error", "kernel"),
                                   ("rhalf|y", "api_error", "cancelled"),
                                   ("bf|a{|z", "overloaded_error", "draining"), ("xat once", "api_error", "kernel")):
            with self.subTest(script=script):
                m = self.streamed(script)
                self.assertEqual((m["error"]["type"], m["error"]["code"], m["stop_reason"]), (kind, code, None))

    def test_server_that_stops_ends_the_stream_with_an_error(self):
        s = self.fake.stream(ask("chalf|w|s"), PATH)
        events = s.named()
        begin = [next(events) for _ in range(4)]
        self.fake.command("stop")
        m = message_of([*begin, *events])
        self.assertEqual(m["error"]["code"], "draining")

    def test_start_comes_before_the_engine_has_said_anything(self):
        s = self.fake.stream(ask("w|cx|s"), PATH)
        events = s.named()
        begin = [next(events), next(events)]
        self.assertEqual([n for n, _ in begin], ["message_start", "ping"])
        self.assertEqual(begin[0][1]["message"]["usage"]["input_tokens"], 4)
        self.fake.command("release")
        self.assertEqual(message_of([*begin, *events])["content"], [text("x")])

    def test_silence_is_filled_with_pings(self):
        with Fake(keep_alive=1e-9) as f:
            s = f.stream(ask("w|s"), PATH)
            events = s.named()
            begin = [next(events), next(events)]
            for _ in range(3):
                f.command("tick")
                begin.append(next(events))
            self.assertEqual([n for n, _ in begin[1:]], ["ping"] * 4)
            f.command("release")
            self.assertEqual(message_of([*begin, *events])["stop_reason"], "end_turn")


if __name__ == "__main__":
    unittest.main()
