# SPDX-License-Identifier: MIT
"""Speculation on a serving daemon: answers over HTTP are letter for letter those without it, greedy or drawn, alone or
beside others, whatever an operator does meanwhile; request show and the metrics say how many drafts were accepted."""
import json
import os
import subprocess
import tempfile
import threading

from client import BUILD
from daemon import Daemon
from scenario import ok, refused

TOP = os.environ["top_srcdir"]
# goes on and on, with an event for each token
LONG = {"messages": [{"role": "user", "content": "Tell me a long story."}], "max_tokens": 8000, "temperature": 0,
        "ignore_eos": True, "logprobs": True}


def asks():
    with open(os.path.join(TOP, "etc/tiny/prompts.json"), encoding="utf-8") as f:
        prompts = json.load(f)[::5]
    for i, p in enumerate(prompts):
        messages = [dict(m) for m in p["messages"]]
        tools = messages[0].pop("tools", None)
        ask = {"messages": messages, "max_tokens": 80, "temperature": [0, 1, 0.7][i % 3], "seed": i, "logprobs": True,
               "top_logprobs": 2, "thinking": {"type": "enabled" if p["thinking"] else "disabled"}}
        yield {**ask, "tools": tools} if tools else ask


def answers(d):
    """All at once, so that they share steps: [(id, choices, usage)]."""
    got = {}

    def one(i, ask):
        status, _, body = d.http("POST", "/v1/chat/completions", ask)
        assert status == 200, body
        for call in body["choices"][0]["message"].get("tool_calls") or []:
            call["id"] = ""
        got[i] = body["id"], body["choices"], body["usage"]

    todo = [threading.Thread(target=one, args=a) for a in enumerate(asks())]
    for t in todo:
        t.start()
    for t in todo:
        t.join()
    return [got[i] for i in sorted(got)]


def drafts(d, answered):
    used = [ok(d, "request", "show", a[0])["usage"] for a in answered]
    return sum(u["drafted"] for u in used), sum(u["accepted"] for u in used)


def metric(d, name):
    text = ok(d, "metrics")["text"]
    return int(float(next(line.split()[1] for line in text.splitlines() if line.startswith(f"dsv4d_{name} "))))


def same_answers(d):
    assert ok(d, "status")["speculate"] == 0
    plain = answers(d)
    assert drafts(d, plain) == (0, 0) and metric(d, "drafted_tokens_total") == 0
    drafted = accepted = 0
    for n in "1", "3", "0":
        ok(d, "param", "set", f"speculate={n}")
        assert ok(d, "status")["speculate"] == int(n)
        again = answers(d)  # warm by now
        assert [a[1] for a in again] == [a[1] for a in plain]
        assert ([{**a[2], "prompt_tokens_details": 0} for a in again]
                == [{**a[2], "prompt_tokens_details": 0} for a in plain])
        more = drafts(d, again)
        assert (more[1] > 0) == (n != "0") and more[1] <= more[0], more
        drafted, accepted = drafted + more[0], accepted + more[1]
    assert (metric(d, "drafted_tokens_total"), metric(d, "accepted_tokens_total")) == (drafted, accepted)


def kept(d):
    """What a long answer leaves in the cache, sealed by tokens that drafts told first, is what is computed again."""
    ok(d, "param", "set", "speculate=3")
    before = {b["key"] for b in ok(d, "cache", "tree")["blocks"]}
    status, _, body = d.http("POST", "/v1/chat/completions", {**LONG, "temperature": 1, "seed": 3, "max_tokens": 500})
    assert status == 200 and ok(d, "request", "show", body["id"])["usage"]["accepted"] > 50, body
    new = [b for b in ok(d, "cache", "tree")["blocks"] if b["key"] not in before]
    assert len(new) == 3 or len(new) == 4, new
    for b in new:
        r = ok(d, "cache", "verify", b["key"])
        assert r["verdict"] == "pass" and r["recomputed"] == b["key"] and r["equal"] == (18 if b["state"] else 5), r
    assert any(b["state"] for b in new), new


def refusals(d):
    refused(d, 1, "speculate", "param", "set", "speculate=5")
    refused(d, 1, "speculate", "param", "set", "index_topk=8", "speculate=many")
    assert ok(d, "param", "get", "speculate")["parameter"]["when"] == "live"
    assert ok(d, "param", "get", "index_topk")["parameter"]["value"] == "32"


def meanwhile(d):
    """A long answer with drafts, while kernels change under it, a shadow runs beside it, and it is cancelled."""
    ok(d, "param", "set", "speculate=2")
    ok(d, "shadow", "start", "mhc-bf16", "--share=1")
    events = iter(d.stream(LONG))
    request = json.loads(next(events))["id"]
    seen = [json.loads(next(events)) for _ in range(40)]
    # where avx2 has ref's own bits: an answer goes on at a step with no others
    ok(d, "kernels", "use", *(f"{f}=avx2" for f in ("norm", "mhc", "compress", "indexer", "attention")), "--at", "step")
    while len(ok(d, "request", "show", request)["sets"]) < 2:
        seen.append(json.loads(next(events)))
    seen += [json.loads(next(events)) for _ in range(40)]
    report = ok(d, "shadow", "stop")
    assert report["failures"] == 0 and report["ops"], report
    ok(d, "request", "cancel", request)
    assert list(events)[-1] == "[DONE]"
    shown = ok(d, "request", "show", request)
    assert shown["finish"] == "cancelled" and shown["usage"]["accepted"] > 0, shown
    # another without drafts says the same as far as it goes
    ok(d, "param", "set", "speculate=0")
    n = shown["usage"]["completion"]
    status, _, body = d.http("POST", "/v1/chat/completions", {**LONG, "max_tokens": n})
    assert status == 200, body
    plain = body["choices"][0]["logprobs"]["content"]
    told = [t for e in seen for c in e["choices"] for t in (c.get("logprobs") or {}).get("content") or []]
    assert len(told) > 60 and told == plain[:len(told)], (told[:3], plain[:3])


def looked_into(d):
    """Who looks at a request with drafts finds what there would be without."""
    ok(d, "param", "set", "speculate=1")
    answered = answers(d)
    done = ok(d, "compare", "--request", answered[0][0], "--b", "mhc-bf16")
    assert done, done
    text = next(asks())["messages"][-1]["content"]
    assert ok(d, "explain", "--request", answered[0][0], "--text", text, "--reruns", "1")
    verdicts = ok(d, "probe", "run", "recall", "warmcold", "--quick")["results"]
    assert [v["verdict"] for v in verdicts] == ["pass", "pass"], verdicts
    ok(d, "param", "set", "speculate=0")


def configured():
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        def say(text):
            f.seek(0)
            f.truncate()
            f.write(f"[daemon]\n{text}\n")
            f.flush()

        say("speculate = 2")
        with Daemon("--config", f.name) as d:
            assert ok(d, "status")["speculate"] == 2
            say("")
            assert "speculate" in ok(d, "reload")["changed"] and ok(d, "status")["speculate"] == 0
            say("speculate = 4")
            assert "speculate" in ok(d, "reload")["changed"] and ok(d, "status")["speculate"] == 4


def no_block():
    """A model without the block says so, whoever asks, and goes on."""
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run([os.path.join(BUILD, "dsv4-mkmodel"), "--shape", "tiny", "--tokenizer",
                        os.path.join(TOP, "etc/tiny/tokenizer.json"), tmp + "/model"], check=True)
        with open(tmp + "/conf", "w", encoding="utf-8") as f:
            f.write("[daemon]\n")
        with Daemon("--config", tmp + "/conf", model=tmp + "/model") as d:
            refused(d, 1, "no draft block", "param", "set", "speculate=1")
            with open(tmp + "/conf", "w", encoding="utf-8") as f:
                f.write("[daemon]\nspeculate = 1\n")
            refused(d, 1, "no draft block", "reload")
            assert ok(d, "status")["speculate"] == 0
            d.http("POST", "/v1/chat/completions", {**LONG, "max_tokens": 5})


with Daemon(plugins=["avx2", "mhc-bf16"]) as daemon:
    for plugin in ["avx2", "mhc-bf16"]:
        ok(daemon, "plugin", "load", plugin)
    same_answers(daemon)
    kept(daemon)
    refusals(daemon)
    meanwhile(daemon)
    looked_into(daemon)
configured()
no_block()
print("ok")
