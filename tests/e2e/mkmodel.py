# SPDX-License-Identifier: MIT
"""Checkpoints of random weights: every format loads, computes numbers and serves; the same seed gives the same bytes;
the inventory of the published shape is the published one; and what dsv4-mkmodel refuses."""
import hashlib
import json
import os
import shutil
import struct
import subprocess
import tempfile

import numpy

from client import BUILD, SRC
from daemon import Daemon

TOKENIZER = os.path.join(SRC, "etc", "tiny", "tokenizer.json")
FORMATS = ["fp4", "fp8", "nvfp4", "bf16"]


def program(name, *args):
    return subprocess.run([os.path.join(BUILD, name), *args], capture_output=True, text=True, timeout=600, check=False)


def make(folder, *args, shape="tiny"):
    r = program("dsv4-mkmodel", "--shape", shape, "--tokenizer", TOKENIZER, *args, folder)
    assert r.returncode == 0 and not r.stderr, r
    return folder


def refused(status, text, *args):
    r = program("dsv4-mkmodel", *args)
    assert r.returncode == status and text in r.stderr, (args, r)


def inspect(folder):
    r = program("dsv4d", "--inspect", folder, "--json")
    assert r.returncode == 0, r
    return json.loads(r.stdout)


def header(path):
    """The header of a safetensors file, and its data."""
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        return json.loads(f.read(n)), f.read()


def tensors(folder):
    """The digest of each tensor, whatever file it is in."""
    all_of = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            head, data = header(os.path.join(folder, name))
            for tensor, t in head.items():
                if tensor != "__metadata__":
                    begin, end = t["data_offsets"]
                    all_of[tensor] = hashlib.sha256(data[begin:end]).hexdigest()
    return all_of


def cases(path, n_tok=150):
    """A file of one sequence for dsv4-eval; long enough that a row of ratio 128 is used."""
    tokens = numpy.random.default_rng(5).integers(2, 2000, n_tok, dtype=numpy.int32).tobytes()
    positions = numpy.array([0, 3, n_tok - 2], dtype=numpy.int32).tobytes()
    head = json.dumps({"a.tokens": {"dtype": "I32", "shape": [n_tok], "data_offsets": [0, len(tokens)]},
                       "a.positions": {"dtype": "I32", "shape": [3],
                                       "data_offsets": [len(tokens), len(tokens) + len(positions)]}}).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + tokens + positions)


def values(path, name):
    head, data = header(path)
    begin, end = head[name]["data_offsets"]
    return numpy.frombuffer(data[begin:end], dtype=numpy.float32).reshape(head[name]["shape"])


def every_format_computes_numbers_of_unit_size(tmp):
    cases(os.path.join(tmp, "cases"))
    for name in FORMATS:
        folder, out = make(os.path.join(tmp, name), "--format", name, "--mtp"), os.path.join(tmp, "out")
        about = inspect(folder)
        assert about["complete"] and about["model"]["expert_format"] == name, about
        r = program("dsv4-eval", "--model", folder, "--in", os.path.join(tmp, "cases"), "--out", out)
        assert r.returncode == 0, r
        for what in ("a.logits", "a.mtp"):
            x = values(out, what)
            assert numpy.isfinite(x).all() and 0.3 < x.std() < 3, (name, what, x.std())


def one_serves(tmp):
    with Daemon(model=os.path.join(tmp, "fp4")) as d:
        status, _, body = d.http("POST", "/v1/chat/completions", {
            "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "ignore_eos": True})
        assert status == 200 and body["usage"]["completion_tokens"] == 8, body


def a_seed_gives_the_same_bytes_in_any_files_by_any_threads(tmp):
    a = tensors(make(os.path.join(tmp, "a"), "--threads", "1"))
    assert a == tensors(make(os.path.join(tmp, "b"), "--threads", "4", "--shard-size", "300K"))
    assert len(os.listdir(os.path.join(tmp, "b"))) > len(os.listdir(os.path.join(tmp, "a")))
    other = tensors(make(os.path.join(tmp, "c"), "--seed", "2"))
    assert a.keys() == other.keys() and a["head.weight"] != other["head.weight"]


def shapes_are_what_was_asked_for(tmp):
    folder = make(os.path.join(tmp, "shape"), "--ratios", "4,128", "--layers", "3", "--experts", "5", "--vocab", "2100",
                  "--hash-layers", "1")
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        c = json.load(f)
    assert (c["compress_ratios"], c["n_routed_experts"], c["vocab_size"],
            c["num_hash_layers"]) == ([4, 128, 4], 5, 2100, 1), c
    assert inspect(folder)["complete"]
    copy = os.path.join(tmp, "copy")
    r = program("dsv4-mkmodel", "--config", os.path.join(folder, "config.json"), "--layers", "2", copy)
    assert r.returncode == 0 and not r.stderr and os.path.exists(os.path.join(copy, "tokenizer.json")), r


def plans_name_what_gpus_hold(flash):
    def plan(status, *words):
        r = program("dsv4d", "--plan", *words)
        assert r.returncode == status, r
        return json.loads(r.stdout) if "--json" in words and r.stdout else r.stdout + r.stderr

    eight = plan(0, "--device", "cuda:0-7", "--json", flash)
    assert eight["gpus"] == 8 and eight["experts_outside"] == 0 and eight["weights"] < eight["memory"], eight
    assert str(eight["weights"]) in plan(0, "--device", "cuda:0-7", flash)
    one = plan(0, "--gpu-memory", "80G", "--json", flash)
    assert one["memory"] == 80 << 30 and one["experts_outside"] > 0, one
    assert "without routed experts" in plan(69, "--gpu-memory", "4G", flash)
    assert not plan(0, "--device", "cuda:0-2", "--json", flash)["heads_cut"] and eight["heads_cut"]
    assert "expected --device cuda:LIST" in plan(2, "--device", "cpu", flash)
    assert 'found "80X"' in plan(2, "--gpu-memory", "80X", flash)
    assert "directory of a checkpoint" in plan(2)
    assert "no such" in plan(69, flash + "-none").lower()


def the_published_inventory_is_met(tmp):
    """doc/format.md 2.1: tensors and bytes of V4-Flash."""
    r = program("dsv4-mkmodel", "--mtp", "--sparse", "--tokenizer", TOKENIZER, os.path.join(tmp, "flash"))
    if r.returncode and ("large" in r.stderr or "space" in r.stderr):
        return # no sparse files of so many bytes here
    assert r.returncode == 0 and "69187 tensors" in r.stdout, r
    about = inspect(os.path.join(tmp, "flash"))
    assert about["complete"] and about["bytes"] == 159609485896, about
    plans_name_what_gpus_hold(os.path.join(tmp, "flash"))
    shutil.rmtree(os.path.join(tmp, "flash"))


def what_is_refused(tmp):
    target = os.path.join(tmp, "new")
    refused(2, "which directory?")
    refused(2, "one directory, not b", "a", "b")
    refused(2, "expected flash or tiny, found huge", "--shape", "huge", target)
    refused(2, "expected fp4, fp8, nvfp4 or bf16", "--format", "int4", target)
    refused(2, "expected 0, 4 or 128", "--ratios", "0,5", target)
    refused(2, "expected a size such as 5G", "--shard-size", "5X", target)
    refused(2, "is not a whole number", "--layers", "0", target)
    refused(2, "exclude each other", "--shape", "tiny", "--config", "x", target)
    refused(2, "is not empty, and nothing in it is overwritten", "--shape", "tiny", os.path.join(tmp, "a"))
    refused(1, "num_experts_per_tok: expected at most n_routed_experts", "--experts", "2", target)
    refused(1, "config.json", "--config", os.path.join(tmp, "none", "config.json"), target)
    refused(1, "GB are needed", "--layers", "256", "--experts", "4096", target)
    refused(1, "no-tokenizer: No such file", "--shape", "tiny", "--tokenizer", os.path.join(tmp, "no-tokenizer"),
            target) # at once
    assert not os.path.exists(target) # nothing is left of what failed


with tempfile.TemporaryDirectory() as folder_of_all:
    every_format_computes_numbers_of_unit_size(folder_of_all)
    one_serves(folder_of_all)
    a_seed_gives_the_same_bytes_in_any_files_by_any_threads(folder_of_all)
    shapes_are_what_was_asked_for(folder_of_all)
    the_published_inventory_is_met(folder_of_all)
    what_is_refused(folder_of_all)
