# SPDX-License-Identifier: MIT
"""dsv4-bench on next to nothing: every mode runs, its JSON has what its tables have, and its options are told of. How
fast anything is is nobody's business here."""
import json
import os
import subprocess
import tempfile

from client import BUILD, SRC
from daemon import Daemon

BENCH = os.path.join(BUILD, "dsv4-bench")
SHORT = ["--seconds", "0.01", "--memory", "8M", "--threads", "2"]


def run(*args):
    return subprocess.run([BENCH, *args], capture_output=True, text=True, timeout=600, check=False)


def measured(*args):
    r = run(*args, "--json")
    assert r.returncode == 0 and not r.stderr, (args, r)
    found = json.loads(r.stdout)
    assert found["bench"] == args[0] and found["cpu"] and found["threads"], found
    return found


def refused(status, text, *args):
    r = run(*args)
    assert r.returncode == status and text in r.stderr, (args, r)


def roof():
    found = measured("roof", *SHORT)
    for what in ("read", "fp32 one by one"):
        rows = [r for r in found["roof"] if r["what"] == what]
        assert [r["threads"] for r in rows] == [1, 2], rows
        assert all(0 < r["p10"] <= r["median"] <= r["p90"] for r in rows), rows


def op():
    found = measured("op", "ref", *SHORT, "--op", "linear", "--shape", "200x300", "--tokens", "1,3")
    formats = ["fp8", "bf16", "f32", "fp4", "nvfp4"]
    for table, speed in (("weights_read", "gbs"), ("arithmetic", "gflops")):
        assert [r["format"] for r in found[table]] == formats, found[table]
        assert all(r[speed] > 0 and r["ratio_p25"] <= r["ratio"] <= r["ratio_p75"] for r in found[table]), found[table]
    assert found["weights_read"][0]["bytes"] == 200 * 300 + 2 * 3, found["weights_read"][0]
    found = measured("op", os.path.join(BUILD, "plugins", "mhc-bf16.so"), *SHORT)
    assert {r["op"] for r in found["other"]} >= {"hc_pre", "hc_post"}, found
    assert not found["weights_read"], found


def model():
    tiny = os.path.join(SRC, "etc", "tiny")
    found = measured("model", tiny, *SHORT, "--contexts", "10,600,1m", "--prefill", "9,40", "--batch", "1,3",
                     "--repack",
                     "--plugin", os.path.join(BUILD, "plugins", "mhc-bf16.so"))
    assert found["kernels"] == "mhc=mhc-bf16" and "contexts beyond" in found["left_out"], found
    done, total = found["repacked"].split(" experts")[0].split(" of ")
    assert done == total != "0", found["repacked"]
    rows = {(r["context"], r["batch"]): r for r in found["decode"]}
    assert sorted(rows) == [(10, 1), (10, 3), (600, 1), (600, 3)], rows
    assert all(r["ms"] > 0 and r["ratio"] > 0 and r["steps"] >= 8 for r in rows.values()), rows
    # what is read and computed follows from the arguments of the ops that ran
    assert (rows[600, 1]["mb_rows"] > rows[10, 1]["mb_rows"] > 0
            and rows[600, 3]["gflop"] > 2 * rows[600, 1]["gflop"]), rows
    assert 2 < rows[10, 1]["mb_weights"] < 4, rows # `dsv4d --inspect` says 2.5 MiB
    ops = {(r["context"], r["op"], r["format"]): r for r in found["decode_ops"]}
    assert ops[10, "linear", "fp8"]["calls"] == 27 and ops[10, "moe_experts", "fp4"]["calls"] == 5, ops
    shares = sum(r["share"] for r in found["decode_ops"] if r["context"] == 10)
    assert abs(shares - 1) < 1e-3, shares
    assert ([(r["context"], r["tokens"]) for r in found["prefill"]]
            == [(c, n) for c in (0, 10, 600) for n in (9, 40)]), found
    assert {r["op"] for r in found["prefill_ops"]} >= {"linear", "attn", "(no op)"}, found
    found = measured("model", tiny, *SHORT, "--contexts", "10", "--prefill", "0")
    assert found["kernels"] == "ref" and not found["prefill"], found


def serve():
    tiny = os.path.join(SRC, "etc", "tiny")
    args = ["--streams", "1,3", "--answer", "5", "--words", "4", "--beside", "40", "--max-gap", "1"]
    found = measured("serve", tiny, *SHORT, *args, "--plugin", os.path.join(BUILD, "plugins", "mhc-bf16.so"))
    rows = found["streams"]
    assert [r["streams"] for r in rows] == [1, 3], rows
    for r in rows:
        assert r["tokens"] == 5 * r["requests"] and r["prompt_tokens"] > 4 and r["tokens_s"] > 0 and r["bare_ms"] > 0, r
        assert 0 < r["first_p50"] <= r["first_p99"] and r["gap_p50"] <= r["gap_p99"], r
        assert r["pairs"] >= 3 and 0 < r["over_p25"] <= r["over_bare"] <= r["over_p75"], r
    assert rows[0]["times"] == 1, rows
    (beside,) = found["beside"]
    assert beside["streams"] == 7 and beside["prompt_tokens"] > 40 and beside["first_ms"] > 0, beside
    with Daemon() as d:
        found = measured("serve", f"http://127.0.0.1:{d.port}/v1", *SHORT, *args)
        assert found["streams"][1]["requests"] >= 3 and found["streams"][0]["bare_ms"] is None, found
        args = ["--streams", "1", "--answer", "5", "--words", "4", "--beside", "0"]
        assert "beside" not in measured("serve", f"http://127.0.0.1:{d.port}/v1", *SHORT, *args)
    r = run("serve", f"http://127.0.0.1:{d.port}/v1", *SHORT)
    assert r.returncode == 1 and "dsv4-bench: " in r.stderr, r
    # what was started is gone, and so are its files
    assert os.listdir(os.environ["TMPDIR"]) == [], os.listdir(os.environ["TMPDIR"])


def text():
    r = run("op", "ref", *SHORT, "--op", "hc_post", "--tokens", "1")
    assert r.returncode == 0 and r.stdout.startswith("cpu ") and "\nhc_post " in r.stdout, r


def usage():
    refused(2, "what is to be measured?")
    refused(2, "nothing to measure is called rooof", "rooof")
    refused(2, "nothing more is taken by roof", "roof", "x")
    refused(2, "needed behind the mode, once: PLUGIN.so", "op")
    refused(2, "unrecognized option", "roof", "--fast")
    refused(2, "--seconds: not a number", "roof", "--seconds", "x")
    refused(2, "--tokens: expected numbers", "op", "ref", "--tokens", "1,,2")
    refused(2, "there is no op mla", "op", "ref", "--op", "mla")
    refused(2, "expected f32, bf16", "op", "ref", "--format", "int4")
    refused(2, "expected ROWSxCOLS", "op", "ref", "--shape", "12")
    refused(2, "too small for a matrix", "op", "ref", "--memory", "2M", "--op", "linear", "--shape", "4096x4096")
    refused(1, "none.so", "op", "none.so")
    refused(1, "none", "model", "none")
    refused(2, "FAMILY", "model", os.path.join(SRC, "etc", "tiny"), "--kernels", "x")


roof()
op()
model()
with tempfile.TemporaryDirectory() as empty:
    os.environ["TMPDIR"] = empty
    serve()
text()
usage()
