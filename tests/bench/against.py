# SPDX-License-Identifier: MIT
"""This engine against another one on the same shapes, by turns: A-B-A-B, so that both meet the same minutes of the
machine.

    python3 tests/bench/against.py --ours CMD --peer CMD [--rounds 3] [--between CMD] [--json]

Each CMD is a shell command that measures one engine once and prints, among whatever else, lines of this form:

    prefill 512 tok/s 106.74      a prompt of so many tokens, computed at once; any number of such lines
    decode ms/token 23.00         the median of steps of one token each, behind a short prompt

and ends with status 0. What both sides print is compared, round by round; a ratio above 1 says that ours is faster.
With --between a command runs before each measurement and must succeed, such as one that waits until the machine is
idle. Make both sides ready first (files in the page cache, weights repacked), and give both as many threads."""
import argparse
import json
import re
import statistics
import subprocess
import sys

LINE = re.compile(r"^\s*(?:(prefill) (\d+) tok/s|(decode) ms/token) ([0-9.]+)", re.M)


def figures(text):
    """{"decode": ms, "prefill 512": tok/s, ...} of a measurement's output."""
    return {f"{m[1]} {m[2]}" if m[1] else m[3]: float(m[4]) for m in LINE.finditer(text)}


def measure(what, command, between):
    if between:
        subprocess.run(between, shell=True, check=True)
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, text=True, check=False)
    got = figures(done.stdout)
    if done.returncode or not got:
        sys.exit(f"against.py: {what}: status {done.returncode}, {len(got)} figures")
    return got


def faster(key, ours, peer):
    """How many times; decode is a time, prefill a rate."""
    return peer / ours if key == "decode" else ours / peer


def cpu():
    """Names alone say little: "AMD EPYC" has been many things."""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        has = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", f.read(), re.M))
    return f"{has.get('model name', 'unknown CPU')} (family {has.get('cpu family')}, model {has.get('model')})"


def show(rounds):
    """A line for each figure: medians of both sides, and of the ratios of each round with their least and most."""
    print(f"{cpu()}, {len(rounds)} rounds")
    print(f"{'':12} {'ours':>9} {'peer':>9} {'ratio':>7} {'least':>7} {'most':>7}")
    for key in [k for k in rounds[0][0] if all(k in side for r in rounds for side in r)]:
        pairs = [(ours[key], peer[key]) for ours, peer in rounds]
        ratios = sorted(faster(key, *p) for p in pairs)
        ours, peer = (statistics.median(side) for side in zip(*pairs))
        print(f"{key:12} {ours:9.2f} {peer:9.2f} {statistics.median(ratios):7.2f} {ratios[0]:7.2f} {ratios[-1]:7.2f}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", required=True, metavar="CMD")
    p.add_argument("--peer", required=True, metavar="CMD")
    p.add_argument("--between", metavar="CMD")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--json", action="store_true", help="the rounds' figures, as they were measured")
    o = p.parse_args()
    rounds = [(measure("ours", o.ours, o.between), measure("peer", o.peer, o.between)) for _ in range(o.rounds)]
    if o.json:
        print(json.dumps({"cpu": cpu(), "rounds": [{"ours": a, "peer": b} for a, b in rounds]}))
    else:
        show(rounds)


if __name__ == "__main__":
    main()
