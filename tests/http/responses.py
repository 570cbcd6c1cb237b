#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""OpenAI's /v1/responses on scripted generations: what a body becomes, what is refused, every way a stream can go."""
import base64
import hashlib
import json
import os
import secrets
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from fake import Fake, OnFake  # noqa: E402
from response_events import response_of  # noqa: E402

PATH = "/v1/responses"
USER = {"role": "user", "content": "s"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "name": "get_weather", "description": "d", "parameters": SCHEMA}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Edits.",
         "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/s"}}
SPACE = {"type": "namespace", "name": "mcp__ide", "description": "x", "tools": [{**TOOL, "name": "look"}]}
CALL = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city": "Milan"}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}


def said(role, *texts, kind="input_text", **fields):
    return {"type": "message", "role": role, "content": [{"type": kind, "text": t} for t in texts], **fields}


def call(name, arguments, cid="c1"):
    return {"id": cid, "type": "function", "function": {"name": name, "arguments": arguments}}


def function(name, description="d", parameters=SCHEMA):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TEXT_INPUT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
PATCH_FUNCTION = function("apply_patch", "Edits.\n\nThe input follows this grammar:\nstart: /.+/s", TEXT_INPUT)
PATCH_FUNCTION["function"]["strict"] = True
MILAN = call("get_weather", '{"city": "Milan"}')
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}

# (instructions and input, what the engine is given)
CONVERSATIONS = [
    ({"input": "s"}, [USER]),
    ({"input": [USER]}, [USER]),
    ({"instructions": "Be brief.", "input": [said("user", "s")]}, [{"role": "system", "content": "Be brief."}, USER]),
    ({"instructions": "A", "input": [said("developer", "B", "C"), said("system", "D"), USER]},
     [{"role": "system", "content": "A\n\nB\n\nC\n\nD"}, USER]),
    ({"input": [USER, said("developer", "Be kind."), USER]}, [USER, {"role": "user", "content": "Be kind."}, USER]),
    ({"input": [USER, said("assistant", "He", "llo", kind="output_text", id="msg_1", status="completed"), USER]},
     [USER, {"role": "assistant", "content": "Hello"}, USER]),
    ({"input": [USER, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, USER]},
     [USER, {"role": "assistant", "content": "No."}, USER]),
    ({"input": [USER, said("assistant", "I look.", kind="output_text"), CALL, {**CALL, "call_id": "c2"}, OUTPUT,
                {**OUTPUT, "call_id": "c2",
                 "output": [{"type": "input_text", "text": "so"}, {"type": "input_text", "text": "b"}]}]},
     [USER,
      {"role": "assistant", "content": "I look.",
       "tool_calls": [MILAN, call("get_weather", '{"city": "Milan"}', "c2")]},
      {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
      {"role": "tool", "tool_call_id": "c2", "content": "so\n\nb"}]),
    # Reasoning: its text, our own token, or what summary there is; another server's token says nothing.
    ({"input": [USER, {**THOUGHT, "content": [{"type": "reasoning_text", "text": "hm"}]}, CALL, OUTPUT]},
     [USER, {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [MILAN]},
      {"role": "tool", "tool_call_id": "c1", "content": "sunny"}]),
    ({"input":
      [USER,
       {**THOUGHT, "content": None, "encrypted_content": "dsv4.text." + base64.b64encode("hm ď".encode()).decode()},
       said("assistant", "A", kind="output_text"), USER]},
     [USER, {"role": "assistant", "content": "A", "reasoning_content": "hm ď"}, USER]),
    ({"input": [USER, {**THOUGHT, "summary": [{"type": "summary_text", "text": "mm"}], "encrypted_content": "gAAAA"},
                said("assistant", "A", kind="output_text"), USER]},
     [USER, {"role": "assistant", "content": "A", "reasoning_content": "mm"}, USER]),
    ({"input": [USER, {**THOUGHT, "encrypted_content": "gAAAA"}, said("assistant", "A", kind="output_text"), USER]},
     [USER, {"role": "assistant", "content": "A"}, USER]),
    ({"input": [USER, {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin"},
                {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"}]},
     [USER, {"role": "assistant", "content": "", "tool_calls": [call("apply_patch", {"input": "*** Begin"})]},
      {"role": "tool", "tool_call_id": "c1", "content": "ok"}]),
    ({"input": [USER, {**CALL, "namespace": "mcp__ide", "name": "look", "arguments": ""}, OUTPUT]},
     [USER, {"role": "assistant", "content": "", "tool_calls": [call("mcp__ide.look", "{}")]},
      {"role": "tool", "tool_call_id": "c1", "content": "sunny"}]),
    ({"input": [USER, said("assistant", "so far", kind="output_text")]},
     [USER, {"role": "assistant", "content": "so far", "wo_eos": True}]),
]

# (fields of a good body, what the engine is told)
RIGHT = [
    ({}, {"thinking": True, "effort": 0, "max_tokens": 0, "calls": "auto", "one_call": False, "format": "text",
          "label": "http"}),
    ({"model": "claude-x"}, {"thinking": True}), ({"model": None}, {"thinking": True}),
    ({"max_output_tokens": 7, "temperature": 0.5, "top_p": 0.25}, {"max_tokens": 7, "temperature": 0.5, "top_p": 0.25}),
    ({"reasoning": {"effort": "none"}}, {"thinking": False}),
    ({"reasoning": {"effort": "xhigh"}}, {"thinking": True, "effort": 2}),
    ({"reasoning": {"effort": None, "summary": "auto"}}, {"thinking": True, "effort": 0}),
    ({"text": {"format": {"type": "text"}, "verbosity": "low"}}, {"format": "text"}),
    ({"text": {"format": {"type": "json_object"}}}, {"format": "json_object"}),
    ({"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}}},
     {"format": "json_schema", "schema": SCHEMA}),
    ({"tools": []}, {"tools": None}), ({"tools": [TOOL]}, {"tools": [function("get_weather")]}),
    ({"tools": [TOOL], "parallel_tool_calls": False}, {"one_call": True}),
    ({"tools": [{**TOOL, "strict": True}]},
     {"tools": [{"type": "function", "function": {**function("get_weather")["function"], "strict": True}}]}),
    ({"tools": [PATCH]}, {"tools": [PATCH_FUNCTION]}), ({"tools": [SPACE]}, {"tools": [function("mcp__ide.look")]}),
    # What only the service's own tools could do is not offered.
    ({"tools": [TOOL, {"type": "web_search", "external_web_access": True}, {"type": "image_generation"}]},
     {"tools": [function("get_weather")]}),
    ({"tools": [{"type": "web_search_preview"}]}, {"tools": None}),
    ({"tools": [TOOL], "tool_choice": "none"}, {"tools": None, "calls": "none"}),
    ({"tools": [TOOL], "tool_choice": "required"}, {"calls": "required"}),
    ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "get_weather"}},
     {"calls": "named", "function": "get_weather"}),
    ({"tools": [PATCH], "tool_choice": {"type": "custom", "name": "apply_patch"}},
     {"calls": "named", "function": "apply_patch"}),
    ({"tools": [TOOL, PATCH],
      "tool_choice": {"type": "allowed_tools", "mode": "required",
                      "tools": [{"type": "custom", "name": "apply_patch"}]}},
     {"calls": "required", "tools": [PATCH_FUNCTION]}),
    ({"tools": [TOOL, PATCH],
      "tool_choice": {"type": "allowed_tools", "tools": [{"type": "custom", "name": "apply_patch"}] * 512}},
     {"tools": [PATCH_FUNCTION]}),
    ({"tools": [SPACE],
      "tool_choice":
      {"type": "allowed_tools", "tools": [{"type": "function", "name": "look", "namespace": "mcp__ide"}]}},
     {"tools": [function("mcp__ide.look")]}),
    ({"store": False, "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
      "truncation": "auto", "user": "u",
      "metadata": {"a": "b"}, "prompt_cache_key": "k", "service_tier": "auto", "client_metadata": {},
      "background": False, "top_logprobs": 0,
      "stream_options": {"include_obfuscation": False}}, {"thinking": True}),
]

# (fields that override a good body, the param that the error must name)
WRONG = [
    ({"model": 3}, "model"), ({"model": "other"}, "model"),
    ({"input": None}, "input"), ({"input": []}, "input"), ({"input": 3}, "input"), ({"input": ["s"]}, "input[0]"),
    ({"input": [{"content": "s"}]}, "input[0].role"), ({"input": [{"role": "tool", "content": "s"}]}, "input[0].role"),
    ({"input": [{"role": "user"}]}, "input[0].content"),
    ({"input": [{"role": "user", "content": 3}]}, "input[0].content"),
    ({"input": [{"role": "user", "content": [{"text": "s"}]}]}, "input[0].content[0].type"),
    ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
    ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
    ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input[0].content[0].type"),
    ({"input": [USER, {"type": "item_reference", "id": "x"}]}, "input[1].type"),
    ({"input": [{"type": "local_shell_call"}]}, "input[0].type"),
    ({"input": [{"type": "web_search_call"}]}, "input[0].type"),
    ({"input": [USER, CALL]}, "input"), ({"input": [{**CALL, "call_id": None}, OUTPUT]}, "input[0].call_id"),
    ({"input": [{**CALL, "name": 'f" x="'}, OUTPUT]}, "input[0].name"),
    ({"input": [{**CALL, "arguments": {}}, OUTPUT]}, "input[0].arguments"),
    ({"input": [{"type": "custom_tool_call", "call_id": "c", "name": "f"}, OUTPUT]}, "input[0].input"),
    ({"input": [CALL, {**OUTPUT, "call_id": None}]}, "input[1].call_id"),
    ({"input": [CALL, {**OUTPUT, "output": None}]}, "input[1].output"),
    ({"input": [{**THOUGHT, "summary": [{}]}, USER]}, "input[0].summary[0].type"),
    ({"instructions": 3}, "instructions"), ({"previous_response_id": 3}, "previous_response_id"),
    ({"previous_response_id": "resp_none"}, "previous_response_id"),
    ({"temperature": 3}, "temperature"), ({"top_p": "x"}, "top_p"), ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"stream": "yes"}, "stream"), ({"store": 1}, "store"), ({"metadata": []}, "metadata"),
    ({"parallel_tool_calls": 1}, "parallel_tool_calls"),
    ({"reasoning": "high"}, "reasoning"), ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
    ({"reasoning": {"summary": 1}}, "reasoning.summary"),
    ({"include": "x"}, "include"), ({"include": [1]}, "include[0]"),
    ({"include": ["message.output_text.logprobs"]}, "include[0]"),
    ({"text": {"format": {}}}, "text.format.type"), ({"text": {"format": {"type": "grammar"}}}, "text.format.type"),
    ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
    ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
    ({"tools": {}}, "tools"), ({"tools": [{}]}, "tools[0].type"), ({"tools": [{"type": "function"}]}, "tools[0].name"),
    ({"tools": [{**TOOL, "parameters": "{}"}]}, "tools[0].parameters"), ({"tools": [TOOL] * 513}, "tools"),
    # Calls say a name and no more: no two tools share one, in full; and namespaces do not make
    # them more than there may be.
    ({"tools": [TOOL, PATCH, TOOL]}, "tools[2].name"),
    ({"tools": [TOOL, {**PATCH, "name": "get_weather"}]}, "tools[1].name"),
    ({"tools": [{**TOOL, "name": "mcp__ide.look"}, SPACE]}, "tools[1].tools[0].name"),
    ({"tools": [SPACE, SPACE]}, "tools[1].tools[0].name"),
    ({"tools": [{**SPACE, "tools": [{**TOOL, "name": f"f{i}"} for i in range(513)]}]}, "tools[0].tools[512].name"),
    ({"tools": [TOOL],
      "tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "get_weather"}] * 513}},
     "tool_choice.tools"),
    ({"tools": [TOOL, {"type": "local_shell"}]}, "tools[1].type"),
    ({"tools": [{"type": "file_search"}]}, "tools[0].type"),
    ({"tools": [{"type": "mcp", "server_label": "x"}]}, "tools[0].type"),
    ({"tools": [{"type": "code_interpreter"}]}, "tools[0].type"),
    ({"tools": [{"type": "computer_use_preview"}]}, "tools[0].type"),
    ({"tools": [{**SPACE, "tools": [PATCH]}]}, "tools[0].tools[0].type"),
    ({"tool_choice": "maybe"}, "tool_choice"), ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": 3}, "tool_choice"),
    ({"tool_choice": {"type": "web_search"}}, "tool_choice.type"),
    ({"tool_choice": {"type": "function", "name": "f"}}, "tool_choice.name"),
    ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "mode": "some", "tools": []}}, "tool_choice.mode"),
    ({"background": True}, "background"), ({"conversation": "conv_1"}, "conversation"),
    ({"prompt": {"id": "x"}}, "prompt"),
    ({"top_logprobs": 3}, "top_logprobs"),
]
MISSING = ("other", "resp_none")


def ask(script, **fields):
    return {"model": "fake", "input": script, **fields}


class OnResponses(OnFake):
    path, ask, put_together = PATH, staticmethod(ask), staticmethod(response_of)


class Bodies(OnResponses):
    def test_conversations(self):
        for fields, want in CONVERSATIONS:
            with self.subTest(fields=fields):
                self.assertEqual(self.told({**ask("", reasoning={"effort": "none"}), **fields})["messages"], want)

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
                    missing = any(v in MISSING for v in fields.values() if isinstance(v, str))
                    self.assertEqual((status, e["param"]), (404 if missing else 400, param), e)
                    self.assertIn(param, e["message"])
                    self.assertEqual(e["request_id"], headers["x-request-id"])
        self.assertEqual(self.fake.command("counts"), "0 0")

    def test_refusals_of_the_engine_name_the_clients_item(self):
        talk = [said("user", "A"), CALL, OUTPUT]
        # The engine's messages are system, user, assistant, tool, user.
        for index, path in ((0, "instructions"), (1, "input[0]"), (2, "input[1]"), (3, "input[2]"), (4, "input[3]"),
                            (9, "input")):
            body = ask([*talk, said("user", f"Imessages[{index}].content")], instructions="S")
            status, _, reply = self.fake.http("POST", PATH, body)
            self.assertEqual((status, reply["error"]["param"]), (400, path))
            self.assertEqual(reply["error"]["message"], f"{path}: is not what the renderer takes")

    def test_input_tokens_takes_the_same_bodies(self):
        for fields, _ in CONVERSATIONS:
            status, _, reply = self.fake.http("POST", PATH + "/input_tokens", {**ask(""), **fields, "tools": [TOOL]})
            self.assertEqual((status, reply.get("object")), (200, "response.input_tokens"), reply)
        self.assertEqual(self.fake.http("POST", PATH + "/input_tokens", ask(3))[0], 400)
        self.assertEqual(self.fake.command("counts"), "0 0")

    def test_the_response_repeats_the_request(self):
        fields = {"instructions": "A", "max_output_tokens": 9, "metadata": {"k": "v"}, "temperature": 0.25,
                  "tools": [TOOL, {"type": "web_search"}],
                  "tool_choice": "auto", "parallel_tool_calls": False, "store": False,
                  "reasoning": {"effort": "low", "summary": None},
                  "text": {"format": {"type": "text"}}, "truncation": "auto"}
        for r in (self.whole("cx|s", **fields), self.streamed("cx|s", **fields)):
            self.assertEqual({k: r[k] for k in fields}, {**fields, "tools": [TOOL]})  # those that are offered
        r = self.whole("cx|s")
        self.assertEqual((r["tools"], r["tool_choice"], r["parallel_tool_calls"], r["store"], r["metadata"],
                          r["instructions"], r["background"]),
                         ([], "auto", True, True, {}, None, False))


def thought(text):
    return {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": text}],
            "status": "completed"}


def message(text, status="completed"):
    return {"type": "message", "role": "assistant", "status": status,
            "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]}


def called(name, arguments, **fields):
    return {"type": "function_call", "call_id": "call_1", "name": name, "arguments": arguments, "status": "completed",
            **fields}


# (script, fields, output without ids, status)
ENDS = [
    ("cHel|clo|s", {}, [message("Hello")], "completed"),
    ("rh|rm|cHi|s", {}, [thought("hm"), message("Hi")], "completed"),
    ("rhm|cHi|bget_weather|a{\"city\":|a \"Oslo\"}|e|t", {"tools": [TOOL]},
     [thought("hm"), message("Hi"), called("get_weather", '{"city": "Oslo"}')], "completed"),
    ("ba|a{}|e|bb|a{\"x\": 1}|e|t", {"tools": [TOOL]}, [called("a", "{}"), called("b", '{"x": 1}', call_id="call_2")],
     "completed"),
    ("bmcp__ide.look|a{}|e|t", {"tools": [SPACE]}, [called("look", "{}", namespace="mcp__ide")], "completed"),
    ("bapply_patch|a{\"input\": \"*** Beg|ain\\nď\"}|e|t", {"tools": [PATCH]},
     [{"type": "custom_tool_call", "call_id": "call_1", "name": "apply_patch", "input": "*** Begin\nď",
       "status": "completed"}], "completed"),
    ("rhm|cHi|s", {"reasoning": {"summary": "auto"}},
     [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "content": [], "status": "completed"},
      message("Hi")], "completed"),
    ("rhm|cHi|s", {"include": ["reasoning.encrypted_content"]},
     [{**thought("hm"), "encrypted_content": "dsv4.text.aG0="}, message("Hi")], "completed"),
    ("cab|n", {}, [message("ab", "incomplete")], "incomplete"),
    ("rab|n", {}, [{**thought("ab"), "status": "incomplete"}], "incomplete"),
    ("cab|o", {}, [message("ab", "incomplete")], "incomplete"),
    ("s", {}, [], "completed"),
    # In the order in which it came, however odd.
    ("rA|cB|rC|cD|s", {}, [thought("A"), message("B"), thought("C"), message("D")], "completed"),
    ("cA|bf|a{}|e|cB|bg|a{}|e|rC|t", {},
     [message("A"), called("f", "{}"), message("B"), called("g", "{}", call_id="call_2"), thought("C")],
     "completed"),
]


class Answers(OnResponses):
    @staticmethod
    def bare(output):
        prefixes = {"reasoning": "rs_", "message": "msg_", "function_call": "fc_", "custom_tool_call": "ctc_"}
        assert all(i["id"].startswith(prefixes[i["type"]]) for i in output), output
        assert len({i["id"] for i in output}) == len(output)
        return [{k: v for k, v in i.items() if k != "id"} for i in output]

    def test_whole_and_streamed_end_alike(self):
        for script, fields, want, status in ENDS:
            with self.subTest(script=script, fields=fields):
                for r in (self.whole(script, **fields), self.streamed(script, **fields)):
                    self.assertEqual((self.bare(r["output"]), r["status"], r["model"]), (want, status, "fake"))
                    self.assertEqual(r["incomplete_details"], {"reason": "max_output_tokens"}
                                     if status == "incomplete" else None)
                    self.assertTrue(r["id"].startswith("resp_"))
                    self.assertIsNone(r.get("left_open"))

    def test_usage(self):
        for r in (self.whole("chi|s"), self.streamed("chi|s")):
            u = r["usage"]
            self.assertEqual((u["input_tokens"], u["input_tokens_details"]["cached_tokens"],
                              u["output_tokens_details"]["reasoning_tokens"]), (7, 3, 2))
            self.assertEqual(u["total_tokens"], u["input_tokens"] + u["output_tokens"])

    def test_a_custom_tools_input_is_told_while_it_comes(self):
        s = self.fake.stream(ask('bapply_patch|a{"input": "one |atwo\\|an |w|athree"}|e|t', tools=[PATCH]), PATH)
        events = s.named()
        begin, told = [], ""
        while told != "one two\n ":
            begin.append(next(events))
            if begin[-1][0] == "response.custom_tool_call_input.delta":
                told += begin[-1][1]["delta"]
        self.fake.command("release")
        self.assertEqual(response_of([*begin, *events])["output"][0]["input"], "one two\n three")

    def test_cut_off_call_is_no_item(self):
        for script in ("bget_weather|a{\"ci|i", "bget_weather|a{\"city\": \"Oslo\"|n",
                       "bapply_patch|a{\"input\": \"x|n"):
            r, s = self.whole(script, tools=[TOOL, PATCH]), self.streamed(script, tools=[TOOL, PATCH])
            self.assertEqual((r["output"], r["status"]), ([], "incomplete"))
            self.assertEqual((s["output"], s["status"]), ([], "incomplete"))
            self.assertTrue(s["left_open"]["name"])  # begun, and never said to be done

    def test_what_came_before_a_call_that_was_cut_off_is_completed_whole_and_streamed(self):
        for before, item in (("rA|", thought("A")), ("cA|", message("A"))):
            for end in ("bget_weather|n", "bget_weather|a{\"ci|i"):
                r, s = self.whole(before + end, tools=[TOOL]), self.streamed(before + end, tools=[TOOL])
                for got in (r, s):
                    self.assertEqual([(i["type"], i["status"]) for i in got["output"]], [(item["type"], "completed")])
                    self.assertEqual(got["status"], "incomplete")

    def test_a_kept_response_is_not_streamed_and_says_so(self):
        r = self.whole("chi|s")
        for query, param in (("stream=true", "stream"), ("stream=True", "stream"), ("stream=1", "stream"),
                             ("stream=true&starting_after=3", "stream"), ("starting_after=3", "starting_after")):
            status, _, body = self.fake.http("GET", f"{PATH}/{r['id']}?{query}")
            self.assertEqual((status, body["error"]["param"]), (400, param), query)
        for query in ("stream=false", "stream=", "include[]=reasoning.encrypted_content"):
            self.assertEqual(self.fake.http("GET", f"{PATH}/{r['id']}?{query}")[0] in (200, 404), True, query)

    def test_any_bytes_of_text_survive(self):
        s = self.streamed("cď|c漢字|c\U0001f600|c\"\\ \n\u2028|cnul\\0|s")
        self.assertEqual(s["output"][0]["content"][0]["text"], "ď漢字\U0001f600\"\\ \n\u2028nul\0")

    def test_failures_end_the_stream_as_failed(self):
        for script, code, text in (("chalf|xthe kernel gave NaN", "server_error", "the kernel gave NaN"),
                                   ("rhalf|y", "cancelled", "cancelled"),
                                   ("bf|a{|z", "server_is_overloaded", "shutting down"),
                                   ("xat once", "server_error", "at once")):
            with self.subTest(script=script):
                r = self.streamed(script)
                self.assertEqual((r["status"], r["error"]["code"]), ("failed", code))
                self.assertIn(text, r["error"]["message"])

    def test_server_that_stops_ends_the_stream_as_failed(self):
        s = self.fake.stream(ask("chalf|w|s"), PATH)
        events = s.named()
        begin = [next(events) for _ in range(5)]
        self.fake.command("stop")
        self.assertEqual(response_of([*begin, *events])["error"]["code"], "server_is_overloaded")

    def test_begin_comes_before_the_engine_has_said_anything(self):
        s = self.fake.stream(ask("w|cx|s"), PATH)
        events = s.named()
        begin = [next(events), next(events)]
        self.assertEqual([n for n, _ in begin], ["response.created", "response.in_progress"])
        self.fake.command("release")
        self.assertEqual(response_of([*begin, *events])["status"], "completed")

    def test_errors_before_the_stream_are_errors(self):
        for script, status, code in (("Q", 503, "busy"), ("D", 503, "draining"), ("P", 400, "context_length_exceeded")):
            got, _, body = self.fake.http("POST", PATH, ask(script, stream=True))
            self.assertEqual((got, body["error"]["code"]), (status, code))
        self.assertEqual((body["error"]["param"], body["error"]["prompt_tokens"]), ("input", 5000))


class Kept(OnResponses):
    def test_next_request_goes_on_from_a_response(self):
        for make in (self.whole, self.streamed):
            first = make("rhm|cHi|bget_weather|a{\"city\": \"Oslo\"}|e|t", instructions="A", tools=[TOOL])
            self.assertEqual(self.told(ask([CALL, OUTPUT]))["messages"][0]["reasoning_gap"], "open")
            told = self.told(ask([{**OUTPUT, "call_id": "call_1"}, said("user", "s")], previous_response_id=first["id"],
                                 instructions="B"))
            self.assertEqual(told["messages"], [
                {"role": "system", "content": "B"},
                {"role": "user", "content": "rhm|cHi|bget_weather|a{\"city\": \"Oslo\"}|e|t"},
                {"role": "assistant", "content": "Hi", "reasoning_content": "hm",
                 "tool_calls": [call("get_weather", '{"city": "Oslo"}', "call_1")]},
                {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}, USER])

    def test_chain_of_three(self):
        a = self.whole("cA|s", instructions="One", input=[said("developer", "stays"), said("user", "cA|s")])
        b = self.whole("cB|s", previous_response_id=a["id"])
        told = self.told(ask("s", previous_response_id=b["id"], instructions="Two"))
        self.assertEqual(told["messages"],
                         [{"role": "system", "content": "Two\n\nstays"}, {"role": "user", "content": "cA|s"},
                          {"role": "assistant", "content": "A"}, {"role": "user", "content": "cB|s"},
                          {"role": "assistant", "content": "B"}, USER])

    def test_reasoning_that_was_told_as_summary_or_token_is_kept(self):
        for fields in ({"reasoning": {"summary": "detailed"}}, {"include": ["reasoning.encrypted_content"]}):
            a = self.whole("rhm|cA|s", **fields)
            self.assertEqual(self.told(ask("s", previous_response_id=a["id"]))["messages"][1]["reasoning_content"],
                             "hm")

    def test_an_answer_that_went_on_with_the_clients_words_is_one_message(self):
        a = self.whole("", input=[said("user", "x"), said("assistant", "so ", kind="output_text")])
        self.assertEqual(self.told(ask("s", previous_response_id=a["id"]))["messages"],
                         [{"role": "user", "content": "x"},
                         {"role": "assistant", "content": "so "}, USER])

    def test_read_again_and_forgotten(self):
        r = self.streamed("rhm|cHi|s", metadata={"k": "v"})
        del r["left_open"]
        self.assertEqual(self.fake.http("GET", f"{PATH}/{r['id']}")[::2], (200, r))
        self.assertEqual(self.fake.http("DELETE", f"{PATH}/{r['id']}")[::2],
                         (200, {"id": r["id"], "object": "response", "deleted": True}))
        for method in ("GET", "DELETE"):
            self.assertEqual(self.fake.http(method, f"{PATH}/{r['id']}")[0], 404)
        self.assertEqual(self.fake.http("POST", PATH, ask("s", previous_response_id=r["id"]))[0], 404)

    def items(self, rid, query=""):
        status, _, page = self.fake.http("GET", f"{PATH}/{rid}/input_items{query}")
        self.assertEqual(status, 200, page)
        return page

    def test_input_items_are_what_was_asked_page_by_page(self):
        a = self.whole("rhm|cA|bget_weather|a{}|e|t", instructions="One",
                       input=[said("developer", "stays"), said("user", "rhm|cA|bget_weather|a{}|e|t")],
                       tools=[TOOL])
        b = self.whole("", input=[{**OUTPUT, "call_id": "call_1"}, said("user", "s")], previous_response_id=a["id"],
                       instructions="Two")
        page = self.items(b["id"], "?order=asc")
        self.assertEqual([(i["type"], i.get("role")) for i in page["data"]],
                         [("message", "system"), ("message", "user"), ("reasoning", None), ("message", "assistant"),
                          ("function_call", None),
                          ("function_call_output", None), ("message", "user")])
        self.assertEqual(page["data"][0]["content"], [{"type": "input_text", "text": "stays"}])
        self.assertEqual(page["data"][4]["arguments"], "{}")
        self.assertEqual((page["data"][5]["call_id"], page["data"][5]["output"]), ("call_1", "sunny"))
        ids = [i["id"] for i in page["data"]]
        self.assertEqual((page["object"], page["first_id"], page["last_id"], page["has_more"]),
                         ("list", ids[0], ids[-1], False))
        self.assertEqual(len(set(ids)), len(ids))
        for order, want in (("asc", ids), ("desc", ids[::-1])):
            got, after = [], ""
            while True:
                page = self.items(b["id"], f"?limit=3&order={order}{after}")
                got += [i["id"] for i in page["data"]]
                if not page["has_more"]:
                    break
                after = f"&after={page['last_id']}"
            self.assertEqual(got, want)
        self.assertEqual([i["id"] for i in self.items(b["id"])["data"]], ids[::-1])
        end = self.items(b["id"], f"?after={ids[0]}")
        self.assertEqual((end["data"], end["first_id"], end["last_id"], end["has_more"]), ([], None, None, False))

    def test_input_items_that_cannot_be_are_refused(self):
        rid = self.whole("cA|s")["id"]
        for path, status, param in ((f"{rid}/input_items?limit=0", 400, "limit"),
                                    (f"{rid}/input_items?limit=101", 400, "limit"),
                                    (f"{rid}/input_items?limit=x", 400, "limit"),
                                    (f"{rid}/input_items?include=x", 400, "include"),
                                    (f"{rid}/input_items?include[]=x", 400, "include"),
                                    (f"{rid}/input_items?before=msg_1", 400, "before"),
                                    (f"{rid}/input_items?order=up", 400, "order"),
                                    (f"{rid}/input_items?after=msg_1", 404, "after"),
                                    ("resp_none/input_items", 404, None), (f"{rid}/other", 404, None)):
            got, _, body = self.fake.http("GET", f"{PATH}/{path}")
            self.assertEqual((got, body["error"]["param"]), (status, param), path)

    def test_any_bytes_are_kept(self):
        a = self.whole("rnul\\0|cď\"\\0|bapply_patch|a{\"input\": \"x\\u0000y\"}|e|t", tools=[PATCH])
        self.assertEqual(self.fake.http("GET", f"{PATH}/{a['id']}")[2], a)
        told = self.told(ask([{"type": "custom_tool_call_output", "call_id": "call_1", "output": "s"}],
                             previous_response_id=a["id"]))
        self.assertEqual(told["messages"][1], {"role": "assistant", "content": "ď\"\0", "reasoning_content": "nul\0",
                                               "tool_calls": [call("apply_patch", {"input": "x\0y"}, "call_1")]})

    def test_not_kept(self):
        ids = [self.whole("cA|s", store=False)["id"], self.streamed("cA|s", store=False)["id"],
               self.streamed("cA|x")["id"], "resp_none",
               self.fake.http("POST", "/v1/chat/completions", {"messages": [USER]})[2]["id"]]
        for rid in ids:
            self.assertEqual(self.fake.http("GET", f"{PATH}/{rid}")[0], 404)
            status, _, body = self.fake.http("POST", PATH, ask("s", previous_response_id=rid))
            self.assertEqual((status, body["error"]["param"], body["error"]["type"]),
                             (404, "previous_response_id", "not_found_error"))
            self.assertIn(rid, body["error"]["message"])

    def test_another_keys_response_is_not_found(self):
        def line(name, key):
            salt = secrets.token_bytes(16)
            return f"{name} sha256${salt.hex()}${hashlib.sha256(salt + key.encode()).hexdigest()}\n"
        with tempfile.NamedTemporaryFile("w") as f:
            os.chmod(f.name, 0o600)
            f.write(line("alice", "a-key") + line("bob", "b-key"))
            f.flush()
            fake = self.enterContext(Fake(keys=f.name))
        alice, bob = ({"Authorization": f"Bearer {k}"} for k in ("a-key", "b-key"))
        r = fake.http("POST", PATH, ask("cA|s"), alice)[2]
        for headers, status in ((alice, 200), (bob, 404), ({}, 401)):
            self.assertEqual(fake.http("POST", PATH, ask("s", previous_response_id=r["id"]), headers)[0], status)
            self.assertEqual(fake.http("GET", f"{PATH}/{r['id']}", None, headers)[0], status)
            self.assertEqual(fake.http("GET", f"{PATH}/{r['id']}/input_items", None, headers)[0], status)
        self.assertEqual(fake.http("DELETE", f"{PATH}/{r['id']}", None, bob)[0], 404)
        self.assertEqual(fake.http("DELETE", f"{PATH}/{r['id']}", None, alice)[0], 200)


if __name__ == "__main__":
    unittest.main()
