# SPDX-License-Identifier: MIT
"""Answers of a daemon with a prefix cache, held against those of one without.

    config(path, memory="64M", disk="no", **fast_kernels())
    with Daemon("--config", path) as d:
        a = Answer(d, body)                  # a.ids, a.logprobs, a.cached, ...
        a.same(Answer(cold, body), body)
"""
import json

import plugins
from daemon import PATIENCE


def fast_kernels():
    """Quick kernels, where this CPU has them: for config(). Two daemons with them have the same bits."""
    return {"load": "avx2", "use": "all=avx2"} if "avx2" in plugins.shipped() else {}


def config(path, **cache):
    """What a daemon starts with; the ring is short, so that it is soon full."""
    lines = ["[daemon]", "ring_requests = 64", "[plugins]", "load = " + cache.pop("load", ""),
             f"trial_timeout = {PATIENCE}", "[kernels]",
             "use = " + cache.pop("use", ""), "[cache]", *(f"{k} = {v}" for k, v in cache.items())]
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(line for line in lines if not line.endswith(" = ")) + "\n")


def tokens(d, request):
    code, out, err = d.ctl("--json", "request", "tokens", request)
    assert code == 0, (request, code, err)
    return json.loads(out)


class Answer:
    """A streamed answer, read to its end or to where its client hangs up: `cut` events, None for never."""

    def __init__(self, d, body, cut=None):
        self.request, self.finish, self.logprobs, self.content, self.reasoning = None, None, [], "", ""
        self.ids = self.cached = None
        stream = d.stream(body, timeout=600)
        assert stream.status == 200, (stream.status, stream.line())
        if cut == 0:
            stream.vanish()
            return
        for n, data in enumerate(stream, 1):
            if data == "[DONE]":
                self.ids = tokens(d, self.request)
                return
            self.event(json.loads(data))
            if n == cut:
                stream.vanish()
                return
        raise AssertionError("the stream ended without [DONE]")

    def event(self, e):
        assert "error" not in e, e
        self.request = e["id"]
        if e.get("usage"):
            self.cached = e["usage"]["prompt_tokens_details"]["cached_tokens"]
        for c in e["choices"]:
            self.content += c["delta"].get("content") or ""
            self.reasoning += c["delta"].get("reasoning_content") or ""
            self.finish = c["finish_reason"] or self.finish
            for part in (c.get("logprobs") or {}).values():
                self.logprobs += [p["logprob"] for p in part or []]

    def same(self, cold, note):
        assert cold.cached == 0, cold.cached
        for what in ("finish", "content", "reasoning", "logprobs", "ids"):
            x, y = getattr(self, what), getattr(cold, what)
            if what == "ids":
                x, y = ((v["prompt"], v["output"]) for v in (x, y))
                assert x[0] and x[1], self.ids
            assert x == y, f"{self.cached} tokens reused: {what}\nwarm {x}\ncold {y}\n{note}"


def idle(d):
    """Nothing is left of the requests; returns what the process holds."""
    assert d.ctl("wait", "idle", "--timeout", "60")[0] == 0
    status = json.loads(d.ctl("--json", "status")[1])
    assert status["state_bytes"] == 0 and status["requests"]["errors"] == 0, status
    cache = json.loads(d.ctl("--json", "cache", "stats")[1])
    assert cache["pinned"] == 0 and cache["bytes"] <= cache["budget"], cache
    assert (cache.get("disk") or {}).get("bad", 0) == 0, cache
    return plugins.rss_anon(d.process.pid), len(plugins.descriptors(d.process.pid))
