# SPDX-License-Identifier: MIT
"""Plugins and kernel sets by dsv4ctl: loaded, used, shown, rolled back, refused; intent and temperature; parameters
that choose kernels; the last good set after a crash."""
import json
import os
import shutil
import signal

from client import BUILD
from control import Control
from daemon import Daemon
from plugins import until
from scenario import ok, refused, said

ASK = {"messages": [{"role": "user", "content": "What is 7 plus 5?"}], "max_tokens": 8, "temperature": 0}


def ask(d):
    """The kernel set that a new request ran under."""
    status, _, body = d.http("POST", "/v1/chat/completions", ASK)
    assert status == 200, body
    return ok(d, "request", "show", body["id"])["kernels"]


def plugin(d, name):
    rows = [p for p in ok(d, "plugin", "list")["plugins"] if p["name"] == name]
    assert len(rows) <= 1, rows
    return rows[0] if rows else None


def active(d):
    return [s["name"] for s in ok(d, "kernels", "list")["sets"] if s["active"]]


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def inspecting(d):
    seen = ok(d, "plugin", "inspect", "indexer-fp8")
    assert seen["accepted"] and [o["op"] for o in seen["ops"]] == ["index_score"], seen
    assert seen["ops"][0]["numerics"] == "lossy" and seen["ops"][0]["tag"] == "fp8-key", seen
    assert seen["ops"][0]["reads"] == "native" and said(d, "plugin", "inspect", "indexer-fp8").split()[-1] == "native"
    for name in "avx2", "avx512":
        shutil.copy(os.path.join(BUILD, "plugins", name + ".so"), d.plugins)
        assert {o["op"] for o in ok(d, "plugin", "inspect", name)["ops"] if o["reads"] == "packed"} == {"moe_experts"}
        os.unlink(os.path.join(d.plugins, name + ".so"))
    write(os.path.join(d.plugins, "hollow.so"), "no plugin")
    code, out, err = d.ctl("plugin", "inspect", "hollow", "--json")
    seen = json.loads(out)
    assert (code == 1 and not err and not seen["accepted"] and seen["refusal"] == "not-a-plugin-file"
            and seen["why"]), seen
    refused(d, 1, "not-a-plugin-file", "plugin", "load", "hollow")
    refused(d, 1, "No such file", "plugin", "load", "nothing")
    refused(d, 1, "outside-directory", "plugin", "load", os.path.join(BUILD, "plugins", "avx2.so"))
    refused(d, 1, "changed", "plugin", "load", "indexer-fp8", "--sha256", "1" * 64)
    for digest in ["123", "1" * 65, "g" * 64]:
        refused(d, 1, "64 hexadecimal digits", "plugin", "load", "indexer-fp8", "--sha256", digest)
    assert [p["name"] for p in ok(d, "plugin", "list")["plugins"]] == ["ref"]
    for name in ["mhc-bf16", "indexer-bf16", "indexer-fp8"]:
        row = ok(d, "plugin", "load", name)["plugin"]
        assert (row["name"], row["intent"], row["temperature"], row["users"]) == (name, "auto", "warm", 0), row


def leaving(d):
    """A load whose caller leaves is given up, and what waits behind it goes on."""
    shutil.copy(os.path.join(BUILD, "tests", "plugins", "hang-open.so"), d.plugins)
    with Control(d.control) as c:
        c.send({"method": "io.dsv4.Plugins.Load", "parameters": {"file": "hang-open"}})
        until(lambda: (plugin(d, "hang-open.so") or {}).get("temperature") == "init", "its trial")
    until(lambda: plugin(d, "hang-open.so") is None, "it is gone")
    assert ok(d, "plugin", "inspect", "hang-open")["accepted"]  # on the same thread
    refused(d, 1, "'hang-open'", "plugin", "state", "hang-open", "warm")


def using(d):
    assert ask(d) == "ref"
    used = ok(d, "kernels", "use", "indexer=indexer-bf16", "mhc.decode=mhc-bf16")
    name = "mhc.decode=mhc-bf16,indexer=indexer-bf16"
    assert used["changed"] and used["name"] == name and used["previous"] == "ref", used
    changed = {(c["op"], c["phase"]): (c["before"], c["after"]) for c in used["changes"]}
    assert changed == {("hc_pre", "decode"): ("ref", "mhc-bf16"), ("hc_post", "decode"): ("ref", "mhc-bf16"),
                       ("hc_head", "decode"): ("ref", "mhc-bf16"), ("index_score", "prefill"): ("ref", "indexer-bf16"),
                       ("index_score", "decode"): ("ref", "indexer-bf16")}, changed
    assert ask(d) == name and plugin(d, "mhc-bf16")["temperature"] == "busy"
    slots = {(s["op"], s["phase"]): s["provider"] for s in ok(d, "kernels", "show")["slots"]}
    assert slots[("hc_pre", "decode")] == "mhc-bf16" and slots[("hc_pre", "prefill")] == "ref", slots
    again = ok(d, "kernels", "use", "indexer=indexer-bf16")
    assert not again["changed"] and not again["changes"] and again["generation"] == used["generation"], again
    back = ok(d, "kernels", "rollback")
    assert back["name"] == "ref" and back["previous"] == name and len(back["changes"]) == 5 and ask(d) == "ref"
    forth = ok(d, "kernels", "rollback")
    assert forth["name"] == name and forth["generation"] == used["generation"] and ask(d) == name
    # what is overlaid by something later, or ref over nothing, is not kept
    assert ok(d, "kernels", "use", "indexer=indexer-fp8", "moe=ref", "mhc=mhc-bf16")["name"] == \
        "mhc=mhc-bf16,indexer=indexer-fp8"
    assert ok(d, "kernels", "use", "all=indexer-bf16")["name"] == "mhc=mhc-bf16,indexer=indexer-bf16"
    assert ok(d, "kernels", "show", "previous")["name"] == "mhc=mhc-bf16,indexer=indexer-fp8"
    assert ok(d, "kernels", "use", "mhc.prefill=ref")["name"] == "mhc.decode=mhc-bf16,indexer=indexer-bf16"
    assert len([line for line in d.log().splitlines() if "kernels_activated" in line]) == 6


def niceness(d):
    """Slow jobs give way to what serves: one thread, and none that it started before."""
    tasks, found = f"/proc/{d.process.pid}/task", []
    for t in os.listdir(tasks):
        with open(os.path.join(tasks, t, "stat"), encoding="utf-8") as f:
            found.append(int(f.read().rpartition(")")[2].split()[16]))
    assert sorted(found)[-2:] == [os.nice(0), 10] and len(found) > 3, found


def refusals(d):
    """Nothing that is refused changes anything."""
    before, generation = active(d), ok(d, "status")["kernels_generation"]
    for code, text, *words in [
        (1, "offers nothing for moe", "indexer=ref", "moe=indexer-fp8"), (1, "gemm, norm, mhc", "everything=ref"),
        (1, "'avx512'", "gemm=avx512"), (1, "prefill, decode", "indexer.later=ref"), (1, "FAMILY", "indexer"),
        (1, "FAMILY", "=x"),
        (1, "bf16-key in the active set", "indexer=ref", "--at", "step"),
    ]:
        refused(d, code, text, "kernels", "use", *words)
        assert active(d) == before and ok(d, "status")["kernels_generation"] == generation, words
    refused(d, 1, "'nothing'", "kernels", "show", "nothing")
    # what was typed wrong is complained of, not the plugin behind it, and before any plugin is warmed
    for words in [["foo=bar"], ["mhc=nothing", "foo=bar"]]:
        refused(d, 1, '"foo=bar": unknown family', "kernels", "use", *words)
    refused(d, 1, '"mhc.later=bar": unknown phase', "kernels", "use", "mhc.later=bar")
    refused(d, 1, '"foo=bar": unknown family', "shadow", "start", "mhc=nothing,foo=bar")
    refused(d, 1, "'" + "n" * 96 + "'", "kernels", "use", "mhc=" + "n" * 200)
    refused(d, 1, "ref is built in", "plugin", "state", "ref", "cold")
    refused(d, 1, "ref is built in", "plugin", "discard", "ref")
    assert ask(d) == before[0]


def temperatures(d):
    refused(d, 5, "busy", "plugin", "discard", "mhc-bf16")
    ok(d, "kernels", "use", "all=ref")
    refused(d, 5, "previous", "plugin", "discard", "mhc-bf16")
    row = ok(d, "plugin", "state", "mhc-bf16", "cold")["plugin"]
    assert (row["intent"], row["temperature"], row["users"], row["complaint"]) == ("cold", "cold", 0, ""), row
    refused(d, 1, "no previous", "kernels", "rollback")
    refused(d, 1, "intent-cold", "kernels", "use", "mhc=mhc-bf16")
    assert plugin(d, "mhc-bf16")["temperature"] == "cold"
    ok(d, "plugin", "state", "mhc-bf16", "auto")
    assert plugin(d, "mhc-bf16")["temperature"] == "cold"
    generation = row["generation"]
    assert ok(d, "kernels", "use", "mhc=mhc-bf16")["changed"]  # a cold plugin of intent auto is warmed
    row = plugin(d, "mhc-bf16")
    assert row["temperature"] == "busy" and row["generation"] > generation, row
    # cold while in use: it serves on, and goes when it is unused
    assert ok(d, "plugin", "state", "mhc-bf16", "cold")["plugin"]["temperature"] == "busy"
    assert ask(d) == "mhc=mhc-bf16"
    assert ok(d, "kernels", "use", "all=ref")["previous"] == ""  # nor is it kept for a rollback
    refused(d, 1, "intent-cold", "kernels", "use", "mhc=mhc-bf16")
    until(lambda: plugin(d, "mhc-bf16")["temperature"] == "cold", "cold")
    assert ok(d, "plugin", "state", "mhc-bf16", "warm")["plugin"]["temperature"] == "warm"
    # unused and of intent auto: cold after the cooldown; of intent warm it stays
    ok(d, "param", "set", "cooldown=0")
    until(lambda: plugin(d, "indexer-fp8")["temperature"] == "cold", "cooled")
    until(lambda: plugin(d, "indexer-bf16")["temperature"] == "cold", "cooled")
    assert plugin(d, "mhc-bf16")["temperature"] == "warm"
    ok(d, "param", "set", "cooldown=30")
    # several at once are warmed before the one swap
    both = ok(d, "kernels", "use", "indexer.prefill=indexer-fp8", "indexer.decode=indexer-bf16")
    assert both["name"] == "indexer.prefill=indexer-fp8,indexer.decode=indexer-bf16", both
    ok(d, "kernels", "use", "all=ref")


def computes(d, op, *which):
    """The generations of the plugins that compute an op in a set: two of one name are told apart."""
    return {s["plugin_generation"] for s in ok(d, "kernels", "show", *which)["slots"] if s["op"] == op}


def replacing(d):
    """A name that is loaded again: what uses the older mapping keeps it; it goes by itself."""
    ok(d, "kernels", "use", "mhc=mhc-bf16")
    first = plugin(d, "mhc-bf16")
    new = ok(d, "plugin", "load", "mhc-bf16")["plugin"]
    assert new["intent"] == "warm" and new["generation"] > first["generation"], new
    rows = {p["generation"]: p for p in ok(d, "plugin", "list")["plugins"] if p["name"] == "mhc-bf16"}
    assert rows[first["generation"]]["superseded"] and rows[first["generation"]]["temperature"] == "busy", rows
    assert rows[new["generation"]]["temperature"] == "warm", rows
    table = [line.split() for line in said(d, "plugin", "list").splitlines()]
    mark = {row[table[0].index("GENERATION")]: row[table[0].index("SUPERSEDED")] for row in table
            if row[0] == "mhc-bf16"}
    assert mark == {str(first["generation"]): "yes", str(new["generation"]): "no"}, table
    assert computes(d, "hc_pre") == {first["generation"]} and computes(d, "attn") == {0}
    assert ok(d, "kernels", "use", "mhc=mhc-bf16")["changed"]
    assert computes(d, "hc_pre") == {new["generation"]} and computes(d, "hc_pre", "previous") == {first["generation"]}
    ok(d, "kernels", "use", "all=ref")  # now the older is in no set but what was swept
    until(lambda: len([p for p in ok(d, "plugin", "list")["plugins"] if p["name"] == "mhc-bf16"]) == 1,
          "the older one gone")
    copies = os.listdir(os.path.join(d.dir, "state", "plugins"))
    assert len([c for c in copies if c.startswith("mhc-bf16.")]) <= 1, copies
    ok(d, "plugin", "state", "mhc-bf16", "cold")
    ok(d, "plugin", "discard", "mhc-bf16")
    assert plugin(d, "mhc-bf16") is None
    refused(d, 1, "'mhc-bf16'", "kernels", "use", "mhc=mhc-bf16")
    # the bytes are what was inspected, or it is refused
    ok(d, "plugin", "state", "indexer-fp8", "cold")
    path = os.path.join(d.plugins, "indexer-fp8.so")
    with open(path, "ab") as f:
        f.write(b"\0")
    refused(d, 1, "changed", "plugin", "state", "indexer-fp8", "warm")
    row = plugin(d, "indexer-fp8")
    assert row["intent"] == "warm" and row["temperature"] == "cold" and row["complaint"].startswith("changed"), row
    assert ok(d, "plugin", "load", "indexer-fp8")["plugin"]["sha256"] != row["sha256"]


def choosing(d):
    """Parameters choose among what is warm; what nobody offers changes nothing."""
    for name in ["mhc-bf16", "indexer-bf16", "indexer-fp8"]:
        ok(d, "plugin", "load", name)
        ok(d, "plugin", "state", name, "warm")
    assert active(d) == ["ref"]
    for param, kernels in [("index_key=fp8", "indexer=indexer-fp8"), ("index_key=bf16", "indexer=indexer-bf16"),
                           ("index_key=f32", "ref"), ("mhc_precision=bf16", "mhc=mhc-bf16")]:
        reply = ok(d, "param", "set", param)
        assert reply["kernels"] == kernels and reply["changes"], reply
        assert ok(d, "status")["kernels"] == ask(d) == kernels
        assert not ok(d, "param", "set", param)["changes"]
    reply = ok(d, "param", "set", "mhc_precision=fp32", "index_key=bf16")
    assert reply["kernels"] == "indexer=indexer-bf16" and {c["family"]
                                                           for c in reply["changes"]} == {"mhc", "indexer"}, reply
    refused(d, 1, "fp32|bf16", "param", "set", "index_key=fp4", "mhc_precision=fp5")
    assert active(d) == ["indexer=indexer-bf16"]
    assert ok(d, "param", "set", "attn_scores=bf16")["changes"] == []
    assert "indexer-bf16" in d.ctl("param", "set", "index_key=fp4")[1]
    assert active(d) == ["ref"]
    ok(d, "param", "set", "attn_scores=fp32")


def crashes(d):
    """A last-good set that crashes again and again is given up, and so is what is configured."""
    for unclean, (origin, kernels, line) in enumerate([
        ("last_good", "mhc=mhc-bf16", "<5>started_from_last_good"),
        ("last_good", "mhc=mhc-bf16", "<5>started_from_last_good"),
        ("configuration", "ref", "<3>started_from_configuration"), ("ref", "ref", "<3>started_from_ref"),
        ("ref", "ref", "<3>started_from_ref"),
    ], 1):
        d.stop(signal.SIGKILL)
        d.start()
        status = ok(d, "status")
        assert (status["started_from"], status["kernels"]) == (origin, kernels) and ask(d) == kernels, (unclean, status)
        assert any(text.startswith(line) and f"unclean_ends={unclean} " in text
                   for text in d.log().splitlines()), d.log()
    # an end in order ends the row
    assert d.stop() == 0
    d.start()
    assert ok(d, "status")["started_from"] == "configuration"
    d.stop(signal.SIGKILL)
    d.start()
    assert ok(d, "status")["started_from"] == "last_good"
    assert d.stop() == 0
    d.start()


def last_good(d):
    """After a crash: the last set that proved itself, not the one that the operator had just swapped in."""
    ok(d, "param", "set", "good_steps=2")
    ok(d, "kernels", "use", "mhc=mhc-bf16")
    ask(d)
    until(lambda: ok(d, "kernels", "list")["last_good"] == "mhc=mhc-bf16", "last good")
    assert ok(d, "kernels", "show", "last-good")["name"] == "mhc=mhc-bf16"
    ok(d, "param", "set", "good_steps=1000000")
    ok(d, "kernels", "use", "all=ref", "indexer=indexer-bf16")
    ask(d)
    d.stop(signal.SIGKILL)
    d.start()
    status = ok(d, "status")
    assert (status["started_from"], status["kernels"], status["last_good"]) == ("last_good", "mhc=mhc-bf16",
                                                                                "mhc=mhc-bf16"), status
    assert ask(d) == "mhc=mhc-bf16" and "started_from_last_good" in d.log()
    # an end in order is followed by what is configured
    assert d.stop() == 0
    d.start()
    status = ok(d, "status")
    assert (status["started_from"], status["kernels"], status["last_good"]) == ("configuration", "ref",
                                                                                "mhc=mhc-bf16"), status
    crashes(d)
    # last-good that cannot be had
    with open(os.path.join(d.plugins, "mhc-bf16.so"), "ab") as f:
        f.write(b"\0")
    d.stop(signal.SIGKILL)
    d.start()
    assert ok(d, "status")["kernels"] == "ref" and "last_good_failed" in d.log()
    write(os.path.join(d.dir, "state", "last-good.json"), '{"name": 3}')
    d.stop(signal.SIGKILL)
    d.start()
    assert ok(d, "status")["last_good"] == "" and "last_good_unreadable" in d.log() and "unclean_start" in d.log()


def ends(d, expected, text):
    """A start that cannot be had as configured."""
    try:
        d.start()
    except RuntimeError:
        pass
    assert d.process.wait(60) == expected and text in d.log(), (d.process.returncode, d.log())


def configured(d):
    """What [plugins] load and [kernels] use say is what runs from the start, or nothing does."""
    assert d.stop() == 0
    conf = os.path.join(d.dir, "conf")
    d.args = ["--config", conf]
    shutil.copy(os.path.join(BUILD, "plugins", "mhc-bf16.so"), d.plugins)
    for text, kernels in [
        ("[plugins]\nload = indexer-bf16 nothing\ncooldown = 0\n[kernels]\nuse = indexer.decode=indexer-bf16 "
         "mhc=mhc-bf16",
         "mhc=mhc-bf16,indexer.decode=indexer-bf16"), ("[kernels]\nuse = all=ref", "ref"), ("", "ref"),
    ]:
        write(conf, text)
        d.start()
        assert ok(d, "status")["kernels"] == ask(d) == kernels, d.log()
        assert d.stop() == 0
    assert "plugin_refused file=nothing" in d.log()
    for text, why in [("mhc=nothing", "nothing.so"), ("moe=mhc-bf16", "offers nothing for moe"),
                      ("x=ref", "gemm, norm")]:
        write(conf, "[kernels]\nuse = " + text)
        ends(d, 69, why)
    write(conf, "")
    d.start()
    assert ok(d, "status")["started_from"] == "configuration"


def many_families(d):
    """A plugin that serves several families is loaded once, not once for each, when a start goes back to it."""
    shutil.copy(os.path.join(os.environ["top_builddir"], "tests/plugins/good.so"), d.plugins)
    assert d.stop() == 0
    d.start()
    ok(d, "plugin", "load", "good")
    ok(d, "param", "set", "good_steps=2")
    ok(d, "kernels", "use", "all=good")
    ask(d)
    until(lambda: ok(d, "kernels", "list")["last_good"] == "all=good", "last good")
    d.stop(signal.SIGKILL)
    before = d.log().count("plugin_warm name=good ")
    d.start()
    assert ok(d, "status")["kernels"] == ask(d) == "all=good", ok(d, "status")
    assert d.log().count("plugin_warm name=good ") == before + 1, d.log()
    assert d.stop() == 0
    d.start()


def state_directories(d):
    """One daemon to a state directory; none at all, and requests are served all the same."""
    other = Daemon("--state", os.path.join(d.dir, "state"))
    ends(other, 75, "another dsv4d runs on it")
    shutil.rmtree(other.dir)
    assert ok(d, "plugin", "load", "mhc-bf16")["plugin"]["temperature"] == "warm"
    with Daemon("--state", "/proc/nothing") as other:
        assert ask(other) == "ref" and "state_unusable" in other.log()
        refused(other, 5, "no usable state directory", "plugin", "load", "mhc-bf16")


with Daemon(plugins=["mhc-bf16", "indexer-bf16", "indexer-fp8"]) as d:
    for part in (inspecting, leaving, using, niceness, refusals, temperatures, replacing, choosing, last_good,
                 many_families, configured, state_directories):
        part(d)
print("ok")
