# SPDX-License-Identifier: MIT
"""What speculation wins or costs: tokens per second of decoding, with 0, 1, 2... drafts in a step by turns.

tests/lib/python.sh tests/bench/speculate.py [STREAMS [KERNELS [MODEL]]] (top_srcdir and top_builddir as in `make
check`)

The prompts are etc/tiny/prompts.json, their answers greedy; prefill is not in the figures. Prints figures and judges
nothing. Ratios are to no drafts in the same round; a model of random weights accepts nothing."""
import json
import os
import statistics
import sys
import tempfile
import threading

import plugins
from daemon import Daemon

ROUNDS, MOST, PROMPTS = 5, 3, 24


def asks():
    with open(os.path.join(os.environ["top_srcdir"], "etc/tiny/prompts.json"), encoding="utf-8") as f:
        for p in json.load(f)[:80:80 // PROMPTS][:PROMPTS]:
            yield {"messages": p["messages"], "temperature": 0, "max_tokens": 100, "thinking": {"type": "enabled"}}


def together(d, bodies):
    """Asks all at once and reads nothing until they end; (seconds from the first token of any to the last,
    summaries)."""
    threads = [threading.Thread(target=d.http, args=("POST", "/v1/chat/completions", b)) for b in bodies]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    done = json.loads(d.ctl("--json", "request", "list", "--max", str(len(bodies)))[1])["requests"]
    return max(r["submit"] + r["total_s"] for r in done) - min(r["submit"] + r["first_s"] for r in done), done


def turn(d, streams):
    """Tokens per second over all streams, those after the first; drafted, accepted and all tokens."""
    todo, seconds, done = list(asks()), 0, []
    while todo:
        took, part = together(d, todo[:streams])
        seconds, done, todo = seconds + took, done + part, todo[streams:]
    out, drafted, accepted = (sum(r["usage"][k] for r in done) for k in ("completion", "drafted", "accepted"))
    return (out - len(done)) / seconds, drafted, accepted, out - len(done)


def main(streams, kernels, model):
    files = plugins.shipped()
    with tempfile.TemporaryDirectory() as tmp, \
            Daemon("--plugins", plugins.directory(tmp, *files.values()), "--log-level", "warn", model=model) as d:
        if kernels != "ref":
            assert d.ctl("plugin", "load", kernels)[0] == 0
            assert d.ctl("kernels", "use", f"all={kernels}")[0] == 0
        turn(d, streams)
        got = {n: [] for n in range(MOST + 1)}
        for _ in range(ROUNDS):
            for n, rows in got.items():
                assert d.ctl("param", "set", f"speculate={n}")[0] == 0
                rows.append(turn(d, streams))
        print(f"{streams} streams, {kernels}: drafts, tokens per second (median), ratio (median, least, most), "
              f"accepted of drafted, "
              "tokens per step")
        for n, rows in got.items():
            ratios = sorted(a[0] / b[0] for a, b in zip(rows, got[0]))
            _, drafted, accepted, out = rows[0]
            print(f"{n} {statistics.median(r[0] for r in rows):9.1f} {statistics.median(ratios):6.2f} {ratios[0]:5.2f} "
                  f"{ratios[-1]:5.2f}"
                  f" {accepted:6} of {drafted:6} {out / (out - accepted):5.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1, sys.argv[2] if len(sys.argv) > 2 else "avx512",
         sys.argv[3] if len(sys.argv) > 3 else None)
