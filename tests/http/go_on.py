#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Conversations that end with the assistant's words, in every protocol: the answer goes on with them, or the request is
refused. What is compared is the prompt that the model would see."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from fake import Fake  # noqa: E402

# The last message's text is the script that the engine follows.
BEGIN = "<｜begin▁of▁sentence｜><｜User｜>s<｜Assistant｜>"
USER = {"role": "user", "content": "s"}
FORM = {"name": "x", "schema": {"type": "object"}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def chat(*last, **fields):
    return "/v1/chat/completions", {"messages": [USER, *last], **fields}


def anthropic(*content, **fields):
    return "/v1/messages", {"model": "fake", "max_tokens": 9,
                            "messages": [USER, *({"role": "assistant", "content": c} for c in content)], **fields}


def responses(*items, **fields):
    return "/v1/responses", {"input": [USER, *items], **fields}


def said(text, **fields):
    return {"role": "assistant", "content": text, **fields}


def thinking(text):
    return {"type": "thinking", "thinking": text, "signature": ""}


def summary(text):
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}


ON, OFF, NONE = {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}, {"reasoning": {"effort": "none"}}
# (request, the prompt after BEGIN)
RIGHT = [
    (chat(said("cThe")), "<think></think>cThe"),
    (chat(said("cThe"), **OFF), "</think>cThe"),
    (chat(said("cThe", prefix=True), **OFF), "</think>cThe"),
    (chat(said("cThe", prefix=True, reasoning_content="hm")), "<think>hm</think>cThe"),
    (chat(said([{"type": "text", "text": "cThe"}]), **OFF), "</think>cThe"),
    (anthropic("cThe"), "</think>cThe"),
    (anthropic([thinking("hm"), {"type": "text", "text": "cThe"}], **ON), "<think>hm</think>cThe"),
    (responses(said("cThe"), **NONE), "</think>cThe"),
    (responses(summary("hm"), said("cThe")), "<think>hm</think>cThe"),
    # After reasoning alone comes the content.
    (chat(said(None, reasoning_content="hm")), "<think>hm</think>"),
    (chat(said("", reasoning="hm"), **OFF), "</think>"),
    (anthropic([thinking("hm")], **ON), "<think>hm</think>"),
    (anthropic([thinking("hm")]), "</think>"),
    (responses(summary("hm")), "<think>hm</think>"),
    (responses(summary("hm"), **NONE), "</think>"),
    # Nothing was said: a new answer, which begins with its reasoning.
    (chat(said("")), "<think>"),
    (chat(said(None), said("")), "<think>"),
    (chat(said(""), **OFF), "</think>"),
    (anthropic("", **ON), "<think>"),
    (anthropic([]), "</think>"),
    (anthropic([{"type": "text", "text": ""}], **ON), "<think>"),
    (responses(said("")), "<think>"),
    (responses(said([{"type": "output_text", "text": ""}]), {"type": "reasoning", "summary": []}), "<think>"),
]

SYSTEM = {"role": "system", "content": "x"}
TOOL = {"tools": [{"type": "function", "function": {"name": "f"}}]}
# (request, the param that the refusal names)
WRONG = [
    (chat(said("{"), response_format={"type": "json_object"}), "messages[1].content"),
    (chat(said("{", prefix=True), response_format={"type": "json_schema", "json_schema": FORM}), "messages[1].content"),
    (chat(said("{"), tool_choice="required", **TOOL), "messages[1].content"),
    (chat(said("{"), tool_choice={"type": "function", "function": {"name": "f"}}, **TOOL), "messages[1].content"),
    (chat(said("x", tool_calls=[CALL]), **TOOL), "messages[1].tool_calls"),
    (chat({**USER, "prefix": True}), "messages[1].prefix"),
    (chat(said("x", prefix=1)), "messages[1].prefix"),
    (chat(said("cThe", prefix=True), USER), "messages[1].prefix"),
    (("/v1/chat/completions", {"messages": [SYSTEM]}), "messages[0].role"),
    (("/v1/chat/completions", {"messages": [SYSTEM, SYSTEM, said("")]}), "messages[1].role"),
    (("/v1/chat/completions", {"messages": [{"role": "latest_reminder", "content": "x"}]}), "messages[0].role"),
    (chat(SYSTEM), "messages[1].role"),
    (chat(said("x"), {"role": "latest_reminder", "content": "x"}), "messages[2].role"),
    (("/apply-template", {"messages": [SYSTEM]}), "messages[0].role"),
    (("/v1/responses", {"input": [SYSTEM]}), "input[0]"),
    (("/v1/responses", {"input": [{"role": "developer", "content": "x"}], "instructions": "y"}), "instructions"),
    (("/v1/chat/completions", {"messages": [said("")]}), "messages[0].content"),
    (anthropic("{", output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}}), "messages[1]"),
    (anthropic("{", tools=[{"name": "f", "input_schema": {"type": "object"}}], tool_choice={"type": "any"}),
     "messages[1]"),
    (responses(said("{"), text={"format": {"type": "json_object"}}), "input[1]"),
    (responses(said("{"), tools=[{"type": "function", "name": "f"}], tool_choice="required"), "input[1]"),
]


class GoOn(unittest.TestCase):
    def setUp(self):
        self.fake = self.enterContext(Fake())

    def test_a_last_message_of_the_assistant_is_gone_on_with(self):
        for (path, body), want in RIGHT:
            with self.subTest(path=path, body=body):
                status, _, answer = self.fake.http("POST", path, body)
                self.assertEqual(status, 200, answer)
                told = json.loads(self.fake.command("last"))
                status, _, shown = self.fake.http("POST", "/apply-template",
                                                  {"messages": told["messages"], "enable_thinking": told["thinking"]})
                self.assertEqual((status, shown.get("prompt")), (200, BEGIN + want))

    def test_chat_s_own_template_is_the_same(self):
        for (path, body), want in RIGHT:
            if path == "/v1/chat/completions":
                with self.subTest(body=body):
                    self.assertEqual(self.fake.http("POST", "/apply-template", body)[2]["prompt"], BEGIN + want)

    def test_what_cannot_be_gone_on_with_is_refused_by_its_name(self):
        for (path, body), param in WRONG:
            with self.subTest(path=path, body=body):
                status, _, answer = self.fake.http("POST", path, body)
                self.assertEqual(status, 400, answer)
                self.assertIn(param, answer["error"]["message"])
                self.assertEqual(answer["error"].get("param", param), param)
        self.assertEqual(self.fake.command("counts"), "0 0")

    def test_a_form_after_reasoning_alone_is_taken(self):
        path, body = chat(said(None, reasoning_content="hm"), response_format={"type": "json_object"})
        self.assertEqual(self.fake.http("POST", path, body)[0], 200)

    def test_a_reminder_after_a_question_is_taken(self):
        path, body = chat({"role": "latest_reminder", "content": "s"})
        self.assertEqual(self.fake.http("POST", path, body)[0], 200)


if __name__ == "__main__":
    unittest.main()
