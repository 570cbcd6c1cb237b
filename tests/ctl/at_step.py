# SPDX-License-Identifier: MIT
"""A long answer and `kernels use --at step`: it goes on with the new set, says so, and says why not where it cannot."""
import json
import re

from daemon import Daemon
from scenario import ok

# goes on and on, with an event for each token
ASK = {"messages": [{"role": "user", "content": "Tell me a long story."}], "max_tokens": 8000, "temperature": 0,
       "ignore_eos": True, "logprobs": True}


def sets(d, request):
    return [s["name"] for s in ok(d, "request", "show", request)["sets"]]


def read(events, n):
    for _ in range(n):
        assert next(events) != "[DONE]", "the answer ended too early for this test"


with Daemon(plugins=["avx2", "mhc-bf16"]) as d:
    for name in ["avx2", "mhc-bf16"]:
        ok(d, "plugin", "load", name)
    stream = d.stream(ASK)
    events = iter(stream)
    request = json.loads(next(events))["id"]
    read(events, 2)

    # what rounds otherwise must not be mixed into one answer
    code, _, err = d.ctl("kernels", "use", "mhc=mhc-bf16", "--at", "step")
    assert code == 1 and "mhc.prefill: fp32 in the active set, bf16-mix in the new one" in err, err
    assert sets(d, request) == ["ref"] and ok(d, "status")["kernels"] == "ref"

    # without at=step it keeps its set; with it, also after such a change, it goes on with the new one
    assert ok(d, "kernels", "use", "norm=avx2")["changed"]
    read(events, 5)
    assert sets(d, request) == ["ref"]
    assert ok(d, "kernels", "use", "attention.decode=avx2", "--at", "step")["changed"]
    while len(sets(d, request)) < 2:
        read(events, 1)
    shown = ok(d, "request", "show", request)
    name = "norm=avx2,attention.decode=avx2"
    m = re.fullmatch(r"ref, from output token (\d+) " + name, shown["kernels"])
    assert m and int(m[1]) == shown["sets"][1]["output"] > 5, shown
    assert (shown["sets"][1]["name"] == name
            and shown["sets"][1]["epoch"] == shown["epoch"] == ok(d, "status")["epoch"]), shown

    # a parameter that changes numbers, and its answer: not by a step
    ok(d, "param", "set", "index_topk=5")
    code, _, err = d.ctl("kernels", "use", "all=ref", "--at", "step")
    assert code == 1 and "index_topk: 32 in the set of request" in err and "5 in the new one" in err, err
    assert len(sets(d, request)) == 2
    ok(d, "request", "cancel", request)
    assert list(events)[-1] == "[DONE]"
    assert ok(d, "request", "show", request)["finish"] == "cancelled"
print("ok")
