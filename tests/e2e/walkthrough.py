# SPDX-License-Identifier: MIT
"""The hunt that dsv4-probes(7) and README.md tell, on a real daemon: a model that forgets, the suspect cleared, the
culprit found. Every command is run and what it prints is compared with what the pages show, so that they cannot lie.

    walkthrough.py                  the test
    walkthrough.py --print          the session as text
    walkthrough.py --roff           the same for the page"""
import os
import re
import shutil
import subprocess
import sys

import plugins
from client import BUILD, SRC, skip
from daemon import Daemon
from session import compare, cut, of_markdown, of_roff, roff, run

PAGE = os.path.join(SRC, "man", "dsv4-probes.7.in")
README = os.path.join(SRC, "README.md")
NEEDED = ("avx2", "mhc-bf16", "indexer-bf16")
CULPRIT = "indexer-int8"
CONFIG = f"""[plugins]
load = avx2 mhc-bf16 indexer-bf16 {CULPRIT}
[kernels]
use = norm=avx2 compress=avx2 attention=avx2 mhc=mhc-bf16 indexer={CULPRIT}
"""
LONG = "recall --turns 14 --facts 1"
PROBE = "PROBE VERDICT WHY"

# (name, command, exit status, the columns that stay; none: all). {answer} is the request that `long` named, {topk} what
# `explain` said would do.
STEPS = [
    ("state", "kernels list", 0, "SET ACTIVE"),
    ("check", f"plugin check {CULPRIT}", 0, "OP PHASE NUMERICS CASES LIMIT VERDICT"),
    ("short", "probe run recall", 0, PROBE),
    ("long", f"probe run {LONG}", 11, PROBE),
    ("shadow", "shadow start ref --share 1", 0, ""),
    ("traffic", f"probe run {LONG}", 11, PROBE),
    ("cleared", "shadow stop", 0, "OP PHASE OUTPUT CALLS MEAN COSINE"),
    ("explain", "explain --request {answer} --text 'my codeword is poppy' --at output:3 --against ref --rows 1", 0,
     "LAYER ROWS TOPK BEST_RANK SELECTED NEEDED_TOPK AGAINST_BEST ROW SCORE RANK AGAINST_SCORE AGAINST_RANK TAKE_SOME "
     "AGAINST_SOME TEXT"),
    ("compare", "compare --request {answer} --b ref", 0,
     "OP PHASE OUTPUT MEAN COSINE LAYER DRIFT ROWS ANSWER TEXT"),
    ("widen", "param set index_topk={topk}", 0, ""),
    ("wide", f"probe run {LONG}", 0, PROBE),
    ("narrow", "param set index_topk=32", 0, ""),
    ("bisect", f"bisect {LONG}", 0, "NUMBER CHANGE BELIEVED RUN CHANGES VERDICT WHY"),
    ("mend", "param set index_key=bf16", 0, "NAME VALUE WHEN OP PHASE BEFORE AFTER NUMERICS NOW"),
    ("mended", f"probe run {LONG}", 0, PROBE),
    ("history", "probe history --max 3", 0, "PROBE VERDICT KERNELS NUMERICS"),
]

# Of a daemon as it comes: the tour's.
TOUR = [
    ("tour", "probe run recall needle --sizes 300", 0, PROBE),
    ("small", "probe run longgen", 10, PROBE),
]


def learn(name, out, lines):
    """The id of the wrong answer; the top-k at which, says the table of places, every layer takes the text."""
    if name == "long":
        return {"answer": re.search(r"req-\w+", out)[0]}
    if name == "explain":
        i = next(i for i, line in enumerate(lines) if line.startswith("TAKE_SOME"))
        return {"topk": dict(zip(lines[i].split(), lines[i + 1].split()))["NEEDED_TOPK"]}
    return {}


def hunt():
    d = Daemon(plugins=list(NEEDED))
    plugins.install(plugins.fixture(CULPRIT), os.path.join(d.plugins, CULPRIT + ".so"))
    config = os.path.join(d.dir, "dsv4d.conf")
    with open(config, "w", encoding="utf-8") as f:
        f.write(CONFIG)
    d.args += ["--config", config]
    with d:
        return run(d, STEPS, learn)


def tour():
    with Daemon() as d:
        return run(d, TOUR)


def lint(page):
    if shutil.which("mandoc"):
        subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], check=True)


if __name__ == "__main__":
    if plugins.sanitizer():
        skip("what the pages say is compared with what an ordinary build prints")
    if not all(name in plugins.shipped() for name in NEEDED):
        skip("this CPU has no AVX2")
    HUNT, TOURED = hunt(), tour()
    if "--print" in sys.argv or "--roff" in sys.argv:
        for _, said, printed in TOURED + HUNT:
            block = [said, *map(cut, printed)]
            print(roff(block) if "--roff" in sys.argv else "\n".join(block), end="\n\n")
    else:
        lint(os.path.join(BUILD, "man", "dsv4-probes.7"))
        compare("dsv4-probes(7)", of_roff(PAGE), HUNT)
        compare("README.md", of_markdown(README, "The hunt"), HUNT, whole=False)
        compare("README.md", of_markdown(README, "A two-minute tour"), TOURED, others=True)
        print(f"{len(TOURED) + len(HUNT)} steps are as the pages say")
