# SPDX-License-Identifier: MIT
"""The stock Varlink client for Python talks to the control socket: descriptions, calls, errors, `more`."""
import varlink

from daemon import Daemon

with Daemon() as d, varlink.Client(address="unix:" + d.control) as client:
    info = client.get_interface("org.varlink.service") if hasattr(client, "get_interface") else None
    with client.open("org.varlink.service") as service:
        answer = service.GetInfo()
        assert answer["product"] == "dsv4d" and "io.dsv4.Daemon" in answer["interfaces"], answer
        text = service.GetInterfaceDescription("io.dsv4.Engine")["description"]
        assert "method ParamSet" in text
    with client.open("io.dsv4.Daemon") as daemon:
        assert daemon.Status()["state"] == "ready"
        replies = list(daemon.Wait("ready", _more=True))
        assert replies[-1]["state"] == "ready", replies
        try:
            daemon.Wait("drained", 0)
            raise AssertionError("a wait for nothing succeeded")
        except varlink.VarlinkError as e:
            assert e.error() == "io.dsv4.Daemon.Timeout", e
    with client.open("io.dsv4.Engine") as engine:
        changed = engine.ParamSet({"index_topk": "8"})
        assert changed["parameters"][0]["value"] == "8", changed
        try:
            engine.RequestShow("nothing")
            raise AssertionError("found a request that never was")
        except varlink.VarlinkError as e:
            assert e.error() == "io.dsv4.Daemon.NotFound", e
    with client.open("io.dsv4.Probes") as probes:
        replies = list(probes.Run(["continuation"], _more=True))
        assert [r for r in replies if r.get("progress")] and replies[-1]["verdict"], replies
print("ok")
