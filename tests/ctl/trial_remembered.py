# SPDX-License-Identifier: MIT
"""A start waits for the trial of the plugins that came with the daemon once, not each time: what passed is kept in the
state directory, for this program on this machine, and believed after a run that ended in order, until it is refused."""
import json
import os
import shutil
import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor

from daemon import PATIENCE, Daemon
from plugins import children, sanitizer, until
from scenario import ok


def start(d):
    """How the plugin that `use` names, as often as it likes, came to be warm: once."""
    before = len(d.log()) if os.path.exists(d.log_path) else 0
    d.start()
    warm, = [line for line in d.log()[before:].splitlines() if "plugin_warm name=avx2 " in line]
    return warm.split(" trial=")[1].split()[0]


def crashes(d):
    """A trial whose child dies."""
    with ThreadPoolExecutor() as pool:
        loaded = pool.submit(d.ctl, "plugin", "load", "avx2")
        os.kill(until(lambda: list(children(d.process.pid)), "a child that tries it")[0], signal.SIGSEGV)
        code, _, err = loaded.result()
    assert code == 1 and "crashed" in err, (code, err)


def is_forgotten(d, kept):
    assert start(d) == "remembered"
    crashes(d)
    with open(kept, encoding="utf-8") as f:
        assert json.load(f)["passed"] == []
    assert ok(d, "status")["kernels"], "the one that was there goes on"
    assert d.stop() == 0
    assert start(d) == "passed", "it was refused since it passed"
    assert d.stop() == 0


def is_of_this_program(d):
    """Not of one with its size, time and version."""
    built, d.program = d.program, os.path.join(d.dir, "dsv4d")
    shutil.copy2(built, d.program)
    assert start(d) == "remembered"
    assert d.stop() == 0
    with open(d.program, "rb") as f:
        code = f.read()
    assert code.count(b"dsv4ctl controls it") == 1
    with open(d.program, "wb") as f:
        f.write(code.replace(b"dsv4ctl controls it", b"dsv4ctl governs it."))
    shutil.copystat(built, d.program)
    assert start(d) == "passed"
    assert d.stop() == 0
    d.program = built
    assert start(d) == "passed"
    assert d.stop() == 0


def is_of_this_environment(d):
    assert start(d) == "remembered"
    assert d.stop() == 0
    for now, tunables in (("passed", "glibc.cpu.hwcaps=-FMA"), ("remembered", "glibc.cpu.hwcaps=-FMA"), ("passed", "")):
        d.env = {"GLIBC_TUNABLES": tunables}
        assert start(d) == now, (now, tunables)
        assert d.stop() == 0
    d.env = {}


def main():
    with tempfile.TemporaryDirectory() as folder:
        conf = os.path.join(folder, "conf")
        with open(conf, "w", encoding="utf-8") as f:
            f.write(f"[plugins]\ntrial_timeout = {PATIENCE}\n[kernels]\nuse = gemm=avx2 attention=avx2 all=avx2\n")
        d = Daemon("--config", conf)
        kept = os.path.join(d.dir, "state", "trials.json")
        try:
            assert start(d) == "passed"
            assert d.stop() == 0
            assert start(d) == "remembered"
            if sanitizer():
                return  # each of the dozen trials below takes a sanitized kernel half a minute and more
            # somebody asks for it while the daemon serves: tried
            assert d.ctl("plugin", "load", "avx2")[0] == 0
            assert "trial=passed" in [line for line in d.log().splitlines() if "plugin_warm name=avx2 " in line][-1]
            assert ok(d, "status")["kernels"] == "all=avx2"
            d.stop(signal.SIGKILL)
            assert start(d) == "passed", "it may be what ended the last run"
            assert d.stop() == 0
            is_forgotten(d, kept)
            is_of_this_program(d)
            is_of_this_environment(d)
            with open(kept, encoding="utf-8") as f:
                good = json.load(f)
            for bad in ("", "{}", "[1, 2]", '{"machine": 1, "passed": 2}',
                        json.dumps({**good, "passed": [None, 7, "x"]}),
                        json.dumps({**good, "machine": "f" * 64})):
                with open(kept, "w", encoding="utf-8") as f:
                    f.write(bad)
                assert start(d) == "passed", bad
                assert d.stop() == 0
                with open(kept, encoding="utf-8") as f:
                    assert good["passed"][0] in json.load(f)["passed"], bad
                assert start(d) == "remembered"
                assert d.stop() == 0
        finally:
            d.kill()
            shutil.rmtree(d.dir)
    print("ok")


main()
