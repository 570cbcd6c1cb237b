# SPDX-License-Identifier: MIT
"""tests/bench/against.py: takes turns, compares what both sides print, and fails where a side does."""
import json
import os
import subprocess
import sys
import tempfile

from client import SRC

AGAINST = os.path.join(SRC, "tests", "bench", "against.py")


def run(*args):
    return subprocess.run([sys.executable, AGAINST, *args], capture_output=True, text=True, timeout=60, check=False)


def main():
    with tempfile.TemporaryDirectory() as folder:
        turns = os.path.join(folder, "turns")
        ours = f"echo ours >>{turns}; echo noise 7; echo '  prefill 512 tok/s 300.0'; echo decode ms/token 20.00"
        peer = f"echo peer >>{turns}; echo decode ms/token 25.00; echo prefill 512 tok/s 100; echo prefill 9 tok/s 1"
        r = run("--ours", ours, "--peer", peer, "--rounds", "2", "--between", f"echo between >>{turns}")
        assert r.returncode == 0 and not r.stderr, r
        with open(turns, encoding="utf-8") as f:
            assert f.read().split() == ["between", "ours", "between", "peer"] * 2
        lines = {line[:12].strip(): line[12:].split() for line in r.stdout.splitlines()[2:]}
        # a ratio above 1 says that ours is faster, of times and of rates; what one side alone says is left out
        assert lines == {"decode": ["20.00", "25.00", "1.25", "1.25", "1.25"],
                         "prefill 512": ["300.00", "100.00", "3.00", "3.00", "3.00"]}, r.stdout
        found = json.loads(run("--ours", ours, "--peer", peer, "--rounds", "1", "--json").stdout)
        assert found["cpu"] and found["rounds"] == [{"ours": {"decode": 20.0, "prefill 512": 300.0},
                                                     "peer": {"decode": 25.0, "prefill 512": 100.0,
                                                              "prefill 9": 1.0}}], found
        for bad, says in (("exit 3", "peer: status 3"), ("echo nothing", "peer: status 0, 0 figures")):
            r = run("--ours", ours, "--peer", bad)
            assert r.returncode == 1 and says in r.stderr and not r.stdout, r
        assert run("--ours", ours, "--peer", peer, "--between", "false").returncode == 1
    print("ok")


main()
