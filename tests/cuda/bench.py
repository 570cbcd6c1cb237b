#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""dsv4-bench --device cuda on the stand-in for the driver (tests/cusim): each mode runs, and prints what it does of a
CPU. Figures of the simulator are nobody's business, and say nothing of a GPU."""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ.get("top_srcdir", "."), "tests", "lib"))
from client import BUILD, SRC
from plugins import sanitizer

CUSIM = os.path.join(os.path.abspath(BUILD), "tests", "cusim")
TINY = os.path.join(SRC, "etc", "tiny")
SHORT = ["--seconds", "0.01", "--memory", "4M", "--threads", "2"]


def plugin(name):
    return os.path.join(BUILD, "plugins", name + ".so")


def run(*args, device="cuda"):
    return subprocess.run([os.path.join(BUILD, "dsv4-bench"), *args, *SHORT, "--device", device], timeout=300,
                          check=False,
                          env={**os.environ, "LD_LIBRARY_PATH": CUSIM}, capture_output=True, text=True)


def measured(*args):
    r = run(*args, "--json")
    assert r.returncode == 0 and not r.stderr, (args, r)
    found = json.loads(r.stdout)
    assert found["device"].startswith("cuda:0: cusim, no GPU, sm_90") and re.fullmatch(r"\d{4}-\d\d-\d\d",
                                                                                       found["date"]), found
    return found


def refused(status, text, *args, **device):
    r = run(*args, **device)
    assert r.returncode == status and text in r.stderr, (args, r)


def roof():
    rows = measured("roof")["roof"]
    assert [r["what"] for r in rows] == ["read", "copy", "fp32 FMA", "bf16 mma"], rows
    assert all(0 < r["p10"] <= r["median"] <= r["p90"] and r["threads"] is None for r in rows), rows


def op():
    found = measured("op", plugin("cuda-base"), "--op", "linear", "--shape", "64x256", "--tokens", "1,3")
    for table, speed in (("weights_read", "gbs"), ("arithmetic", "gflops")):
        assert [r["format"] for r in found[table]] == ["fp8", "bf16", "f32", "fp4", "nvfp4"], found[table]
        assert all(r[speed] > 0 and 0 < r["ratio_p25"] <= r["ratio"] <= r["ratio_p75"]
                   for r in found[table]), found[table]
    found = measured("op", plugin("cuda-moe-fp4"), "--op", "moe_experts", "--shape", "64x256", "--tokens", "1,3")
    for table, speed in (("weights_read", "gbs"), ("arithmetic", "gflops")):
        assert [(r["what"], r["format"]) for r in found[table]] == [("layer", "fp4")], found[table]
        assert all(r[speed] > 0 and r["ratio"] > 0 for r in found[table]), found[table]
    found = measured("op", plugin("cuda-mhc"), "--tokens", "1")
    assert [r["op"] for r in found["other"]] == ["hc_pre", "hc_head"] and not found["weights_read"], found


def model():
    found = measured("model", TINY, "--contexts", "10", "--prefill", "9", "--plugin", plugin("cuda-mhc"))
    assert (found["kernels"] == "mhc=cuda-mhc"
            and found["graphs"].startswith("0 steps")), found  # ref's kernels are no graph's
    assert [(r["context"], r["batch"]) for r in found["decode"]] == [(10, 1)], found["decode"]
    assert [(r["context"], r["tokens"]) for r in found["prefill"]] == [(0, 9), (10, 9)], found["prefill"]
    assert all(r["ms"] > 0 and r["ratio"] > 0 for r in found["decode"] + found["prefill"]), found
    assert {r["op"] for r in found["decode_ops"]} >= {"hc_pre", "linear", "(no op)"}, found["decode_ops"]


def usage():
    refused(2, "ref computes on the CPU", "op", "ref")
    refused(2, "computes on the CPU", "op", plugin("mhc-bf16"))
    refused(2, "serve has no --device", "serve", TINY)
    refused(1, "the driver has 1 GPU", "roof", device="cuda:1")
    refused(2, "cuda", "roof", device="gpu")


def all_in_one():
    """gpu.sh keeps what its steps print, under the device's name, and what fails in one is told in the end."""
    with tempfile.TemporaryDirectory() as results:
        r = subprocess.run([os.path.join(SRC, "tests", "bench", "gpu.sh"), "--quick", "roof", "golden"], timeout=300,
                           check=False,
                           env={**os.environ, "LD_LIBRARY_PATH": CUSIM, "top_builddir": BUILD, "RESULTS": results,
                                "DSV4_PYTHON": "false"}, capture_output=True, text=True)
        assert r.returncode == 1 and r.stderr == "FAILED: 1 of these\n", r
        kept, = os.listdir(results)
        assert re.fullmatch(r"\d{4}-\d\d-\d\d-cusim.txt", kept), kept
        with open(os.path.join(results, kept)) as f:
            text = f.read()
        assert (text.startswith("cusim, no GPU, sm_90") and "\nbf16 mma " in text
                and "\nFAILED: exit status 1\n" in text), text


if sanitizer() or not os.path.exists(os.path.join(CUSIM, "libcuda.so.1")):
    print("no stand-in for the driver in this build, or a sanitizer that does not know its threads")
    sys.exit(77)
roof()
op()
model()
usage()
r = run("roof")
assert r.returncode == 0 and "\ndevice    cuda:0: cusim" in r.stdout and "\nbf16 mma " in r.stdout, r
all_in_one()
