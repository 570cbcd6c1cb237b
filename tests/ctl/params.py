# SPDX-License-Identifier: MIT
"""dsv4ctl on a serving daemon: a parameter set is what the next request uses and what request show says of it."""
import json

from daemon import Daemon
from scenario import ok, refused, said

ASK = {"messages": [{"role": "user", "content": "Remember this: my project name is mercury."},
                    {"role": "assistant", "content": "Noted. The project name is mercury."},
                    {"role": "user", "content": "What is my project name?"}],
       "thinking": {"type": "disabled"}, "temperature": 0}


def ask(d):
    """The numerics that a new request reports, its epoch and its answer."""
    status, headers, body = d.http("POST", "/v1/chat/completions", ASK)
    assert status == 200, body
    shown = ok(d, "request", "show", body["id"])
    return shown["numerics"], shown["epoch"], body["choices"][0]["message"]["content"]


def parameters(d):
    before, epoch, answer = ask(d)
    assert "mercury" in answer, answer
    assert before == {p["name"]: p["value"] for p in ok(d, "param", "list")["parameters"] if p["name"] in before}
    for name, value in [("index_topk", "16"), ("mhc_precision", "bf16"), ("index_key", "bf16"), ("kv_format", "bf16"),
                        ("act_quant", "none"), ("attn_scores", "bf16"), ("routed_scaling", "output")]:
        reply = ok(d, "param", "set", f"{name}={value}")
        assert reply["parameters"][0]["value"] == value and reply["epoch"] > epoch, reply
        now, now_epoch, _ = ask(d)
        assert now == {**before, name: value} and now_epoch == reply["epoch"], (name, now)
        said(d, "param", "set", f"{name}={before[name]}")
        epoch = ask(d)[1]
    # all or none
    refused(d, 1, "bf17", "param", "set", "index_topk=8", "mhc_precision=bf17")
    assert ask(d)[:2] == (before, epoch)
    refused(d, 1, "no parameter", "param", "set", "index_topk=8", "nothing=1")
    assert ask(d)[:2] == (before, epoch)
    said(d, "param", "set", "index_topk=8", "mhc_precision=bf16")
    assert ask(d)[0] == {**before, "index_topk": "8", "mhc_precision": "bf16"}
    assert "index_topk" in said(d, "param", "get", "index_topk")


def requests(d):
    status, _, body = d.http("POST", "/v1/chat/completions", ASK)
    assert status == 200
    request = body["id"]
    assert request in said(d, "request", "list").splitlines()[1]
    prompt = said(d, "request", "prompt", request)
    assert "What is my project name?" in prompt and prompt.count("\n") == 1, prompt
    assert ok(d, "request", "messages", request)["messages"] == ASK["messages"]
    tokens = ok(d, "request", "tokens", request)
    assert len(tokens["prompt"]) == body["usage"]["prompt_tokens"]
    assert len(tokens["output"]) == body["usage"]["completion_tokens"]
    assert "mercury" in said(d, "request", "output", request)
    status, _, body = d.http("POST", "/detokenize", {"tokens": tokens["prompt"]})
    assert status == 200 and prompt.rstrip("\n") in (body.get("text"), body.get("prompt")), body
    refused(d, 1, "no running request", "request", "cancel", request)
    refused(d, 1, "unknown", "request", "show", "nothing")


def logging(d):
    assert ok(d, "log", "level", "debug") == {"level": "debug", "previous": "info"}
    assert ok(d, "status")["log_level"] == "debug"
    said(d, "param", "set", "log_level=info")
    assert ok(d, "param", "get", "log_level")["parameter"]["value"] == "info"
    lines = [line for line in d.log().splitlines() if "audit" in line and "SetLogLevel" in line]
    assert len(lines) == 1 and "result=ok" in lines[0] and "level=admin" in lines[0], lines
    assert "mercury" not in d.log()


def tables(d):
    for words in (["status"], ["model"], ["kernels", "list"], ["kernels", "show"], ["plugin", "list"],
                  ["param", "list"],
                  ["request", "list"], ["probe", "list"], ["probe", "history"]):
        assert said(d, *words).strip(), words
        json.loads(said(d, *words, "--json"))
    slots = ok(d, "kernels", "show", "ref")["slots"]
    assert {s["phase"] for s in slots} == {"prefill", "decode"} and {s["provider"] for s in slots} == {"ref"}
    assert len({s["op"] for s in slots}) == 13


def usage(d):
    refused(d, 2, "unknown verb 'fly'", "fly")
    refused(d, 2, "id is missing", "request", "show")
    refused(d, 2, "unexpected", "status", "now")
    refused(d, 2, "which verb?")
    refused(d, 3, "is dsv4d running?", "--socket", d.control + ".not", "status")
    refused(d, 3, "at most", "--socket", "/" + "x" * 200, "status")
    refused(d, 2, "--sizes needs a value", "probe", "run", "needle", "--sizes")
    refused(d, 1, "from 64 to 100000000", "probe", "run", "needle", "--sizes", "999999999")
    refused(d, 2, "not a whole number of 0 or more", "wait", "ready", "--timeout", "-1")
    refused(d, 5, "not drained", "wait", "drained", "--timeout", "0")
    assert "request show ID" in said(d, "--help") and "probe run [NAME...]" in said(d, "probe", "--help")
    assert "complete -o default -F _dsv4ctl dsv4ctl" in said(d, "completion", "bash")


with Daemon() as d:
    parameters(d)
    requests(d)
    logging(d)
    tables(d)
    usage(d)
    code, out, err = d.ctl("stop")
    assert code == 0, err
    assert d.process.wait(10) == 0
print("ok")
