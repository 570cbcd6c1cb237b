# SPDX-License-Identifier: MIT
"""GET /metrics of the real daemon: a page that Prometheus reads, whose figures are what was done, and no client's
words."""
import os
import re

import plugins
from daemon import Daemon
from promtext import Page, table
from scenario import ok

CHAT = "/v1/chat/completions"
ASK = {"messages": [{"role": "user", "content": "What is 7 plus 5?"}], "max_tokens": 40, "temperature": 0}
THINK = {**ASK, "thinking": {"type": "enabled"}}
LONG = {"messages": [{"role": "user", "content": "Tell me of red kites. " * 20}], "max_tokens": 4, "temperature": 0}
ENDLESS = {**ASK, "max_tokens": 8000, "ignore_eos": True}


def ask(d, body):
    status, _, answer = d.http("POST", CHAT, body, timeout=600)
    assert status == 200, answer
    return answer["usage"]


def settled(d):
    """The page when all that was asked is done: a client has its answer before the step and the call have ended."""
    def done():
        page = Page(d)
        return (page if page["http_open_requests"] == 1
                and page["requests_running"] == page["step_age_seconds"] == 0 else None)

    return plugins.until(done, "nothing runs")


def the_page_is_the_table(d):
    page = Page(d)
    assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8", page.headers
    rows = table()
    assert set(page.types) == set(rows), set(page.types) ^ set(rows)
    for name, (kind, _, text) in rows.items():
        assert page.types[name] == (kind, text), (name, page.types[name])
    assert page.state("state") == "ready" and page["build_info", ok(d, "status")["version"]] == 1
    assert page["requests_running"] == page["requests_queued"] == page["step_age_seconds"] == 0
    # dsv4ctl has the same page
    code, text, err = d.ctl("metrics")
    assert code == 0 and not err, err
    assert sorted(re.findall("^# .*$", text, re.M)) == sorted(re.findall("^# .*$", page.text, re.M))
    assert "\ndsv4d_steps_total 0\n" in text


def figures_are_what_was_done(d):
    before, usages = settled(d), [ask(d, body) for body in (ASK, THINK, LONG, LONG)]
    after = settled(d)

    def grew(*key):
        return after.get(*key) - before.get(*key)

    prompt, out = (sum(u[k] for u in usages) for k in ("prompt_tokens", "completion_tokens"))
    cached = sum(u["prompt_tokens_details"]["cached_tokens"] for u in usages)
    reasoning = sum(u["completion_tokens_details"]["reasoning_tokens"] for u in usages)
    assert cached >= 128 and reasoning > 0, usages
    assert (grew("prompt_tokens_total"), grew("cached_tokens_total")) == (prompt, cached)
    assert (grew("generated_tokens_total"), grew("reasoning_tokens_total")) == (out, reasoning)
    assert grew("prefill_tokens_total") == prompt - cached
    assert (grew("requests_submitted_total") == 4
            == after.total("requests_finished_total") - before.total("requests_finished_total"))
    assert grew("http_requests_total", "POST", CHAT, "200") == 4
    assert grew("http_requests_total", "GET", "/metrics", "200") >= 1
    # one first token each, all others after one another
    assert grew("first_token_seconds_count") == 4 == grew("queue_seconds_count") == grew("request_seconds_count")
    assert grew("output_token_seconds_count") == out - 4 == grew("batch_requests_sum", "decode")
    assert grew("step_seconds_count") == grew("steps_total") == grew("kernels_steps") > 0
    assert grew("first_token_seconds_sum") + grew("output_token_seconds_sum") <= grew("request_seconds_sum") + 1e-6
    # what was found in the cache and what was not is all there was
    assert grew("cache_reused_tokens_total") == cached and grew("cache_asked_tokens_total") == prompt
    assert after.total("cache_missed_tokens_total") - before.total("cache_missed_tokens_total") == prompt - cached
    assert after.total("cache_lookups_total") - before.total("cache_lookups_total") == 4
    assert 0 < after.total("cache_bytes") <= after["cache_budget_bytes"]
    assert after["process_anonymous_bytes", "resident"] > 1 << 20 and after.total("process_cpu_seconds_total") > 0
    assert 10 < after["process_open_fds"] < 100 and after["process_threads"] >= after["threads"]


def histograms_add_up(d):
    page = Page(d)
    for name, (kind, labels, _) in table().items():
        name = name[len("dsv4d_"):]
        if kind != "histogram":
            continue
        for key, count in page.all(name + "_count").items():
            buckets = [v for k, v in page.all(name + "_bucket").items() if k[:-1] == key]
            assert buckets == sorted(buckets) and buckets[-1] == count > 0 and len(buckets) > 10, (name, buckets, count)
            assert page[(name + "_sum", *key)] > 0 and len(key) == len(labels), name


def counters_never_fall(d):
    """Read while an answer runs, which does not wait for us, nor we for it."""
    events, last, running = iter(d.stream(ENDLESS, timeout=600)), Page(d), 0
    next(events)  # the stream's head, which may come before the request is admitted
    for _ in range(20):
        next(events)
        page = Page(d)
        running += page["requests_running"]
        for name, (kind, _, _) in table().items():
            for key, value in last.all(name[len("dsv4d_"):]).items() if kind == "counter" else ():
                assert page.samples[(name, *key)] >= value, (name, key)
        assert page["batch_requests_count", "decode"] >= last["batch_requests_count", "decode"]
        last = page
    assert running == 20
    request = ok(d, "request", "list", "--max", "1")["requests"][0]["id"]
    return events, request


def who_stopped_it(d):
    events, request = counters_never_fall(d)
    ok(d, "request", "cancel", request)
    plugins.until(lambda: Page(d)["requests_cancelled_total", "operator"] == 1, "cancelled by its id")
    assert list(events)[-1] == "[DONE]"
    left = d.stream(ENDLESS, timeout=600)
    next(iter(left))
    left.vanish()
    plugins.until(lambda: Page(d)["requests_cancelled_total", "client"] == 1, "its client left")
    page = Page(d)
    assert page["requests_finished_total", "cancelled"] == 2 and page["requests_cancelled_total", "drain"] == 0
    plugins.until(lambda: Page(d)["http_disconnects_total", "POST", CHAT] == 1, "the disconnect is counted")


def errors_by_name(d):
    long = {**ASK, "messages": [{"role": "user", "content": "far too long " * 20000}]}
    assert d.http("POST", CHAT, long)[0] == 400
    assert Page(d)["requests_refused_total", "context"] == 1
    ok(d, "drain")
    assert d.http("POST", CHAT, ASK)[0] == 503
    page = settled(d)
    assert page["requests_refused_total", "draining"] == 1 and page.state("state") == "drained"
    assert page["http_requests_total", "POST", CHAT, "503"] == 1
    assert (page["http_errors_total", "context"], page["http_errors_total", "draining"],
            page["http_errors_total", "json"]) == (1, 1, 0)
    ok(d, "resume")
    # What the front refuses never was a request to generate.
    refused = page.total("requests_refused_total")
    assert (d.http("POST", CHAT, b"{")[0], d.http("POST", CHAT, {**ASK, "n": 99})[0],
            d.http("GET", "/nowhere")[0]) == (400, 400, 404)
    page = settled(d)
    assert [page["http_errors_total", e] for e in ("json", "invalid", "not_found")] == [1, 1, 1]
    assert page.total("requests_refused_total") == refused
    assert page.total("request_errors_total") == 0


def kernels_numerics_and_plugins(d):
    before = Page(d)
    assert {(r["provider"], r["numerics"]) for r in before.labels("kernels_info")} == {("ref", "fp32")}
    assert len(before.labels("kernels_info")) == 2 * len(set(plugins.families().values()))
    assert before["parameter_info", "index_key", "fp4"] == 1
    ok(d, "plugin", "load", "mhc-bf16")
    assert Page(d).state("plugin_temperature", "mhc-bf16") == "warm"
    ok(d, "kernels", "use", "mhc.decode=mhc-bf16")
    ok(d, "param", "set", "index_key=bf16", "index_topk=1")
    page = Page(d)
    who = {(r["phase"], r["provider"], r["numerics"]) for r in page.labels("kernels_info") if r["family"] == "mhc"}
    assert who == {("prefill", "ref", "fp32"), ("decode", "mhc-bf16", "bf16-mix")}, who
    assert page.all("parameter_info")[("index_key", "bf16")] == page["parameter_info", "index_topk", "1"] == 1
    assert ("index_key", "fp4") not in page.all("parameter_info")
    assert page["epoch"] > before["epoch"] and page["kernels_generation"] > before["kernels_generation"]
    assert page["kernels_steps"] == 0 and page.state("plugin_temperature", "mhc-bf16") == "busy"
    assert page.state("plugin_intent", "mhc-bf16") == "auto" and len(page.labels("plugin_info")) == 1
    ok(d, "param", "set", "index_key=fp4")
    ok(d, "kernels", "use", "all=ref")


def shadow_and_probes(d):
    page = Page(d)
    assert page["shadow_running"] == 0 and not page.labels("shadow_relative_error") and not page.labels("probe_verdict")
    ok(d, "shadow", "start", "mhc-bf16", "--share=1")
    ask(d, ASK)
    page, report = settled(d), ok(d, "shadow", "report")
    worst = {(o["op"], o["phase"], o["output"]): o["worst"] for o in report["ops"]}
    assert page.all("shadow_relative_error") == worst and len(worst) > 5, worst
    assert all(3e-4 < v < 3e-2 for v in worst.values()), worst
    assert page.total("shadow_runs_total") == sum(o["calls"] for o in report["ops"])
    assert (page["shadow_taken_steps_total"] == page["shadow_steps_total"] == report["steps"]
            and page["shadow_running"] == 1)
    ok(d, "shadow", "stop")
    assert Page(d)["shadow_running"] == 0
    ok(d, "probe", "run", "recall", "--facts", "1", "--turns", "1", "--tools", "0")
    d.ctl("probe", "run", "longgen", "--max-tokens", "20")
    page = Page(d)
    assert page["probe_runs_total", "recall", "pass"] == 1 == page["probe_runs_total", "longgen", "inconclusive"]
    assert page.state("probe_verdict", "recall") == "pass" and page.state("probe_verdict", "longgen") == "inconclusive"
    start, ran = page["process_start_time_seconds"], page["probe_last_run_time_seconds", "recall"]
    assert 0 <= ran - start < 3600 and page.total("probe_runs_total") == 2
    assert page["probe_figure", "recall", "recalled"] == 1 == page["probe_figure", "recall", "asked"]
    assert 0 < page["probe_seconds", "recall"] < 3600 and page["probe_figure", "longgen", "tokens"] <= 20


def nothing_a_client_says_is_a_label(d):
    word = "unlikelyword"
    d.http("GET", f"/{word}", headers={"x-request-id": word, "User-Agent": word})
    d.http("GET", f"/v1/models/{word}")
    d.http("POST", CHAT, {**ASK, "model": word, "user": word, "messages": [{"role": "user", "content": word}]})
    d.http(word.upper(), "/metrics")
    text = Page(d).text
    assert word not in text.lower() and d.model not in text and d.dir not in text
    assert os.path.basename(d.model) not in {v for k in Page(d).samples for v in k[1:]}


def pages_leave_nothing_behind(d):
    def held():
        for _ in range(100):
            assert d.http("GET", "/metrics")[0] == 200
        return plugins.rss_anon(d.process.pid), len(plugins.descriptors(d.process.pid)), len(Page(d).text)

    memory, descriptors, size = held()
    again = held()
    # a sanitizer keeps what was freed
    assert plugins.sanitizer() or again[0] - memory < 256 << 10, (memory, again)
    # connections and files of the cache may be open for a moment
    assert again[1] < descriptors + 20 and abs(again[2] - size) < 100, (descriptors, size, again)


with Daemon() as daemon:
    the_page_is_the_table(daemon)
    figures_are_what_was_done(daemon)
    histograms_add_up(daemon)
    who_stopped_it(daemon)
    errors_by_name(daemon)
    kernels_numerics_and_plugins(daemon)
    shadow_and_probes(daemon)
    nothing_a_client_says_is_a_label(daemon)
    pages_leave_nothing_behind(daemon)
