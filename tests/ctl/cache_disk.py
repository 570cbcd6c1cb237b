# SPDX-License-Identifier: MIT
"""The prefix cache on disk under a daemon that is killed, finds strange files, shares its directory, and loses it."""
import json
import os
import shutil

from daemon import Daemon

TEXT = "wug blicket dax toma zav " * 30 + "Who are you?"


def stats(d):
    code, out, err = d.ctl("--json", "cache", "stats")
    assert code == 0, err
    return json.loads(out)


def ask(d, text=TEXT):
    """(the tokens and their logprobs, how many tokens of the prompt were cached)"""
    status, _, body = d.http("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": text}], "max_tokens": 4, "temperature": 0, "logprobs": True,
        "thinking": {"type": "disabled"}}, timeout=d.timeout)
    assert status == 200, body
    answer = [(t["token"], t["logprob"]) for t in body["choices"][0]["logprobs"]["content"]]
    return answer, body["usage"]["prompt_tokens_details"]["cached_tokens"]


def written(d):
    """Waits until all is on disk that waits to be; each look is a call of its own to the daemon."""
    while stats(d)["disk"]["queued"]:
        pass
    return stats(d)["disk"]


def files(d, kind):
    return sorted(f for f in os.listdir(os.path.join(d.dir, "state", "cache")) if f.endswith("." + kind))


def killed(d, cold):
    """At once after an answer, when blocks are being written: what is there is whole, the answer has the same bits."""
    d.kill()
    d.start()
    assert ask(d)[0] == cold
    disk = written(d)
    assert disk["bad"] == disk["errors"] == 0, disk
    d.kill()
    d.start()
    answer, cached = ask(d)
    assert answer == cold and cached >= 128, (answer, cold, cached)
    assert stats(d)["disk"]["read"] > 0


def strange(d, cold):
    """Among the files are others, and one of ours is broken: all are moved, counted, and cost no answer."""
    cache = os.path.join(d.dir, "state", "cache")
    assert d.stop() == 0, d.log()
    with open(os.path.join(cache, "thesis.tex"), "w", encoding="utf-8") as f:
        f.write("mine")
    os.mkfifo(os.path.join(cache, "pipe"))
    victim = os.path.join(cache, files(d, "block")[0])
    with open(victim, "r+b") as f:
        f.seek(-1, os.SEEK_END)
        last = f.read(1)
        f.seek(-1, os.SEEK_END)
        f.write(bytes([last[0] ^ 1]))
    d.start()
    assert ask(d)[0] == cold
    disk = stats(d)["disk"]
    assert disk["aside"] == 2 and disk["bad"] == 1 and disk["strange"] == disk["errors"] == 0, disk
    assert sorted(os.listdir(os.path.join(cache, "aside"))) == ["pipe", "thesis.tex"]
    with open(os.path.join(cache, "aside", "thesis.tex"), encoding="utf-8") as f:
        assert f.read() == "mine"
    assert os.listdir(os.path.join(cache, "bad")) == [os.path.basename(victim)]


def no_file(d, cold):
    """One that is no regular file any more is named, and the others are verified all the same; it ended there."""
    written(d)
    blocks = files(d, "block")
    tree = json.loads(d.ctl("--json", "cache", "tree")[1])["blocks"]
    first, last = tree[0]["key"], tree[-1]["key"]
    victim, = [os.path.join(d.dir, "state", "cache", f) for f in blocks if f.startswith(first)]
    os.unlink(victim)
    os.mkfifo(victim)
    code, out, err = d.ctl("--json", "cache", "verify", "--disk")
    r = json.loads(out.splitlines()[-1])
    assert code == 11 and r["verdict"] == "fail" and r["disk_blocks"] == len(blocks), (code, r, err)
    assert [b["key"] for b in r["disk_bad"]] == [first] and "regular" in r["disk_bad"][0]["why"], r
    code, out, err = d.ctl("--json", "cache", "verify", "--disk", last)
    r = json.loads(out.splitlines()[-1])
    assert first != last and "a block before it is not on disk" in r["note"], (code, r, err)
    assert ask(d)[0] == cold


def two(d, cold):
    """A second one on the same directory serves without it, and says so; it touches nothing there."""
    written(d)
    before = files(d, "block") + files(d, "state")
    config = os.path.join(d.dir, "second.conf")
    with open(config, "w", encoding="utf-8") as f:
        f.write(f"[cache]\ndisk = {os.path.join(d.dir, 'state', 'cache')}\n")
    with Daemon("--config", config) as other:
        assert ask(other)[0] == cold and "disk" not in stats(other)
        assert "cache_disk_unusable" in other.log() and "another process has it" in other.log(), other.log()
        assert files(d, "block") + files(d, "state") == before
        assert ask(d)[0] == cold


def removed(d, cold):
    """Somebody deletes it under the running daemon: requests do not notice, the next start makes it again."""
    shutil.rmtree(os.path.join(d.dir, "state", "cache"))
    assert ask(d)[0] == cold
    ask(d, "toma " * 200)
    assert written(d)["errors"] > 0
    assert d.stop() == 0, d.log()
    d.start()
    assert ask(d) == (cold, 0)
    assert written(d)["written"] > 0 and stats(d)["disk"]["errors"] == 0


with Daemon() as daemon:
    first, reused = ask(daemon)
    assert reused == 0
    for scenario in [killed, strange, no_file, two, removed]:
        scenario(daemon, first)
print("ok")
