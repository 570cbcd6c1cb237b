#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The HTTP front on scripted generations: every way a stream can go, and who is told what."""
import concurrent.futures
import json
import os
import socket
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from fake import Fake, chat  # noqa: E402


def deltas(events, key):
    """The pieces of one delta field, in order."""
    return [c["delta"][key] for e in events if e != "[DONE]" for c in json.loads(e).get("choices", [])
            if key in c["delta"]]


def finishes(events):
    return [c["finish_reason"] for e in events if e != "[DONE]" for c in json.loads(e).get("choices", [])
            if c["finish_reason"]]


class Streams(unittest.TestCase):
    def setUp(self):
        self.fake = self.enterContext(Fake())

    def events(self, script, **fields):
        s = self.fake.stream(chat(script, **fields))
        self.assertEqual(s.status, 200)
        self.assertEqual(s.headers["content-type"], "text/event-stream")
        return list(s)

    def test_reasoning_then_content(self):
        e = self.events("rThin|rking|cHel|clo|s")
        self.assertEqual(json.loads(e[0])["choices"][0]["delta"], {"role": "assistant", "content": ""})
        self.assertEqual(deltas(e, "reasoning_content"), ["Thin", "king"])
        self.assertEqual(deltas(e, "content"), ["", "Hel", "lo"])
        self.assertEqual(finishes(e), ["stop"])
        self.assertEqual(e[-1], "[DONE]")
        self.assertEqual(e.count("[DONE]"), 1)
        self.assertTrue(all("usage" not in json.loads(x) for x in e[:-1]))

    def test_usage_chunk_only_when_asked(self):
        e = [json.loads(x) for x in self.events("chi|s", stream_options={"include_usage": True})[:-1]]
        self.assertEqual(e[-1]["choices"], [])
        self.assertEqual(e[-1]["usage"]["prompt_tokens"], 7)
        self.assertEqual(e[-1]["usage"]["completion_tokens_details"], {"reasoning_tokens": 2})
        self.assertEqual(e[-1]["usage"]["prompt_tokens_details"], {"cached_tokens": 3})
        self.assertTrue(all(x["usage"] is None for x in e[:-1]))

    def test_tool_call_in_pieces(self):
        e = self.events('cOk|bget_weather|a{"city":|a "Oslo"}|e|t')
        calls = [c for d in deltas(e, "tool_calls") for c in d]
        self.assertEqual((calls[0]["id"], calls[0]["type"], calls[0]["function"]["name"]),
                         ("call_1", "function", "get_weather"))
        self.assertEqual("".join(c["function"]["arguments"] for c in calls), '{"city": "Oslo"}')
        self.assertEqual(finishes(e), ["tool_calls"])

    def test_cut_off_call_finishes_by_length(self):
        e = self.events('bget_weather|a{"ci|i')
        self.assertEqual(finishes(e), ["length"])
        self.assertEqual(json.loads(e[-2])["choices"][0]["finish_detail"], "incomplete_tool_call")

    def test_error_midway_is_an_error_event_and_done(self):
        e = self.events("chalf|xthe kernel gave NaN")
        error = json.loads(e[-2])["error"]
        self.assertEqual((error["message"], error["type"]), ("the kernel gave NaN", "server_error"))
        self.assertTrue(error["request_id"].startswith("chatcmpl-"))
        self.assertEqual(finishes(e), [])
        self.assertEqual(e[-1], "[DONE]")

    def test_cancelled_by_the_operator(self):
        e = self.events("chalf|y")
        self.assertEqual(json.loads(e[-2])["error"]["code"], "cancelled")
        self.assertEqual(e[-1], "[DONE]")

    def test_cancelled_since_the_server_stops_says_so(self):
        e = self.events("chalf|z")
        self.assertEqual(json.loads(e[-2])["error"]["code"], "draining")
        self.assertIn("shutting down", json.loads(e[-2])["error"]["message"])

    def test_logprobs_come_with_the_text_they_lead_to(self):
        e = [json.loads(x) for x in self.events("L5|rhm|l65|l66|cab|l1|s", logprobs=True, top_logprobs=1)[:-1]]
        found = [(c["delta"], [t["id"] for t in (c["logprobs"] or {}).get("content", [])],
                  [t["id"] for t in (c["logprobs"] or {}).get("reasoning_content", [])]) for x in e
                 for c in x["choices"]]
        self.assertIn(({"reasoning_content": "hm"}, [], [5]), found)
        self.assertIn(({"content": "ab"}, [65, 66], []), found)
        self.assertEqual(found[-1], ({}, [1], []))

    def test_tokens_of_no_text_are_in_no_logprobs(self):
        script = "rhm|m5|l65|cA|m6|m7|bf|a{}|e|m8|t"
        e = [json.loads(x) for x in self.events(script, logprobs=True)[:-1]]
        self.assertEqual([t["id"] for x in e for c in x["choices"] for part in (c["logprobs"] or {}).values()
                          for t in part], [65])

    def test_any_bytes_of_text_survive(self):
        e = self.events("cď|c漢字|c\U0001f600|c\"\\ \n\u2028|cnul\\0|s")
        self.assertEqual("".join(deltas(e, "content")), "ď漢字\U0001f600\"\\ \n\u2028nul\0")

    def test_first_chunk_comes_before_the_engine_has_said_anything(self):
        s = self.fake.stream(chat("w|cx|s"))
        e = [next(iter(s))]
        self.assertEqual(deltas(e, "role"), ["assistant"])
        self.fake.command("release")
        self.assertEqual(list(s)[-1], "[DONE]")

    def test_long_backlog(self):
        e = self.events("cabcdefghij|*20000|s")
        self.assertEqual("".join(deltas(e, "content")), "abcdefghij" * 20001)


class Waiting(unittest.TestCase):
    def test_parked_stream_gets_comments_at_ticks(self):
        with Fake(keep_alive=1e-9) as f:
            s = f.stream(chat("w|s"))
            self.assertTrue(s.line().startswith("data:"))
            f.command("tick")
            self.assertEqual(s.line(), ": keep-alive")
            f.command("tick")
            self.assertEqual(s.line(), ": keep-alive")
            f.command("release")
            self.assertEqual(list(s)[-1], "[DONE]")

    def test_client_that_leaves_a_parked_stream_cancels_it(self):
        with Fake() as f:
            s = f.stream(chat("w|s"))
            s.line()
            f.command("wait-live 1")
            s.vanish()
            f.command("tick")
            f.command("wait-live 0")
            self.assertEqual(f.command("counts"), "1 1")

    def test_client_that_leaves_a_running_stream_cancels_it(self):
        with Fake() as f:
            s = f.stream(chat("c0123456789|*1000000|w|s"))
            s.line()
            s.vanish()
            f.command("wait-live 0")
            self.assertEqual(f.command("counts"), "1 1")

    def test_client_that_leaves_a_whole_answer_cancels_it(self):
        with Fake() as f:
            body = json.dumps(chat("w|s")).encode()
            with socket.create_connection(("127.0.0.1", f.port)) as c:
                c.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                          b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
                f.command("wait-live 1")
            f.command("tick")
            f.command("wait-live 0")
            self.assertEqual(f.command("counts"), "1 1")

    def test_stop_ends_streams_with_error_and_done(self):
        with Fake() as f:
            s = f.stream(chat("chalf|w|s"))
            s.line()
            with concurrent.futures.ThreadPoolExecutor() as pool:
                whole = pool.submit(f.http, "POST", "/v1/chat/completions", chat("w|s"))
                f.command("wait-live 2")
                f.command("stop")
                e = list(s)
                self.assertEqual(json.loads(e[-2])["error"]["code"], "draining")
                self.assertEqual(e[-1], "[DONE]")
                self.assertEqual(whole.result()[0], 503)
            f.command("wait-live 0")

    def test_many_at_once_keep_apart(self):
        with Fake(threads=4) as f, concurrent.futures.ThreadPoolExecutor(32) as pool:
            def one(i):
                if i % 2:
                    status, _, body = f.http("POST", "/v1/chat/completions", chat(f"w|cn{i}|*50|s"))
                    return status, body["choices"][0]["message"]["content"]
                s = f.stream(chat(f"w|cn{i}|*50|s"))
                return s.status, "".join(deltas(list(s), "content"))
            jobs = [pool.submit(one, i) for i in range(32)]
            f.command("wait-live 32")
            for _ in range(32):
                f.command("release")
                f.command("tick")
            for i, job in enumerate(jobs):
                self.assertEqual(job.result(), (200, f"n{i}" * 51))


class Whole(unittest.TestCase):
    def setUp(self):
        self.fake = self.enterContext(Fake())

    def post(self, script, **fields):
        return self.fake.http("POST", "/v1/chat/completions", chat(script, **fields))

    def test_answer(self):
        status, headers, b = self.post("rThink|cHello|s")
        self.assertEqual(status, 200)
        self.assertEqual(headers["x-request-id"], b["id"])
        self.assertEqual((b["object"], b["model"]), ("chat.completion", "fake"))
        c = b["choices"][0]
        self.assertEqual(c["message"], {"role": "assistant", "content": "Hello", "reasoning_content": "Think"})
        self.assertEqual((c["finish_reason"], c["finish_detail"], c["logprobs"]), ("stop", "eos", None))
        self.assertEqual(b["usage"]["total_tokens"], b["usage"]["prompt_tokens"] + b["usage"]["completion_tokens"])

    def test_all_tokens_spent_on_reasoning_is_visible(self):
        c = self.post("rThink|n")[2]["choices"][0]
        self.assertEqual((c["message"]["content"], c["finish_reason"], c["finish_detail"]),
                         ("", "length", "max_tokens"))

    def test_tool_calls_complete_ones_only(self):
        c = self.post('bone|a{}|e|btwo|a{"x|i')[2]["choices"][0]
        self.assertEqual([t["function"] for t in c["message"]["tool_calls"]], [{"name": "one", "arguments": "{}"}])
        self.assertEqual((c["message"]["content"], c["finish_reason"]), (None, "length"))

    def test_logprobs(self):
        c = self.post("l65|cA|s", logprobs=True)[2]["choices"][0]
        self.assertEqual(c["logprobs"]["content"][0]["logprob"], -0.25)
        self.assertEqual(bytes(c["logprobs"]["content"][0]["bytes"]).decode(), c["logprobs"]["content"][0]["token"])

    def test_errors_of_the_engine(self):
        for script, status, code, param in (("xbroken", 500, "kernel", None), ("y", 499, "cancelled", None),
                                            ("z", 503, "draining", None),
                                            ("Q", 503, "busy", None), ("D", 503, "draining", None),
                                            ("P", 400, "context_length_exceeded", "messages"),
                                            ("Imessages[3].content", 400, "invalid_value", "messages[3].content")):
            for stream in (False, True):
                if stream and script in ("xbroken", "y", "z"):
                    continue  # those come after the stream began
                got, headers, b = self.post(script, stream=stream)
                self.assertEqual((got, b["error"]["code"], b["error"]["param"]), (status, code, param), script)
                self.assertTrue(b["error"]["message"])
                self.assertEqual(b["error"]["request_id"], headers["x-request-id"])
                self.assertEqual("retry-after" in headers, status == 503)

    def test_context_overflow_has_both_numbers(self):
        e = self.post("P")[2]["error"]
        self.assertEqual((e["prompt_tokens"], e["context_length"]), (5000, 4096))
        self.assertEqual(e["message"], "prompt 5000 exceeds context 4096")


class Status(unittest.TestCase):
    def setUp(self):
        self.fake = self.enterContext(Fake())

    def get(self, path):
        return self.fake.http("GET", path)

    def test_well(self):
        self.assertEqual(self.get("/health")[0], 200)
        self.assertEqual(self.get("/ready")[2]["status"], "ready")
        self.assertEqual(self.get("/version")[2], {"name": "dsv4d", "version": "0.0-test"})

    def test_models_carry_the_true_context(self):
        m = self.get("/v1/models")[2]["data"]
        self.assertEqual([(x["id"], x["context_length"]) for x in m], [("fake", 4096)])
        self.assertEqual(self.get("/v1/models/fake")[2], m[0])
        status, _, b = self.get("/v1/models/other")
        self.assertEqual((status, b["error"]["code"], b["error"]["param"]), (404, "model_not_found", "model"))

    def test_unwell(self):
        self.fake.command("drain")
        self.assertEqual((self.get("/health")[0], self.get("/ready")[0]), (200, 503))
        self.fake.command("stall 500")
        self.assertEqual((self.get("/health")[0], self.get("/ready")[0]), (200, 503))
        self.fake.command("stall 1")
        self.assertEqual(self.get("/ready")[0], 200)
        self.fake.command("fail out of memory in layer 3")
        self.assertEqual(self.get("/ready")[0], 503)
        status, _, b = self.get("/health")
        self.assertEqual((status, b["error"]["message"]), (503, "out of memory in layer 3"))
        self.fake.command("well")
        self.assertEqual((self.get("/health")[0], self.get("/ready")[0]), (200, 200))


if __name__ == "__main__":
    unittest.main()
