# SPDX-License-Identifier: MIT
"""Whose mark EXACT is believed: a plugin that says it has ref's bits, and has not for long prompts, shares no cached
row with ref; it is caught by whatever compares it. Once one that was built with the program is caught, nothing that was
cached before is found again, by any set and by no later run either."""
import hashlib
import json
import os
import shutil

import plugins
from daemon import PATIENCE, Daemon
from scenario import by, ok
from turns import fast_kernels

LIAR = "falsely-exact"
FAST = "attention=avx2"  # which is EXACT there
LONG = "wug blicket dax toma zav " * 70 + "What is 7 plus 5?"


def cached(d):
    """Tokens of the long prompt that were found."""
    status, _, body = d.http("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": LONG}], "max_tokens": 1, "temperature": 0})
    assert status == 200, body
    usage = body["usage"]
    assert usage["prompt_tokens"] > 400, usage
    return usage["prompt_tokens_details"]["cached_tokens"]


def use(d, spec):
    ok(d, "kernels", "use", spec)


def row(d, name):
    return by(ok(d, "plugin", "list")["plugins"], "name")[(name,)]


def a_falsely_exact_kernel_shares_no_rows_with_ref(d, fast):
    ok(d, "plugin", "load", LIAR)
    assert (row(d, LIAR)["exact"], row(d, "ref")["exact"]) == ("apart", "shared"), row(d, LIAR)
    use(d, f"norm={LIAR}")
    assert cached(d) == 0 < cached(d), "it finds its own"
    use(d, "all=ref")
    assert cached(d) == 0 < cached(d), "ref found a stranger's rows"
    use(d, f"norm={LIAR}")
    assert cached(d) > 0, "it finds its own"
    if fast:
        assert row(d, "avx2")["exact"] == "shared", row(d, "avx2")
        use(d, FAST)
        assert cached(d) > 0, "avx2 has ref's bits here, and its cache is warm"
    use(d, "all=ref")


def what_is_caught_is_told_and_kept(d, prompt):
    """A stranger never had a part in ref's cache, which stays warm."""
    found = ok(d, "compare", "--prompt", prompt, "--a", "ref", "--b", f"norm={LIAR}", "--tokens", "1")
    assert by(found["ops"], "op", "phase", "output")[("rms_norm", "prefill", "y")]["differing"] > 0, found
    liar = row(d, LIAR)
    assert liar["exact"] == "disproved" and "rms_norm" in liar["complaint"], liar
    assert cached(d) > 0, "ref's own was thrown away"
    plugins.until(lambda: os.path.exists(kept(d)), "it is kept")
    assert "exact_disproved" in d.log() and "cache_cleared" not in d.log(), d.log()


def a_caught_plugin_stays_caught(d):
    assert cached(d) > 0
    assert "exact_disproved" not in d.log().rsplit("starting", 1)[1], "told twice"
    ok(d, "plugin", "load", LIAR)
    assert row(d, LIAR)["exact"] == "disproved", row(d, LIAR)


def kept(d):
    return os.path.join(d.dir, "state", "disproved.json")


def a_caught_one_of_ours_takes_the_cache_along(d, fast):
    """As the run before this one would have left it, killed before it threw the disk's files away."""
    assert cached(d) > 0
    d.stop()
    with open(kept(d), encoding="utf-8") as f:
        records = json.load(f)
    assert [(r["name"], r["believed"]) for r in records] == [(LIAR, False)], records
    with open(plugins.shipped()["avx2"] if fast else plugins.fixture(LIAR), "rb") as f:
        records.append({"name": "ours", "sha256": hashlib.sha256(f.read()).hexdigest(), "believed": True,
                        "why": "bits"})
    if not fast:
        del records[0]
    with open(kept(d), "w", encoding="utf-8") as f:
        json.dump(records, f)
    d.start()
    assert cached(d) == 0 < cached(d), "what it may have had a part in is found"
    if fast:
        assert (row(d, "avx2")["exact"], row(d, "avx2")["complaint"]) == ("disproved", "bits"), row(d, "avx2")
        use(d, FAST)
        assert cached(d) == 0 < cached(d), "it still shares"


def verify_finds_who_lies():
    """Its bits change with the rows it is given, and verifying computes more at once than the request did."""
    with Daemon(plugins=[]) as d:
        shutil.copy(plugins.fixture(LIAR), d.plugins)
        path = os.path.join(d.dir, "conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"[daemon]\nprefill_chunk = 128\n[plugins]\nload = {LIAR}\ntrial_timeout = {PATIENCE}\n"
                    f"[kernels]\nuse = norm={LIAR}\n[cache]\ndisk = yes\nwrite_rate = 0\n")
        d.stop()
        d.args = ["--config", path]
        d.start()
        cached(d)
        last = ok(d, "cache", "tree")["blocks"][-1]
        assert last["tokens"] > 300, last
        code, out, err = d.ctl("--json", "cache", "verify", last["key"])
        r = json.loads(out.splitlines()[-1])
        assert code == 11 and r["verdict"] == "fail" and LIAR in r["note"] and not err, (code, r, err)
        assert row(d, LIAR)["exact"] == "disproved", r


def main():
    fast = fast_kernels() and not plugins.sanitizer()  # whose trial of all of avx2's ops takes minutes, at each start
    with Daemon(plugins=["avx2"] if fast else []) as d:
        shutil.copy(plugins.fixture(LIAR), d.plugins)
        path, prompt = (os.path.join(d.dir, name) for name in ("conf", "prompt"))
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"[plugins]\n{'load = avx2' if fast else ''}\ntrial_timeout = {PATIENCE}\n"
                    "[cache]\nmemory = 64M\ndisk = yes\nwrite_rate = 0\n")
        with open(prompt, "w", encoding="utf-8") as f:
            f.write(LONG)
        d.stop()
        d.args = ["--config", path]
        d.start()
        a_falsely_exact_kernel_shares_no_rows_with_ref(d, fast)
        d.stop()
        d.start()
        assert cached(d) > 0, "ref's are on the disk"
        ok(d, "plugin", "load", LIAR)
        what_is_caught_is_told_and_kept(d, prompt)
        d.stop()
        d.start()
        a_caught_plugin_stays_caught(d)
        a_caught_one_of_ours_takes_the_cache_along(d, fast)
    verify_finds_who_lies()


main()
print("ok")
