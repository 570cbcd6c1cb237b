# SPDX-License-Identifier: MIT
"""One prompt through two kernel sets, by dsv4ctl and with real plugins."""
import json
import os
import time

from control import Control, Error
from daemon import Daemon
from scenario import by, ok, refused

ASK = {"messages": [{"role": "user", "content": "What is 7 plus 5?"}], "max_tokens": 40, "temperature": 0}
COMPARE = "io.dsv4.Kernels.Compare"
# where avx2 has ref's own bits: everywhere but in matrix products
EXACT = "norm=avx2,mhc=avx2,compress=avx2,indexer=avx2,attention=avx2"


def ask(d):
    status, _, body = d.http("POST", "/v1/chat/completions", ASK)
    assert status == 200, body
    return body["id"], body["choices"][0]["message"]["content"]


def written(d, name, text):
    path = os.path.join(d.dir, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def compare(d):
    request, _ = ask(d)
    usage = ok(d, "request", "show", request)["usage"]
    same = ok(d, "compare", "--request", request, "--a", "ref", "--b", EXACT)
    assert same["source"] == "request" and same["prompt_tokens"] == usage["prompt"], same
    assert same["first_difference"] is None and same["logits"]["kl"] == 0 == same["logits"]["relative"], same
    assert all(o["differing"] == 0 for o in same["ops"] + same["layers"]), same
    assert set(same["same"]) == {"linear", "moe_route", "moe_experts"}, same
    assert same["answers"][0]["ids"] == same["answers"][1]["ids"], same
    assert same["answers"][0]["ids"] == ok(d, "request", "tokens", request)["output"], same
    assert by(ok(d, "plugin", "list")["plugins"], "name")[("avx2",)]["exact"] == "shared"
    # its own prompt as text, and its messages, are the same tokens
    prompt = written(d, "prompt", ok(d, "request", "prompt", request)["text"])
    messages = written(d, "messages", json.dumps({"messages": ASK["messages"], "thinking": True}))
    for path, source in [(prompt, "text"), (messages, "messages")]:
        other = ok(d, "compare", "--prompt", path, "--a", "ref", "--b", EXACT)
        assert other["source"] == source and other["answers"] == same["answers"], (source, other)
    bf16 = ok(d, "compare", "--request", request, "--b", "mhc-bf16", "--tokens", "8")
    ops = by(bf16["ops"], "op", "phase", "output")
    assert {o[0] for o in ops} == {"hc_pre", "hc_post", "hc_head"} and "linear" in bf16["same"], bf16
    assert 3e-4 < ops[("hc_pre", "prefill", "y")]["mean"] < 3e-2, ops
    assert all(row["relative"] > 0 and row["cosine"] > 0.9 for row in bf16["layers"]), bf16
    assert 0 < bf16["logits"]["kl"] <= bf16["logits"]["kl_worst"] and bf16["logits"]["same_best"] > 0.5, bf16
    # the same rounding asked for as a parameter has the same bits as the plugin
    param = ok(d, "compare", "--request", request, "--a", "mhc-bf16", "--b", "ref,mhc_precision=bf16", "--tokens", "8")
    assert param["b"] == "ref,mhc_precision=bf16", param
    assert all(o["differing"] == 0 for o in param["ops"] + param["layers"]), param


def parting(d):
    """Answers that part: where, and both texts."""
    prompt = written(d, "gibberish", "wug blicket dax toma zav " * 12)
    r = ok(d, "compare", "--prompt", prompt, "--b",
           "mhc-bf16,attn_scores=bf16,index_key=f32,index_topk=2,act_quant=none",
           "--tokens", "200")
    at, (a, b) = r["first_difference"], r["answers"]
    assert at, "the answers are the same"
    assert a["ids"][:at["token"]] == b["ids"][:at["token"]], r
    assert at["a_id"] == a["ids"][at["token"]] != b["ids"][at["token"]] == at["b_id"], r
    assert at["a"] and at["b"] and at["a"] in a["text"] and at["b"] in b["text"], r
    assert r["logits"]["positions"] == r["prompt_tokens"] + at["token"], r
    rows = [row["rows_overlap"] for row in r["layers"] if row["rows_overlap"] is not None]
    assert rows and all(0 < x < 1 for x in rows), r
    code, table, _ = d.ctl("compare", "--prompt", prompt, "--b", "mhc-bf16", "--tokens", "2")
    assert code == 0 and all(word in table for word in ["first_difference", "DRIFT", "ANSWER", "hc_post"]), table


def errors_name_the_part(d):
    hello = written(d, "hello", "Hello")
    for b, text in [("ref,foo=3", 'no parameter "foo"; there are: '),
                    ("ref,index_topk", "index_topk: a parameter needs"),
                    ("index_topk", "index_topk: a parameter needs"), ("ref,index_topk=x", '"x"'),
                    ("mhc=mhc-bf16,ref", '"ref": expected PARAMETER=VALUE or FAMILY'), ("ref,avx2", '"avx2": expected'),
                    ("foo=3", "foo")]:
        code, out, err = d.ctl("compare", "--prompt", hello, "--b", b)
        assert code in (1, 2) and text in err and '"ref": expected FAMILY' not in err and not out, (b, code, out, err)


def cold_and_warm(d):
    """What it needs is warmed, as for the active set."""
    hello = written(d, "hello", "Hello")
    ok(d, "plugin", "state", "mhc-bf16", "cold")
    refused(d, 1, "intent-cold", "compare", "--prompt", hello, "--b", "mhc=mhc-bf16")
    ok(d, "plugin", "state", "mhc-bf16", "auto")
    assert ok(d, "compare", "--prompt", hello, "--b", "mhc=mhc-bf16", "--tokens", "1")["b"] == "mhc=mhc-bf16"


def bounds(d):
    refused(d, 2, "no-such-file", "compare", "--prompt", os.path.join(d.dir, "no-such-file"), "--b", "ref")
    long = written(d, "long", "All work and no play makes Jack a dull boy. " * 700)
    refused(d, 5, "more than 1 s", "compare", "--prompt", long, "--b", "mhc-bf16", "--seconds", "1")
    assert "Jack" not in d.log(), "a prompt was logged"
    with open(long, encoding="utf-8") as f:
        text = f.read()
    # requests are answered while it runs; who leaves ends it
    with Control(d.control, timeout=120) as c:
        replies = c.calls(COMPARE, prompt=text, b="mhc-bf16")
        assert next(replies)["progress"]["done"] > 0
        ask(d)
        assert "progress" in next(replies)
    began = time.monotonic()
    assert ok(d, "compare", "--prompt", written(d, "short", "Hello"), "--b", "avx2", "--tokens", "2")["answers"]
    print(f"the next comparison had its turn {time.monotonic() - began:.1f} s after the last one's caller had gone")
    # the daemon does not wait for one that runs
    with Control(d.control, timeout=120) as c:
        replies = c.calls(COMPARE, prompt=text, b="mhc-bf16")
        next(replies)
        d.process.terminate()
        try:
            last = list(replies)[-1]
            assert "ops" not in last, last
        except (Error, AssertionError):
            pass  # cancelled, or hung up
        assert d.process.wait(30) == 0


with Daemon(plugins=["mhc-bf16", "avx2"]) as d:
    for name in ["mhc-bf16", "avx2"]:
        ok(d, "plugin", "load", name)
    compare(d)
    parting(d)
    errors_name_the_part(d)
    cold_and_warm(d)
    bounds(d)
print("ok")
