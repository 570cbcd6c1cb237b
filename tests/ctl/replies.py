# SPDX-License-Identifier: MIT
"""Every method of every interface is called, and every reply, success or error, is what ctl/iface/ says."""
from control import Control, Error, interfaces
from daemon import Daemon


def refused(c, method, error, parameters=None):
    try:
        c.call(method, **(parameters or {}))
    except Error as e:
        assert e.name == error, f"{method}: {e}"
        return e.parameters
    raise AssertionError(f"{method} with {parameters} succeeded")


def chat(d):
    status, _, body = d.http("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": "What is 7 plus 5?"}], "max_tokens": 4, "temperature": 0, "seed": 3})
    assert status == 200, body
    return body["id"]


def descriptions(c):
    info = c.call("org.varlink.service.GetInfo")
    assert info["product"] == "dsv4d" and set(info["interfaces"]) == set(interfaces()), info
    for name, i in interfaces().items():
        text = c.call("org.varlink.service.GetInterfaceDescription", interface=name)["description"]
        assert text.startswith("#") and i.methods, name


def every_method(d, c):
    request = chat(d)
    given = {
        "Wait": {"condition": "idle", "timeout": 5}, "SetLogLevel": {"level": "info"},
        "ParamGet": {"name": "index_topk"},
        "RequestGrep": {"regex": "7 plus|is"},
        "ParamSet": {"values": {"index_topk": "16"}}, "Run": {"names": ["continuation"]},
        "Bisect": {"probe": "continuation", "max_runs": 3},
        "GetInterfaceDescription": {"interface": "io.dsv4.Daemon"}, "Inspect": {"file": "mhc-bf16"},
    }
    for name, i in interfaces().items():
        for method in i.methods:
            if method in ("Stop", "RequestCancel", "Use", "Rollback", "Load", "State", "Discard", "Check", "Bench",
                          "ShadowStart", "ShadowReport", "ShadowStop", "Compare", "Explain", "Dump", "Verify", "Diff",
                          "Evict", "Clear"):
                continue
            parameters = {"id": request} if method.startswith("Request") and method != "RequestList" else {}
            c.call(f"{name}.{method}", **given.get(method, parameters))
    c.call("io.dsv4.Daemon.Resume")
    steps = [p["progress"] for p in c.calls("io.dsv4.Probes.Run", names=["continuation"]) if "progress" in p]
    assert steps and steps[-1]["done"] == steps[-1]["total"] == 2, steps
    shown = c.call("io.dsv4.Engine.RequestShow", id=request)
    assert shown["label"] == "http" and shown["sampling"]["seed"] == 3 and shown["usage"]["completion"] == 4, shown
    assert shown["finish"] == "length" and shown["times"]["submit"] <= shown["times"]["end"], shown
    tokens = c.call("io.dsv4.Engine.RequestTokens", id=request)
    assert len(tokens["prompt"]) == shown["usage"]["prompt"] and len(tokens["output"]) == 4, tokens


def checks(c):
    k, p = "io.dsv4.Kernels.", "io.dsv4.Plugins."
    c.call(p + "Load", file="attn-splitk")
    *steps, checked = c.calls(p + "Check", name="attn-splitk", seed=7)
    assert [s["progress"]["done"] for s in steps] == [1, 2] and steps[0]["progress"]["total"] == 2, steps
    assert checked["verdict"] == "pass" and checked["failed"] == 0, checked
    assert [(r["op"], r["phase"], r["numerics"]) for r in checked["rows"]] == \
        [("attn", "prefill", "bf16-scores"), ("attn", "decode", "bf16-scores")], checked
    assert all(r["cases"] > 3 and 0 < r["figure"] < r["limit"] for r in checked["rows"]), checked
    c.call(k + "Use", specs=["attention.decode=attn-splitk"])
    *_, checked = c.calls(k + "Check", quick=True)
    assert [(r["plugin"], r["phase"]) for r in checked["rows"]] == [("attn-splitk", "decode")], checked
    *_, timed = c.calls(k + "Bench", plugin="attn-splitk")
    assert len(timed["rows"]) == 2 and timed["roof_gb_s"] > 0 and all(r["ns"] > 0 for r in timed["rows"]), timed
    refused(c, p + "Check", "io.dsv4.Daemon.NotFound", {"name": "nothing"})


def kernels(c):
    """What changes kernels, in an order in which each can succeed."""
    k, p = "io.dsv4.Kernels.", "io.dsv4.Plugins."
    inspected = c.call(p + "Inspect", file="mhc-bf16")
    assert inspected["accepted"] and inspected["name"] == "mhc-bf16" and "refusal" not in inspected, inspected
    loaded = c.call(p + "Load", file="mhc-bf16.so", sha256=inspected["sha256"])["plugin"]
    assert loaded["temperature"] == "warm" and loaded["intent"] == "auto" and loaded["families"] == ["mhc"], loaded
    used = c.call(k + "Use", specs=["mhc=mhc-bf16"])
    assert used["changed"] and used["previous"] == "ref" and {x["before"] for x in used["changes"]} == {"ref"}, used
    assert c.call(k + "Use", specs=["mhc=mhc-bf16"], at="step")["changed"] is False
    assert c.call(k + "Show", set="previous")["name"] == "ref"
    refused(c, p + "Discard", "io.dsv4.Daemon.Busy", {"name": "mhc-bf16"})
    back = c.call(k + "Rollback")
    assert back["name"] == "ref" and back["previous"] == "mhc=mhc-bf16", back
    assert c.call(p + "State", name="mhc-bf16", state="cold")["plugin"]["temperature"] == "cold"
    refused(c, k + "Rollback", "io.dsv4.Daemon.NotFound")
    refused(c, k + "Use", p + "Refused", {"specs": ["mhc=mhc-bf16"]})
    assert c.call(p + "State", name="mhc-bf16", state="warm")["plugin"]["temperature"] == "warm"
    refused(c, k + "Use", k + "KernelFailed", {"specs": ["moe=mhc-bf16"]})
    checks(c)
    c.call(p + "Discard", name="mhc-bf16")
    assert [x["name"] for x in c.call(p + "List")["plugins"]] == ["ref", "attn-splitk"]
    refused(c, p + "Load", p + "Refused", {"file": "mhc-bf16", "sha256": "0" * 64})
    refused(c, p + "Load", p + "Refused", {"file": "../dsv4d"})


def held_against(d, c):
    """A second set beside the active one, live and on one prompt."""
    k = "io.dsv4.Kernels."
    refused(c, k + "ShadowReport", "io.dsv4.Daemon.NotFound")
    refused(c, k + "ShadowStop", "io.dsv4.Daemon.NotFound")
    c.call("io.dsv4.Plugins.Load", file="mhc-bf16")
    assert c.call(k + "ShadowStart", set="mhc-bf16", share=1)["against"] == "ref"
    request = chat(d)
    report = c.call(k + "ShadowReport")
    assert report["batches"] == 4 and {o["op"] for o in report["ops"]} == {"hc_pre", "hc_post", "hc_head"}, report
    assert c.call(k + "ShadowStop")["ops"] == report["ops"]
    replies = list(c.calls(k + "Compare", request=request, b="mhc-bf16,index_topk=3", tokens=4))
    assert replies[-1]["b"] == "mhc=mhc-bf16,index_topk=3" and replies[-1]["prompt_tokens"] > 0, replies[-1]
    last = [r["progress"] for r in replies if "progress" in r][-1]
    assert last["done"] <= last["total"] and last["op"] == "compare", last
    explained = list(c.calls(k + "Explain", request=request, text="plus", against="mhc-bf16,index_topk=3", at="end"))
    assert (explained[-1]["against"] == "mhc=mhc-bf16,index_topk=3"
            and explained[-1]["rows"][0]["against"]["rank"] > 0), explained
    c.call("io.dsv4.Plugins.Discard", name="mhc-bf16")


def cached(d, c):
    """The prefix cache: blocks of a prompt, held against each other and against what they are computed from."""
    k = "io.dsv4.Cache."
    status, _, body = d.http("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": "All work and no play. " * 60}], "max_tokens": 1})
    assert status == 200, body
    a, b = c.call(k + "Tree")["blocks"][:2]
    assert b["parent"] == a["key"] and "All work" in a["text"], (a, b)
    *parts, last = c.calls(k + "Dump", id=a["key"])
    assert parts and all("part" in p for p in parts) and last["tokens"] == 128, last
    assert c.call(k + "Diff", a=a["key"], b=a["key"])["verdict"] == "pass"
    assert c.call(k + "Diff", a=a["key"], b=b["key"])["verdict"] == "fail"
    *steps, verified = c.calls(k + "Verify", id=b["key"])
    assert verified["verdict"] == "pass" and verified["recomputed"] == b["key"], verified
    assert [s["progress"] for s in steps][-1] == {"op": "compute", "done": 256, "total": 256}, steps
    assert c.call(k + "Evict", id=b["key"])["key"] == b["key"]
    assert c.call(k + "Clear")["left"] == 0


def every_error(c):
    service, daemon, engine = "org.varlink.service.", "io.dsv4.Daemon.", "io.dsv4.Engine."
    refused(c, "io.dsv4.Nothing.X", service + "InterfaceNotFound")
    refused(c, daemon + "Nothing", service + "MethodNotFound")
    refused(c, service + "Nothing", service + "MethodNotFound")
    refused(c, service + "GetInterfaceDescription", service + "InterfaceNotFound", {"interface": "a.b"})
    for method, parameters, field in [
        (service + "GetInterfaceDescription", {}, "interface"), (service + "GetInfo", {"x": 1}, "x"),
        (daemon + "Status", {"verbose": True}, "verbose"), (daemon + "Wait", {}, "condition"),
        (daemon + "SetLogLevel", {"level": "loud"}, "level"), (engine + "ParamSet", {"values": {"a": 1}}, "values"),
        (engine + "RequestShow", {"id": 5}, "id"), (engine + "RequestList", {"max": "all"}, "max"),
    ]:
        assert refused(c, method, service + "InvalidParameter", parameters) == {"parameter": field}
    for method, parameters, error, text in [
        (engine + "RequestShow", {"id": "x"}, "NotFound", "'x'"),
        (engine + "RequestCancel", {"id": "x"}, "NotFound", "'x'"),
        (engine + "RequestList", {"max": 0}, "InvalidValue", "max"),
        (engine + "ParamGet", {"name": "x"}, "NotFound", "'x'"),
        (engine + "ParamSet", {"values": {"index_key": "fp5"}}, "InvalidValue", "fp4|fp8|bf16|f32"),
        (engine + "ParamSet", {"values": {"threads": "2"}}, "InvalidValue", "restart"),
        (engine + "RequestGrep", {"regex": "("}, "InvalidValue", "at byte 1"),
        ("io.dsv4.Kernels.Show", {"set": "x"}, "NotFound", "'x'"),
        ("io.dsv4.Probes.Run", {"names": ["x"]}, "NotFound", "'x'"),
        ("io.dsv4.Probes.Run", {"names": ["recall"], "options": {"x": "1"}}, "InvalidValue", "no option"),
        ("io.dsv4.Kernels.Use", {"specs": ["x=ref"]}, "InvalidValue", "gemm"),
        ("io.dsv4.Kernels.Use", {"specs": ["mhc"]}, "InvalidValue", "FAMILY"),
        ("io.dsv4.Kernels.Use", {"specs": ["mhc=x"]}, "NotFound", "'x'"),
        ("io.dsv4.Kernels.ShadowStart", {"set": "ref", "share": 0}, "InvalidValue", "share"),
        ("io.dsv4.Kernels.ShadowStart", {"set": "ref", "share": 1.5}, "InvalidValue", "share"),
        ("io.dsv4.Kernels.ShadowStart", {"set": "x"}, "NotFound", "'x'"),
        ("io.dsv4.Kernels.Compare", {"prompt": "x"}, "InvalidValue", "b is missing"),
        ("io.dsv4.Kernels.Compare", {"b": "ref"}, "InvalidValue", "prompt, request"),
        ("io.dsv4.Kernels.Compare", {"b": "ref", "prompt": "x", "request": "x"}, "InvalidValue", "prompt, request"),
        ("io.dsv4.Kernels.Compare", {"b": "ref", "prompt": ""}, "InvalidValue", "empty"),
        ("io.dsv4.Kernels.Compare", {"b": "ref", "request": "x"}, "NotFound", "'x'"),
        ("io.dsv4.Kernels.Compare", {"b": "x", "prompt": "x"}, "NotFound", "'x'"),
        ("io.dsv4.Kernels.Compare", {"b": "index_key=fp5", "prompt": "x"}, "InvalidValue", "fp4|fp8|bf16|f32"),
        ("io.dsv4.Kernels.Compare", {"b": "drop_thinking=never", "prompt": "x"}, "InvalidValue", "drop_thinking"),
        ("io.dsv4.Kernels.Compare", {"b": "ref", "prompt": "x", "tokens": -1}, "InvalidValue", "tokens"),
        ("io.dsv4.Kernels.Compare", {"b": "ref", "prompt": '[{"role": "nobody"}]'}, "InvalidValue", "messages[0]"),
        ("io.dsv4.Kernels.Explain", {"text": "x"}, "InvalidValue", "both are needed"),
        ("io.dsv4.Kernels.Explain", {"request": "x", "text": "x"}, "NotFound", "'x'"),
        ("io.dsv4.Cache.Tree", {"max": -1}, "InvalidValue", "max"),
        ("io.dsv4.Cache.Dump", {"id": "x"}, "InvalidValue", "more"),
        ("io.dsv4.Cache.Verify", {"id": "0" * 32}, "NotFound", "000"),
        ("io.dsv4.Cache.Verify", {"id": "x"}, "InvalidValue", "'x'"),
        ("io.dsv4.Cache.Diff", {"a": "0" * 32, "b": "1"}, "NotFound", "000"),
        ("io.dsv4.Cache.Evict", {"id": "0" * 32}, "NotFound", "000"),
        ("io.dsv4.Plugins.Load", {"file": "x"}, "NotFound", "x.so"),
        ("io.dsv4.Plugins.Inspect", {"file": "x"}, "NotFound", "x.so"),
        ("io.dsv4.Plugins.State", {"name": "x", "state": "warm"}, "NotFound", "'x'"),
        ("io.dsv4.Plugins.Discard", {"name": "x"}, "NotFound", "'x'"),
        (daemon + "Wait", {"condition": "drained", "timeout": 0}, "Timeout", "drained"),
        (daemon + "Wait", {"condition": "ready", "timeout": -1}, "InvalidValue", "timeout"),
    ]:
        message = refused(c, method, daemon + error, parameters)["message"]
        assert text in message, message


with Daemon() as d, Control(d.control, timeout=120) as c:
    descriptions(c)
    every_method(d, c)
    held_against(d, c)
    kernels(c)
    cached(d, c)
    every_error(c)
print("ok")
