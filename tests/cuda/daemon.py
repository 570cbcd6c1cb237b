#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The whole daemon with --device cuda, on the stand-in for the driver (tests/cusim). It says nothing of a real GPU.

The set mixes a GPU's kernels and the CPU's: the answers are ref's, since what the plugin computes is ref's within
rounding."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ.get("top_srcdir", "."), "tests", "lib"))
from client import BUILD, SRC
from daemon import Daemon
from plugins import sanitizer
from promtext import Page

CUSIM = os.path.join(os.path.abspath(BUILD), "tests", "cusim")
GPU = {"LD_LIBRARY_PATH": CUSIM}
ASK = {"messages": [{"role": "user", "content": "Who are you?"}], "max_tokens": 12, "temperature": 0}
SET = "mhc=cuda-mhc"


def answer(d):
    status, _, body = d.http("POST", "/v1/chat/completions", ASK)
    assert status == 200, (status, body)
    return body["choices"][0]["message"]


def ctl(d, *args):
    code, out, err = d.ctl(*args, "--json")
    assert code == 0, (args, code, out, err)
    return json.loads(out)


def ends(*args, env):
    """A daemon that does not come to serve: its exit status and what it said."""
    with tempfile.TemporaryDirectory() as folder:
        p = subprocess.run([os.path.join(BUILD, "dsv4d"), "--model", os.path.join(SRC, "etc", "tiny"), "--listen",
                            "127.0.0.1:0",
                            "--control", os.path.join(folder, "control"), "--state", os.path.join(folder, "state"),
                            *args],
                           env={**os.environ, **env}, stderr=subprocess.PIPE, timeout=120, text=True, check=False)
        return p.returncode, p.stderr


def what_is_not_there():
    with tempfile.TemporaryDirectory() as nothing:
        code, said = ends("--device", "cuda", env={"LD_LIBRARY_PATH": nothing})
        assert code == 69 and said.count("device_failed") == 1 and "libcuda.so.1" in said, (code, said)
    code, said = ends("--device", "cuda:3", env=GPU)
    assert code == 69 and "device_failed" in said, (code, said)
    code, said = ends("--device", "cuda:0-1", env=GPU)  # there is one
    assert code == 69 and "device_failed" in said and "cuda:1" in said, (code, said)
    code, said = ends("--device", "cuda", env={**GPU, "CUSIM_MEMORY": "1000000"})
    assert code == 69 and "weights" in said, (code, said)


def is_measured(d):
    """/metrics has what `status` says of the GPU, by the same names."""
    gpu, page = ctl(d, "status")["gpu"], Page(d)
    for name in ("total", "free", "weights", "work", "pinned", "experts_host"):
        assert page[f"gpu_{name}_bytes", "cuda:0"] == gpu[name], (name, gpu)
    for name in ("expert_slots", "expert_slot_bytes", "lost"):
        assert page[f"gpu_{name}", "cuda:0"] == gpu[name], (name, gpu)
    for name in ("expert_hits", "expert_misses", "graph_steps", "plain_steps", "graphs"):
        assert page[f"gpu_{name}_total", "cuda:0"] == gpu[name], (name, gpu)
    assert len([key for key in page.samples if "_gpu_" in key[0]]) == 14, page.text
    return gpu


def serves(usual):
    with Daemon("--device", "cuda", plugins=["cuda-mhc"], env=GPU) as d:
        status = ctl(d, "status")
        assert status["device"] == "cuda:0" and status["gpu"]["weights"] > 4000000, status
        assert answer(d) == usual  # ref reads what lies on the GPU
        assert d.ctl("plugin", "load", "cuda-mhc")[0] == 0
        ctl(d, "kernels", "use", SET)
        assert answer(d) == usual
        gpu = ctl(d, "status")["gpu"]
        assert gpu["plain_steps"] > 0 and gpu["graph_why"], gpu
        assert is_measured(d)["expert_slots"] == 0
        ctl(d, "kernels", "rollback")
        assert answer(d) == usual
        ctl(d, "shadow", "start", SET, "--share", "1")
        assert answer(d) == usual
        report = ctl(d, "shadow", "report")
        assert report["ops"] and report["failures"] == 0, report
        code, out, err = d.ctl("cache", "verify")
        assert code == 0, (out, err)


def chooses_for_itself(usual):
    """`use = auto` lays one plugin over the other, but what is not there, is broken or rounds otherwise; here two are
    the CPU's, whose trials are short."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write("[kernels]\nuse = auto\nprefer_gpu = nowhere mhc-bf16 moe-fused broken cuda-mhc\n")
        f.flush()
        d = Daemon("--device", "cuda", "--config", f.name, plugins=["mhc-bf16", "moe-fused", "cuda-mhc"], env=GPU)
        with open(os.path.join(d.plugins, "broken.so"), "wb") as broken:
            broken.write(b"not a plugin")
        with d:
            assert ctl(d, "status")["kernels"] == "mhc=cuda-mhc,moe=moe-fused", ctl(d, "status")["kernels"]
            passed = [line for line in d.log().splitlines() if "kernels_passed_over" in line]
            assert (len(passed) == 2 and "mhc-bf16" in passed[0] and "lossy" in passed[0]
                    and "broken" in passed[1]), passed
            assert "how=auto" in d.log(), d.log()
            assert answer(d) == usual


def is_full():
    """A request that the GPU's memory is too short for fails by name, and alone, though the driver would move pages to
    the host; experts that do not fit lie there."""
    with Daemon("--device", "cuda", env={**GPU, "CUSIM_MEMORY": "6000000", "CUSIM_MANAGED": "1000000000"}) as d:
        status, _, body = d.http("POST", "/v1/chat/completions",
                                 {**ASK, "messages": [{"role": "user", "content": "word " * 300}]})
        assert status == 507 and "memory" in str(body), (status, body)
        status, _, body = d.http("POST", "/v1/chat/completions", {**ASK, "max_tokens": 2})
        assert status == 200, (status, body)
    with Daemon("--device", "cuda", env={**GPU, "CUSIM_MEMORY": "4000000"}) as d:
        gpu = ctl(d, "status")["gpu"]
        assert gpu["experts_host"] > 700000 and gpu["expert_slots"] == 3 and gpu["expert_hits"] == 0, gpu
        assert gpu["expert_slot_bytes"] == 3 * 26112 and is_measured(d) == gpu, gpu


def is_lost(usual):
    """The daemon says so to its client, ends, and the next start counts the unclean end."""
    with tempfile.TemporaryDirectory() as state:
        d = Daemon("--device", "cuda", "--kernels", SET, "--state", state, plugins=["cuda-mhc"],
                   env={**GPU, "CUSIM_LOSE_AT": "100"})
        try:
            d.start()
            status, _, body = d.http("POST", "/v1/chat/completions", ASK)
            assert status == 500 and "cuda:0" in str(body), (status, body)
            assert d.process.wait(60) == 1
            assert "device_lost" in d.log(), d.log()
        finally:
            d.kill()
        with Daemon("--device", "cuda", "--kernels", SET, "--state", state, plugins=["cuda-mhc"], env=GPU) as d:
            assert answer(d) == usual
            assert "unclean_start" in d.log(), d.log()


def main():
    if sanitizer() or not os.path.exists(os.path.join(CUSIM, "libcuda.so.1")):
        print("no stand-in for the driver in this build, or a sanitizer that does not know its threads")
        sys.exit(77)
    what_is_not_there()
    with Daemon() as d:
        assert "gpu" not in ctl(d, "status")
        assert not [key for key in Page(d).samples if "_gpu_" in key[0]]
        usual = answer(d)
    serves(usual)
    chooses_for_itself(usual)
    is_full()
    is_lost(usual)


main()
