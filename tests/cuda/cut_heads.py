#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A whole daemon on two GPUs that have cut everything there is to cut, heads with their groups, experts and the
vocabulary: it answers as the CPU does, and with the same bits whatever else runs; on the stand-ins for the driver and
for NCCL (tests/cusim). It says nothing of real GPUs.

The checkpoint is of random weights, of the tiny model's shape but for its heads and groups, which can be cut there."""
import json
import os
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.environ.get("top_srcdir", "."), "tests", "lib"))
from client import BUILD, SRC, skip
from daemon import Daemon
from golden import EXACT
from plugins import sanitizer
from scenario import ok

CUSIM = os.path.join(os.path.abspath(BUILD), "tests", "cusim")
TINY = os.path.join(SRC, "etc", "tiny")
# each a block of scales
SHAPE = {"num_attention_heads": 4, "head_dim": 128, "qk_rope_head_dim": 64, "o_groups": 4, "o_lora_rank": 128}
SHORT = {"prompt": list(range(100, 112)), "max_tokens": 6}
OTHER = {"prompt": list(range(300, 321)), "max_tokens": 4}
LONG = {"prompt": [7 * i % 1999 + 3 for i in range(133)], "max_tokens": 3}  # past a block of the cache, and top-k rows
LIMIT = 1e-4  # of log-probabilities, in f32 everywhere


def make(folder):
    with open(os.path.join(TINY, "config.json"), encoding="utf-8") as f:
        config = {**json.load(f), **SHAPE}
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(config, f)
    model = os.path.join(folder, "model")
    subprocess.run([os.path.join(BUILD, "dsv4-mkmodel"), "--config", path,
                    "--tokenizer", os.path.join(TINY, "tokenizer.json"),
                    "--layers", "2", "--ratios", "4,128", "--hash-layers", "1", model], check=True, timeout=120)
    return model


def ask(d, what):
    """The answer's tokens with their and others' log-probabilities, and how much of the prompt was in the cache."""
    body = {**what, "temperature": 0, "logprobs": 20, "ignore_eos": True}
    status, _, body = d.http("POST", "/v1/completions", body, timeout=600)
    assert status == 200, (status, body)
    choice = body["choices"][0]
    assert len(choice["logprobs"]["tokens"]) == what["max_tokens"], choice
    return choice["logprobs"], body["usage"]["prompt_tokens_details"]["cached_tokens"], body["id"]


def cold(d, what):
    ok(d, "cache", "clear")
    said, cached, _ = ask(d, what)
    assert cached == 0, cached
    return said


def near(said, usual):
    """The same tokens; of each the best ones' log-probabilities within LIMIT."""
    assert said["tokens"] == usual["tokens"], (said["tokens"], usual["tokens"])
    far = 0
    for a, b in zip(said["top_logprobs"], usual["top_logprobs"]):
        both = a.keys() & b.keys()
        assert len(both) >= 18, (a, b)
        far = max(far, *(abs(a[t] - b[t]) for t in both))
    print("log-probabilities", far, "apart")
    assert 0 < far <= LIMIT, far


def together(d, asked, usual):
    """Several at once have the bits that each has alone: their prompts and answers share steps as it comes."""
    said = {}
    ok(d, "cache", "clear")
    threads = [threading.Thread(target=lambda n=n, what=what: said.update({n: ask(d, what)[0]}))
               for n, what in enumerate(asked)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [said[n] for n in range(len(asked))] == usual


def graphs(d):
    """Both GPUs launched every decode step as a graph."""
    one, two = ok(d, "status")["gpus"]
    assert one["graph_steps"] == two["graph_steps"] > 0 and one["graphs"] == two["graphs"] > 0, (one, two)
    assert one["plain_steps"] == two["plain_steps"] == 0, (one, two)


def bits(d, usual):
    """An answer has the same bits alone, warm, beside others, and under its kernels again."""
    alone = [cold(d, SHORT), cold(d, OTHER)]
    near(alone[0], usual["short"])
    own = cold(d, LONG)
    near(own, usual["long"])
    warm, cached, _ = ask(d, LONG)
    assert warm == own and cached >= 128, cached
    together(d, [SHORT, OTHER, SHORT], [alone[0], alone[1], alone[0]])
    graphs(d)
    ok(d, "plugin", "load", "cuda-mhc")
    ok(d, "kernels", "use", "mhc=cuda-mhc")
    near(cold(d, SHORT), usual["short"])
    ok(d, "kernels", "rollback")
    assert cold(d, SHORT) == alone[0]
    graphs(d)


def beside_ref(d):
    """Each set's own run of the two is on both GPUs."""
    _, _, request = ask(d, OTHER)
    report = ok(d, "compare", "--request", request, "--b", "ref", "--tokens", "2")
    assert report["first_difference"] is None and report["failures"] == 0, report["why"]
    logits = report["logits"]
    assert logits["positions"] == len(OTHER["prompt"]) + 1 and 0 < logits["relative"] < 1e-5, logits
    assert all(row["relative"] < 1e-5 for row in report["layers"]), report["layers"]
    attn = [op for op in report["ops"] if op["op"] == "attn"]
    # of two layers on two GPUs, prefill and decode
    assert len(attn) == 2 and all(op["calls"] == 2 * 2 and op["worst_rank"] in (0, 1) for op in attn), attn
    ok(d, "cache", "verify")


def main(folder):
    model = make(folder)
    conf = os.path.join(folder, "conf")
    with open(conf, "w", encoding="utf-8") as f:
        f.write("[plugins]\ntrial_timeout = 1200\n")
    with Daemon(model=model) as d:
        ok(d, "param", "set", *EXACT)
        usual = {"short": cold(d, SHORT), "long": cold(d, LONG)}
    with Daemon("--device", "cuda:0-1", "--config", conf, "--kernels", "all=cuda-base", model=model,
                plugins=["cuda-base", "cuda-mhc"], env={"LD_LIBRARY_PATH": CUSIM, "CUSIM_DEVICES": "2"},
                timeout=3600) as d:
        ok(d, "param", "set", *EXACT)
        bits(d, usual)
        beside_ref(d)
        assert "cusim:" not in d.log() and "nccl:" not in d.log(), d.log()


if sanitizer() or not os.path.exists(os.path.join(CUSIM, "libnccl.so.2")):
    skip("no stand-in for NCCL in this build, or a sanitizer that does not know its threads")
with tempfile.TemporaryDirectory() as temporary:
    main(temporary)
