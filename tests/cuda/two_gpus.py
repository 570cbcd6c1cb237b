#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The whole daemon on two GPUs, --device cuda:0-1, on the stand-ins for the driver and for NCCL (tests/cusim). It says
nothing of real GPUs.

The tiny model's heads cannot be cut, its experts and the head's rows can. ref computes most, on what lies on the
GPUs."""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ.get("top_srcdir", "."), "tests", "lib"))
from client import BUILD
from daemon import Daemon
from plugins import sanitizer
from promtext import Page

CUSIM = os.path.join(os.path.abspath(BUILD), "tests", "cusim")
GPU = {"LD_LIBRARY_PATH": CUSIM, "CUSIM_DEVICES": "2"}
TWO = ("--device", "cuda:0-1")
ASK = {"messages": [{"role": "user", "content": "Who are you? " + "word " * 140}], "max_tokens": 8, "temperature": 0}
SET = "mhc=cuda-mhc"


def answer(d):
    status, _, body = d.http("POST", "/v1/chat/completions", ASK)
    assert status == 200, (status, body)
    return body["choices"][0]["message"]["content"], body["usage"]["prompt_tokens_details"]["cached_tokens"]


def ctl(d, *args):
    code, out, err = d.ctl(*args, "--json")
    assert code == 0, (args, code, out, err)
    return json.loads(out)


def serves(usual):
    with Daemon(*TWO, plugins=["cuda-mhc"], env=GPU) as d:
        status = ctl(d, "status")
        assert status["device"] == "cuda:0-1" and [g["name"] for g in status["gpus"]] == ["cuda:0", "cuda:1"], status
        one, two = status["gpus"]
        assert 0 < two["weights"] and abs(one["weights"] - two["weights"]) < one["weights"] / 4, status
        text, cached = answer(d)
        assert text == usual and cached == 0, (text, cached)
        text, cached = answer(d)  # rows of both GPUs were kept
        assert text == usual and cached >= 128, (text, cached)
        assert d.ctl("plugin", "load", "cuda-mhc")[0] == 0
        ctl(d, "kernels", "use", SET)
        assert answer(d)[0] == usual
        assert all(g["plain_steps"] > 0 for g in ctl(d, "status")["gpus"])
        page = Page(d)
        assert all(page["gpu_weights_bytes", g["name"]] == g["weights"] for g in status["gpus"]), page.text
        ctl(d, "kernels", "rollback")
        assert answer(d)[0] == usual


def lacks_memory_for_graphs(usual):
    """One of them: both go on without, and each says why."""
    with Daemon(*TWO, plugins=["cuda-mhc"], env={**GPU, "CUSIM_NO_CAPTURE": "1"}) as d:
        assert d.ctl("plugin", "load", "cuda-mhc")[0] == 0
        ctl(d, "kernels", "use", SET)
        assert answer(d)[0] == usual
        one, two = ctl(d, "status")["gpus"]
        assert one["plain_steps"] == two["plain_steps"] >= ASK["max_tokens"] - 1, (one, two)
        assert one["graph_why"] == "another GPU has no memory for a graph", one
        assert two["graph_why"] == "no memory for a graph", two


def does_not_connect():
    """NCCL that waits for ever: the start fails by name, and the program ends though a thread is still in there."""
    with tempfile.TemporaryDirectory() as folder:
        conf = os.path.join(folder, "conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write("[daemon]\nnccl_timeout = 3\n")
        d = Daemon(*TWO, "--config", conf, env={**GPU, "CUSIM_NCCL_HANG": "1"})
        try:
            d.start()
            raise AssertionError(d.log())
        except RuntimeError as e:
            assert "ended before" in str(e) and d.process.wait(60) == 69, e
            assert "EXTEND_TIMEOUT_USEC=93000000" in d.told, d.told  # else systemd would end it before
            assert "device_failed" in d.log() and "NCCL has not connected them within 3 s" in d.log(), d.log()
        finally:
            d.kill()


def is_lost():
    """One of them: the client is told, and the daemon ends."""
    with tempfile.TemporaryDirectory() as state:
        d = Daemon(*TWO, "--kernels", SET, "--state", state, plugins=["cuda-mhc"], env={**GPU, "CUSIM_LOSE_AT": "100"})
        try:
            d.start()
            status, _, body = d.http("POST", "/v1/chat/completions", ASK)
            assert status == 500 and "cuda:" in str(body), (status, body)
            assert d.process.wait(60) == 1
            assert "device_lost" in d.log(), d.log()
        finally:
            d.kill()


def main():
    if sanitizer() or not os.path.exists(os.path.join(CUSIM, "libnccl.so.2")):
        print("no stand-in for NCCL in this build, or a sanitizer that does not know its threads")
        sys.exit(77)
    with Daemon() as d:
        usual = answer(d)[0]
    serves(usual)
    lacks_memory_for_graphs(usual)
    does_not_connect()
    is_lost()
    print("ok")


main()
