#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""n answers to one prompt, on scripted generations: apart from each other, and one request to its client."""
import json
import os
import socket
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from fake import Fake, chat  # noqa: E402

PATH = "/v1/chat/completions"


def choice_of(events, index, key):
    """What a stream said of one choice: its text, or a list of what is no text."""
    found = [c["delta"].get(key, "") if key == "content" else c[key] for e in events[:-1]
             for c in json.loads(e)["choices"]
             if c["index"] == index]
    return "".join(found) if key == "content" else [f for f in found if f]


class Choices(unittest.TestCase):
    def setUp(self):
        self.fake = self.enterContext(Fake())

    def post(self, script, **fields):
        return self.fake.http("POST", PATH, chat(script, **fields))

    def counts(self):
        self.fake.command("wait-live 0")
        return self.fake.command("counts")

    def test_whole(self):
        status, _, b = self.post("rhm|cnumber |d|s", n=3)
        self.assertEqual(status, 200)
        self.assertEqual([(c["index"], c["message"]["content"], c["message"]["reasoning_content"], c["finish_reason"])
                          for c in b["choices"]], [(i, f"number {i}", "hm", "stop") for i in range(3)])

    def test_streamed(self):
        e = list(self.fake.stream(chat("cnumber |d|*2|s", n=16)))
        self.assertEqual(e[-1], "[DONE]")
        for i in range(16):
            self.assertEqual(choice_of(e, i, "content"), f"number {i}{i}{i}")
            self.assertEqual(choice_of(e, i, "finish_reason"), ["stop"])
        self.assertEqual(len({json.loads(x)["id"] for x in e[:-1]}), 1)

    def test_the_prompt_counts_once_and_every_answer_counts(self):
        one = self.post("chi|s")[2]["usage"]
        three = self.post("chi|s", n=3)[2]["usage"]
        self.assertEqual(three["prompt_tokens"], one["prompt_tokens"])
        self.assertEqual(three["prompt_tokens_details"], one["prompt_tokens_details"])
        self.assertEqual(three["completion_tokens"], 3 * one["completion_tokens"])
        self.assertEqual(three["completion_tokens_details"]["reasoning_tokens"],
                         3 * one["completion_tokens_details"]["reasoning_tokens"])
        e = list(self.fake.stream(chat("chi|s", n=3, stream_options={"include_usage": True})))
        self.assertEqual((json.loads(e[-2])["choices"], json.loads(e[-2])["usage"]), ([], three))

    def test_log_probabilities_of_whole_answers_are_bounded(self):
        for n, top, most in ((1, 20, 6241), (16, 20, 390), (1, 0, 131072)):
            asked = {"n": n, "logprobs": True, "top_logprobs": top}
            status, _, b = self.post("s", max_tokens=most + 1, **asked)
            self.assertEqual((status, b["error"]["param"]), (400, "max_tokens"))
            self.assertIn(f"at most {most} ", b["error"]["message"])
            for given in ({"max_tokens": most}, {}):
                self.assertEqual(self.post("s", **asked, **given)[0], 200)
                self.assertEqual(json.loads(self.fake.command("last"))["max_tokens"], most)
            s = self.fake.stream(chat("s", max_tokens=most + 1, **asked))
            self.assertEqual((s.status, list(s)[-1]), (200, "[DONE]"))
        self.assertEqual(self.post("s", max_tokens=1 << 20)[0], 200)

    def test_a_seed_goes_up_by_one_each(self):
        for n, seed, last in ((1, 5, 5), (3, 5, 7), (2, -1, 0), (2, (1 << 63) - 1, -(1 << 63))):
            self.assertEqual(self.post("s", n=n, seed=seed)[0], 200)
            self.assertEqual(json.loads(self.fake.command("last"))["seed"], last)

    def test_each_has_a_request_of_its_own_in_the_ring(self):
        rid = self.post("s", n=3)[2]["id"]
        self.assertEqual(json.loads(self.fake.command("last"))["id"], rid + "-2")
        self.assertEqual(self.counts(), "3 0")

    def test_one_that_finishes_early_does_not_end_the_stream(self):
        s = self.fake.stream(chat("d|w|cend|s", n=2))
        seen = [json.loads(next(iter(s))) for _ in range(4)]
        self.assertEqual(sorted(c["index"] for x in seen for c in x["choices"]), [0, 0, 1, 1])
        self.fake.command("release")
        self.fake.command("release")
        e = list(s)
        for i in range(2):
            self.assertEqual((choice_of(e, i, "content"), choice_of(e, i, "finish_reason")), ("end", ["stop"]))

    def test_one_that_is_cancelled_ends_all(self):
        e = list(self.fake.stream(chat("d|y1|w|s", n=3)))
        self.assertEqual(json.loads(e[-2])["error"]["code"], "cancelled")
        self.assertEqual(e[-1], "[DONE]")
        self.assertEqual(self.counts(), "3 2")

    def test_one_that_is_cancelled_fails_a_whole_answer(self):
        for _ in range(2):
            self.fake.command("release")
        status, _, b = self.post("d|y1|w|s", n=3)
        self.assertEqual((status, b["error"]["code"]), (499, "cancelled"))
        self.assertEqual(self.counts(), "3 0")

    def test_busy_at_the_last_refuses_all_and_leaves_none_running(self):
        for stream in (False, True):
            status, headers, b = self.post("K2|w|s", n=3, stream=stream)
            self.assertEqual((status, b["error"]["code"]), (503, "busy"))
            self.assertIn("retry-after", headers)
        self.assertEqual(self.counts(), "4 4")

    def test_more_answers_than_the_queue_ever_holds_name_n(self):
        self.fake.command("places 2")
        for path, body, param in ((PATH, chat("s", n=3), "n"), ("/v1/completions", {"prompt": "s", "n": 3}, "n"),
                                  ("/v1/completions", {"prompt": ["s", "s", "s"]}, "prompt")):
            status, _, b = self.fake.http("POST", path, body)
            self.assertEqual((status, b["error"]["param"]), (400, param), b)
            self.assertIn("no more than 2", b["error"]["message"])
        self.assertEqual(self.counts(), "0 0")
        self.assertEqual(self.post("s", n=2)[0], 200)

    def test_a_client_that_leaves_cancels_all(self):
        s = self.fake.stream(chat("w|s", n=4))
        s.line()
        s.vanish()
        self.fake.command("tick")
        self.assertEqual(self.counts(), "4 4")
        body = json.dumps(chat("w|s", n=3)).encode()
        with socket.create_connection(("127.0.0.1", self.fake.port)) as c:
            c.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                      % (PATH.encode(), len(body), body))
            self.fake.command("wait-live 3")
        self.fake.command("tick")
        self.assertEqual(self.counts(), "7 7")

    def test_logprobs_stay_with_their_choice(self):
        b = self.post("l65|cA|s", n=2, logprobs=True)[2]
        self.assertEqual([[t["id"] for t in c["logprobs"]["content"]] for c in b["choices"]], [[65], [65]])
        e = [json.loads(x) for x in list(self.fake.stream(chat("l65|cA|s", n=2, logprobs=True)))[:-1]]
        found = [(c["index"], c["delta"]["content"], [t["id"] for t in c["logprobs"]["content"]]) for x in e
                 for c in x["choices"]
                 if c["logprobs"]]
        self.assertEqual(sorted(found), [(0, "A", [65]), (1, "A", [65])])


if __name__ == "__main__":
    unittest.main()
