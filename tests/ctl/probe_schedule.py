# SPDX-License-Identifier: MIT
"""Probes on a schedule: they run by themselves, behind everything that somebody waits for, and tell what they find."""
import os
import re
import subprocess
import tempfile
import threading
import time

from client import BUILD
from daemon import PATIENCE, Daemon
from promtext import Page
from scenario import by, ok

QUICK_RECALL = "every = 1s\nfacts = 1\nturns = 0\n"
SHORT = ["recall", "--facts", "1", "--turns", "0"]
# Seconds of prefill, in steps of 64 tokens: who gives way does so between two.
LONG_NEEDLE = "every = 1s\nsizes = 6000\ndepths = 10\n"


def until(what):
    end = time.monotonic() + PATIENCE
    while not (got := what()):
        assert time.monotonic() < end, what
    return got


def configure(conf, d=None, load=1, **probes):
    with open(conf, "w", encoding="utf-8") as f:
        f.write(f"[daemon]\nmax_running = 1\nprefill_chunk = 64\n[cache]\nmemory = 0\n[probes]\nmax_load = {load}\n")
        for name, options in probes.items():
            f.write(f"[probe.{name}]\n{options}")
    if d:
        ok(d, "reload")


def row(d, probe):
    return by(ok(d, "probe", "list")["probes"], "name")[probe,]


def scheduled(d, probe):
    return [r for r in ok(d, "probe", "history", "--max", "256", "--probe", probe)["runs"] if r["by"] == "schedule"]


def running(d):
    """Labels of requests that are computed or wait."""
    return [r["label"] for r in ok(d, "request", "list")["requests"] if r["finish"] == "running"]


class Held:
    """A client's request that takes the only place, until the end of the block."""

    def __init__(self, d):
        self.d = d
        self.thread = threading.Thread(target=d.http, args=("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 30000, "ignore_eos": True}),
            kwargs={"timeout": PATIENCE})

    def __enter__(self):
        self.thread.start()
        until(lambda: "http" in running(self.d))
        return self

    def leave(self):
        for r in ok(self.d, "request", "list")["requests"]:
            if r["label"] == "http" and r["finish"] == "running":
                ok(self.d, "request", "cancel", r["id"])

    def __exit__(self, kind, value, trace):
        self.leave()
        self.thread.join()


def it_runs_by_itself(d):
    until(lambda: len(scheduled(d, "recall")) >= 2)
    run = scheduled(d, "recall")[0]
    assert run["quick"] is True and run["result"]["verdict"] == "pass" and run["result"]["figures"]["asked"] == 1, run
    r = row(d, "recall")
    assert r["every"] == "1s" and abs(r["next"] - time.time()) < PATIENCE, r
    assert {o["name"]: o["configured"] for o in r["options"]} == {"quick": None, "facts": "1", "turns": "0",
                                                                  "tools": None,
                                                                  "thinking": None}
    assert row(d, "longgen")["every"] is None and row(d, "longgen")["next"] is None
    assert re.search(r"<6>probe probe=recall verdict=pass ", d.log()), d.log()
    assert ok(d, "probe", "run",
              "recall")["results"][0]["figures"]["asked"] == 1  # so says the configuration, not the default


def a_failure_is_one_line_that_stands_out(d, conf):
    configure(conf, d, longgen="every = 1s\nmaxrun_fail = 1\n")
    run = until(lambda: scheduled(d, "longgen"))[-1]
    line = until(lambda: re.search(r"<4>probe_failed probe=longgen verdict=fail .*", d.log())).group()
    assert "repeats" in line and run["result"]["requests"][0] in line and run["result"]["why"] in line, line
    assert Page(d).state("probe_verdict", "longgen") == "fail"


def clients_come_first(d, conf):
    """While one has the only place nothing begins; that is counted once."""
    with Held(d):
        done = len(scheduled(d, "recall"))
        configure(conf, d, recall=QUICK_RECALL)
        until(lambda: row(d, "recall")["postponed"]["waiting"])
        assert len(scheduled(d, "recall")) == done
        assert Page(d)["probe_postponed_total", "recall", "waiting"] == row(d, "recall")["postponed"]["waiting"] == 1
    until(lambda: len(scheduled(d, "recall")) > done)


def who_comes_meanwhile_is_let_by(d, conf):
    """A client that must wait, and a run that somebody asked for: the scheduled one leaves, without a verdict."""
    configure(conf, d, needle=LONG_NEEDLE)
    until(lambda: "probe" in running(d))
    while not (gave_way := row(d, "needle")["postponed"]["gave_way"]):
        status, _, _ = d.http("POST", "/v1/chat/completions",
                              {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1},
                              timeout=PATIENCE)
        assert status == 200
    until(lambda: "probe" in running(d))
    assert ok(d, "probe", "run", *SHORT)["verdict"] == "pass"
    assert row(d, "needle")["postponed"]["gave_way"] > gave_way and not scheduled(d, "needle")


def a_drain_ends_it(d, conf):
    configure(conf, d, needle=LONG_NEEDLE)
    until(lambda: "probe" in running(d))
    gave_way = row(d, "needle")["postponed"]["gave_way"]
    ok(d, "drain")
    ok(d, "wait", "drained")
    assert not scheduled(d, "needle") and row(d, "needle")["postponed"]["gave_way"] == gave_way
    configure(conf, d, recall=QUICK_RECALL)
    done = len(scheduled(d, "recall"))
    ok(d, "resume")
    until(lambda: len(scheduled(d, "recall")) > done)


def who_must_wait_is_told_for_whom(d, conf):
    configure(conf, d)
    command = [os.path.join(BUILD, "dsv4ctl"), "--socket", d.control, "probe", "run", *SHORT]
    with Held(d) as client, subprocess.Popen(command, stdout=subprocess.PIPE) as first:
        until(lambda: ok(d, "status")["requests"]["queued"])
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as second:
            told = second.stderr.readline()
            assert told == f"dsv4ctl: waiting for the end of probe recall (uid {os.getuid()})\n", told
            client.leave()
            assert "pass" in second.stdout.read() and second.wait() == 0
        assert first.wait() == 0


def times_are_kept(d, conf):
    """Over a reload, and by the history over a restart."""
    configure(conf, d, recall="every = 1h\n", needle="every = 1h\n")
    recall, needle = row(d, "recall")["next"], row(d, "needle")["next"]
    configure(conf, d, load=0.5, recall="every = 1h\nturns = 2\n", needle="every = 1h\n")
    assert abs(row(d, "recall")["next"] - recall) < 1 > abs(row(d, "needle")["next"] - needle)
    last = scheduled(d, "recall")[0]["time"]
    assert abs(recall - last - 3600) < 2 and needle < time.time() + 3600 + 1
    assert d.stop() == 0
    d.start()
    assert abs(row(d, "recall")["next"] - last - 3600) < 2


with tempfile.TemporaryDirectory() as tmp:
    path = os.path.join(tmp, "d.conf")
    configure(path, recall=QUICK_RECALL)
    with Daemon("--config", path) as daemon:
        it_runs_by_itself(daemon)
        a_failure_is_one_line_that_stands_out(daemon, path)
        clients_come_first(daemon, path)
        who_comes_meanwhile_is_let_by(daemon, path)
        a_drain_ends_it(daemon, path)
        who_must_wait_is_told_for_whom(daemon, path)
        times_are_kept(daemon, path)
