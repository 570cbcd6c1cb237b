# SPDX-License-Identifier: MIT
"""What probes found is kept: over a restart, with what each run was made under; a damaged file costs only itself."""
import json
import os
import re

from daemon import Daemon
from promtext import Page
from scenario import ok, refused, said

RECALL = ["probe", "run", "recall", "--facts", "1", "--turns", "0"]


def history(d, *words):
    return ok(d, "probe", "history", *words)["runs"]


def kept(d):
    return os.path.join(d.dir, "state", "probes.json")


def a_run_says_what_it_was_made_under(d):
    assert history(d) == []
    ok(d, *RECALL)
    ok(d, *RECALL, "--quick")
    ok(d, "param", "set", "index_topk=5")
    ok(d, *RECALL)
    newest, quick, first = history(d)
    status = ok(d, "status")
    for run in newest, quick, first:
        assert run["by"] == f"uid {os.getuid()}" and run["changed"] is False and run["model"] == status["model"], run
        assert run["result"]["verdict"] == "pass" and run["result"]["requests"], run
        assert len(run["model_id"]) == 64 and run["kernels"] == ok(d, "kernels", "list")["sets"][0]["name"]
    assert [r["quick"] for r in (newest, quick, first)] == [False, True, False]
    assert [r["numerics"] for r in (newest, quick, first)] == ["index_topk=5", "", ""]
    assert newest["epoch"] > quick["epoch"] == first["epoch"]
    table = said(d, "probe", "history")
    assert "index_topk=5" in table and newest["kernels"] in table


def one_probe_or_those_that_failed(d):
    code, _, _ = d.ctl("probe", "run", "longgen", "--maxrun-fail", "1")  # no text has less
    assert code == 11
    all_runs = history(d)
    assert [r["result"]["name"] for r in all_runs] == ["longgen", "recall", "recall", "recall"]
    assert history(d, "--probe", "recall") == all_runs[1:] and history(d, "--probe", "recall", "--max",
                                                                       "2") == all_runs[1:3]
    assert history(d, "--failed") == all_runs[:1] and history(d, "--failed", "--probe", "recall") == []
    refused(d, 1, "no probe named 'nose'", "probe", "history", "--probe", "nose")
    refused(d, 1, "1 to 256", "probe", "history", "--max", "257")


def an_experiment_aside_is_no_verdict_on_the_daemon(d):
    """What runs under a set of its own alarms nobody: neither history nor metrics have it."""
    before, page = history(d), Page(d)
    code, _, _ = d.ctl("probe", "run", "longgen", "--set", "ref,index_topk=3", "--maxrun-fail", "1")
    assert code == 11
    ok(d, *RECALL, "--set", "ref,index_topk=3")
    assert history(d) == before
    after = Page(d)
    for name in "longgen", "recall":
        assert after["probe_last_run_time_seconds", name] == page["probe_last_run_time_seconds", name]
    assert after.total("probe_runs_total") == page.total("probe_runs_total") == 4


def a_restart_forgets_nothing(d):
    before = history(d)
    with open(kept(d), encoding="utf-8") as f:
        assert json.load(f)["runs"] == before[::-1]
    assert d.stop() == 0
    d.start()
    assert history(d) == before
    page, longgen, recall = Page(d), *before[:2]
    assert page.state("probe_verdict", "recall") == "pass" and page.state("probe_verdict", "longgen") == "fail"
    assert page["probe_last_run_time_seconds", "recall"] == recall["time"] and page["probe_seconds", "longgen"] == \
        longgen["result"]["seconds"] and not page.labels("probe_runs_total")


def what_is_damaged_is_set_aside(d, damage):
    """And the daemon starts, tells of it, and keeps anew."""
    before = d.log().count("probe_history_damaged")
    assert d.stop() == 0
    damage(kept(d))
    with open(kept(d), "rb") as f:
        bad = f.read()
    d.start()
    assert history(d) == [] and d.log().count("probe_history_damaged") == before + 1
    with open(kept(d) + ".bad", "rb") as f:
        assert f.read() == bad
    ok(d, *RECALL)
    assert len(history(d)) == 1 and os.path.getsize(kept(d)) > 100


def cut_short(path):
    os.truncate(path, os.path.getsize(path) // 2)


def too_long(path):
    with open(path, "ab") as f:
        f.write(b" " * (1 << 20))


def of_another_form(path):
    with open(path, encoding="utf-8") as f:
        all_runs = json.load(f)
    all_runs["runs"][0]["result"]["verdict"] = "fine"
    with open(path, "w", encoding="utf-8") as f:
        json.dump(all_runs, f)


def absurd(field, value):
    """A number of the right type that no run has."""
    def damage(path):
        with open(path, encoding="utf-8") as f:
            all_runs = json.load(f)
        run = all_runs["runs"][0]
        (run if field in run else run["result"])[field] = value
        with open(path, "w", encoding="utf-8") as f:
            json.dump(all_runs, f)
    return damage


def the_table_says_why_and_when(d):
    table = said(d, "probe", "history", "--max", "1")
    run = history(d, "--max", "1")[0]
    lines = table.splitlines()
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  recall ", lines[1]) and run["result"]["why"] in lines[1], table
    assert all(i in table for i in run["result"]["requests"]) and len(run["result"]["requests"]) == 1, table


def no_more_than_it_may(d):
    """256 runs; the oldest leave."""
    assert d.stop() == 0
    with open(kept(d), encoding="utf-8") as f:
        all_runs = json.load(f)
    run = all_runs["runs"][-1]
    all_runs["runs"] = [{**run, "epoch": i} for i in range(256)]
    with open(kept(d), "w", encoding="utf-8") as f:
        json.dump(all_runs, f)
    d.start()
    assert [r["epoch"] for r in history(d, "--max", "256")] == list(range(255, -1, -1))
    ok(d, *RECALL)
    assert [r["epoch"] for r in history(d, "--max", "256")][1:] == list(range(255, 0, -1))


def what_cannot_be_kept_is_a_metric(d):
    """Until it can: a folder stands in the file's place."""
    assert Page(d).total("probe_history_unkept") == 0
    os.remove(kept(d))
    os.mkdir(kept(d))
    ok(d, *RECALL)
    assert Page(d).total("probe_history_unkept") == 1 and d.log().count("probe_history_not_kept") == 1
    os.rmdir(kept(d))
    ok(d, *RECALL)
    assert Page(d).total("probe_history_unkept") == 0 and os.path.getsize(kept(d)) > 100


with Daemon() as daemon:
    a_run_says_what_it_was_made_under(daemon)
    one_probe_or_those_that_failed(daemon)
    an_experiment_aside_is_no_verdict_on_the_daemon(daemon)
    a_restart_forgets_nothing(daemon)
    for way in cut_short, too_long, of_another_form:
        what_is_damaged_is_set_aside(daemon, way)
    # dsv4ctl probe history crashed on a time that no calendar has.
    for field, value in ("time", 1e300), ("time", -1), ("seconds", 1e300), ("epoch", -5):
        what_is_damaged_is_set_aside(daemon, absurd(field, value))
    the_table_says_why_and_when(daemon)
    what_cannot_be_kept_is_a_metric(daemon)
    no_more_than_it_may(daemon)
