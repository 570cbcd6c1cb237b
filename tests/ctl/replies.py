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
        "Wait": {"condition": "idle", "timeout": 5}, "SetLogLevel": {"level": "info"}, "ParamGet": {"name": "index_topk"},
        "ParamSet": {"values": {"index_topk": "16"}}, "Run": {"names": ["continuation"]},
        "GetInterfaceDescription": {"interface": "io.dsv4.Daemon"},
    }
    for name, i in interfaces().items():
        for method in i.methods:
            if method == "Stop" or method == "RequestCancel":
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
        (engine + "RequestShow", {"id": "x"}, "NotFound", "'x'"), (engine + "RequestCancel", {"id": "x"}, "NotFound", "'x'"),
        (engine + "RequestList", {"max": 0}, "InvalidValue", "max"), (engine + "ParamGet", {"name": "x"}, "NotFound", "'x'"),
        (engine + "ParamSet", {"values": {"index_key": "fp5"}}, "InvalidValue", "fp4|fp8|bf16|f32"),
        (engine + "ParamSet", {"values": {"threads": "2"}}, "InvalidValue", "restart"),
        ("io.dsv4.Kernels.Show", {"set": "x"}, "NotFound", "'x'"), ("io.dsv4.Probes.Run", {"names": ["x"]}, "NotFound", "'x'"),
        ("io.dsv4.Probes.Run", {"names": ["recall"], "options": {"x": "1"}}, "InvalidValue", "no option"),
        (daemon + "Wait", {"condition": "drained", "timeout": 0}, "Timeout", "drained"),
        (daemon + "Wait", {"condition": "ready", "timeout": -1}, "InvalidValue", "timeout"),
    ]:
        message = refused(c, method, daemon + error, parameters)["message"]
        assert text in message, message


with Daemon() as d, Control(d.control, timeout=120) as c:
    descriptions(c)
    every_method(d, c)
    every_error(c)
print("ok")
