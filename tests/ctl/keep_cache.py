# SPDX-License-Identifier: MIT
"""Kernels and parameters changed with --keep-cache: rows of other numbers are gone on from, which is told; what is
computed behind them is kept nowhere, and afterwards, also after a kill, every answer has the bits it would have had."""
import os

from daemon import Daemon
from scenario import ok

TEXT = "wug blicket dax toma zav " * 30 + "Who are you?"
LONGER = "wug blicket dax toma zav " * 60 + "Who are you?"  # more blocks that begin alike


def ask(d, text=TEXT):
    """(the tokens and their logprobs, how many tokens of the prompt were cached, were they kept)"""
    status, _, body = d.http("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": text}], "max_tokens": 4, "temperature": 0, "logprobs": True,
        "thinking": {"type": "disabled"}}, timeout=d.timeout)
    assert status == 200, body
    shown = ok(d, "request", "show", body["id"])["cache"]
    cached = body["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert shown["reused"] == cached and (cached or not shown["kept"]), shown
    return [(t["token"], t["logprob"]) for t in body["choices"][0]["logprobs"]["content"]], cached, shown["kept"]


def use(d, *words):
    return ok(d, "kernels", "use", *words)


def written(d):
    """The files, when all is on disk that waits to be."""
    while ok(d, "cache", "stats")["disk"]["queued"]:
        pass
    return {f for f in os.listdir(os.path.join(d.dir, "state", "cache")) if f.endswith((".block", ".state"))}


def kept(d):
    return ok(d, "status").get("cache_kept")


def lent(d):
    """Reused, said so, and not one block more afterwards."""
    files, before = written(d), ok(d, "cache", "stats")
    said = kept(d)
    status, _, body = d.http("GET", "/v1/status")
    assert status == 200 and said and body["daemon"]["cache_kept"] == said, (said, body)
    for text in [TEXT, LONGER, LONGER]:
        _, cached, was_kept = ask(d, text)
        assert cached >= 128 and was_kept, (cached, was_kept)
    after = ok(d, "cache", "stats")
    assert after["kept"] == before["kept"] + 3 and after["published"] == before["published"], (before, after)
    assert after["blocks"] == before["blocks"] and written(d) == files, (before, after)
    assert ok(d, "cache", "verify")["verdict"] == "pass"
    return said


def unchanged(d, cold):
    """Without the flag there is nothing of it."""
    assert kept(d) is None
    answer, cached, was_kept = ask(d)
    assert answer == cold and not was_kept, (answer, cold, was_kept)
    return cached


def kernels(d, ref):
    use(d, "mhc=mhc-bf16", "--keep-cache")
    said = lent(d)
    assert said.startswith("ref (epoch ") and " -> mhc=mhc-bf16 (epoch " in said, said
    assert "cache_kept" in d.log() and said in d.log(), d.log()
    use(d, "all=ref")
    assert unchanged(d, ref) >= 128
    use(d, "mhc=mhc-bf16")
    answer, cached, was_kept = ask(d)
    assert cached == 0 and not was_kept and answer != ref, (cached, was_kept)
    use(d, "all=ref")
    return answer


def killed(d, ref, lossy):
    """In the middle of it."""
    use(d, "mhc=mhc-bf16")
    ask(d)
    use(d, "all=ref", "--keep-cache")  # the other way
    assert not ask(d)[2], "its own rows come first"
    longer = "now another. " * 60
    use(d, "mhc=mhc-bf16")
    other, cached, _ = ask(d, longer)
    assert cached == 0
    use(d, "all=ref", "--keep-cache")
    assert ask(d, longer)[2]
    written(d)
    d.kill()
    d.start()
    assert unchanged(d, ref) >= 128
    answer, cached, was_kept = ask(d, longer)
    assert cached == 0 and not was_kept, (cached, was_kept)
    ok(d, "plugin", "load", "mhc-bf16")
    use(d, "mhc=mhc-bf16")
    assert unchanged(d, lossy) >= 128
    assert ask(d, longer)[0] == other != answer
    use(d, "all=ref")


def parameters(d, ref):
    ok(d, "param", "set", "index_topk=2", "--keep-cache")
    lent(d)
    ok(d, "param", "set", "log_level=info", "--keep-cache")
    assert kept(d), "no number changed"
    ok(d, "param", "set", "index_topk=1")
    assert kept(d) is None and ask(d)[1:] == (0, False)
    ok(d, "param", "set", "index_topk=2", "--keep-cache")
    ok(d, "cache", "clear")
    assert kept(d) is None
    ok(d, "param", "set", f"index_topk={TOPK}")
    assert unchanged(d, ref) == 0


with Daemon() as daemon:
    ok(daemon, "plugin", "load", "mhc-bf16")
    TOPK = ok(daemon, "param", "get", "index_topk")["parameter"]["value"]
    first, reused, _ = ask(daemon)
    assert reused == 0
    parameters(daemon, first)
    killed(daemon, first, kernels(daemon, first))
print("ok")
