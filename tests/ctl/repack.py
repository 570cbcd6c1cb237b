# SPDX-License-Identifier: MIT
"""Copies of FP4 experts, made while serving: answers have the same bits without, while they are made, and with them."""
import json
import os
import subprocess
import tempfile

from client import BUILD, SRC
from daemon import Daemon
from scenario import ok

ASKED = {"messages": [{"role": "user", "content": "Remember this: my codeword is poppy."},
                      {"role": "assistant", "content": "Noted. The codeword is poppy."},
                      {"role": "user", "content": "What is my codeword?"}],
         "temperature": 0, "max_tokens": 24, "logprobs": True, "top_logprobs": 5}


def status(d):
    return ok(d, "status")


def answer(d):
    code, _, body = d.http("POST", "/v1/chat/completions", ASKED)
    assert code == 200, body
    return json.dumps(body["choices"], sort_keys=True)


def beyond_memory(folder):
    """A model that takes no space and more than memory has: `auto` makes no copies of it, which would push it out."""
    with open("/proc/meminfo", encoding="utf-8") as f:
        memory = int(f.readline().split()[1]) * 1024
    model = os.path.join(folder, "huge")
    layers = 2 + memory // 3_500_000_000
    subprocess.run([os.path.join(BUILD, "dsv4-mkmodel"), "--sparse", "--layers", str(layers), "--tokenizer",
                    os.path.join(SRC, "etc", "tiny", "tokenizer.json"), model], check=True, capture_output=True)
    path = os.path.join(folder, "huge.conf")
    with open(path, "w", encoding="utf-8") as f:
        f.write("[cache]\nmemory = 0\n[kernels]\nuse = auto\n")
    with Daemon("--config", path, model=model) as d:
        assert "repacked" not in status(d), status(d)


def daemon(folder, repack, kernels, prefer="avx512 avx2"):
    path = os.path.join(folder, f"{repack}.conf")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"[daemon]\nrepack = {repack}\n[cache]\nmemory = 0\n[kernels]\nuse = {kernels}\nprefer = {prefer}\n")
    return Daemon("--config", path)


def whole(text):
    done, of = text.removesuffix(" experts").split("/")
    return done == of


def avx2_reads_them(folder):
    """It says so, and `auto` makes them for it, too."""
    with daemon(folder, "no", "auto", "avx2") as d:
        kernels, native = status(d)["kernels"], answer(d)
    if "avx2" not in kernels:
        return  # this CPU has none of its features
    with daemon(folder, "auto", "auto", "avx2") as d:
        assert status(d)["kernels"] == kernels
        while not whole(status(d)["repacked"]):
            assert answer(d) == native
        assert answer(d) == native


def main():
    with tempfile.TemporaryDirectory() as folder:
        with daemon(folder, "no", "auto") as d:
            kernels, native = status(d)["kernels"], answer(d)
            assert "repacked" not in status(d)
        with daemon(folder, "yes", "auto") as d:
            assert status(d)["kernels"] == kernels
            answers = {answer(d)}
            while not whole(status(d)["repacked"]):
                answers.add(answer(d))
            answers.add(answer(d))
            assert answers == {native}, answers
            text = d.http("GET", "/metrics")[2].decode()
            metrics = dict(line.split(" ") for line in text.splitlines()
                           if line.startswith("dsv4d_repack"))
            assert metrics["dsv4d_repacked_experts"] == metrics["dsv4d_repack_experts"] != "0", metrics
            # ref reads the native form, which memory may have let go, and its bits are its own as ever
            assert d.ctl("kernels", "use", "all=ref")[0] == 0
            ref = answer(d)
        # a plugin that does not say PACKED: copies are not worth their making; `auto` takes the first that is there
        with daemon(folder, "auto", "auto", "nothing moe-fused avx512") as d:
            assert answer(d) == ref
            assert status(d)["kernels"] == "moe=moe-fused" and status(d)["repacked"].startswith("0/"), status(d)
        with daemon(folder, "auto", "ref") as d:
            assert answer(d) == ref
            assert status(d).get("repacked", "0/").startswith("0/"), "ref reads no copies"
            if "avx512" in kernels:
                assert d.ctl("plugin", "load", "avx512")[0] == 0 and d.ctl("kernels", "use", "all=avx512")[0] == 0
                while not whole(status(d)["repacked"]):
                    assert answer(d) == native
                assert answer(d) == native
        avx2_reads_them(folder)
        beyond_memory(folder)
    print("ok")


main()
