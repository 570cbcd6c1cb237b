#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A plugin for GPUs whose kernel is wrong is refused by its trial, on the stand-in for the driver (tests/cusim): by
name, with the op; the set in force, the device and the answers are as they were. Its like whose kernel is right is
taken. A kernel that only reads too far does no harm that a trial could count on to see: kcheck/cuda.sh."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ.get("top_srcdir", "."), "tests", "lib"))
import plugins
from client import BUILD, skip
from daemon import Daemon
from scenario import ok, refused

CUSIM = os.path.join(BUILD, "tests", "cusim")
SERVING = "mhc=cuda-mhc"
ASK = {"messages": [{"role": "user", "content": "Who are you?"}], "max_tokens": 4, "temperature": 0}
# kernel: the refusal's name
WRONG = {"short": "wrong-result", "writes": "out-of-bounds"}


def fixture(kernel):
    return os.path.join(BUILD, "tests", "cuda", f"norm-{kernel}.so")


def state(d):
    """What a refusal must not change."""
    status = ok(d, "status")
    sets = [(s["name"], s["generation"]) for s in ok(d, "kernels", "list")["sets"] if s["active"]]
    return (sets, status["gpu"]["weights"], [p["name"] for p in ok(d, "plugin", "list")["plugins"]],
            os.listdir(os.path.join(d.dir, "state", "plugins")), plugins.children(d.process.pid))


def answer(d):
    status, _, body = d.http("POST", "/v1/chat/completions", ASK)
    assert status == 200, body
    return body["choices"][0]["message"]


def main():
    with Daemon("--device", "cuda", plugins=["cuda-mhc"], env={"LD_LIBRARY_PATH": CUSIM}) as d:
        for kernel in ("right", *WRONG):
            plugins.install(fixture(kernel), os.path.join(d.plugins, f"norm-{kernel}.so"))
        ok(d, "plugin", "load", "cuda-mhc")
        ok(d, "kernels", "use", SERVING)
        usual, before = answer(d), state(d)
        for kernel, name in WRONG.items():
            refused(d, 1, f"{name}: ", "plugin", "load", f"norm-{kernel}")
            line = [x for x in d.log().splitlines() if "plugin_refused" in x][-1]
            print(line)
            assert f"norm-{kernel}.so" in line and f"{name}: rms_norm " in line, line
            assert state(d) == before, (before, state(d))
            assert answer(d) == usual
        ok(d, "plugin", "load", "norm-right")
        ok(d, "kernels", "use", "rms_norm=norm-right")
        assert answer(d) == usual


if plugins.sanitizer() or not os.path.exists(os.path.join(CUSIM, "libcuda.so.1")):
    skip("no stand-in for the driver in this build, or a sanitizer that does not know its threads")
main()
