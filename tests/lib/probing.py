# SPDX-License-Identifier: MIT
"""dsv4ctl's probes of servers, and of a daemon's own front.

    code, result = probe(url, "--patience", "1")        # one probe, api unless named
    bad_checks(result)                                   # which of its checks did not pass
"""
import json
import os
import subprocess

from client import BUILD

CHECKS = {"model", "chat", "reasoning", "tools", "stream", "fields", "auth", "errors"}
PASS, ERROR, USAGE, CONNECT, WARN, FAIL = 0, 1, 2, 3, 10, 11


def dsv4ctl(*words, env=None):
    """(exit status, standard output, standard error), with no daemon to ask."""
    r = subprocess.run([os.path.join(BUILD, "dsv4ctl"), "--socket", "/nonexistent", *words], stdin=subprocess.DEVNULL,
                       capture_output=True, text=True, timeout=300, check=False, env={**os.environ, **(env or {})})
    return r.returncode, r.stdout, r.stderr


def probe(url, *words, name="api", key="right"):
    """(exit status, result) of one probe."""
    code, out, err = dsv4ctl("--json", "probe", "run", name, "--url", url, *words, env={"DSV4_PROBE_KEY": key})
    lines = out.splitlines()
    assert lines, (code, err)
    reply = json.loads(lines[-1])
    assert code in (PASS, WARN, FAIL) and len(reply["results"]) == 1, (code, reply, err)
    assert all("progress" in json.loads(line) for line in lines[:-1]), out
    return code, reply["results"][0]


def bad_checks(result):
    figures = result["figures"]
    assert {n for n in figures if n.startswith("check_")} == {f"check_{n}" for n in CHECKS}, figures
    return {n for n in CHECKS if figures[f"check_{n}"] != 1}


def ok_or(d, expected, *words):
    code, out, err = d.ctl("--json", *words, timeout=600)
    assert code == expected, (code, out, err)
    return json.loads(out.splitlines()[-1])
