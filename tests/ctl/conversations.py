# SPDX-License-Identifier: MIT
"""Random conversations: whatever was cached, cut off, edited or killed before, an answer is the cold one.

Several clients at once lead conversations of several turns that go back, change what was said, switch thinking and
tools, and hang up in the middle of an answer; an operator clears and verifies the cache and swaps kernels; between the
rounds the daemon is killed and comes back with another budget and its disk. Each answer that was completed is asked for
again from a daemon without a cache: the prompt's and the answer's token ids and its logprobs must be the same; a seed
makes the drawn ones comparable as well.

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
from turns import Answer, config, fast_kernels, idle

COUNT = int(os.environ.get("CONVERSATIONS", "12" if plugins.sanitizer() else "24"))
SEED = int(os.environ.get("SEED", "1"))
ROUND = 12       # conversations from one start of the daemon to the next
LAST = max(ROUND, COUNT // 2)  # of the last start, twice: what a conversation leaks, the second time shows
CLIENTS = 4
BUDGETS = ["0", "300K", "1M", "3M", "64M"]
WORDS = ("poppy river seven the of codeword remember weather in Prague print file list 12 0x7f {\"a\":1} dům 日本 🙂 "
         "\n\n if (x < y) return; and so it goes").split(" ")
TOOLS = [{"type": "function", "function": {"name": name, "description": "Does " + name, "parameters": {
    "type": "object", "properties": {"what": {"type": "string"}}}}} for name in ("look", "write")]


# Where avx2 has ref's own bits: everywhere but in matrix products.
EXACT = ("norm", "mhc", "compress", "indexer", "attention")


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
                "seed": self.draw.randint(1, 1 << 30), "max_tokens": self.draw.randint(1, 50),
                "ignore_eos": self.draw.random() < .5,
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
    def __init__(self, warm, cold, fast):
        self.warm, self.cold, self.fast = warm, cold, fast
        self.lock = threading.Lock()
        self.compared = self.cut = self.reused = 0

    def compare(self, number, body, a):
        a.same(Answer(self.cold, body),
               f"SEED={SEED}, conversation {number}\n{json.dumps(body, ensure_ascii=False)}")

    def operate(self, draw):
        """What an operator may do at any time; these kernels have the same bits as those in force."""
        provider = draw.choice([None, None, "ref", "avx2"])
        words = ["kernels", "use", *(f"{f}={provider}" for f in EXACT), "--at", "step"] if provider else \
            draw.choice([["cache", "clear"], ["cache", "verify"]])
        if provider == "avx2" and not self.fast:
            return
        code, out, err = self.warm.ctl(*words, timeout=600)
        assert code == 0, (words, code, out, err)

    def lead(self, number, system):
        c = Conversation(number, system)
        for _ in range(c.draw.randint(2, 5)):
            body = c.say()
            if c.draw.random() < .1:
                self.operate(c.draw)
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


def main(folder):
    draw = random.Random(SEED)
    fast = fast_kernels()
    paths = [os.path.join(folder, name) for name in ("warm.conf", "cold.conf")]
    config(paths[1], memory="0", disk="no", **fast)
    env = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=4"}
    warm = Daemon("--config", paths[0], env=env, timeout=600)
    with Daemon("--config", paths[1], env=env, timeout=600) as cold:
        run, kills = Run(warm, cold, fast), max(0, COUNT - LAST)
        rounds = [list(range(n, min(n + ROUND, kills))) for n in range(0, kills, ROUND)] + [list(range(kills, COUNT))]
        for i, numbers in enumerate(rounds):
            # the exact kernels go on with what others left on the disk; the last round has room for everything
            config(paths[0], memory=BUDGETS[-1] if i == len(rounds) - 1 else draw.choice(BUDGETS), write_rate="0",
                   disk=draw.choice(["yes", "yes", "no"]), disk_bytes=draw.choice(["1M", "64M"]),
                   **draw.choice([fast, fast, fast,
                                  {**fast, "use": " ".join([fast["use"], *(f"{f}=ref" for f in EXACT)])}
                                  if fast else fast]))
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
        # allocators keep some of it; of 1,000 conversations it is less than 50 KiB for each of the last
        assert after[0] < before[0] + (24 << 20), (before, after)
        plugins.until(lambda: idle(warm)[1] <= before[1], f"{before[1]} descriptors, as before")
        warm.__exit__(None, None, None)


directory = tempfile.mkdtemp(prefix="conversations-")
try:
    main(directory)
finally:
    shutil.rmtree(directory, ignore_errors=True)
print("ok")
