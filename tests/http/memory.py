#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What clients made the daemon hold is given back when they have gone."""
import concurrent.futures
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from daemon import Daemon  # noqa: E402
from plugins import sanitizer, until  # noqa: E402

CHAT = "/v1/chat/completions"
MIB = 1 << 20


def anonymous(d):
    with open(f"/proc/{d.process.pid}/status", encoding="utf-8") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("RssAnon:")) * 1024


def say(text):
    return [{"role": "user", "content": text}]


class Memory(unittest.TestCase):
    @unittest.skipIf(sanitizer(), "a sanitizer keeps what is freed, on purpose")
    def test_the_heap_shrinks_after_large_bodies(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            conf.write("[daemon]\nring_bytes = 1M\n")  # what finished is kept beyond that by nobody
            conf.flush()
            with Daemon("--config", conf.name) as d:
                self.together(d, {"messages": say("hi"), "max_tokens": 2})
                start = anonymous(d)
                # A hundred thousand small values, and long texts for several answers each.
                self.together(d, {"messages": [{**say("hi")[0], "junk": [[i] for i in range(120000)]}],
                                  "max_tokens": 2})
                thought = {"role": "assistant", "content": "y", "reasoning_content": "J" * 7 * MIB}
                self.together(d, {"messages": say("hi") + [thought] + say("so?"), "max_tokens": 2, "n": 4})
                until(lambda: anonymous(d) < start + 32 * MIB, "the memory of large bodies to be given back", 60)

    def together(self, d, body, n=8):
        """The same from n clients at once, so that each thread of the server has its part of it."""
        body = json.dumps(body)
        with concurrent.futures.ThreadPoolExecutor(n) as pool:
            got = list(pool.map(lambda _: d.http("POST", CHAT, body)[0], range(n)))
        # The server takes so many bytes of bodies at once, and no more.
        self.assertLessEqual(set(got), {200, 503})
        self.assertIn(200, got)

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
