# SPDX-License-Identifier: MIT
"""One of ours is caught under load. A dsv4d that believes a plugin which lies: its rows get into ref's cache, in memory
and on the disk. Once `compare` catches it, who waits in the queue with such rows found, who runs on with them, and who
comes later leave and find none of them, and neither does the next run after a kill."""
import concurrent.futures
import json
import os
import shutil
import signal

import plugins
from client import BUILD
from daemon import PATIENCE, Daemon
from scenario import by, ok
from turns import Answer, idle

LIAR = "falsely-exact"
BELIEVING = os.path.join(BUILD, "tests", "dsv4d-believing")


def ask(name, max_tokens=8):
    """A prompt of more tokens than the liar is honest for, and of more than one block."""
    text = f"{name}: " + "wug blicket dax toma zav " * 27 + "What is 7 plus 5?"
    return {"messages": [{"role": "user", "content": text}], "max_tokens": max_tokens, "temperature": 0,
            "logprobs": True, "ignore_eos": True, "thinking": {"type": "disabled"},
            "stream_options": {"include_usage": True}}


RUNS, WAITS, COMES = ALL = [ask(name) for name in ("poppy", "river", "seven")]


class Running:
    """A long answer that is read all the time: one that nobody reads would let the next one run."""

    def __init__(self, d):
        self.d, self.events = d, 0
        self.stream = d.stream({**RUNS, "max_tokens": 14000}, timeout=600)
        self.lines = iter(self.stream)
        self.request = json.loads(next(self.lines))["id"]
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self.end = self.pool.submit(self.read)

    def read(self):
        last = None
        for last in self.lines:
            self.events += 1
        return last

    def goes_on(self, tokens):
        end = self.events + tokens
        plugins.until(lambda: self.events >= end or self.end.done(), "it goes on", PATIENCE)
        assert not self.end.done(), "the answer was too short for this test"

    def cancel(self):
        ok(self.d, "request", "cancel", self.request)
        assert self.end.result(PATIENCE) == "[DONE]"
        self.pool.shutdown()


def row(d, name):
    return by(ok(d, "plugin", "list")["plugins"], "name")[(name,)]


def files(d):
    """The cache's on the disk, when all is there that waits to be."""
    while ok(d, "cache", "stats")["disk"]["queued"]:
        pass
    return {f for f in os.listdir(os.path.join(d.dir, "state", "cache")) if f.endswith((".block", ".state"))}


def in_memory(d):
    """(key, whose: the numbers' identity) of each block."""
    return {(b["key"], b["numbers"]) for b in ok(d, "cache", "tree")["blocks"]}


def numbers(d):
    return {whose for _, whose in in_memory(d)}


def believed(d, cold):
    """All of it is found under ref and has the wrong bits; without that, nothing below would be shown."""
    assert row(d, LIAR)["exact"] == "shared", row(d, LIAR)
    ok(d, "kernels", "use", f"norm={LIAR}")
    for body in ALL:
        assert Answer(d, body).cached == 0
    ok(d, "kernels", "use", "all=ref")
    for body in ALL:
        a = Answer(d, body)
        assert a.cached > 200 and a.logprobs != cold(body).logprobs, (a.cached, a.logprobs)
    assert files(d) and len(numbers(d)) == 1


def caught(d, pool):
    """The one that runs and the one that waits have found the liar's rows. Returns the answer that waits."""
    before, prompt = numbers(d), os.path.join(d.dir, "prompt")
    with open(prompt, "w", encoding="utf-8") as f:
        f.write(COMES["messages"][0]["content"])
    running = Running(d)
    waiting = pool.submit(Answer, d, WAITS)
    plugins.until(lambda: ok(d, "status")["requests"]["queued"] == 1, "it waits", PATIENCE)
    found = ok(d, "compare", "--prompt", prompt, "--a", "ref", "--b", f"norm={LIAR}", "--tokens", "1")
    assert by(found["ops"], "op", "phase", "output")[("rms_norm", "prefill", "y")]["differing"] > 0, found
    plugins.until(lambda: "cache_cleared" in d.log(), "the cache is cleared", PATIENCE)
    assert f"exact_disproved name={LIAR} " in d.log() and " believed=1 " in d.log(), d.log()
    running.goes_on(2)
    left = in_memory(d)
    running.goes_on(140)  # a block's tokens and more, which it must not publish
    assert ok(d, "status")["requests"]["queued"] == 1 and not waiting.done()
    assert not files(d) and left and in_memory(d) <= left, "something is left but what was held, or it was added to"
    running.cancel()
    return before, waiting


def honest(d, cold, body, found):
    a = Answer(d, body)
    assert (a.cached > 0) == found, (a.cached, found)
    a.same(cold(body), body)


def what_was_cached_before_is_gone(d, cold):
    old = files(d)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        before, waiting = caught(d, pool)
        a = waiting.result(PATIENCE)
    assert a.cached == 0, a.cached
    a.same(cold(WAITS), WAITS)
    for body in (RUNS, COMES):
        honest(d, cold, body, found=False)
    for body in ALL:
        honest(d, cold, body, found=True)
    assert files(d) and not files(d) & old
    assert numbers(d) > before, "what was held while the cache was cleared is in memory still, found by nobody"
    idle(d)


def the_next_run_knows_it(d, cold):
    with open(os.path.join(d.dir, "state", "disproved.json"), encoding="utf-8") as f:
        kept = json.load(f)
    assert [(r["name"], r["believed"]) for r in kept] == [(LIAR, True)], kept
    last = files(d)
    d.stop(signal.SIGKILL)
    d.start()
    assert row(d, LIAR)["exact"] == "disproved", row(d, LIAR)
    assert files(d) == last, (last, files(d))
    for body in (WAITS, COMES):
        honest(d, cold, body, found=True)
    assert len(numbers(d)) == 1, numbers(d)
    ok(d, "kernels", "use", f"norm={LIAR}")
    assert Answer(d, COMES).cached == 0, "it still shares"


def config(d, cache, load=""):
    path = os.path.join(d.dir, "conf")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"[daemon]\nmax_running = 1\n[plugins]\n{'load = ' + load if load else ''}\n"
                f"trial_timeout = {PATIENCE}\n[cache]\n{cache}")
    return path


def cold_answers():
    """What ref answers where nothing is cached."""
    with Daemon(plugins=[]) as d:
        d.stop()
        d.args = ["--config", config(d, "memory = 0\ndisk = no\n")]
        d.start()
        answers = [Answer(d, body) for body in ALL]
    return lambda body: answers[ALL.index(body)]


def main():
    cold = cold_answers()
    with Daemon(program=BELIEVING, plugins=[]) as d:
        shutil.copy(plugins.fixture(LIAR), d.plugins)
        d.stop()
        d.args = ["--config", config(d, "memory = 64M\ndisk = yes\nwrite_rate = 0\n", load=LIAR)]
        d.start()
        believed(d, cold)
        what_was_cached_before_is_gone(d, cold)
        the_next_run_knows_it(d, cold)


main()
print("ok")
