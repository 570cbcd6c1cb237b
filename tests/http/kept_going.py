#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a history holds because a model or a tool once said it: it is sent again with every request, so that refusing it
would end the conversation. Every protocol takes it, and what is compared is the prompt that the model would see."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from fake import Fake  # noqa: E402

USER = {"role": "user", "content": "s"}
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"


def chat_call(arguments="{}"):
    return {"role": "assistant", "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}]}


def chat(said="x", gave="ok", arguments="{}"):
    return CHAT, {"messages": [USER, {"role": "assistant", "content": said}, USER, chat_call(arguments),
                               {"role": "tool", "tool_call_id": "c", "content": gave}, USER],
                  "thinking": {"type": "disabled"}}


def anthropic(said="x", gave="ok", arguments=None):
    use = {"type": "tool_use", "id": "c", "name": "f", "input": arguments or {}}
    return MESSAGES, {"model": "fake", "max_tokens": 9, "messages": [
        USER, {"role": "assistant", "content": said}, USER, {"role": "assistant", "content": [use]},
        {"role": "user",
         "content": [{"type": "tool_result", "tool_use_id": "c", "content": gave}, {"type": "text", "text": "s"}]}]}


def responses(said="x", gave="ok", arguments="{}"):
    return RESPONSES, {"reasoning": {"effort": "none"}, "input": [
        USER, {"role": "assistant", "content": said}, USER,
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments},
        {"type": "function_call_output", "call_id": "c", "output": gave}, USER]}


PROMPT = ("<｜begin▁of▁sentence｜><｜User｜>s<｜Assistant｜></think>%s<｜end▁of▁sentence｜><｜User｜>s<｜Assistant｜></think>"
          "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke "
          "name=\"f\">\n%s\n</｜DSML｜invoke>\n</｜DSML｜tool_calls><｜end▁of▁sentence｜>"
          "<｜User｜><tool_result>%s</tool_result>\n\ns<｜Assistant｜></think>")
PARAMETER = '<｜DSML｜parameter name="a" string="true">%s</｜DSML｜parameter>'


class KeptGoing(unittest.TestCase):
    def setUp(self):
        self.fake = self.enterContext(Fake())

    def prompt(self, path, body):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, _, answer = self.fake.http("POST", path, raw)
        self.assertEqual(status, 200, answer)
        told = json.loads(self.fake.command("last"))
        status, _, shown = self.fake.http("POST", "/apply-template",
                                          {"messages": told["messages"], "enable_thinking": told["thinking"]})
        self.assertEqual(status, 200, shown)
        return shown["prompt"]

    def test_a_nul_that_the_model_said_can_be_sent_back(self):
        for make in (chat, anthropic, responses):
            with self.subTest(make.__name__):
                self.assertEqual(self.prompt(*make("a\0b", "c\0")), PROMPT % ("a\ufffdb", "", "c\ufffd"))
        for make, arguments in ((chat, json.dumps({"a": "x\0"})), (responses, json.dumps({"a": "x\0"}))):
            with self.subTest(make.__name__):  # JSON in JSON is not touched
                self.assertEqual(self.prompt(*make(arguments=arguments)), PROMPT % ("x", PARAMETER % "x\0", "ok"))
        self.assertEqual(self.prompt(*anthropic(arguments={"a": "x\0"})), PROMPT % ("x", PARAMETER % "x\ufffd", "ok"))

    def test_an_answer_with_a_nul_is_taken_as_it_came(self):
        _, _, answer = self.fake.http("POST", CHAT, {"messages": [{"role": "user", "content": "rnul\\0|ca\\0|s"}]})
        message = answer["choices"][0]["message"]
        self.assertEqual((message["content"], message["reasoning_content"]), ("a\0", "nul\0"))
        self.assertIn("a\ufffd<", self.prompt(CHAT, {"messages": [USER, message, USER]}))

    def test_half_a_character_is_taken(self):
        for text, want in (("\\ud800", "\ufffd"), ("\\udc00", "\ufffd"), ("\\uD83D\\uDE00", "\U0001f600"),
                           ("\\ud800\\ud83d\\ude00", "\ufffd\U0001f600"),
                           ("\\ud800x", "\ufffdx"), ("\\ud800\\n", "\ufffd\n"), ("\\\\ud800", "\\ud800"),
                           ("\\\\u0000", "\\u0000"),
                           ("\\u0000\\u0001", "\ufffd\x01"), ("\\u00000", "\ufffd0")):
            with self.subTest(text=text):
                path, body = chat("@")
                raw = json.dumps(body).encode().replace(b"@", text.encode())
                self.assertEqual(self.prompt(path, raw), PROMPT % (want, "", "ok"))

    def test_a_picture_that_a_tool_gave_is_mentioned(self):
        text = {"type": "text", "text": "see"}
        source = {"type": "base64", "media_type": "image/png", "data": "AA=="}
        for path, body in (chat(gave=[text, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]),
                           anthropic(gave=[text, {"type": "image", "source": source}]),
                           responses(gave=[{"type": "input_text", "text": "see"},
                                           {"type": "input_image", "image_url": "data:image/png;base64,AA=="}])):
            with self.subTest(path):
                self.assertEqual(self.prompt(path, body), PROMPT % ("x", "", "see\n\n[Unsupported image]"))
        for make in (chat, responses):
            with self.subTest(make.__name__):
                self.assertEqual(self.prompt(*make(gave=[{"type": "input_file", "file_id": "f"}])),
                                 PROMPT % ("x", "", "[Unsupported input_file]"))

    def test_a_picture_elsewhere_is_refused(self):
        picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
        for path, body in ((CHAT, {"messages": [picture]}),
                           (RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_image"}]}]})):
            self.assertEqual(self.fake.http("POST", path, body)[0], 400)

    def test_no_arguments_are_an_empty_object(self):
        for make in (chat, responses):
            with self.subTest(make.__name__):
                self.assertEqual(self.prompt(*make(arguments="")), PROMPT % ("x", "", "ok"))

    def test_arguments_that_are_no_object_are_text_like_those_that_are_no_json(self):
        whole = '<｜DSML｜parameter name="arguments" string="true">%s</｜DSML｜parameter>'
        for arguments in ("{cut", "null", "[1]", "3", '"x"', "[" * 1000 + "]" * 1000, '{"a":' * 600 + "1" + "}" * 600):
            for make in (chat, responses):
                with self.subTest(make=make.__name__, arguments=arguments[:9]):
                    self.assertEqual(self.prompt(*make(arguments=arguments)), PROMPT % ("x", whole % arguments, "ok"))

    def test_a_refusal_is_what_was_said(self):
        for said, want in (({"content": None, "refusal": "No."}, "No."), ({"content": "", "refusal": "No."}, "No."),
                           ({"content": "Well.", "refusal": "No."}, "Well.\n\nNo."),
                           ({"content": "Yes.", "refusal": ""}, "Yes."),
                           ({"content": [{"type": "refusal", "refusal": "No."}], "refusal": None}, "No.")):
            with self.subTest(said=said):
                path, body = chat()
                body["messages"][1] = {"role": "assistant", **said}
                self.assertEqual(self.prompt(path, body), PROMPT % (want, "", "ok"))

    def test_large_integers_of_a_tool_s_schema_are_reals(self):
        tool = (b'{"type":"function","function":{"name":"f","parameters":{"maximum":18446744073709551615,'
                b'"minimum":-9223372036854775808,"default":123}}}')
        raw = b'{"messages":[{"role":"user","content":"s"}],"tools":[' + tool + b"]}"
        status, _, answer = self.fake.http("POST", CHAT, raw)
        self.assertEqual(status, 200, answer)
        told = json.loads(self.fake.command("last"))["tools"][0]["function"]["parameters"]
        self.assertEqual(told, {"maximum": 18446744073709551615.0, "minimum": -(1 << 63), "default": 123})
        self.assertEqual([type(v) for v in told.values()], [float, int, int])


if __name__ == "__main__":
    unittest.main()
