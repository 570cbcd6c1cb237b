#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A daemon as it starts on a machine with a GPU: `--device cuda:0` and nothing else said about kernels, so that all six
plugins for GPUs are tried and laid one over the other; on the stand-in for the driver (tests/cusim), which is no GPU.
CUDA=cuda:0 asks for a real one.

Of the golden vectors 49 of 130 positions of each profile are asked (lib/golden.py); GOLDEN=all asks all, in many
minutes."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ.get("top_srcdir", "."), "tests", "lib"))
import plugins
from client import BUILD, skip
from daemon import Daemon
from golden import EXACT, Golden, read
from scenario import ok

CUSIM = os.path.join(BUILD, "tests", "cusim")
REAL = os.environ.get("CUDA")
# The simulator takes a minute of a CPU for the largest trial, on a busy machine several.
CONF = "[kernels]\nuse = auto\n[plugins]\ntrial_timeout = 1200\n"
ASK = {"messages": [{"role": "user", "content": "Who are you?"}], "max_tokens": 8, "temperature": 0}
SIX = {"cuda-attn-splitk", "cuda-base", "cuda-gemm-fp8", "cuda-indexer", "cuda-mhc", "cuda-moe-fp4"}


def ask(d):
    status, _, body = d.http("POST", "/v1/chat/completions", ASK, timeout=600)
    assert status == 200, (status, body)
    return body["id"], body["choices"][0]["message"]


def gpu(d):
    return ok(d, "status")["gpu"]


def starts(d, usual):
    """Every op is a GPU's, the answer is the CPU's, and decode steps are graphs."""
    assert "how=auto" in d.log() and "kernels_passed_over" not in d.log(), d.log()
    slots = ok(d, "kernels", "show")["slots"]
    assert {s["provider"] for s in slots} == SIX and {s["op"] for s in slots} == set(plugins.families()), slots
    assert {p["name"] for p in ok(d, "plugin", "list")["plugins"] if p["users"] and not p["builtin"]} == SIX
    assert ask(d)[1] == usual
    now = gpu(d)
    assert now["graphs"] > 0 and now["graph_steps"] >= ASK["max_tokens"] - 1 and now["plain_steps"] == 0, now


def swaps(d, usual):
    """Under another set graphs are captured anew, with the CPU in between there are none, and back again."""
    whole = ok(d, "status")["kernels"]
    before = gpu(d)
    ok(d, "kernels", "use", "mhc=cuda-base")
    assert ask(d)[1] == usual
    other = gpu(d)
    assert other["graphs"] > before["graphs"] and other["plain_steps"] == 0, (before, other)
    ok(d, "kernels", "use", "norm=ref")
    assert ask(d)[1] == usual
    assert gpu(d)["plain_steps"] > 0 and "host" in gpu(d)["graph_why"], gpu(d)
    ok(d, "kernels", "rollback")
    ok(d, "kernels", "use", "mhc=cuda-mhc")
    assert ok(d, "status")["kernels"] == whole
    assert ask(d)[1] == usual


def beside_others(d, usual):
    """Layer by layer beside ref, and attention beside the clear kernel for it in live steps."""
    request, _ = ask(d)
    r = ok(d, "compare", "--request", request, "--b", "ref", "--tokens", "2")
    assert r["first_difference"] is None and r["logits"]["positions"] > 4 and r["layers"], r
    assert all(row["relative"] < 6e-2 and row["cosine"] > 0.99 for row in r["layers"]), r["layers"]
    print("beside ref, native: logits", r["logits"]["relative"], "layers", max(row["relative"] for row in r["layers"]))
    ok(d, "shadow", "start", "attention=cuda-base", "--share", "1")
    assert ask(d)[1] == usual
    report = ok(d, "shadow", "stop")
    attn = [o for o in report["ops"] if o["op"] == "attn"]
    assert report["failures"] == 0 and report["steps"] > 0, report
    assert {o["phase"] for o in attn} == {"prefill", "decode"}, report
    assert all(o["calls"] > 0 and o["nans"] == 0 and o["mean"] < 1e-4 for o in attn), attn


def warm_is_cold(d):
    """Beyond a block of the prefix cache; the log-probabilities are the same to the last bit."""
    prompt = read("exact")["block_edge"]["tokens"].tolist() + [5, 6]
    body = {"prompt": prompt, "max_tokens": 2, "temperature": 0, "logprobs": 20}
    ok(d, "cache", "clear")
    cold, warm = (d.http("POST", "/v1/completions", body, timeout=600)[2] for _ in range(2))
    reused = [r["usage"]["prompt_tokens_details"]["cached_tokens"] for r in (cold, warm)]
    assert reused[0] == 0 and reused[1] >= 128, reused
    assert cold["choices"] == warm["choices"], (cold, warm)


def main():
    few = os.environ.get("GOLDEN") != "all"
    with Daemon() as d:
        _, usual = ask(d)
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write(CONF)
        f.flush()
        driver = {} if REAL else {"LD_LIBRARY_PATH": CUSIM}
        with Daemon("--device", REAL or "cuda:0", "--config", f.name, env=driver, timeout=3600) as d:
            starts(d, usual)
            swaps(d, usual)
            beside_others(d, usual)
            warm_is_cold(d)
            Golden(d, "native", few).all()
            ok(d, "param", "set", *EXACT)
            Golden(d, "exact", few).all()
            assert "cusim:" not in d.log(), d.log()


if not REAL and (plugins.sanitizer() or not os.path.exists(os.path.join(CUSIM, "libcuda.so.1"))):
    skip("no stand-in for the driver in this build, or a sanitizer that does not know its threads")
main()
