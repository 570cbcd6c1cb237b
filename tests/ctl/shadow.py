# SPDX-License-Identifier: MIT
"""A second kernel set beside a share of the live steps, by dsv4ctl and with real plugins."""

from daemon import Daemon
from scenario import by, ok, refused

ASK = {"messages": [{"role": "user", "content": "What is 7 plus 5?"}], "max_tokens": 40, "temperature": 0}


def ask(d):
    status, _, body = d.http("POST", "/v1/chat/completions", ASK)
    assert status == 200, body
    return body["id"], body["choices"][0]["message"]["content"]


def shadow(d):
    refused(d, 1, "no shadow runs", "shadow", "report")
    refused(d, 1, "share", "shadow", "start", "mhc-bf16", "--share=0")
    _, answer = ask(d)
    started = ok(d, "shadow", "start", "mhc-bf16", "--share=1")
    assert started["set"] == "mhc=mhc-bf16" and started["against"] == "ref", started
    request, shadowed = ask(d)
    assert shadowed == answer, shadowed
    shown = ok(d, "request", "show", request)
    assert shown["kernels"] == "ref", shown
    report = ok(d, "shadow", "report")
    steps = shown["usage"]["completion"]
    assert (report["steps"], report["batches"], report["other_batches"],
            report["failures"]) == (steps, steps, 0, 0), report
    assert report["against_active"] and "attn" in report["same"] and "hc_pre" not in report["same"], report
    ops = by(report["ops"], "op", "phase", "output")
    for phase in ["prefill", "decode"]:
        y = ops[("hc_pre", phase, "y")]
        # what bf16 hyper-connections are known to be off by
        assert 3e-4 < y["mean"] <= y["worst"] < 3e-2 and y["cosine"] > 0.999, y
        assert y["worst_request"] == request and 0 <= y["worst_token"] < shown["usage"]["prompt"] + steps, y
        layers = {row["layer"]: row for row in y["layers"]}
        assert set(layers) == {"0", "1", "2", "3", "4"} and layers[y["worst_layer"]]["relative"] == y["worst"], y
        print(f"mhc-bf16 beside ref, {phase}: relative {y['mean']:.2e}, worst layer {y['worst']:.2e}, cosine "
              f"{y['cosine']:.6f}")
    assert ops[("hc_head", "decode", "y")]["worst_layer"] == "head", ops
    code, table, _ = d.ctl("shadow", "report")
    line = next(row for row in table.splitlines() if row.startswith("hc_pre") and "decode" in row)
    assert code == 0 and "WORST" in table and request in line, table


def shadow_and_swaps(d):
    """It keeps to the set that it was started against; its plugin is in use until it is stopped."""
    refused(d, 5, "busy", "plugin", "discard", "mhc-bf16")
    before = ok(d, "shadow", "report")
    ok(d, "kernels", "use", "all=avx2")
    ask(d)
    after = ok(d, "shadow", "report")
    assert after["other_batches"] == after["steps"] - before["steps"] > 0 and not after["against_active"], after
    assert after["ops"] == before["ops"] and after["batches"] == before["batches"], after
    last = ok(d, "shadow", "stop")
    assert last["ops"] == before["ops"], last
    refused(d, 1, "no shadow runs", "shadow", "stop")
    ok(d, "kernels", "use", "all=ref")
    # what it needs is warmed, as for the active set
    ok(d, "plugin", "state", "mhc-bf16", "cold")
    refused(d, 1, "intent-cold", "shadow", "start", "mhc-bf16")
    ok(d, "plugin", "state", "mhc-bf16", "auto")
    assert ok(d, "shadow", "start", "mhc=mhc-bf16")["share"] == 0.05
    ok(d, "shadow", "stop")
    # a share, evenly spread
    ok(d, "shadow", "start", "avx2", "--share=0.25")
    for _ in range(4):
        ask(d)
    part = ok(d, "shadow", "stop")
    assert abs(part["steps_taken"] - part["steps"] / 4) < 3 and part["batches"] == part["steps_taken"], part
    products = ("linear", "moe_route", "moe_experts")  # are summed in another order; the rest has ref's own bits
    assert all((o["mean"] or 0) < 1e-6 if o["op"] in products else o["differing"] == 0 for o in part["ops"]), part
    assert len(part["ops"]) > 12, part


with Daemon(plugins=["mhc-bf16", "avx2"]) as d:
    for name in ["mhc-bf16", "avx2"]:
        ok(d, "plugin", "load", name)
    shadow(d)
    shadow_and_swaps(d)
print("ok")
