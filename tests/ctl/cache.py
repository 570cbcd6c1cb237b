# SPDX-License-Identifier: MIT
"""The prefix cache by dsv4ctl: counters, tree, dumps that numpy reads, verification of good and of spoilt rows,
removal."""
import base64
import gzip
import json
import os
import struct
import subprocess
import tempfile
import zlib

from client import BUILD, need
from control import Control, Error
from daemon import Daemon

np = need("numpy")

FILLER = "wug blicket dax toma zav " * 40
MODEL = json.load(open(os.path.join(os.path.dirname(__file__), "..", "..", "etc", "tiny", "config.json"),
                       encoding="utf-8"))


def ok(d, *words, code=0):
    got, out, err = d.ctl("--json", *words)
    assert got == code, (words, got, out, err)
    return json.loads(out.splitlines()[-1])  # the lines before tell progress


def refused(d, expected, text, *words):
    code, out, err = d.ctl(*words)
    assert code == expected and text in err and not out, (words, code, out, err)


def ask(d, text):
    """Returns the answer's usage: prompt and cached tokens."""
    status, _, body = d.http("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": text}], "max_tokens": 4, "temperature": 0})
    assert status == 200, body
    usage = body["usage"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def read_dump(path):
    """{tensor: array}, metadata."""
    with (gzip.open if open(path, "rb").read(2) == b"\x1f\x8b" else open)(path, "rb") as f:
        data = f.read()
    n, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + n])
    meta, at, tensors = header.pop("__metadata__"), 8 + n, {}
    for name, t in header.items():
        begin, end = t["data_offsets"]
        array = np.frombuffer(data[at + begin:at + end], dtype={"F32": "<f4", "I64": "<i8"}[t["dtype"]])
        tensors[name] = array.reshape(t["shape"])
    assert max(t["data_offsets"][1] for t in header.values()) == len(data) - at
    return tensors, meta


def write_dump(path, tensors):
    """As another program might: no metadata, its own order."""
    header, data = {}, b""
    for name in sorted(tensors):
        raw = tensors[name].tobytes()
        header[name] = {"dtype": "I64" if name == "tokens" else "F32", "shape": list(tensors[name].shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


# ---- counters and the tree ----

def counters(d):
    """They are what the requests were told."""
    before = ok(d, "cache", "stats")
    assert before["lookups"] == before["blocks"] == before["bytes"] == 0 < before["budget"], before
    asked = [ask(d, FILLER + end) for end in ["What is 7 plus 5?", "Who are you?", "Who?"]] + [ask(d, "Hi")]
    s = ok(d, "cache", "stats")
    assert asked[0][1] == asked[3][1] == 0 < asked[1][1], asked
    assert s["tokens_asked"] == sum(a[0] for a in asked) and s["tokens_reused"] == sum(a[1] for a in asked), (s, asked)
    assert s["lookups"] == 4 == sum(r["lookups"] for r in s["reasons"]), s
    assert {r["reason"]: r["lookups"] for r in s["reasons"]}["short"] == 1, s
    assert s["bytes"] == s["block_bytes"] + s["state_bytes"] <= s["budget"] and s["pinned"] == 0, s
    assert s["blocks"] == s["published"] == asked[0][0] // 128 and s["states"] > 0, s
    code, table, _ = d.ctl("cache", "stats")
    assert code == 0 and "WHY_NOT_MORE" in table and "tokens_reused" in table, table


def tree(d):
    """Two prompts that part: their common blocks once, then both."""
    ask(d, FILLER[:600] + "now something else. " + "All work and no play makes Jack a dull boy. " * 20)
    reply = ok(d, "cache", "tree")
    blocks, by_key = reply["blocks"], {b["key"]: b for b in reply["blocks"]}
    assert len(by_key) == reply["total"] == ok(d, "cache", "stats")["blocks"], reply
    for b in blocks:
        assert b["tokens"] == 128 * b["depth"] and b["pins"] == 0 and b["active"], b
        assert b["depth"] == 1 or by_key[b["parent"]]["depth"] == b["depth"] - 1, b
        assert b["children"] == sum(x["parent"] == b["key"] for x in blocks), b
        digits = b["tree"].strip()
        assert sum(k.startswith(digits) for k in by_key) == 1 and b["key"].startswith(digits), b
    roots = [b for b in blocks if b["depth"] == 1]
    assert len(roots) == 1 and "wug blicket" in roots[0]["text"] and not roots[0]["tree"].startswith(" "), roots
    assert [b["children"] for b in blocks].count(2) == 1 and [b["children"] for b in blocks].count(0) == 2, blocks
    fork = next(b for b in blocks if b["children"] == 2)
    assert all(b["tree"].startswith("  ") == (b["depth"] > fork["depth"]) for b in blocks), blocks
    assert any(b["state"] for b in blocks)
    assert len(ok(d, "cache", "tree", "--max", "1")["blocks"]) == 1
    refused(d, 1, "max", "cache", "tree", "--max", "99999999")
    code, table, _ = d.ctl("cache", "tree")
    assert code == 0 and all(b["tree"] in table for b in blocks) and "Jack" in table, table
    return blocks


def names(d, blocks):
    """A block is named by its first digits."""
    refused(d, 1, "no block", "cache", "verify", "0" * 32)
    refused(d, 1, "hex digits", "cache", "evict", "xyz")
    refused(d, 1, "hex digits", "cache", "evict", "")
    keys = [b["key"] for b in blocks]
    absent = next(c for c in map("{:02x}".format, range(256)) if not any(k.startswith(c) for k in keys))
    refused(d, 1, f"no block '{absent}'", "cache", "verify", absent)


def ambiguous_names(d):
    blocks = []
    while len(blocks) <= 16:  # whatever their keys are, two begin with the same digit
        ask(d, f"{len(blocks)} {FILLER}")
        blocks = ok(d, "cache", "tree")["blocks"]
    keys = [b["key"] for b in blocks]
    shared = next(k[0] for k in keys if sum(other[0] == k[0] for other in keys) > 1)
    refused(d, 1, f"blocks begin with '{shared}'", "cache", "verify", shared)


# ---- dumps ----

def dumps(d, blocks):
    end = [b for b in blocks if b["state"]][-1]
    path = os.path.join(d.dir, "dump")
    said = ok(d, "cache", "dump", end["tree"].strip(), "-o", path)
    assert said["bytes"] == os.path.getsize(path) and said["key"] == end["key"] and said["state"], said
    assert os.stat(path).st_mode & 0o777 == 0o600
    tensors, meta = read_dump(path)
    assert meta["key"] == end["key"] and meta["parent"] == end["parent"] and meta["kernels"] == "ref", meta
    assert meta["positions"] == f"0-{end['tokens'] - 1}" and meta["ratios"] == "0,0,4,128,4", meta
    assert meta["numbers"].startswith(end["numbers"]) and len(meta["model"]) == 64, meta
    want = {"tokens": (end["tokens"],)}
    for layer, ratio in enumerate(MODEL["compress_ratios"][:MODEL["num_hidden_layers"]]):
        want[f"layers.{layer}.window"] = (MODEL["sliding_window"] - 1, MODEL["head_dim"])
        if ratio:
            want[f"layers.{layer}.rows_kv"] = (end["tokens"] // ratio, MODEL["head_dim"])
        if ratio == 4:
            want[f"layers.{layer}.rows_key"] = (end["tokens"] // ratio, MODEL["index_head_dim"])
            for name, width in [("kv", "head_dim"), ("score", "head_dim"), ("index_kv", "index_head_dim"),
                                ("index_score", "index_head_dim")]:
                want[f"layers.{layer}.overlap_{name}"] = (4, 2 * MODEL[width])
    assert {n: t.shape for n, t in tensors.items()} == want
    assert all(np.isfinite(t).all() and t.any() for t in tensors.values())
    # the tokens are those of a prompt that was asked
    newest = ok(d, "request", "list")["requests"][0]["id"]
    assert ok(d, "request", "tokens", newest)["prompt"][:end["tokens"]] == tensors["tokens"].tolist()
    # what comes before is the same in the dump of a block before it
    above = next(b for b in blocks if b["key"] == end["parent"])
    ok(d, "cache", "dump", above["key"], "--output", path + ".2")
    part, _ = read_dump(path + ".2")
    for name, t in part.items():
        assert ".rows_" not in name or np.array_equal(t, tensors[name][:len(t)]), name
    # packed, it is the same
    ok(d, "cache", "dump", end["key"], "--gzip", "-o", path + ".gz")
    assert gzip.open(path + ".gz").read() == open(path, "rb").read()
    assert os.path.getsize(path + ".gz") < os.path.getsize(path) / 2
    return end, above, path


def no_dumps(d, end):
    refused(d, 2, "-o FILE is missing", "cache", "dump", end["key"])
    refused(d, 1, "No such file", "cache", "dump", end["key"], "-o", os.path.join(d.dir, "no", "such"))
    os.symlink(os.path.join(d.dir, "dump"), os.path.join(d.dir, "link"))
    refused(d, 1, "no regular file", "cache", "dump", end["key"], "-o", os.path.join(d.dir, "link"))
    assert os.path.islink(os.path.join(d.dir, "link"))
    path = os.path.join(d.dir, "none")
    refused(d, 1, "no block", "cache", "dump", "0" * 32, "-o", path)
    assert not [f for f in os.listdir(d.dir) if f.startswith("none")], "half a file was left"
    refused(d, 2, "--output", "cache", "tree", "-o", path)
    with Control(d.control) as c:
        try:
            c.call("io.dsv4.Cache.Dump", id=end["key"])
            raise AssertionError("a dump without 'more'")
        except Error as e:
            assert e.name == "io.dsv4.Daemon.InvalidValue" and "more" in e.parameters["message"], e
        replies = list(c.calls("io.dsv4.Cache.Dump", id=end["key"]))
        assert len(replies) > 2 and replies[-2]["progress"]["done"] == replies[-1]["bytes"], replies[-1]
        assert all("part" in r for r in replies[:-1]) and "part" not in replies[-1]
    for _ in range(3):  # peers that leave in the middle
        with Control(d.control) as c:
            assert "part" in next(c.calls("io.dsv4.Cache.Dump", id=end["key"]))
    ok(d, "status")


# ---- differences ----

def differences(d, end, above, path):
    def files(a, b, code):
        """Without a daemon."""
        r = subprocess.run([os.path.join(BUILD, "dsv4ctl"), "--socket", "/none", "--json", "cache", "diff", a, b],
                           capture_output=True, text=True, timeout=60, check=False)
        assert r.returncode == code, (a, b, r)
        return json.loads(r.stdout) if r.stdout else r.stderr

    same = files(path, path + ".gz", 0)
    assert same["verdict"] == "pass" and "first" not in same and same["equal"] == len(same["tensors"]) == 18, same
    assert ok(d, "cache", "diff", end["key"], end["tree"].strip()) == same
    shorter = files(path, path + ".2", 11)
    assert shorter == ok(d, "cache", "diff", end["key"], above["key"], code=11), shorter
    assert shorter["tokens_b"] == above["tokens"] and "first" not in shorter and "first_token" not in shorter, shorter
    # one element of one row
    tensors, _ = read_dump(path)
    tensors = {n: t.copy() for n, t in tensors.items()}
    tensors["layers.3.rows_kv"][2, 5] += 0.5
    tensors["layers.4.rows_key"][100, 63] = np.nan
    write_dump(path + ".3", tensors)
    r = files(path, path + ".3", 11)
    assert (r["first"]["tensor"], r["first"]["layer"], r["first"]["row"],
            r["first"]["element"]) == ("layers.3.rows_kv", 3, 2, 5), r
    by_name = {t["name"]: t for t in r["tensors"]}
    changed = by_name["layers.3.rows_kv"]
    original = read_dump(path)[0]["layers.3.rows_kv"].astype(float)
    moved = float(tensors["layers.3.rows_kv"][2, 5]) - original[2, 5]
    assert changed["differing"] == 1 and abs(changed["max"] - moved) < 1e-9, changed
    assert abs(changed["relative"] - moved / np.sqrt((original ** 2).sum())) < 1e-9, changed
    nan = by_name["layers.4.rows_key"]
    assert nan["max"] is None and nan["relative"] is None and nan["first"]["b"].startswith("nan (0x7fc00000)"), nan
    assert r["equal"] == 16 and sum(t["differing"] for t in r["tensors"]) == 2, r
    tensors["tokens"][7] += 1
    write_dump(path + ".3", tensors)
    assert files(path, path + ".3", 11)["first_token"] == 7
    # what is no dump
    for name, data in [("empty", b""), ("cut", open(path, "rb").read()[:-1]),
                       ("zip", open(path + ".gz", "rb").read()[:-9000]),
                       ("log", b"x" * 5000)]:
        with open(path + name, "wb") as f:
            f.write(data)
        assert path + name in files(path, path + name, 1), name
    refused(d, 2, "two blocks or two files", "cache", "diff", path, end["key"])
    del tensors["tokens"]
    write_dump(path + ".3", tensors)
    assert "no tokens" in files(path, path + ".3", 1)


# ---- verifying ----

def verified(d, blocks):
    for b in blocks:
        r = ok(d, "cache", "verify", b["key"])
        assert r["verdict"] == "pass" and r["recomputed"] == b["key"] and r["state"] == b["state"], r
        assert r["equal"] == (18 if b["state"] else 5) and r["tensors"] == [] and r["blocks"] == len(blocks), r
    drawn = ok(d, "cache", "verify")
    assert drawn["recomputed"] in [b["key"] for b in blocks] and drawn["verdict"] == "pass", drawn
    # under other numbers nothing can be computed again
    ok(d, "param", "set", "index_key=f32")
    r = ok(d, "cache", "verify", blocks[0]["key"])
    assert "only hashed" in r["note"] and "recomputed" not in r and r["equal"] == 0, r
    assert "only hashed" in ok(d, "cache", "verify")["note"]
    assert not any(b["active"] for b in ok(d, "cache", "tree")["blocks"])
    ok(d, "param", "set", "index_key=fp4")


def removed(d, blocks, end):
    fork = next(b for b in blocks if b["children"] == 2)
    below = [b for b in blocks if b["depth"] > fork["depth"]]
    assert ok(d, "cache", "evict", end["key"])["key"] == end["key"]
    refused(d, 1, "no block", "cache", "evict", end["key"])
    ok(d, "cache", "evict", fork["key"])
    left = ok(d, "cache", "tree")["blocks"]
    assert {b["key"] for b in left} == {b["key"] for b in blocks} - {fork["key"]} - {b["key"] for b in below}, left
    assert ask(d, FILLER + "Who are you?")[1] < fork["tokens"]
    assert ok(d, "cache", "stats")["disk"]["files"] > 0
    cleared = ok(d, "cache", "clear")
    assert cleared["removed"] > len(left) and cleared["left"] == 0, cleared
    s = ok(d, "cache", "stats")
    assert s["blocks"] == s["bytes"] == s["disk"]["files"] == 0, s
    assert ask(d, FILLER + "Who are you?")[1] == 0


# ---- what happens meanwhile ----

def meanwhile():
    """A dump that has begun is finished, whatever is evicted; work whose caller left is given up, also when all
    ends."""
    with Daemon() as d:
        ask(d, "All work and no play makes Jack a dull boy. " * 70)
        end = ok(d, "cache", "tree")["blocks"][-1]
        assert end["tokens"] > 600 and end["state"], end
        path = os.path.join(d.dir, "dump")
        ok(d, "cache", "dump", end["key"], "-o", path)
        with Control(d.control) as c:
            replies = c.calls("io.dsv4.Cache.Dump", id=end["key"])
            parts = [next(replies)]
            assert parts[0]["progress"]["done"] * 4 < parts[0]["progress"]["total"], parts[0]["progress"]
            assert ok(d, "cache", "clear")["left"] == 0 == ok(d, "cache", "stats")["bytes"]
            parts += replies
        with open(path, "rb") as f:
            assert b"".join(base64.b64decode(p["part"]) for p in parts[:-1]) == f.read()
        ask(d, "All work and no play makes Jack a dull boy. " * 70)
        with Control(d.control) as c:
            steps = c.calls("io.dsv4.Cache.Verify", id=end["key"])
            while next(steps)["progress"]["op"] != "compute":
                pass
        assert ok(d, "cache", "verify", end["parent"])["verdict"] == "pass"
        assert [x for x in d.log().splitlines() if "Cache.Verify" in x and "result=RC_CANCELLED" in x], d.log()
        with Control(d.control) as c:
            steps = c.calls("io.dsv4.Cache.Verify", id=end["key"])
            while next(steps)["progress"]["op"] != "compute":
                pass
            d.process.terminate()
            assert d.process.wait(60) == 0


# ---- rows that went bad where no checksum tells ----

def spoil(path):
    """Flips the lowest bit of the first row's first value in a cached file, and makes its checksum right again."""
    with open(path, "rb") as f:
        data = bytearray(f.read())
    rows = bytearray(zlib.decompress(data[720:]))
    rows[0] ^= 1  # planes of bytes, the lowest first
    packed = zlib.compress(rows, 1)
    data[192:200] = struct.pack("<Q", len(packed))
    data[720:] = packed
    data[716:720] = struct.pack("<I", zlib.crc32(data[720:], zlib.crc32(data[:716])))
    with open(path, "wb") as f:
        f.write(data)


def on_disk(tmp):
    """Every file is read back, one block is computed again; what is bad is named and moved."""
    conf, cached = os.path.join(tmp, "disk.conf"), os.path.join(tmp, "disk")
    with open(conf, "w", encoding="utf-8") as f:
        f.write(f"[cache]\ndisk = {cached}\n")
    with Daemon("--config", conf) as d:
        ask(d, FILLER + "Who are you?")
        blocks = ok(d, "cache", "tree")["blocks"]
    with Daemon("--config", conf) as d:
        for b in blocks:  # none is in memory
            r = ok(d, "cache", "verify", b["key"][:10], "--disk")
            assert (r["verdict"], r["recomputed"], r["tokens"], r["state"]) == ("pass", b["key"], b["tokens"],
                                                                                b["state"]), r
            assert (r["blocks"], r["disk_blocks"], r["disk_bad"]) == (0, len(blocks), []) and r["equal"] >= 5, r
        assert ok(d, "cache", "verify", "--disk")["recomputed"] in [b["key"] for b in blocks]
        refused(d, 1, "no good block", "cache", "verify", "0" * 32, "--disk")
        refused(d, 1, "hex digits", "cache", "verify", "xyz", "--disk")
        ok(d, "param", "set", "index_key=f32")
        r = ok(d, "cache", "verify", "--disk")
        assert r["verdict"] == "pass" and "only hashed" in r["note"] and r["disk_blocks"] == len(blocks), r
        ok(d, "param", "set", "index_key=fp4")
        last = blocks[-1]["key"]
        name = next(f for f in os.listdir(cached) if f.startswith(last) and f.endswith(".block"))
        with open(os.path.join(cached, name), "r+b") as f:
            f.seek(1000)
            byte = f.read(1)
            f.seek(1000)
            f.write(bytes([byte[0] ^ 1]))
        r = ok(d, "cache", "verify", "--disk", code=11)
        assert r["verdict"] == "fail" and [b["key"] for b in r["disk_bad"]] == [last] and r["disk_bad"][0]["why"], r
        assert r["recomputed"] != last and os.path.exists(os.path.join(cached, "bad", name)), r
        r = ok(d, "cache", "verify", "--disk")
        assert r["verdict"] == "pass" and r["disk_blocks"] == len(blocks) - 1, r
    with open(conf, "w", encoding="utf-8") as f:
        f.write("[cache]\ndisk = no\n")
    with Daemon("--config", conf) as d:
        refused(d, 1, "no cache on disk", "cache", "verify", "--disk")


def spoilt(tmp):
    conf, cached = os.path.join(tmp, "conf"), os.path.join(tmp, "cache")
    with open(conf, "w", encoding="utf-8") as f:
        f.write(f"[cache]\ndisk = {cached}\n")
    with Daemon("--config", conf) as d:
        ask(d, FILLER + "Who are you?")
        keys = [b["key"] for b in ok(d, "cache", "tree")["blocks"]]
    files = [f for f in os.listdir(cached) if f.endswith(".block")]
    assert all(sum(f.startswith(k) for f in files) == 1 for k in keys) and len(files) == len(keys), (keys, files)
    spoil(os.path.join(cached, next(f for f in files if f.startswith(keys[1]))))
    with Daemon("--config", conf) as d:
        r = ok(d, "cache", "verify", keys[1], "--disk", code=11)  # also where it lies
        assert r["disk_bad"] == [] and r["first"]["tensor"] == "layers.2.rows_kv" and "the block is" in r["note"], r
        assert ask(d, FILLER + "Who are you?")[1] > 256  # the checksum is right, so it is used
        assert ok(d, "cache", "stats")["disk"]["bad"] == 0
        assert ok(d, "cache", "verify", keys[0])["verdict"] == "pass"
        r = ok(d, "cache", "verify", keys[1], code=11)
        assert r["verdict"] == "fail" and r["bad"] == [] and len(r["tensors"]) == 1 and r["equal"] == 4, r
        first = r["first"]
        # the second block's first row: after the 32 of the first
        assert (first["tensor"], first["row"], first["element"]) == ("layers.2.rows_kv", 32, 0), first
        bits = [int(first[side].split("(")[1].rstrip(")"), 16) for side in "ab"]
        assert bits[0] ^ bits[1] == 1, first
        code, table, _ = d.ctl("cache", "verify", keys[1])
        assert code == 11 and "layers.2.rows_kv" in table and first["a"] in table, table
        print("verify: the flipped bit was found:", first)


with tempfile.TemporaryDirectory() as tmp:
    with Daemon() as d:
        counters(d)
        blocks = tree(d)
        names(d, blocks)
        end, above, path = dumps(d, blocks)
        no_dumps(d, end)
        differences(d, end, above, path)
        verified(d, blocks)
        removed(d, blocks, end)
        ambiguous_names(d)
        assert "wug" not in d.log(), "a prompt was logged"
    meanwhile()
    on_disk(tmp)
    spoilt(tmp)
print("ok")
