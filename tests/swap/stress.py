# SPDX-License-Identifier: MIT
"""Kernel swaps under load: for $DSV4_STRESS_SECONDS (60) a swap every 50 ms of every family in both phases, while eight
streams run and plugins are loaded again, discarded and brought back. No request may fail, and every answer must be, to
the last bit of every log-probability, what the set it names computes alone afterwards. In the end nothing may be left:
no library mapped that is not warm, no set, no memory, no descriptor, no child."""
import collections
import itertools
import json
import os
import random
import tempfile
import threading
import time

import mix
import plugins
from client import SRC, skip
from control import Control, Error
from daemon import Daemon

SECONDS = float(os.environ.get("DSV4_STRESS_SECONDS", "60"))
SEED = int(os.environ.get("DSV4_STRESS_SEED", "1"))
PERIOD = 0.05
STREAMS = 8
SLOW = plugins.sanitizer() is not None
# ThreadSanitizer takes a minute to try a kernel of experts; avx2's stands for the others.
LEFT_OUT = {"avx512", "moe-fused"} if plugins.sanitizer() == "tsan" else set()
ANSWER = 8 if SLOW else 24
GROUPS, SETS = (4, 3) if SLOW else (6, 4)  # sets per group; a running request may only go on within one
STAY = 2 * STREAMS                         # answers before the next group: then those of the one before have ended
PATIENCE = 20 * SECONDS + 300              # a machine that has not done everything by then never will

# Swaps alone were seen to make the heap 5 MiB larger before it came to rest, after some 1,800 of them. What is leaked
# with each request or plugin is more than this by then; what with each swap, see at_rest().
MARGIN = 8 << 20

EVERYTHING = ("swaps: use", "swaps: step", "swaps: step refused", "swaps: rollback", "answers of several sets",
              "plugins loaded, used, discarded")


def prompts():
    """Of the tiny model's: with and without thinking; with compressed rows, and more of them than the indexer keeps."""
    wanted = [("recall_0", True), ("recall_120", False), ("continuation", False)]
    if not SLOW:
        wanted += [("recall_600", False), ("needle_12", True)]
    with open(os.path.join(SRC, "etc", "tiny", "prompts.json"), encoding="utf-8") as f:
        given = {(p["kind"], p["thinking"]): p["messages"] for p in json.load(f)}
    return [{"messages": given[w], "thinking": {"type": "enabled" if w[1] else "disabled"}, "temperature": 0,
             "max_tokens": ANSWER, "ignore_eos": True, "logprobs": True} for w in wanted]


PROMPTS = prompts()


def ask(d, call, number):
    """Streams one answer: (request id, (its tokens, those of its text with their log-probabilities))."""
    answer, finish, last, request = [], None, None, None
    s = d.stream(PROMPTS[number], timeout=300)
    assert s.status == 200, s.response.read()
    for last in s:
        if last == "[DONE]":
            continue
        chunk = json.loads(last)
        assert "error" not in chunk, chunk
        request = chunk["id"]
        for choice in chunk["choices"]:
            finish = choice["finish_reason"] or finish
            for channel in ("reasoning_content", "content"):
                answer += [(t["id"], t["logprob"]) for t in (choice["logprobs"] or {}).get(channel) or []]
    assert last == "[DONE]" and finish == "length", (last, finish)
    tokens = call("Engine.RequestTokens", id=request)["output"]
    assert len(tokens) == ANSWER and ANSWER // 2 < len(answer) and told_of(tokens, answer), (tokens, answer)
    return request, (tuple(tokens), tuple(answer))


def told_of(tokens, answer):
    """Are the answer's tokens those, in that order? Markers have no log-probability."""
    rest = iter(tokens)
    return all(any(token == t for t in rest) for token, _ in answer)


class Load:
    """What runs while the main thread swaps: streams, and one that plays with plugins. The first error ends all."""

    def __init__(self, d, control, everywhere):
        self.d, self.control, self.everywhere = d, control, everywhere
        self.stop = threading.Event()
        self.lock = threading.Lock()       # of what is below, and of control
        self.errors = []
        self.answers = collections.defaultdict(set)  # (prompt, ((set, its first output token), ...)) -> answers
        self.count = collections.Counter()
        self.threads = []

    def start(self, work, *args):
        def run():
            try:
                while not self.stop.is_set():
                    work(*args)
            except Exception as e:  # pylint: disable=broad-except; raised again by end()
                self.errors.append(e)
                self.stop.set()
        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()

    def call(self, method, **parameters):
        with self.lock:
            return self.control.call("io.dsv4." + method, **parameters)

    def stream(self, numbers):
        number = next(numbers)
        request, answer = ask(self.d, self.call, number)
        ran = tuple((s["name"], s["output"]) for s in self.call("Engine.RequestShow", id=request)["sets"])
        with self.lock:
            self.answers[number, ran].add(answer)
            self.count["answers"] += 1
            self.count["answers of several sets"] += len({name for name, _ in ran}) > 1

    def enough(self):
        """Has every group had its turn, every family run on plugins in both phases, and each kind of thing happened?"""
        with self.lock:
            ran = {place for _, sets in self.answers for name, _ in sets for place in mix.places(name, self.everywhere)}
            turns = self.count["answers"] // STAY
            return turns >= GROUPS and ran == set(self.everywhere) and all(self.count[what] for what in EVERYTHING)

    def end(self):
        self.stop.set()
        for t in self.threads:
            t.join()
        if self.errors:
            raise self.errors[0]


# When a swap may be refused, and with which words.
MAY_REFUSE = {
    # Requests still run that were admitted under another group's set.
    "step": ("io.dsv4.Daemon.InvalidValue", " in the new one"),
    # The set before had the plugin that was let go of.
    "rollback": ("io.dsv4.Daemon.NotFound", "no previous kernel set"),
}


def swap(load, control, group, rng):
    """Most swaps are to a set of the group, some for running requests too, some back to the set before."""
    kind = rng.choices(["use", "step", "rollback"], [5, 4, 1])[0]
    specs = ["all=ref", *mix.words(rng.choice(group))]
    try:
        if kind == "rollback":
            control.call("io.dsv4.Kernels.Rollback")
        else:
            control.call("io.dsv4.Kernels.Use", specs=specs, at="step" if kind == "step" else "admission")
    except Error as e:
        name, words = MAY_REFUSE.get(kind, ("", ""))
        assert e.name == name and words in e.parameters["message"], (kind, specs, e)
        kind += " refused"
    load.count["swaps: " + kind] += 1


def swaps(load, control, groups):
    """A swap every PERIOD. Memory when all has happened that is to happen, after a third of the time at least, and in
    the end."""
    rng, pid = random.Random(SEED), load.d.process.pid
    begin = time.monotonic()
    warm, until = None, PATIENCE
    for k in itertools.count(1):
        now = time.monotonic() - begin
        assert now < PATIENCE, load.count
        if warm is None and now > SECONDS / 3 and load.enough():
            warm, until = plugins.rss_anon(pid), max(SECONDS, 1.5 * now)
        if load.stop.is_set() or now > until:
            return warm, plugins.rss_anon(pid)
        swap(load, control, groups[load.count["answers"] // STAY % len(groups)], rng)
        load.stop.wait(max(0, begin + k * PERIOD - time.monotonic()))


def temperatures(control):
    return {(p["name"], p["generation"]): p["temperature"] for p in control.call("io.dsv4.Plugins.List")["plugins"]
            if not p["builtin"]}


def play(load, control, names, rng):
    """One plugin is loaded again over itself; another comes, is used, is let go of and forgotten."""
    control.call("io.dsv4.Plugins.Load", file=rng.choice(names))
    control.call("io.dsv4.Plugins.Load", file="good")
    control.call("io.dsv4.Kernels.Use", specs=["norm=good"])
    control.call("io.dsv4.Plugins.State", name="good", state="cold")
    plugins.until(lambda: load.stop.is_set() or
                  all(t == "cold" for (name, _), t in temperatures(control).items() if name == "good"),
                  "good is cold, no request and no set having it any more", timeout=300)
    if not load.stop.is_set():
        control.call("io.dsv4.Plugins.Discard", name="good")
        load.count["plugins loaded, used, discarded"] += 1


def alone(d, control, number, name):
    """What one set computes when nothing else happens."""
    specs = ["all=ref"] + (name.split(",") if name != "ref" else [])
    used = control.call("io.dsv4.Kernels.Use", specs=specs)["name"]
    assert used == name, (used, name)
    request, answer = ask(d, lambda method, **p: control.call("io.dsv4." + method, **p), number)
    shown = control.call("io.dsv4.Engine.RequestShow", id=request)
    assert [s["name"] for s in shown["sets"]] == [name], shown
    return answer


def tags(control, name):
    """How each slot of a set rounds."""
    return [(s["op"], s["phase"], s["wfmt"], s["numerics"])
            for s in control.call("io.dsv4.Kernels.Show", set=name)["slots"]]


def compare(d, control, load):
    """Every answer against its sets', each of which computes each prompt once. An answer of several sets, which round
    alike, must be that of each of them."""
    own, rounds = {}, {}
    for number, ran in sorted(load.answers):
        for name, _ in ran:
            if (number, name) not in own:
                own[number, name] = alone(d, control, number, name)
                rounds[name] = tags(control, name)
    for (number, ran), answers in load.answers.items():
        assert len({str(rounds[name]) for name, _ in ran}) == 1, ("went on under a set that rounds differently", ran)
        for name, _ in ran:
            assert answers == {own[number, name]}, (number, name, ran)
    for number in range(len(PROMPTS)):
        different = {answer for (n, _), answer in own.items() if n == number}
        print(f"prompt {number}: {sum(n == number for n, _ in own)} sets, {len(different)} different answers")
        assert len(different) > 1, "sets that differ in nothing prove nothing"


def at_rest(d, control, groups):
    """Memory comes to rest under swaps alone: a set that is not freed is some 4 KiB, so 300 of them would be 1 MiB each
    time."""
    every = [kernels for group in groups for kernels in group]
    for _ in range(20):
        before = plugins.rss_anon(d.process.pid)
        for i in range(300):
            control.call("io.dsv4.Kernels.Use", specs=["all=ref", *mix.words(every[i % len(every)])])
        if plugins.rss_anon(d.process.pid) < before + (256 << 10):
            return
    raise AssertionError("memory grows with every swap")


def mapped(d):
    return plugins.mapped(d.process.pid, os.path.join(d.dir, "state", "plugins"))


def nothing_left(d, control, names, descriptors):
    """Only warm plugins are mapped, each once; when they are cold, none is, and one set is alive."""
    control.call("io.dsv4.Kernels.Use", specs=["all=ref"])
    warm = plugins.until(lambda: set(temperatures(control).values()) <= {"warm", "busy", "cold"}
                         and temperatures(control),
                         "no plugin is being closed")
    assert len(mapped(d)) == sum(t != "cold" for t in warm.values()), (mapped(d), warm)
    for name in names:
        control.call("io.dsv4.Plugins.State", name=name, state="cold")
    plugins.until(lambda: not mapped(d), "every library is unmapped")
    sets = control.call("io.dsv4.Kernels.List")["sets"]
    assert [s["name"] for s in sets if s["active"]] == ["ref"] and len(sets) <= 2, sets
    assert os.listdir(os.path.join(d.dir, "state", "plugins")) == []
    assert plugins.children(d.process.pid) == {}, plugins.children(d.process.pid)
    plugins.until(lambda: len(plugins.descriptors(d.process.pid)) <= len(descriptors), "descriptors are closed")


def stress(tmp, files):
    names = sorted(files)
    light = [n for n in names if not {e["op"] for e in plugins.facts(files[n])[1]} & {"linear", "moe_experts"}]
    groups = mix.groups(files, GROUPS, SETS, SEED)
    everywhere = mix.everywhere(files)
    print(f"{len(everywhere)} of {2 * len(set(plugins.families().values()))} families and phases have a plugin here")
    directory = plugins.directory(tmp, *files.values(), plugins.fixture("good"))
    conf = os.path.join(tmp, "conf")
    with open(conf, "w", encoding="utf-8") as f:
        f.write("[daemon]\nring_requests = 64\n[plugins]\ncooldown = 1\ntrial_timeout = 600\n")
    with Daemon("--plugins", directory, "--config", conf) as d, Control(d.control, timeout=300) as control, \
            Control(d.control, timeout=300) as players, Control(d.control, timeout=300) as shared:
        for name in names:
            control.call("io.dsv4.Plugins.Load", file=name)
            control.call("io.dsv4.Plugins.State", name=name, state="warm")
        descriptors = plugins.descriptors(d.process.pid)
        load = Load(d, shared, everywhere)
        for i in range(STREAMS):
            load.start(load.stream, itertools.cycle([(i + j) % len(PROMPTS) for j in range(len(PROMPTS))]))
        load.start(play, load, players, light if SLOW else names, random.Random(SEED + 1))
        warm, end = swaps(load, control, groups)
        load.end()
        print(f"seed {SEED}, {SECONDS:g} s, plugins {' '.join(names)}: ", dict(load.count))
        print(f"private memory {warm >> 10} KiB when warm, {end >> 10} KiB at the end")
        control.call("io.dsv4.Plugins.Load", file="good")
        compare(d, control, load)
        if not plugins.sanitizer():  # which keeps what is freed, and looks for leaks itself when the daemon ends
            assert end < warm + MARGIN, "memory grows"
            at_rest(d, control, groups)
        nothing_left(d, control, [*names, "good"], descriptors)


if __name__ == "__main__":
    shipped = {name: path for name, path in plugins.shipped().items() if name not in LEFT_OUT}
    if not shipped:
        skip("this CPU runs none of the plugins")
    with tempfile.TemporaryDirectory() as tmp:
        stress(tmp, shipped)
    print("ok")
