# SPDX-License-Identifier: MIT
"""A kernel that forgets, hidden among harmless changes: bisect names it, while all others keep the active set. And
probes under a set that is not activated."""
import concurrent.futures
import json
import shlex

import plugins
from control import Control, Error
from daemon import Daemon
from scenario import ok, refused, said

RECALL = ("recall", "--turns", "40", "--facts", "1")
HARMLESS = ["kernels", "use", "all=avx2", "gemm=ref", "moe=moe-fused", "mhc.decode=mhc-bf16"]
PARAMETERS = ["param", "set", "kv_format=bf16", "index_topk=40", "routed_scaling=output"]
ASK = {"messages": [{"role": "user", "content": "What is 7 plus 5?"}], "max_tokens": 4, "temperature": 0}


def verdict(d, *words):
    """Of one run; the exit status of a failed one is 11."""
    code, out, err = d.ctl("probe", "run", *RECALL, *words)
    return {0: "pass", 11: "fail"}[code], out, err


def bisect(d, *words, code=0):
    """The reply, its exit status looked at."""
    got, out, err = d.ctl("--json", "bisect", *words, timeout=600)
    assert got == code, (words, got, out, err)
    return json.loads(out.splitlines()[-1])


def in_force(d):
    status = ok(d, "status")
    return status["kernels"], status["kernels_generation"], status["epoch"]


def under(d, request):
    return ok(d, "request", "show", request)["kernels"]


def a_probe_runs_under_a_set_that_is_not_activated(d):
    before = in_force(d)
    assert verdict(d)[0] == "pass"
    assert verdict(d, "--set", "index_topk.prefill=forgets")[0] == "pass"
    assert verdict(d, "--set", "active,index_topk=40")[0] == "pass"
    r = d.ctl("--json", "probe", "run", *RECALL, "--set", "indexer=forgets")
    assert r[0] == 11, r
    result = json.loads(r[1].splitlines()[-1])["results"][0]
    assert under(d, result["requests"][0]) == "indexer=forgets", result
    assert in_force(d) == before
    history = ok(d, "probe", "history")["runs"]
    assert [run["result"]["verdict"]
            for run in history] == ["pass"], "a verdict on a set of its own is none on the daemon"
    refused(d, 1, "no kernel set or plugin named", "probe", "run", *RECALL, "--set", "none")
    refused(d, 1, "a parameter needs a value", "probe", "run", *RECALL, "--set", "ref,index_topk")
    refused(d, 2, "does not go with --url", "probe", "run", *RECALL, "--set", "ref", "--url", "http://127.0.0.1:1")


def the_kernel_that_forgets_is_named_in_six_runs(d):
    said(d, *PARAMETERS)
    said(d, *HARMLESS, "index_topk.decode=forgets")
    before = in_force(d)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        traffic = [pool.submit(d.http, "POST", "/v1/chat/completions", ASK) for _ in range(12)]
        r = bisect(d, *RECALL)
        answers = {body["choices"][0]["message"]["content"] for _, _, body in (t.result() for t in traffic)}
    assert r["outcome"] == "found" and r["probe_runs"] == len(r["runs"]) <= 6, r
    assert r["culprits"] == [{"changes": ["index_topk.decode: ref -> forgets"], "alone": True, "minimal": True}], r
    harmless = [c for c in r["changes"] if not c["believed"]]
    assert len(r["changes"]) > 24 and len(harmless) == 7, r["changes"]
    assert (r["good"]["verdict"], r["bad"]["verdict"]) == ("pass", "fail"), r
    # what the runs say is what was run
    for run in r["runs"]:
        assert under(d, run["requests"][0]) == run["kernels"], run
        culprit = [c["number"] for c in r["changes"] if "forgets" in c["change"]]
        assert run["verdict"] == ("fail" if set(culprit) <= set(run["changes"]) else "pass"), run
    # the traffic had the active set, and all the same answer
    assert in_force(d) == before and len(answers) == 1, answers
    live = [q for q in ok(d, "request", "list")["requests"] if q["label"] == "http"]
    assert len(live) >= 12 and {q["kernels"] for q in live} == {before[0]}, live
    # the command it prints is the cure
    assert verdict(d)[0] == "fail"
    for command in r["fix"]:
        said(d, *shlex.split(command)[1:])
    assert verdict(d)[0] == "pass"
    assert "forgets" not in in_force(d)[0] and "mhc-bf16" in in_force(d)[0], in_force(d)


def a_parameter_is_named_and_what_fixes_it_was_tried(d):
    native = "kv_format=fp8,routed_scaling=weights"
    ends = ["--good", f"all=avx2,{native},index_topk=32",
            "--bad", f"all=avx2,{native},index_topk=1,drop_thinking=never"]
    three = [*RECALL[:-1], "3", *ends]  # one row is enough for one fact
    r = bisect(d, *three)
    assert r["culprits"][0]["changes"] == ["index_topk: 32 -> 1"] and r["fix_tried"] == "works", r
    parameters, kernels = r["fix"]  # to the rest of the bad end, which is not what is in force
    assert parameters.startswith("dsv4ctl param set ") and set(parameters.split()[3:]) == {
        "index_topk=32", "kv_format=fp8", "routed_scaling=weights", "drop_thinking=never"}, r["fix"]
    assert kernels == "dsv4ctl kernels use all=ref all=avx2", r["fix"]
    table = said(d, "bisect", *three, "--no-confirm")
    assert "index_topk: 32 -> 1 alone makes it fail" in table and "CHANGES" in table and "VERDICT" in table, table


def a_parameter_that_chooses_kernels_is_one_change_with_them(d):
    r = bisect(d, *RECALL, "--good", "ref", "--bad", "indexer-bf16,index_key=bf16", code=12)
    [change] = r["changes"]
    assert "index_key: fp4 -> bf16" in change["change"] and "index_score.decode" in change["change"], change
    assert "one choice" in change["together"], change


def ends_that_agree_or_a_budget_that_is_short_are_told_by_the_status(d):
    r = bisect(d, *RECALL, "--bad", "all=avx2,mhc=mhc-bf16", code=12)
    assert r["outcome"] == "agree" and r["probe_runs"] == 2 and not r["fix"] and "pass" in r["said"], r
    r = bisect(d, *RECALL, "--good", "ref", "--bad", "ref", code=12)
    assert r["probe_runs"] == 0 and "nothing to exchange" in r["said"], r
    r = bisect(d, *RECALL, "--bad", "all=mhc-bf16,index_topk.decode=forgets,index_topk=40", "--max-runs", "3", code=13)
    assert r["outcome"] == "unsettled" and r["probe_runs"] == 3, r
    assert "index_topk.decode: ref -> forgets" in r["left"], r


def two_that_fail_each_are_both_named_and_the_fix_mends(d):
    two = "index_topk.decode=forgets,index_topk=1"
    r = bisect(d, *RECALL[:-1], "3", "--good", "all=avx2,index_topk=32", "--bad", f"all=avx2,{two}")
    named = sorted(change for c in r["culprits"] for change in c["changes"])
    assert named == ["index_topk.decode: avx2 -> forgets", "index_topk: 32 -> 1"], r
    assert r["outcome"] == "found" and r["fix_tried"] == "works", r


def ends_the_wrong_way_round_are_told(d):
    r = bisect(d, *RECALL, "--good", "index_topk.decode=forgets", "--bad", "ref", code=12)
    assert "exchange --good and --bad" in r["said"], r


def a_probe_that_cannot_be_run_under_a_set_is_refused_before_any_run(d):
    before = asked(d)
    for probe, why in (("api", "over HTTP"), ("warmcold", "prefix cache")):
        refused(d, 1, why, "bisect", probe)
        refused(d, 1, f"the probe {probe} cannot", "probe", "run", probe, "--set", "ref")
    assert asked(d) == before


def numerics_under_a_set_are_those_of_the_set(d):
    same = ("numerics", "--tokens", "40", "--answer", "2")
    results = {}
    for name in ("ref", "all=mhc-bf16"):
        code, out, err = d.ctl("--json", "probe", "run", *same, "--set", name)
        results[name] = json.loads(out.splitlines()[-1])["results"][0]["figures"]
        assert code in (0, 10, 11), (out, err)
    assert results["ref"]["same_differing"] == 0 < results["all=mhc-bf16"]["same_differing"], results


def a_drain_is_no_verdict(d):
    with Control(d.control, timeout=120) as c:
        replies = c.calls("io.dsv4.Probes.Bisect", probe="needle", good="ref", bad="all=avx2,index_topk.decode=forgets",
                          options={"sizes": "700,800,900"})
        assert next(replies)["progress"]["done"] == 1
        said(d, "drain")
        try:
            told = [r for r in replies if "progress" not in r]
        except Error as e:
            assert e.name == "io.dsv4.Daemon.Draining", e
        else:
            raise AssertionError(f"an outcome of requests that were turned away: {told}")
        finally:
            said(d, "resume")


def errors_name_the_part(d):
    refused(d, 1, "no probe named 'recal'", "bisect", "recal")
    refused(d, 1, "has no option", "bisect", "recall", "--sizes", "3")
    refused(d, 1, "no kernel set or plugin named 'x'", "bisect", "recall", "--bad", "x")
    refused(d, 1, "max_runs: must be within 2 to", "bisect", "recall", "--max-runs", "1")
    refused(d, 1, "repeat: must be within 1 to", "bisect", "recall", "--repeat", "0")


def who_leaves_ends_it(d):
    before = asked(d)
    with Control(d.control, timeout=120) as c:
        replies = c.calls("io.dsv4.Probes.Bisect", probe="needle", bad="all=avx2,index_topk.decode=forgets",
                          options={"sizes": "700,800,900,1000,1100,1200"})
        assert next(replies)["progress"]["done"] == 1
    assert verdict(d, "--set", "all=avx2")[0] == "pass"  # the next one has its turn
    assert asked(d) - before < 20, "its first run, of 20 requests, was not ended"
    said(d, "plugin", "state", "forgets", "cold")
    plugins.until(lambda: temperature(d, "forgets") == "cold", "nothing holds the plugin any more")


def asked(d):
    """Requests so far."""
    return ok(d, "status")["requests"]["submitted"]


def temperature(d, name):
    return next(p["temperature"] for p in ok(d, "plugin", "list")["plugins"] if p["name"] == name)


# A sanitizer makes everything ten times slower: there it is the life of sets and jobs that counts.
WHOLE = not plugins.sanitizer()
NEEDED = ("avx2", "moe-fused", "mhc-bf16", *(["indexer-bf16"] if WHOLE else []))
have = plugins.shipped()
if not all(name in have for name in NEEDED):
    raise SystemExit(77)  # this CPU has no AVX2
with Daemon(plugins=list(NEEDED)) as d:
    plugins.install(plugins.fixture("forgets"), f"{d.plugins}/forgets.so")
    for name in (*NEEDED, "forgets"):
        ok(d, "plugin", "load", name + ".so")
    a_probe_runs_under_a_set_that_is_not_activated(d)
    the_kernel_that_forgets_is_named_in_six_runs(d)
    if WHOLE:
        a_parameter_is_named_and_what_fixes_it_was_tried(d)
        a_parameter_that_chooses_kernels_is_one_change_with_them(d)
        ends_that_agree_or_a_budget_that_is_short_are_told_by_the_status(d)
        two_that_fail_each_are_both_named_and_the_fix_mends(d)
        ends_the_wrong_way_round_are_told(d)
        numerics_under_a_set_are_those_of_the_set(d)
    a_probe_that_cannot_be_run_under_a_set_is_refused_before_any_run(d)
    a_drain_is_no_verdict(d)
    errors_name_the_part(d)
    who_leaves_ends_it(d)
print("ok")
