#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Bodies as large as they may be, of the kinds that cost the most to read: each is answered, and with what it says.
None is timed: what grows with the square of a body does not end within a client's patience."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from fake import Fake  # noqa: E402

MAX_BODY = 8 << 20
ITEMS = 16000
LONG = "x" * 400
USER = {"role": "user", "content": "s"}
RESPONSES, MESSAGES, CHAT = "/v1/responses", "/v1/messages", "/v1/chat/completions"


class WorstBodies(unittest.TestCase):
    def setUp(self):
        self.fake = self.enterContext(Fake(max_body=MAX_BODY))

    def told(self, path, body):
        """The messages that the engine is given."""
        status, _, reply = self.fake.http("POST", path, body)
        self.assertEqual(status, 200, str(reply)[:300])
        return json.loads(self.fake.command("last"))["messages"]

    def test_thousands_of_developer_items_are_one_message(self):
        got = self.told(RESPONSES, {"input": [{"role": "developer", "content": LONG}] * ITEMS + [USER]})
        self.assertEqual(got, [{"role": "system", "content": "\n\n".join([LONG] * ITEMS)}, USER])

    def test_thousands_of_system_messages_are_one(self):
        got = self.told(MESSAGES,
                        {"model": "claude-x", "max_tokens": 1, "messages": [{"role": "system", "content": LONG}] * ITEMS
                         + [USER]})
        self.assertEqual(got, [{"role": "system", "content": "\n\n".join([LONG] * ITEMS)}, USER])

    def test_thousands_of_assistants_items_are_one_message(self):
        for path, fields in ((RESPONSES, {}), (MESSAGES, {"model": "claude-x", "max_tokens": 1})):
            talk = [USER, *[{"role": "assistant", "content": LONG}] * ITEMS, USER]
            got = self.told(path, {("input" if path == RESPONSES else "messages"): talk, **fields})
            self.assertEqual(len(got), 3)
            self.assertEqual(len(got[1]["content"]), ITEMS * len(LONG))

    def test_thousands_of_parts_are_one_text(self):
        part = {"type": "text", "text": LONG}
        got = self.told(CHAT, {"messages": [{"role": "user", "content": [part] * ITEMS}, USER]})
        self.assertGreaterEqual(len(got[0]["content"]), ITEMS * len(LONG))

    def test_thousands_of_messages_that_name_one_call(self):
        said = {"role": "assistant", "content": "",
                "tool_calls": [{"id": "call_x", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
        got = self.told(CHAT,
                        {"messages": [said, {"role": "tool", "tool_call_id": "call_x", "content": "x"}] * (ITEMS // 2)
                         + [USER]})
        self.assertEqual(got[0], {**said, "reasoning_gap": "open"})
        self.assertEqual(len(got), ITEMS + 1)


if __name__ == "__main__":
    unittest.main()
