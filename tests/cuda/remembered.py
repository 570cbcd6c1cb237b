#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A start on a GPU waits for the trial of a plugin once: what passed is believed on a GPU of that kind under that
driver, after a run that ended in order; on the stand-in for the driver (tests/cusim)."""
import json
import os
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ.get("top_srcdir", "."), "tests", "lib"))
from client import BUILD, skip
from daemon import Daemon
from plugins import sanitizer

CUSIM = os.path.join(os.path.abspath(BUILD), "tests", "cusim")


def start(d, **env):
    """How the plugin came to be warm."""
    d.env = {"LD_LIBRARY_PATH": CUSIM, **env}
    before = len(d.log()) if os.path.exists(d.log_path) else 0
    d.start()
    warm, = [line for line in d.log()[before:].splitlines() if "plugin_warm name=cuda-mhc " in line]
    return warm.split(" trial=")[1].split()[0]


def main(d):
    for how, env in (("passed", {}), ("remembered", {}),
                     ("passed", {"CUSIM_SM": "80"}),         # another GPU
                     ("passed", {"CUSIM_DRIVER": "13010"}),  # another driver
                     ("remembered", {}), ("remembered", {"CUSIM_SM": "80"})):
        assert start(d, **env) == how, (how, env)
        assert d.stop() == 0
    with open(os.path.join(d.dir, "state", "trials.json"), encoding="utf-8") as f:
        kept = json.load(f)["passed"]
    assert [k.split(" on ")[1].rsplit(" ", 1)[0] for k in kept] == [
        "cusim, no GPU, sm_90, driver 13000", "cusim, no GPU, sm_80, driver 13000",
        "cusim, no GPU, sm_90, driver 13010"], kept
    assert start(d) == "remembered"
    d.stop(signal.SIGKILL)
    assert start(d) == "passed", "it may be what ended the last run"
    assert d.stop() == 0
    print("ok")


if sanitizer() or not os.path.exists(os.path.join(CUSIM, "libcuda.so.1")):
    skip("no stand-in for the driver in this build, or a sanitizer that does not know its threads")
with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
    conf.write("[kernels]\nuse = mhc=cuda-mhc\n")
    conf.flush()
    daemon = Daemon("--device", "cuda", "--config", conf.name)
    try:
        main(daemon)
    finally:
        daemon.kill()
        shutil.rmtree(daemon.dir)
