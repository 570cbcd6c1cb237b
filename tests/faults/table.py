#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The ground truth of the probes: each fault, in a kernel or in a server, is caught by the probes that are named for
it, and what is sound passes. TABLE.md is what is seen; this test fails where it says otherwise.

    RUNS=20    each named cell and each sound one so often, with other seeds, sizes and texts each time; else once
    ALL=1      the cells that nobody is named for, too, once each
    ROWS=TEXT  only the rows whose names have it
    WRITE=1    writes TABLE.md anew, from a run with ALL=1
"""
import collections
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lib")]
import plugins  # noqa: E402
import probing  # noqa: E402
import servers  # noqa: E402
import wrong_servers  # noqa: E402
from client import BUILD  # noqa: E402
from daemon import Daemon  # noqa: E402
from scenario import ok  # noqa: E402
from scripted import Served, Sound  # noqa: E402
from through import served  # noqa: E402
from turns import config, fast_kernels  # noqa: E402

RUNS = int(os.environ.get("RUNS", "1"))
ALL, WRITE = bool(os.environ.get("ALL")), bool(os.environ.get("WRITE"))
ROWS = os.environ.get("ROWS", "")
TABLE = os.path.join(HERE, "TABLE.md")
CODES = {"pass": 0, "warn": 10, "inconclusive": 10, "fail": 11}
NOT_SAID = "–"  # inconclusive: the probe says that it cannot say


# What each probe is given in the n-th run. Sizes reach to where a fault begins, and no farther than the tiny model
# goes.
PROBES = {
    "recall": lambda n: ["--turns", str(70 + n % 30)],
    "continuation": lambda n: ["--tools", "1"],
    "needle": lambda n: ["--sizes", f"{300 + n},{1500 + 5 * n}"],
    "longgen": lambda n: ["--seed", str(n + 1)],
    "api": lambda n: ["--patience", "10"],
    "abort": lambda n: ["--drops", "1", "--max-tokens", "400"],
    "warmcold": lambda n: ["--count", "0", "--rounds", "1"],
    "numerics": lambda n: ["--tokens", str(320 + 8 * n)],
}

# What stands in the table, what is served or put in force, and what each probe that is named must say of it: its
# verdict and why, as a regular expression. Other probes may say anything.
Row = collections.namedtuple("Row", "name subject expected")
EVERY = dict.fromkeys(PROBES, "pass")
SOUND = [
    # Over its control socket; the tiny model cannot write an article.
    Row("sound: dsv4d", None, {**EVERY, "longgen": "inconclusive only [0-9]+ tokens"}),
    # By its URL; nobody can be looked into from there.
    Row("sound: a server by its URL", servers.Writes, {**EVERY, "numerics": "inconclusive only a daemon of this kind"}),
]
FORGETS = {"recall": "fail asked for the .*, the answer was",
           "needle": "fail % the answer was"}
LOGITS = {"warmcold": "fail has other logits than without it"}
NUMBERS = "with the same parameters the logits of the set in force are"
KERNELS = [
    Row("window off by one", "attn=window-off-by-one",
        {**FORGETS, "continuation": "fail the first turn is forgotten", "numerics": f"fail {NUMBERS}"}),
    Row("indexer loses its best rows", "indexer=indexer-loses-best", FORGETS),
    Row("bits depend on what was cached", "norm=falsely-exact",
        {**LOGITS, "abort": "fail has other logits than without the cache"}),
    Row("a norm is 8 % off in long calls", "norm=few-percent-off", {**LOGITS, "numerics": f"warn {NUMBERS}"}),
    Row("a norm is 25 % off in long calls", "norm=quarter-off", {**LOGITS, "numerics": f"fail {NUMBERS}"}),
]
MANY = "(1[2-9]|[2-9][0-9]|[0-9]{3,})"  # 12 and more
SERVERS = [
    Row("word spam", servers.WordSpam, {"longgen": f"fail content repeats itself: maxrun {MANY}, maxline [0-9],"}),
    Row("line loop", servers.LineLoop, {"longgen": f"fail content repeats itself: maxrun [1-5], maxline {MANY}"}),
    Row("line loop while thinking", servers.ThinksInLoops,
        {"longgen": f"fail reasoning repeats itself: maxrun [1-5], maxline {MANY}"}),
    Row("slow topic loop", servers.SlowTopicLoop,
        {"longgen": "fail content repeats itself: maxrun [1-5], maxline [1-4], gzip 0[.](0|100)"}),
    Row("stale window after a prefix hit", servers.StaleWindow, {"warmcold": "fail from the cache: the"}),
    Row("half-written tail after an abort", servers.HalfWrittenTail,
        {"abort": "fail the next turn is another than without"}),
    Row("history dropped by the template", servers.DropsHistory,
        {"recall": FORGETS["recall"], "continuation": "fail the first turn is forgotten"}),
    Row("reasoning eaten", servers.EatsReasoning, {"api": "fail reasoning: none came, though [1-9][0-9]* tokens"}),
    Row("reasoning put into the content", servers.ReasonsAloud,
        {"api": "fail reasoning: reasoning stands inside the content"}),
    Row("answers taken for reasoning", servers.OnlyThinks,
        {"recall": "fail the reasoning has it and the answer has not",
         "needle": "fail the reasoning has the code and the answer has not", "api": "fail chat: the content is empty"}),
]


def probe(d, url, name, words):
    """(verdict, why)."""
    command = [os.path.join(BUILD, "dsv4ctl"), "--socket", d.control, "--json", "probe", "run", name, *words,
               *(["--url", url] if url else [])]
    r = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1200, check=False)
    assert r.stdout, (command, r.returncode, r.stderr)
    result = json.loads(r.stdout.splitlines()[-1])["results"][0]
    assert r.returncode == CODES[result["verdict"]], (command, r.returncode, result)
    return result["verdict"], result["why"]


@contextlib.contextmanager
def subject(d, row):
    """The URL to probe, of a server that remembers nothing yet; None: the daemon, on its control socket."""
    if row.subject is None or isinstance(row.subject, str):
        yield None
    else:
        with served(row.subject, d) as url:
            yield url


class Seen:
    """What came of all runs."""

    def __init__(self):
        self.cells = collections.defaultdict(collections.Counter)  # (row, probe): verdicts
        self.wrong, self.longest = [], {}

    def run(self, d, row, name, n):
        begun = time.monotonic()
        with subject(d, row) as url:
            verdict, why = probe(d, url, name, PROBES[name](n))
        self.longest[name] = max(self.longest.get(name, 0), time.monotonic() - begun)
        self.cells[row.name, name][verdict] += 1
        expected, _, because = row.expected.get(name, verdict).partition(" ")
        if verdict != expected or not re.search(because, why):
            self.wrong.append(f"{row.name}: {name}, run {n}: {verdict}, not {row.expected[name]}: {why}")

    def row(self, d, row):
        for name in PROBES:
            for n in range(RUNS if name in row.expected else int(ALL)):
                self.run(d, row, name, n)

    def cell(self, row, name):
        """As TABLE.md has it: what was named stands out."""
        found = self.cells[row.name, name]
        text = " / ".join(sorted(NOT_SAID if v == "inconclusive" else v for v in found)) or "?"
        return f"**{text}**" if row.expected.get(name, "").startswith(("warn", "fail")) else text

    def counts(self, row, name):
        found = sorted(self.cells[row.name, name].items())
        return " ".join(f"{NOT_SAID if v == 'inconclusive' else v} {n}" for v, n in found)


def table(cell):
    lines = ["| | " + " | ".join(PROBES) + " |", "|---" * (1 + len(PROBES)) + "|"]
    for row in SOUND + KERNELS + SERVERS:
        lines.append(f"| {row.name} | " + " | ".join(cell(row, name) for name in PROBES) + " |")
    return lines


def protocol(seen):
    """The faults of the protocol, which only api is to catch, as lines of a table. Once each they are tried by probe_faults.py."""
    lines = ["| a server where | checks of api that fail |", "|---|---|"]
    for checks, handler in [(set(), Sound), *wrong_servers.FAULTS]:
        for n in range(RUNS if RUNS > 1 else 0):
            with Served(handler) as url:
                code, result = probing.probe(url, "--patience", "1")
            found = probing.bad_checks(result)
            if found != checks or (code == 0) == bool(checks):
                seen.wrong.append(f"{handler.__name__}: run {n}: {found}, not {checks}: {result['why']}")
        said = handler.__doc__.replace("|", "\\|") if checks else "nothing is wrong"
        lines.append(f"| {said} | {', '.join(sorted(checks)) or 'none'} |")
    return lines


def compared(seen, lines):
    """Each line that this run can tell is in TABLE.md."""
    with open(TABLE, encoding="utf-8") as f:
        there = f.read().splitlines()
    rows = {r.name: r for r in SOUND + KERNELS + SERVERS}
    for line in lines:
        name, *cells = (c.strip() for c in line.strip("|").split("|"))
        have = next((x for x in there if x.startswith(f"| {name} |")), None)
        if line not in there and (name not in rows or have is None):
            seen.wrong.append(f"not in TABLE.md: {line}")
        elif name in rows:
            old = [c.strip() for c in have.strip("|").split("|")][1:]
            seen.wrong += [f"TABLE.md says of {name}, {p}: {o}, seen: {c}" for p, o, c in zip(PROBES, old, cells)
                           if p in rows[name].expected and o != c]


HEAD = """<!-- Made by tests/faults/table.py; SPDX-License-Identifier: MIT -->
# What the probes catch

Each row is one fault, in a kernel (`tests/plugins`) or in a server (`tests/faults/servers.py`), each column a probe.
**Bold**: the probes that must catch it. The others are shown as they were seen; {dash} is inconclusive, which says why.

""".replace("{dash}", NOT_SAID)


def written(lines, more):
    with open(TABLE, "w", encoding="utf-8") as f:
        f.write(HEAD + "\n".join(lines) + "\n\nFaults of the protocol (`tests/lib/wrong_servers.py`), for the probe api, "
                "whose report names each check:\n\n" + "\n".join(more) + "\n")


def kernels(d, seen):
    for row in KERNELS:
        plugin = row.subject.partition("=")[2]
        ok(d, "plugin", "load", plugin)
        ok(d, "kernels", "use", row.subject)
        seen.row(d, row)
        ok(d, "kernels", "use", f"all={'avx2' if fast_kernels() else 'ref'}")


def daemons(seen):
    with Daemon(plugins=["avx2"] if fast_kernels() else []) as d:
        for row in KERNELS:
            name = row.subject.partition("=")[2]
            shutil.copy(plugins.fixture(name), d.plugins)
        d.stop()
        path = os.path.join(d.dir, "conf")
        config(path, memory="64M", disk="no", **fast_kernels())
        d.args = ["--config", path]
        d.start()
        for row in SOUND + SERVERS:
            seen.row(d, row)
        kernels(d, seen)


def briefly():
    """Under a sanitizer: one fault of each kind."""
    SOUND[:] = SOUND[1:]
    KERNELS[:] = KERNELS[:1]
    kept = servers.SlowTopicLoop, servers.StaleWindow, servers.HalfWrittenTail
    SERVERS[:] = [r for r in SERVERS if r.subject in kept]


def chosen():
    """Of the rows those that are asked for."""
    for rows in (SOUND, KERNELS, SERVERS):
        rows[:] = [r for r in rows if ROWS in r.name]


def main():
    seen = Seen()
    chosen()
    if plugins.sanitizer():
        briefly()
    daemons(seen)
    more = [] if ROWS else protocol(seen)
    lines = table(seen.cell)
    if WRITE and not seen.wrong:
        assert ALL and not ROWS, "with ALL=1"
        written(lines, more)
    print("\n".join(table(seen.counts)), *more, sep="\n")
    print("longest: ", {k: round(v, 1) for k, v in seen.longest.items()})
    if not seen.wrong:
        compared(seen, lines + more)
    if seen.wrong:
        sys.exit("\n".join(seen.wrong))


main()
print("ok")
