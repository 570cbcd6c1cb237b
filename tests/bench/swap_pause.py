# SPDX-License-Identifier: MIT
"""What a swap costs a running stream: the longest gap between two of its tokens without and with a swap every 50 ms.

    tests/lib/python.sh tests/bench/swap_pause.py [STREAMS]     (top_srcdir and top_builddir as in `make check`)

Prints figures and judges nothing: gaps are the machine's too. Swaps come from a process of their own, so that this one
only reads."""
import multiprocessing
import statistics
import sys
import tempfile
import threading
import time

import plugins
from control import Control
from daemon import Daemon

PERIOD, TOKENS, ROUNDS = 0.05, 1500, 5
BODY = {"messages": [{"role": "user", "content": "Write a story."}], "temperature": 0, "max_tokens": TOKENS,
        "ignore_eos": True}


def swapper(path, sets, at, stop, count):
    """Swaps among the sets until told to stop."""
    with Control(path) as c:
        while not stop.wait(PERIOD):
            specs = ["all=ref", *sets[count.value % len(sets)]]
            c.call("io.dsv4.Kernels.Use", specs=specs, at=at)
            count.value += 1


def gaps(d, streams):
    """Times between tokens of the first of so many streams, in ms, without those around its prefill and its end."""
    others = [threading.Thread(target=lambda: list(d.stream(BODY, timeout=600))) for _ in range(streams - 1)]
    for t in others:
        t.start()
    times = []
    for _ in d.stream(BODY, timeout=600):
        times.append(time.perf_counter())
    for t in others:
        t.join()
    assert len(times) > TOKENS // 2, len(times)
    return [1000 * (b - a) for a, b in zip(times[10:-10], times[11:-9])]


def measure(d, streams, sets=None, at="admission"):
    """All gaps, the longest of each round, and how many swaps there were; with swaps among the sets, if any."""
    stop, count = multiprocessing.Event(), multiprocessing.Value("i", 0)
    p = multiprocessing.Process(target=swapper, args=(d.control, sets, at, stop, count))
    if sets:
        p.start()
    rounds = [gaps(d, streams) for _ in range(ROUNDS)]
    if sets:
        stop.set()
        p.join()
        assert p.exitcode == 0 and count.value > 0, p.exitcode
    return sorted(g for r in rounds for g in r), sorted(max(r) for r in rounds), count.value


def show(what, every, longest, swaps, base=None):
    """One line: in ms, and how much the longest gap grew in steps. The median of the rounds' longest gaps stands for
    all: on a busy machine one of them is always somebody else's."""
    step, middle = statistics.median(every), statistics.median(longest)
    grown = f"{(middle - base) / step:+6.1f}" if base is not None else "      "
    print(f"{what:34} {step:8.3f} {every[len(every) * 999 // 1000]:8.3f} {middle:8.3f} {longest[0]:8.3f} "
          f"{longest[-1]:8.3f}"
          f" {middle / step:6.1f} {grown} {swaps:6}")
    return middle


def main(streams):
    files = plugins.shipped()
    with tempfile.TemporaryDirectory() as tmp, \
            Daemon("--plugins", plugins.directory(tmp, *files.values()), "--log-level", "warn") as d:
        for name in files:
            assert d.ctl("plugin", "load", name)[0] == 0
            assert d.ctl("plugin", "state", name, "warm")[0] == 0
        alike = [[f"all={name}"] for name in ("avx2",) if name in files] + [[]]
        every = alike + [[f"all={name}"] for name in files if name != "avx2"]
        print(f"{streams} streams of {TOKENS} tokens, a swap every {1000 * PERIOD:g} ms")
        print(f"{'':34} {'median':>8} {'99.9 %':>8} {'longest gap: middle, least, most':>26} {'steps':>6} {'grown':>6} "
              f"{'swaps':>6}")
        gaps(d, streams)
        base = show("no swaps, ref", *measure(d, streams))
        show("swaps among all plugins", *measure(d, streams, every), base=base)
        assert d.ctl("kernels", "use", "all=ref")[0] == 0
        show("ref and avx2 by turns, --at=step", *measure(d, streams, alike, "step"), base=base)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
