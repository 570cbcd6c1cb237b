# SPDX-License-Identifier: MIT
"""The daemon's life: exit codes, sockets left behind, signals, drain, reload."""
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

from client import BUILD, SRC
from daemon import Daemon

TINY = os.path.join(SRC, "etc", "tiny")
LONG = {"messages": [{"role": "user", "content": "Write a story."}], "max_tokens": 30, "ignore_eos": True,
        "temperature": 1, "seed": 1, "stream": True}


def run(*args, timeout=30):
    r = subprocess.run([os.path.join(BUILD, "dsv4d"), *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                       timeout=timeout, check=False)
    return r.returncode, r.stdout, r.stderr


def ends(expected, text, *args):
    code, out, err = run(*args)
    assert code == expected and text in out + err, (args, code, out, err)


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def kernels_are_checked(tmp):
    """-t knows what cannot be had without running any of it."""
    plugins = os.path.join(BUILD, "plugins")
    for use, says in (("auto", None), ("ref", None), ("all=indexer-fp8 indexer.decode=ref", None),
                      ("index_score=indexer-fp8", None), ("nrom=indexer-fp8", "unknown family or op"),
                      ("indexer-fp8", "expected FAMILY"), ("norm=indexer-fp8", "plugin indexer-fp8 has no such op"),
                      ("index_topk=indexer-fp8", "has no such op"), ("norm=nothing", "nothing.so"),
                      ("ref all=nothing", "expected FAMILY"), ("all=nothing", "No such file")):
        conf = write(os.path.join(tmp, "use.conf"), f"[plugins]\ndir = {plugins}\n[kernels]\nuse = {use}\n")
        ends(78 if says else 0, says or "use.conf: ok", "-t", "--config", conf)
    for key in ("prefer", "prefer_gpu"):
        for names, says in (("nowhere", None), ("avx2 ../x", "../x"), ("avx2.so", "avx2.so"), ("7", "7"),
                            ("avx2 ref", "ref"),
                            ("a" * 32, "a" * 32)):
            conf = write(os.path.join(tmp, "use.conf"), f"[kernels]\n{key} = {names}\n")
            ends(78 if says else 0, f"[kernels] {key}: {says} is no plugin's name" if says else "use.conf: ok", "-t",
                 "--config", conf)


def exit_codes(tmp):
    control = ["--control", os.path.join(tmp, "c")]
    ends(0, "usage: dsv4d", "--help")
    ends(0, "dsv4d ", "--version")
    ends(2, "unrecognized option", "--nothing")
    ends(2, "unexpected argument 'x'", "x")
    ends(2, "--gpu-memory is for --plan", *control, "--gpu-memory", "80G")
    ends(2, "--gpu-memory is for --plan", "--inspect", TINY, "--gpu-memory", "80G")
    for words in ([], ["-t"]):
        ends(2, "--json is for --inspect and --plan", *control, *words, "--json")
    ends(69, "no-such", *control, "--model", os.path.join(tmp, "no-such"), "--listen", "127.0.0.1:0")
    ends(78, "'x' is not ADDRESS:PORT", *control, "--listen", "x")
    ends(78, "no-file", *control, "--config", os.path.join(tmp, "no-file"))
    bad = write(os.path.join(tmp, "bad.conf"), "[daemon]\n# fine\nmodle = x\n")
    ends(78, "bad.conf:3: unknown key 'modle'", *control, "--config", bad)
    ends(78, "bad.conf:3: unknown key 'modle'", "-t", "--config", bad)
    good = write(os.path.join(tmp, "good.conf"), "[daemon]\nthreads = 1\n[probe.longgen]\nmax_tokens = 9\n")
    ends(0, "good.conf: ok", "-t", "--config", good)
    kernels_are_checked(tmp)
    ends(1, "at most", "--control", "/tmp/" + "x" * 200, "--model", TINY, "--listen", "127.0.0.1:0")
    kept = write(os.path.join(tmp, "file"), "precious")
    ends(1, "exists and is no socket", "--control", kept, "--model", TINY, "--listen", "127.0.0.1:0")
    with open(kept, encoding="utf-8") as f:
        assert f.read() == "precious"


def inspect(tmp):
    ends(0, "tiny", "--inspect", TINY)
    code, out, err = run("--inspect", TINY, "--json")
    assert code == 0 and json.loads(out)["complete"] is True, (out, err)
    ends(69, "config.json", "--inspect", tmp)
    unusable(os.path.join(tmp, "unusable"))


def unusable(model):
    """Described all the same, as incomplete or mismatched, and the first fault is on standard error."""
    first, second = (os.path.join(model, f"model-0000{i}-of-00002.safetensors") for i in (1, 2))
    index = os.path.join(model, "model.safetensors.index.json")

    def described(text):
        code, out, err = run("--inspect", model)
        assert code == 69 and "parameters" in out and "complete: every" not in out, (code, out)
        assert f"dsv4d: {model}: {text}" in err, err
        code, out, err = run("--inspect", model, "--json")
        assert code == 69 and json.loads(out)["complete"] is False and text in err, (out, err)
        shutil.rmtree(model)
        return out

    shutil.copytree(TINY, model)
    os.truncate(first, os.path.getsize(first) - 5)
    described("incomplete: model-00001-of-00002.safetensors: 5 of ")
    shutil.copytree(TINY, model)
    os.unlink(second)
    described("incomplete: model-00002-of-00002.safetensors: no such file")
    shutil.copytree(TINY, model)
    with open(index, encoding="utf-8") as f:
        content = json.load(f)
    there = content["weight_map"]["norm.weight"]
    content["weight_map"]["norm.weight"] = "gone.safetensors"
    write(index, json.dumps(content))
    out = described("incomplete: gone.safetensors: no such file; the index expects tensor norm.weight in it")
    assert f"the index expects tensor norm.weight in it, found in {there}" in json.loads(out)["notes"][0], out
    # one layer more than there are tensors for, then one head more than the tensors are shaped for
    for key, change, text in (("num_hidden_layers", 1, "incomplete"), ("num_attention_heads", 4, "mismatched")):
        shutil.copytree(TINY, model)
        with open(os.path.join(TINY, "config.json"), encoding="utf-8") as f:
            config = json.load(f)
        config[key] += change
        if key == "num_hidden_layers":
            config["compress_ratios"].insert(config[key] - 1, 0)
        write(os.path.join(model, "config.json"), json.dumps(config))
        described(f"{text}: ")


def wrong_model(tmp):
    with open(os.path.join(TINY, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    config["model_type"] = "deepseek_v41"
    write(os.path.join(tmp, "config.json"), json.dumps(config))
    ends(69, "deepseek_v41", "--control", os.path.join(tmp, "c"), "--model", tmp, "--listen", "127.0.0.1:0")


def sockets(d):
    """One daemon per control socket and port; what a killed one left is no obstacle."""
    ends(75, "another dsv4d listens here", "--control", d.control, "--model", TINY, "--listen", "127.0.0.1:0")
    ends(75, str(d.port), "--control", d.control + "2", "--model", TINY, "--listen", f"127.0.0.1:{d.port}")
    d.process.kill()
    d.process.wait()
    assert os.path.exists(d.control)
    d.start()
    assert d.ctl("status")[0] == 0 and oct(os.stat(d.control).st_mode & 0o777) == "0o660"


def foreign_listener(tmp):
    path = os.path.join(tmp, "foreign")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        s.listen()
        ends(75, "another process listens here", "--control", path, "--model", TINY, "--listen", "127.0.0.1:0")
        assert os.path.exists(path)


def stream(d, sent):
    """Reads a whole streamed answer; sets the event after the first piece. Returns the data lines."""
    import http.client
    c = http.client.HTTPConnection("127.0.0.1", d.port, timeout=180)
    c.request("POST", "/v1/chat/completions", json.dumps(LONG), {"Content-Type": "application/json"})
    r = c.getresponse()
    lines = []
    for line in r:
        if line.startswith(b"data: "):
            lines.append(line[6:].strip().decode())
            if len(lines) == 3:
                sent.set()
    c.close()
    return lines


def in_stream(d, act):
    """Runs act() while a stream is on its way; returns the stream's lines."""
    sent, result = threading.Event(), []
    t = threading.Thread(target=lambda: result.append(stream(d, sent)))
    t.start()
    assert sent.wait(60)
    act()
    t.join(180)
    assert result and result[0][-1] == "[DONE]", result
    return [json.loads(x) for x in result[0][:-1]]


def finish_reasons(chunks):
    return [c["choices"][0]["finish_reason"] for c in chunks if c.get("choices") and c["choices"][0]["finish_reason"]]


def term_drains(tmp):
    conf = write(os.path.join(tmp, "drain.conf"), "[daemon]\ndrain_timeout = 600\n")
    with Daemon("--config", conf) as d:
        chunks = in_stream(d, lambda: d.process.send_signal(signal.SIGTERM))
        assert finish_reasons(chunks) == ["length"], chunks[-3:]
        assert d.process.wait(120) == 0
        assert not os.path.exists(d.control)
        assert "stopped status=0" in d.log()


def second_signal_forces():
    LONG["max_tokens"] = 4000
    with Daemon() as d:
        def twice():
            d.process.send_signal(signal.SIGTERM)
            code, out, err = d.ctl("--json", "status")
            assert code == 0 and json.loads(out)["state"] == "stopping", (code, out, err)
            d.process.send_signal(signal.SIGTERM)
        chunks = in_stream(d, twice)
        assert any("error" in c for c in chunks) or finish_reasons(chunks), chunks[-3:]
        assert d.process.wait(120) == 0
    with Daemon() as d:
        chunks = in_stream(d, lambda: d.ctl("stop", "--now"))
        assert [c["error"]["code"] for c in chunks if "error" in c] == ["draining"], chunks[-3:]
        assert d.process.wait(120) == 0
    LONG["max_tokens"] = 30


def cancel_one():
    LONG["max_tokens"] = 4000
    with Daemon() as d:
        def cancel():
            request = json.loads(d.ctl("--json", "request", "list")[1])["requests"][0]
            assert request["finish"] == "running", request
            assert d.ctl("request", "cancel", request["id"])[0] == 0
            assert d.ctl("wait", "idle")[0] == 0
            shown = json.loads(d.ctl("--json", "request", "show", request["id"])[1])
            assert shown["finish"] == "cancelled", shown
        in_stream(d, cancel)
    LONG["max_tokens"] = 30


def drain_and_resume():
    with Daemon() as d:
        def drain():
            assert d.ctl("drain")[0] == 0
            assert d.http("POST", "/v1/chat/completions", {**LONG, "stream": False})[0] == 503
        chunks = in_stream(d, drain)
        assert finish_reasons(chunks) == ["length"]
        assert d.ctl("wait", "drained", "--timeout", "120")[0] == 0
        assert d.ctl("resume")[0] == 0
        assert d.http("POST", "/v1/chat/completions", {**LONG, "stream": False, "max_tokens": 1})[0] == 200


def reload(tmp):
    conf = write(os.path.join(tmp, "d.conf"), "[daemon]\nlog_level = info\n[numerics]\nindex_topk = 8\n")
    with Daemon("--config", conf) as d:
        def value(name):
            return json.loads(d.ctl("--json", "param", "get", name)[1])["parameter"]["value"]
        assert value("index_topk") == "8"
        assert d.ctl("param", "set", "mhc_precision=bf16")[0] == 0
        write(conf,
              "[daemon]\nlog_level = debug\nthreads = 3\n[numerics]\nindex_topk = 16\n[probe.longgen]\nseed = 4\n")
        got = json.loads(d.ctl("--json", "reload")[1])
        assert got == {"changed": ["index_topk", "log_level", "probe options"], "restart": ["threads"]}, got
        assert (value("index_topk"), value("log_level"), value("mhc_precision")) == ("16", "debug", "bf16")
        write(conf, "[daemon]\nlog_level = info\n[numerics]\nindex_topk = none\n")
        code, _, err = d.ctl("reload")
        assert code == 1 and "d.conf:4: " in err, err
        assert (value("index_topk"), value("log_level")) == ("16", "debug")
        # What the next start would refuse is refused now.
        write(conf, "[daemon]\nlog_level = info\n[http]\nkeys = /no/such/file\n")
        code, _, err = d.ctl("reload")
        assert code == 1 and "/no/such/file" in err and value("log_level") == "debug", err
        write(conf, "[daemon]\nlog_level = notice\n")
        d.process.send_signal(signal.SIGHUP)
        while value("log_level") != "notice":
            pass
        assert value("index_topk") == "32"


def config_diff(tmp):
    """The file against what is in force, before and after each way to change either."""
    conf = write(os.path.join(tmp, "e.conf"), "[daemon]\nlog_level = info\n[numerics]\nindex_topk = 8\n")
    with Daemon("--config", conf) as d:
        def differences():
            code, out, err = d.ctl("--json", "config", "diff")
            assert code == 0, err
            return {(x["section"], x["key"]): (x["running"], x["file"], x["when"])
                    for x in json.loads(out)["differences"]}
        assert differences() == {}
        assert d.ctl("param", "set", "index_topk=9", "cooldown=7")[0] == 0 and d.ctl("log", "level", "debug")[0] == 0
        assert differences() == {("numerics", "index_topk"): ("9", "8", "live"),
                                 ("plugins", "cooldown"): ("7", "30", "live"),
                                 ("daemon", "log_level"): ("debug", "info", "live")}, differences()
        write(conf, "[daemon]\nlog_level = info\nthreads = 3\n[numerics]\nindex_topk = 16\n[probe.longgen]\nseed = 4\n")
        assert differences() == {("numerics", "index_topk"): ("9", "16", "reload"),
                                 ("plugins", "cooldown"): ("7", "30", "live"),
                                 ("daemon", "log_level"): ("debug", "info", "live"),
                                 ("daemon", "threads"): ("0", "3", "restart"),
                                 ("longgen", "seed"): ("", "4", "reload")}, differences()
        assert d.ctl("reload")[0] == 0
        assert json.loads(d.ctl("--json", "param", "get",
                                "cooldown")[1])["parameter"]["value"] == "7"  # not the file's to take back
        assert set(differences()) == {("plugins", "cooldown"), ("daemon", "log_level"),
                                      ("daemon", "threads")}, differences()
        write(conf, "[daemon]\nthraeds = 3\n")
        code, _, err = d.ctl("config", "diff")
        assert code == 1 and "e.conf:2: unknown key 'thraeds'" in err, err


with tempfile.TemporaryDirectory() as tmp:
    exit_codes(tmp)
    inspect(tmp)
    config_diff(tmp)
    wrong_model(tmp)
    foreign_listener(tmp)
    reload(tmp)
    term_drains(tmp)
with Daemon() as d:
    sockets(d)
second_signal_forces()
cancel_one()
drain_and_resume()
print("ok")
