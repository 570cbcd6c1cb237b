# SPDX-License-Identifier: MIT
"""Random conversations: whatever was cached, cut off, edited or killed before, an answer is the cold one.

Several clients at once lead conversations of several turns that go back, change what was said, switch thinking and
tools, and hang up in the middle of an answer; between the rounds the daemon is killed and comes back with another
budget and its disk. Each answer that was completed is asked for again from a daemon without a cache: the prompt's
and the answer's token ids and its logprobs must be the same; a seed makes the drawn ones comparable as well.

CONVERSATIONS=1000 SEED=1 tests/lib/python.sh tests/ctl/conversations.py
"""
import concurrent.futures
import json
import os
import random
import shutil
import signal
import tempfile
import threading

import plugins
from daemon import Daemon

COUNT = int(os.environ.get("CONVERSATIONS", "24"))
SEED = int(os.environ.get("SEED", "1"))
ROUND = 12       # conversations from one start of the daemon to the next
CLIENTS = 4
BUDGETS = ["0", "300K", "1M", "3M", "64M"]
WORDS = ("poppy river seven the of codeword remember weather in Prague print file list 12 0x7f {\"a\":1} dům 日本 🙂 "
         "\n\n if (x < y) return; and so it goes").split(" ")
TOOLS = [{"type": "function", "function": {"name": name, "description": "Does " + name, "parameters": {
    "type": "object", "properties": {"what": {"type": "string"}}}}} for name in ("look", "write")]


def config(path, **cache):
    """What a daemon starts with; the ring is short, so that it is soon full."""
    lines = ["[daemon]", "ring_requests = 64", "[plugins]", "load = " + cache.pop("load", ""), "[kernels]",
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


class Conversation:
    """One client's: what was said until now, and what it says next, drawn from its number."""

    def __init__(self, number, system):
        self.draw = random.Random(f"{SEED} {number}")
        self.messages = [{"role": "system", "content": system}]
        self.thinking, self.tools = self.draw.random() < .5, self.draw.random() < .3

    def words(self, low, high):
        return " ".join(self.draw.choices(WORDS, k=self.draw.randint(low, high)))

    def say(self):
        """The next turn: mostly one more, sometimes back to an earlier one, which is said otherwise."""
        asked = [i for i, m in enumerate(self.messages) if m["role"] == "user"]
        if asked and self.draw.random() < .35:
            del self.messages[self.draw.choice(asked):]
        if self.draw.random() < .2:
            self.thinking = not self.thinking
        if self.draw.random() < .1:
            self.tools = not self.tools
        self.messages.append({"role": "user", "content": self.words(1, 70)})
        body = {"messages": list(self.messages), "temperature": self.draw.choice([0, 0, 0, 0.8]), "logprobs": True,
                "seed": self.draw.randint(1, 1 << 30), "max_tokens": self.draw.randint(1, 50), "ignore_eos": self.draw.random() < .5,
                "thinking": {"type": "enabled" if self.thinking else "disabled"},
                "stream_options": {"include_usage": True}}
        return {**body, "tools": TOOLS} if self.tools else body

    def hear(self, a):
        """The answer goes into what was said, whole or as far as it came, with its reasoning or without."""
        said = {"role": "assistant", "content": a.content}
        if a.reasoning and self.draw.random() < .7:
            said["reasoning_content"] = a.reasoning
        self.messages.append(said)


class Run:
    def __init__(self, warm, cold):
        self.warm, self.cold = warm, cold
        self.lock = threading.Lock()
        self.compared = self.cut = self.reused = 0

    def compare(self, number, body, a):
        b = Answer(self.cold, body)
        assert b.cached == 0, b.cached
        for what in ("finish", "content", "reasoning", "logprobs"):
            x, y = getattr(a, what), getattr(b, what)
            assert x == y, f"SEED={SEED}, conversation {number}, {a.cached} tokens reused: {what}\nwarm {x}\ncold {y}\n" \
                           f"{json.dumps(body, ensure_ascii=False)}"
        assert (a.ids["prompt"], a.ids["output"]) == (b.ids["prompt"], b.ids["output"]), (SEED, number, a.ids, b.ids)
        assert a.ids["output"] and a.ids["prompt"], a.ids

    def lead(self, number, system):
        c = Conversation(number, system)
        for _ in range(c.draw.randint(2, 5)):
            body = c.say()
            cut = c.draw.choice([0, 0, 1, 2, 5, 20]) if c.draw.random() < .2 else None
            a = Answer(self.warm, body, cut)
            if a.ids:
                self.compare(number, body, a)
            with self.lock:
                self.compared += a.ids is not None
                self.cut += a.ids is None
                self.reused += a.cached or 0
            c.hear(a)

    def round(self, numbers):
        """Some of them have the same long system prompt."""
        draw = random.Random(f"{SEED} round {numbers[0]}")
        systems = [" ".join(draw.choices(WORDS, k=k)) for k in (3, 60, 110, 250)]
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            for done in [pool.submit(self.lead, n, draw.choice(systems)) for n in numbers]:
                done.result()


def idle(d):
    """Nothing is left of the requests; returns what the process holds."""
    assert d.ctl("wait", "idle", "--timeout", "60")[0] == 0
    status = json.loads(d.ctl("--json", "status")[1])
    assert status["state_bytes"] == 0 and status["requests"]["errors"] == 0, status
    cache = json.loads(d.ctl("--json", "cache", "stats")[1])
    assert cache["pinned"] == 0 and cache["bytes"] <= cache["budget"], cache
    assert (cache.get("disk") or {}).get("bad", 0) == 0, cache
    return plugins.rss_anon(d.process.pid), len(plugins.descriptors(d.process.pid))


def main(folder):
    draw = random.Random(SEED)
    fast = {"load": "avx2", "use": "all=avx2"} if "avx2" in plugins.shipped() else {}
    paths = [os.path.join(folder, name) for name in ("warm.conf", "cold.conf")]
    config(paths[1], memory="0", disk="no", **fast)
    env = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=4"}
    warm = Daemon("--config", paths[0], env=env)
    with Daemon("--config", paths[1], env=env) as cold:
        run, rounds = Run(warm, cold), [list(range(n, min(n + ROUND, COUNT))) for n in range(0, COUNT, ROUND)]
        for i, numbers in enumerate(rounds):
            # the exact kernels go on with what others left on the disk; the last round has room for everything
            config(paths[0], memory=BUDGETS[-1] if i == len(rounds) - 1 else draw.choice(BUDGETS), write_rate="0",
                   disk=draw.choice(["yes", "yes", "no"]), disk_bytes=draw.choice(["1M", "64M"]),
                   **draw.choice([fast, fast, fast, {}]))
            warm.start()
            run.round(numbers)
            if i < len(rounds) - 1:
                idle(warm)
                warm.stop(signal.SIGKILL)
        before = idle(warm)
        run.round(rounds[-1])
        after = idle(warm)
        print(f"{run.compared} answers compared, {run.cut} cut off, {run.reused} tokens reused; "
              f"memory {before[0] >> 10} KiB, then {after[0] >> 10} KiB")
        assert run.compared > COUNT and run.cut > 0 and run.reused > 0
        assert after[0] < before[0] + (24 << 20), (before, after)
        plugins.until(lambda: idle(warm)[1] <= before[1], f"{before[1]} descriptors, as before")
        warm.__exit__(None, None, None)


directory = tempfile.mkdtemp(prefix="conversations-")
try:
    main(directory)
finally:
    shutil.rmtree(directory, ignore_errors=True)
print("ok")
