# SPDX-License-Identifier: MIT
"""A long prompt beside streams: with max_gap it is computed in many small steps, each of which gives every stream a
token; no answer changes by that. Counted are steps and tokens, never times."""
import json
import tempfile
import threading

import plugins
from daemon import Daemon
from promtext import Page
from scenario import ok, refused, said

STREAMS = 3
FLOOR = 16     # prompt tokens that a step computes beside decoding at least
CHUNK = 512    # and at most, with the streams' own
LONG = {"messages": [{"role": "user", "content": "Tell me of red kites and of white storks. " * 150}], "max_tokens": 8,
        "temperature": 0, "ignore_eos": True}


def short(i):
    return {"messages": [{"role": "user", "content": f"Remember this: my number is {i}."}], "temperature": 0,
            "max_tokens": 8000, "ignore_eos": True, "logprobs": True, "seed": i}


class Stream:
    """An answer without an end, read as it comes."""

    def __init__(self, d, i):
        self.events = iter(d.stream(short(i), timeout=600))
        self.id = json.loads(next(self.events))["id"]
        self.told = []
        self.begun = threading.Event()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for event in self.events:
            if event != "[DONE]":
                self.told += [t for c in json.loads(event).get("choices", ())
                              for t in (c.get("logprobs") or {}).get("content") or ()]
                if len(self.told) > 1:
                    self.begun.set()  # the step that had its prompt is counted


def ask(d, mark):
    """The long prompt behind a mark, with which it is no prefix of another."""
    body = json.loads(json.dumps(LONG))
    body["messages"][0]["content"] = mark + body["messages"][0]["content"]
    status, _, answer = d.http("POST", "/v1/chat/completions", body, timeout=600)
    assert status == 200 and answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0, answer
    return answer["choices"][0]["message"], answer["usage"]["prompt_tokens"]


def beside(d, mark):
    """The long answer beside streams, its prompt's tokens, the streams' first tokens, and how the metrics grew."""
    streams = [Stream(d, i) for i in range(STREAMS)]
    assert all(s.begun.wait(600) for s in streams)
    before = Page(d)
    answer, tokens = ask(d, mark)
    after = Page(d)
    for s in streams:
        ok(d, "request", "cancel", s.id)
        s.reader.join()
    grew = {name: after[name] - before[name]
            for name in ("beside_steps_total", "beside_tokens_total", "generated_tokens_total")}
    plugins.until(lambda: Page(d)["requests_running"] == 0, "the streams have ended")
    return answer, tokens, [s.told for s in streams], grew


def steps_are_short(d):
    _, tokens = ask(d, "A")
    assert Page(d)["beside_steps_total"] == 0, "nobody decoded"
    ok(d, "param", "set", "max_gap=0")
    whole = beside(d, "B")
    assert whole[1] == tokens and whole[3]["beside_tokens_total"] == tokens, (whole[1:2], whole[3], tokens)
    assert whole[3]["beside_steps_total"] == -(-tokens // (CHUNK - STREAMS)), whole[3]
    assert ok(d, "status")["beside"]["prompt_tokens"] is None
    ok(d, "param", "set", "max_gap=1")
    small = beside(d, "C")
    assert small[1] == tokens and small[3]["beside_tokens_total"] == tokens, (small[1:2], small[3], tokens)
    # a millisecond, or as long as the decoding takes, is not enough for a quarter of a chunk; and FLOOR is the least
    took = small[3]["beside_steps_total"]
    assert 4 * whole[3]["beside_steps_total"] < took <= -(-tokens // FLOOR), (small[3], tokens)
    assert small[3]["generated_tokens_total"] >= STREAMS * small[3]["beside_steps_total"], small[3]
    shown = ok(d, "status")["beside"]
    assert shown["prompt_tokens"] >= FLOOR and shown["max_gap_s"] == 0.001, shown
    assert shown["token_s"] > 0 and shown["decode_s"] > 0, shown
    for a, b in zip(whole[2], small[2]):
        n = min(len(a), len(b))
        assert n > 4 and a[:n] == b[:n], (a[:n], b[:n])


def answers_are_the_same(d):
    """The same prompt, cold each time: alone, and beside streams without the limit and with it."""
    got = [ask(d, "D")[0]]
    ok(d, "cache", "clear")
    for gap in "0", "1":
        ok(d, "param", "set", f"max_gap={gap}")
        got.append(beside(d, "D")[0])
        ok(d, "cache", "clear")
    assert got[0] == got[1] == got[2], got


def said_live():
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        def say(text):
            f.seek(0)
            f.truncate()
            f.write(f"[daemon]\n{text}\n")
            f.flush()

        say("")
        with Daemon("--config", f.name) as d:
            assert ok(d, "status")["beside"] == {"max_gap_s": 0.25, "prompt_tokens": FLOOR, "token_s": 0, "decode_s": 0}
            assert "max_gap_s=0.25" in said(d, "status")
            say("max_gap = 40")
            assert "max_gap" in ok(d, "reload")["changed"] and ok(d, "status")["beside"]["max_gap_s"] == 0.04
            assert ok(d, "param", "get", "max_gap")["parameter"]["when"] == "live"
            refused(d, 1, "max_gap", "param", "set", "max_gap=soon")
            refused(d, 1, "max_gap", "param", "set", "max_gap=-1")


with Daemon() as daemon:
    steps_are_short(daemon)
    answers_are_the_same(daemon)
said_live()
print("ok")
