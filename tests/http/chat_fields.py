#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The fields of a chat request, as tables: which are refused and by what name, and what the others reach the engine
as."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from fake import Refusing  # noqa: E402

PATH = "/v1/chat/completions"
USER = {"role": "user", "content": "s"}
TOOL = {"type": "function", "function": {"name": "f"}}
NAMED = {"type": "function", "function": {"name": "f"}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def schema(**fields):
    """response_format of a JSON schema, in which these fields are others."""
    return {"response_format":
            {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}, **fields}}}


# (fields that override a good body, the param that the error must name)
WRONG = [
    ({"messages": None}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": ["hi"]}, "messages[0]"),
    ({"messages": [USER, {"content": "x"}]}, "messages[1].role"),
    ({"messages": [{"role": 3, "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": {"text": "x"}}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}, "messages[0].content[0].text"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"role": "user", "content": [{"type": "refusal", "refusal": "No."}]}]},
     "messages[0].content[0].type"),
    ({"messages": [USER, {"role": "assistant", "content": [{"type": "refusal"}]}]}, "messages[1].content[0].refusal"),
    ({"messages": [USER, {"role": "assistant", "reasoning_content": 1}]}, "messages[1].reasoning_content"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": {}}]}, "messages[1].tool_calls"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [1]}]}, "messages[1].tool_calls[0]"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [{**CALL, "id": 1}]}]}, "messages[1].tool_calls[0].id"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [{"id": "c"}]}]}, "messages[1].tool_calls[0].function"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [{"function": {}}]}]},
     "messages[1].tool_calls[0].function.name"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 1}}]}]},
     "messages[1].tool_calls[0].function.arguments"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [{"function": {"name": 'f" x="'}}]}]},
     "messages[1].tool_calls[0].function.name"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [{"function": {"name": ""}}]}]},
     "messages[1].tool_calls[0].function.name"),
    ({"messages": [USER, {"role": "tool", "tool_call_id": 1}]}, "messages[1].tool_call_id"),
    ({"model": 3}, "model"), ({"model": "other"}, "model"),
    ({"temperature": "1"}, "temperature"), ({"temperature": -0.1}, "temperature"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": True}, "temperature"), ({"temperature": [1]}, "temperature"),
    ({"top_p": 1.5}, "top_p"), ({"top_p": "x"}, "top_p"), ({"min_p": -1}, "min_p"),
    ({"top_k": 1.5}, "top_k"), ({"top_k": -2}, "top_k"),
    ({"repetition_penalty": 0}, "repetition_penalty"), ({"presence_penalty": 3}, "presence_penalty"),
    ({"frequency_penalty": "no"}, "frequency_penalty"),
    ({"max_tokens": 0}, "max_tokens"), ({"max_tokens": -7584}, "max_tokens"), ({"max_tokens": "10"}, "max_tokens"),
    ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
    ({"max_completion_tokens": 1 << 40}, "max_completion_tokens"),
    ({"seed": "x"}, "seed"), ({"seed": 1.5}, "seed"),
    ({"n": 17}, "n"), ({"n": 0}, "n"), ({"n": "1"}, "n"),
    ({"stop": 3}, "stop"), ({"stop": ["a", 3]}, "stop[1]"), ({"stop": ""}, "stop"), ({"stop": ["x"] * 17}, "stop"),
    ({"stop": "x" * 1025}, "stop"), ({"stop": {}}, "stop"),
    ({"logit_bias": []}, "logit_bias"), ({"logit_bias": {"x": 1}}, "logit_bias"),
    ({"logit_bias": {"-1": 1}}, "logit_bias"),
    ({"logit_bias": {"999999999": 1}}, "logit_bias"), ({"logit_bias": {"5": "x"}}, "logit_bias.5"),
    ({"logit_bias": {"5": 101}}, "logit_bias.5"),
    ({"logprobs": 1}, "logprobs"), ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"stream": "yes"}, "stream"), ({"stream_options": True}, "stream_options"),
    ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
    ({"tools": {}}, "tools"), ({"tools": ["f"]}, "tools[0]"), ({"tools": [{"type": "retrieval"}]}, "tools[0].type"),
    ({"messages": [{"role": "system", "content": "x", "tools": [TOOL, TOOL]}, USER]},
     "messages[0].tools[1].function.name"),
    ({"messages": [{"role": "system", "content": "x", "tools": [{"function": {"name": "a b"}}]}, USER]},
     "messages[0].tools[0].function.name"),
    ({"tools": [{"type": "function"}]}, "tools[0].function"), ({"tools": [{"function": {}}]}, "tools[0].function.name"),
    ({"tools": [TOOL, {"function": {"name": "a b\">"}}]}, "tools[1].function.name"),
    ({"tools": [TOOL, TOOL]}, "tools[1].function.name"),
    ({"tools": [{"function": {"name": "f", "parameters": "{}"}}]}, "tools[0].function.parameters"),
    ({"tools": [{"function": {"name": "f", "description": 1}}]}, "tools[0].function.description"),
    ({"tool_choice": 1}, "tool_choice"), ({"tool_choice": "maybe"}, "tool_choice"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": "required", "tools": []}, "tool_choice"), ({"tool_choice": {}}, "tool_choice.type"),
    ({"tool_choice": {"type": "tool", "name": "f"}, "tools": [TOOL]}, "tool_choice.type"),
    ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}, "tools": [TOOL]},
     "tool_choice.type"),
    ({"tool_choice": {"type": "required"}}, "tool_choice"), ({"tool_choice": {"type": 1}}, "tool_choice.type"),
    ({"tool_choice": {"type": "function"}, "tools": [TOOL]}, "tool_choice.function"),
    ({"tool_choice": {"type": "function", "name": "f"}, "tools": [TOOL]}, "tool_choice.function"),
    ({"tool_choice": {"type": "function", "function": "f"}, "tools": [TOOL]}, "tool_choice.function"),
    ({"tool_choice": {"type": "function", "function": {}}, "tools": [TOOL]}, "tool_choice.function.name"),
    ({"tool_choice": {"type": "function", "function": {"name": "g"}}, "tools": [TOOL]}, "tool_choice.function.name"),
    ({"tool_choice": NAMED}, "tool_choice.function.name"),
    ({"parallel_tool_calls": 1}, "parallel_tool_calls"),
    ({"thinking": True}, "thinking"), ({"thinking": {}}, "thinking.type"),
    ({"thinking": {"type": "on"}}, "thinking.type"),
    ({"thinking": {"type": 1}}, "thinking.type"),
    ({"chat_template_kwargs": []}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {"thinking": "no"}}, "chat_template_kwargs.thinking"),
    ({"chat_template_kwargs": {"enable_thinking": 0}}, "chat_template_kwargs.enable_thinking"),
    ({"reasoning_effort": "huge"}, "reasoning_effort"), ({"reasoning_effort": 1}, "reasoning_effort"),
    ({"thinking": {"type": "enabled", "budget_tokens": "1"}}, "thinking.budget_tokens"),
    ({"thinking_budget": -2}, "thinking_budget"),
    ({"chat_template_kwargs": {"thinking_budget": 1.5}}, "chat_template_kwargs.thinking_budget"),
    ({"chat_template_kwargs": {"reasoning_effort": "x"}}, "chat_template_kwargs.reasoning_effort"),
    ({"reasoning": "high"}, "reasoning"), ({"reasoning": {"effort": "x"}}, "reasoning.effort"),
    ({"reasoning": {"exclude": True}}, "reasoning.exclude"), ({"enable_thinking": "yes"}, "enable_thinking"),
    ({"response_format": "json"}, "response_format"), ({"response_format": {}}, "response_format.type"),
    ({"response_format": {"type": "xml"}}, "response_format.type"),
    ({"response_format": {"type": 1}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"response_format": {"type": "json_schema", "json_schema": []}}, "response_format.json_schema"),
    (schema(name=None), "response_format.json_schema.name"), (schema(name="a b"), "response_format.json_schema.name"),
    (schema(name=""), "response_format.json_schema.name"), (schema(name="x" * 65), "response_format.json_schema.name"),
    (schema(name=7), "response_format.json_schema.name"), (schema(strict="yes"), "response_format.json_schema.strict"),
    (schema(description=1), "response_format.json_schema.description"),
    (schema(schema=None), "response_format.json_schema.schema"),
    (schema(schema="{}"), "response_format.json_schema.schema"),
    ({"guided_json": "{}"}, "guided_json"), ({"structured_outputs": 1}, "structured_outputs"),
    ({"structured_outputs": {"regex": "a"}}, "structured_outputs.regex"),
    ({"structured_outputs": {"json": 1}}, "structured_outputs.json"),
    ({**schema(), "guided_json": {"type": "object"}}, "guided_json"),
    ({"grammar": "root ::= " + "(" * 60000 + "x" + ")" * 60000}, "grammar"), ({"best_of": 2}, "best_of"),
    ({"best_of": 1, "n": 2}, "best_of"),
    # Fields of other servers that would change the answer: none is passed over in silence.
    *(({name: value}, name) for name, value in (
        ("functions", [{}]), ("function_call", "auto"), ("audio", {"voice": "x"}), ("modalities", ["text", "audio"]),
        ("web_search_options", {"x": 1}), ("chat_template", "{{x}}"), ("documents", [{}]), ("echo", True),
        ("continue_final_message", True), ("add_generation_prompt", False), ("separate_reasoning", False),
        ("include_reasoning", False), ("min_tokens", 5), ("stop_token_ids", [1]), ("allowed_token_ids", [1]),
        ("bad_words", ["x"]),
        ("include_stop_str_in_output", True), ("use_beam_search", True), ("prompt_logprobs", 1),
        ("truncate_prompt_tokens", 9),
        ("return_tokens_as_token_ids", True), ("return_token_ids", True), ("logits_processors", ["x"]),
        ("custom_logit_processor", "x"), ("mirostat", 2), ("xtc_probability", 0.5), ("dry_multiplier", 0.8),
        ("dynatemp_range", 0.5),
        ("n_predict", 5), ("n_probs", 5), ("grammar", "root ::= x"), ("guided_regex", "x"), ("guided_choice", ["a"]),
        ("guided_grammar", "x"), ("regex", "x"), ("ebnf", "x"), ("structural_tag", "{}"), ("typical_p", 0.5),
        ("tfs_z", 0.5),
        ("length_penalty", 1.5), ("skip_special_tokens", False))),
]

# (fields, what of the spec they must become)
RIGHT = [
    ({}, {"thinking": True, "effort": 0, "temperature": 1.0, "top_p": 1.0, "max_tokens": 0, "has_seed": False,
          "label": "http"}),
    ({"temperature": 0, "top_p": 0.5, "min_p": 0.25, "top_k": 7},
     {"temperature": 0.0, "top_p": 0.5, "min_p": 0.25, "top_k": 7}),
    ({"top_k": -1, "max_tokens": 5.0}, {"top_k": 0, "max_tokens": 5}),
    ({"repetition_penalty": 2, "presence_penalty": -1.5, "frequency_penalty": 0.5},
     {"repetition_penalty": 2.0, "presence_penalty": -1.5, "frequency_penalty": 0.5}),
    ({"max_tokens": 9, "max_completion_tokens": 5}, {"max_tokens": 5}),
    ({"max_completion_tokens": 5, "max_tokens": 9}, {"max_tokens": 5}),
    ({"seed": -1}, {"has_seed": True, "seed": -1}), ({"seed": None}, {"has_seed": False}),
    ({"stop": "x"}, {"stop": ["x"]}), ({"stop": ["a", "b,c"]}, {"stop": ["a", "b,c"]}), ({"stop": None}, {"stop": []}),
    ({"logit_bias": {"5": -100, "6": 1.5}}, {"bias": {"5": -100.0, "6": 1.5}}),
    ({"logprobs": True, "top_logprobs": 20}, {"logprobs": True, "top_logprobs": 20}),
    ({"tools": [TOOL]}, {"tools": [TOOL]}), ({"tools": [TOOL], "tool_choice": "auto"}, {"tools": [TOOL]}),
    ({"thinking": {"type": "disabled"}}, {"thinking": False}), ({"thinking": {"type": "enabled"}}, {"thinking": True}),
    ({"chat_template_kwargs": {"thinking": False}}, {"thinking": False}),
    ({"chat_template_kwargs": {"enable_thinking": False}}, {"thinking": False}),
    ({"reasoning_effort": "none"}, {"thinking": False}),
    ({"reasoning_effort": "low"}, {"thinking": True, "effort": 1}), ({"reasoning_effort": "medium"}, {"effort": 1}),
    ({"reasoning_effort": "high"}, {"effort": 1}), ({"reasoning_effort": "xhigh"}, {"effort": 2}),
    ({"reasoning_effort": "max"}, {"effort": 2}), ({"reasoning_effort": None}, {"thinking": True, "effort": 0}),
    ({"reasoning_effort": "max", "thinking": {"type": "disabled"}}, {"thinking": False}),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "sone"}, {"type": "text", "text": "two"}]}]},
     {"messages": [{"role": "user", "content": "sone\n\ntwo"}]}),
    ({"messages": [USER, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, USER]},
     {"messages": [USER, {"role": "assistant", "content": "No."}, USER]}),
    ({"tools": [TOOL], "tool_choice": "required"}, {"tools": [TOOL], "calls": "required"}),
    ({"tools": [TOOL], "tool_choice": NAMED}, {"tools": [TOOL], "calls": "named", "function": "f"}),
    ({"tools": [TOOL], "tool_choice": {"type": "auto"}}, {"tools": [TOOL], "calls": "auto"}),
    ({"tools": [TOOL], "tool_choice": {"type": "none"}}, {"tools": None, "calls": "none"}),
    ({"tools": [TOOL], "tool_choice": {"type": "required"}}, {"tools": [TOOL], "calls": "required"}),
    ({"messages": [{"role": "system", "tools": [TOOL], "content": "x"}, USER], "tool_choice": NAMED},
     {"calls": "named", "function": "f"}),
    ({"tool_choice": "none"}, {"calls": "none"}), ({"tool_choice": "auto"}, {"calls": "auto"}),
    ({"tool_choice": None}, {"calls": "auto"}),
    ({"tools": [TOOL], "parallel_tool_calls": False}, {"one_call": True, "calls": "auto"}),
    ({"tools": [TOOL], "parallel_tool_calls": True}, {"one_call": False}), ({"tools": [TOOL]}, {"one_call": False}),
    ({"response_format": {"type": "text"}}, {"format": "text", "schema": None}),
    ({"response_format": {"type": "json_object"}}, {"format": "json_object", "schema": None}),
    (schema(), {"format": "json_schema", "schema": {"type": "object"}}),
    (schema(strict=None), {"format": "json_schema"}),
    (schema(strict=False, description="x"), {"format": "json_schema", "schema": {"type": "object"}}),
    *((fields, {"format": "json_schema", "schema": {"type": "object"}}) for fields in (
        {"response_format": {"type": "json_object", "schema": {"type": "object"}}}, {"guided_json": {"type": "object"}},
        {"json_schema": {"type": "object"}}, {"structured_outputs": {"json": {"type": "object"}}})),
    ({"structured_outputs": {"json_object": True}}, {"format": "json_object"}),
    *((fields, {"thinking": True, "max_reasoning": 100}) for fields in (
        {"thinking": {"type": "enabled", "budget_tokens": 100}}, {"thinking": {"budget_tokens": 100}},
        {"thinking_budget": 100},
        {"thinking_token_budget": 100}, {"thinking_budget_tokens": 100}, {"reasoning": {"max_tokens": 100}},
        {"chat_template_kwargs": {"thinking_budget": 100}},
        {"thinking_budget": 7, "thinking": {"type": "auto", "budget_tokens": 100}})),
    ({"thinking_budget": 0}, {"thinking": False, "max_reasoning": 0}),
    ({"thinking_budget": -1}, {"thinking": True, "max_reasoning": 0}),
    ({"thinking": {"type": "disabled", "budget_tokens": 100}}, {"thinking": False}),
    ({"reasoning_effort": "none", "thinking": {"type": "adaptive"}}, {"thinking": False}),
    ({"reasoning": {"effort": "xhigh"}}, {"thinking": True, "effort": 2}),
    ({"reasoning": {"enabled": False}}, {"thinking": False}),
    ({"reasoning_effort": "none", "enable_thinking": True}, {"thinking": True}),
    ({"enable_thinking": False}, {"thinking": False}),
    ({"chat_template_kwargs": {"reasoning_effort": "max"}}, {"effort": 2}),
    # What other servers' fields mean here anyway.
    ({"min_tokens": 0, "stop_token_ids": [], "use_beam_search": False, "length_penalty": 1.0, "best_of": 1,
      "skip_special_tokens": True,
      "modalities": ["text"], "add_generation_prompt": True, "echo": False, "typical_p": 1, "guided_json": None,
      "bad_words": None,
      "spaces_between_special_tokens": True, "include_reasoning": True}, {"format": "text", "max_tokens": 0}),
    ({"n": 3, "best_of": 3, "seed": 5}, {"seed": 7}),
    ({"store": True, "user": 7, "metadata": {"x": 1}, "made_up": [1], "response_format": {"type": "text"}, "n": 1,
      "parallel_tool_calls": True, "functions": None, "verbosity": "low", "service_tier": "auto",
      "prompt_cache_key": "x"}, {"thinking": True}),
]


class Chat(Refusing):
    def test_wrong_fields(self):
        for fields, param in WRONG:
            for stream in (False, True) if "stream" not in fields else (None,):
                body = {"messages": [USER], "stream": stream, **fields}
                with self.subTest(fields=fields):
                    e = self.refused(404 if param == "model" and fields["model"] == "other" else 400,
                                     *self.fake.http("POST", PATH, body))
                    self.assertEqual(e["param"], param)
                    self.assertIn(param, e["message"])
        self.assertEqual(self.fake.command("counts"), "0 0")

    def test_right_fields(self):
        for fields, want in RIGHT:
            with self.subTest(fields=fields):
                status, _, body = self.fake.http("POST", PATH, {"messages": [USER], **fields})
                self.assertEqual(status, 200, body)
                last = json.loads(self.fake.command("last"))
                self.assertEqual({k: last.get(k) for k in want}, want)

    def test_tool_choice_none_hides_the_tools(self):
        self.fake.http("POST", PATH, {"messages": [USER], "tools": [TOOL], "tool_choice": "none"})
        last = json.loads(self.fake.command("last"))
        self.assertNotIn("tools", last)
        self.assertEqual(last["calls"], "none")

    def test_error_of_the_engine_names_the_schema_where_it_stands(self):
        for fields, path in ((schema(), "response_format.json_schema.schema"),
                             ({"guided_json": {"a": 1}}, "guided_json"),
                             ({"structured_outputs": {"json": {"a": 1}}}, "structured_outputs.json")):
            for given, named in (("schema", path), ("schema.properties.a-b.$ref", path + ".properties.a-b.$ref")):
                with self.subTest(fields=fields, given=given):
                    e = self.refused(400, *self.fake.http("POST", PATH,
                                                          {"messages": [{"role": "user", "content": "I" + given}],
                                                           **fields}))
                    self.assertEqual(e["param"], named)
                    self.assertTrue(e["message"].startswith(named + ": "), e["message"])

    def test_history_without_its_reasoning_is_filled_in_or_marked(self):
        def said(reasoning, *ids, **fields):
            calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
            return {"role": "assistant", "content": None, **({"tool_calls": calls} if ids else {}), **reasoning,
                    **fields}
        missing, filled, none = {"reasoning_gap": "open"}, {"reasoning_content": "as I thought",
                                                            "reasoning_gap": "filled"}, {}
        for given, ids, want in (({}, ["call_known"], filled), ({}, ["x", "call_known"], filled),
                                 ({"reasoning_content": None}, ["call_known"], filled),
                                 ({}, ["call_plain"], none), ({}, ["call_other"], missing),
                                 ({"reasoning_content": None}, ["x", "y"], missing),
                                 ({"reasoning_content": "mine"}, ["call_known"], none),
                                 ({"reasoning": "mine"}, ["call_known"], none),
                                 ({"reasoning_content": ""}, ["call_known"], none), ({}, [], none)):
            with self.subTest(given=given, ids=ids):
                history = [USER, said(given, *ids), *({"role": "tool", "tool_call_id": i, "content": "x"} for i in ids),
                           USER]
                status, _, body = self.fake.http("POST", PATH, {"messages": history, "tools": [TOOL]})
                self.assertEqual(status, 200, body)
                self.assertEqual(json.loads(self.fake.command("last"))["messages"],
                                 [USER, said({**given, **want}, *ids), *history[2:]])
        # Who does not think is shown no reasoning: nothing is missing.
        self.fake.http("POST", PATH,
                       {"messages": [USER, said({}, "call_known"), USER], "thinking": {"type": "disabled"}})
        self.assertEqual(json.loads(self.fake.command("last"))["messages"][1], said({}, "call_known"))


if __name__ == "__main__":
    unittest.main()
