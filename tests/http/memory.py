#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What clients made the daemon hold is given back when they have gone."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from daemon import Daemon  # noqa: E402
from plugins import sanitizer, until  # noqa: E402

CHAT = "/v1/chat/completions"
MIB = 1 << 20


def anonymous(d):
    with open(f"/proc/{d.process.pid}/status", encoding="utf-8") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("RssAnon:")) * 1024


class Memory(unittest.TestCase):
    @unittest.skipIf(sanitizer(), "a sanitizer keeps what is freed, on purpose")
    def test_the_heap_shrinks_after_large_bodies(self):
        with Daemon() as d:
            small = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
            for _ in range(4):
                self.assertEqual(d.http("POST", CHAT, small)[0], 200)
            start = anonymous(d)
            # One long text, and a hundred thousand small values.
            for junk in ("J" * 7 * MIB, [[i] for i in range(100000)]):
                large = {"messages": [{"role": "user", "content": "hi", "junk": junk}], "max_tokens": 2, "n": 8}
                for _ in range(4):
                    self.assertEqual(d.http("POST", CHAT, large)[0], 200)
            until(lambda: anonymous(d) < start + 40 * MIB, "the memory of large bodies to be given back", 60)

    def test_a_record_keeps_no_field_that_prompts_are_not_made_of(self):
        with Daemon() as d:
            call = {"id": "c1", "type": "function", "junk": 1, "function": {"name": "f", "arguments": "{}", "junk": 2}}
            sent = [{"role": "user", "content": [{"type": "text", "text": "hi", "junk": 3}], "junk": {"a": ["J"]}},
                    {"role": "assistant", "content": None, "reasoning_content": "why", "tool_calls": [call], "junk": 4},
                    {"role": "tool", "tool_call_id": "c1", "content": "42", "junk": 5}]
            status, headers, body = d.http("POST", CHAT, {"messages": sent, "max_tokens": 2})
            self.assertEqual(status, 200, body)
            code, kept, err = d.ctl("request", "messages", headers["x-request-id"])
            self.assertEqual(code, 0, err)
            self.assertNotIn("junk", kept)
            for part in ('"hi"', '"why"', '"c1"', '"f"', '"42"'):
                self.assertIn(part, kept)


if __name__ == "__main__":
    unittest.main()
