#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Answers that must have a form, with the official openai client against the real daemon on the tiny model: forced
calls, JSON, reasoning with a bound."""
import enum
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import need  # noqa: E402
from daemon import Daemon  # noqa: E402
from plugins import sanitizer  # noqa: E402

openai = need("openai")
pydantic = need("pydantic")

HELLO = [{"role": "user", "content": "Hello"}]
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather for a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
                   "additionalProperties": False}}}
WRITE = {"type": "function", "function": {
    "name": "write_file", "description": "Write text to a file",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
                   "required": ["path", "content"], "additionalProperties": False}}}
NAMED = {"type": "function", "function": {"name": "write_file"}}
OFF = {"thinking": {"type": "disabled"}}
SAMPLES = 3 if sanitizer() else 8
daemon = None


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


class Trip(pydantic.BaseModel):
    city: str = pydantic.Field(max_length=12)
    nights: int = pydantic.Field(ge=1, le=9)
    mood: Mood
    notes: list[bool] = pydantic.Field(max_length=2)


def setUpModule():
    global daemon
    daemon = Daemon().start()
    unittest.addModuleCleanup(daemon.__exit__, None, None, None)


class OnDaemon(unittest.TestCase):
    def setUp(self):
        self.client = daemon.openai()
        self.addCleanup(self.client.close)

    def settings(self, extra=None, **kw):
        return {"model": "tiny", "messages": HELLO, "temperature": 0, "max_tokens": 200, "extra_body": extra, **kw}

    def chat(self, extra=None, **kw):
        return self.client.chat.completions.create(**self.settings(extra, **kw))


class Calls(OnDaemon):
    def check(self, choice, names):
        self.assertEqual(choice.finish_reason, "tool_calls")
        self.assertEqual([c.function.name for c in choice.message.tool_calls], names)
        for c in choice.message.tool_calls:
            self.assertEqual(sorted(json.loads(c.function.arguments)),
                             {"get_weather": ["city"], "write_file": ["content", "path"]}[c.function.name])
        self.assertNotIn("DSML", choice.message.content or "")

    def test_required_and_named_though_nothing_asks_for_it(self):
        for extra in (None, OFF):
            self.assertIsNone(self.chat(extra, tools=[WEATHER]).choices[0].message.tool_calls)
            self.check(self.chat(extra, tools=[WEATHER], tool_choice="required").choices[0], ["get_weather"])
            c = self.chat(extra, tools=[WEATHER, WRITE], tool_choice=NAMED).choices[0]
            self.check(c, ["write_file"])
            self.assertEqual(bool(getattr(c.message, "reasoning_content", None)), extra is None)

    def test_stream_equals_whole(self):
        for kw in ({"tool_choice": "required"}, {"tool_choice": NAMED, "tools": [WEATHER, WRITE]}):
            kw = {"tools": [WEATHER], **kw}
            whole = self.chat(**kw).choices[0].message
            with self.client.chat.completions.stream(**self.settings(**kw)) as s:
                deltas = [e.arguments_delta for e in s if e.type == "tool_calls.function.arguments.delta"]
                final = s.get_final_completion().choices[0]
            self.assertEqual(final.finish_reason, "tool_calls")
            self.assertGreater(len(deltas), 1)  # while they are generated; a slow reader gets several at once
            self.assertEqual([(c.function.name, c.function.arguments) for c in final.message.tool_calls],
                             [(c.function.name, c.function.arguments) for c in whole.tool_calls])

    def test_one_call_and_choices(self):
        for c in self.chat(tools=[WEATHER, WRITE], tool_choice="required", parallel_tool_calls=False, n=2, seed=4,
                           temperature=1.5).choices:
            self.assertEqual(c.finish_reason, "tool_calls")
            self.assertEqual(len(c.message.tool_calls), 1)

    def test_a_forced_call_that_is_cut_off_is_none(self):
        whole = self.chat(OFF, tools=[WEATHER], tool_choice="required").usage.completion_tokens
        for n in (1, whole // 2, whole - 9):
            c = self.chat(OFF, tools=[WEATHER], tool_choice="required", max_tokens=n).choices[0]
            self.assertEqual((c.finish_reason, c.message.tool_calls), ("length", None), n)
            self.assertNotIn("DSML", c.message.content or "")

    def test_refusals(self):
        for kw, param in (({"tools": [WEATHER], "tool_choice": NAMED}, "tool_choice.function.name"),
                          ({"tool_choice": "required"}, "tool_choice"),
                          ({"tools": [WEATHER], "tool_choice": "required", "extra": {"ignore_eos": True}},
                           "ignore_eos")):
            with self.assertRaises(openai.BadRequestError) as e:
                self.chat(**kw)
            self.assertEqual(e.exception.param, param)

    def test_ignore_eos_with_a_form_says_why(self):
        for kw in ({"response_format": {"type": "json_object"}}, {"tools": [WEATHER], "tool_choice": "required"}):
            with self.assertRaises(openai.BadRequestError) as e:
                self.chat({"ignore_eos": True}, **kw)
            self.assertEqual(e.exception.param, "ignore_eos")
            self.assertIn("once that is whole nothing but the end may follow", e.exception.message)


class Formats(OnDaemon):
    def test_a_model_comes_back(self):
        for extra in (None, OFF):
            m = self.client.chat.completions.parse(**self.settings(extra), response_format=Trip).choices[0].message
            self.assertIsInstance(m.parsed, Trip)
            self.assertEqual(bool(getattr(m, "reasoning_content", None)),
                             extra is None)  # the JSON is in the content alone
            self.assertEqual(m.content.strip()[:1], "{")

    def test_samples_of_it_too(self):
        r = self.client.chat.completions.parse(**self.settings(OFF, n=SAMPLES, seed=1, **{"temperature": 1.5}),
                                               response_format=Trip)
        self.assertEqual([type(c.message.parsed) for c in r.choices], [Trip] * SAMPLES)
        self.assertGreater(len({c.message.content for c in r.choices}), 1)

    def test_a_stream_of_it(self):
        whole = self.client.chat.completions.parse(**self.settings(), response_format=Trip).choices[0].message.content
        with self.client.chat.completions.stream(**self.settings(), response_format=Trip) as s:
            text = "".join(e.delta for e in s if e.type == "content.delta")
            self.assertEqual(s.get_final_completion().choices[0].message.parsed, Trip.model_validate_json(text))
        self.assertEqual(text, whole)

    def test_any_object(self):
        for extra, form in ((None, {"type": "json_object"}), (OFF, {"type": "json_object"})):
            c = self.chat(extra, response_format=form, max_tokens=30).choices[0]
            self.assertEqual(c.message.content.lstrip()[:1], "{")
            if c.finish_reason == "stop":
                self.assertIsInstance(json.loads(c.message.content), dict)
            else:
                self.assertEqual(c.finish_reason, "length")

    def test_stop_strings_hold_in_it(self):
        c = self.chat(OFF, response_format={"type": "json_object"}, max_tokens=30, stop=['"']).choices[0]
        self.assertEqual((c.message.content.strip(), c.finish_reason), ("{", "stop"))

    def test_what_is_wrong_with_a_schema_is_named_where_it_stands(self):
        def form(schema):
            return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        at = "response_format.json_schema.schema"
        for schema, param in (({"type": "objekt"}, at + ".type"),
                              ({"type": "object", "properties": {"a": {"not": {}}}}, at + ".properties.a.not"),
                              ({"$ref": "#/$defs/x"}, at + ".$ref")):
            with self.assertRaises(openai.BadRequestError) as e:
                self.chat(response_format=form(schema))
            self.assertEqual(e.exception.param, param)
            self.assertIn(param, e.exception.message)
        with self.assertRaises(openai.BadRequestError):
            self.chat(response_format=form({"allOf": [{"$ref": "#"}]}))
        with self.assertRaises(openai.APIStatusError) as e:  # 60,000 groups in each other
            self.chat(response_format=form({"type": "string", "pattern": "(" * 60000 + ")" * 60000}))
        self.assertEqual((e.exception.status_code // 100, e.exception.param), (4, at + ".pattern"))


class Budgets(OnDaemon):
    def test_the_reasoning_ends_and_the_answer_comes(self):
        free = self.chat().usage.completion_tokens_details.reasoning_tokens
        self.assertGreater(free, 4)
        for extra in ({"thinking": {"type": "enabled", "budget_tokens": 3}}, {"thinking_budget": 3},
                      {"chat_template_kwargs": {"thinking_budget": 3}}):
            r = self.chat(extra)
            self.assertEqual((r.usage.completion_tokens_details.reasoning_tokens, r.choices[0].finish_reason),
                             (3, "stop"))
            self.assertTrue(r.choices[0].message.content)
        self.assertEqual(self.chat({"thinking_budget": free + 50}).usage.completion_tokens_details.reasoning_tokens,
                         free)
        self.assertEqual(self.chat({"thinking_budget": 0}).usage.completion_tokens_details.reasoning_tokens, 0)

    def test_with_a_form(self):
        m = self.client.chat.completions.parse(**self.settings({"thinking_budget": 3}),
                                               response_format=Trip).choices[0].message
        self.assertIsInstance(m.parsed, Trip)
        c = self.chat({"thinking_budget": 3}, tools=[WEATHER], tool_choice="required")
        self.assertEqual((c.choices[0].finish_reason, c.usage.completion_tokens_details.reasoning_tokens),
                         ("tool_calls", 3))


if __name__ == "__main__":
    unittest.main()
