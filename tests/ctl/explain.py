# SPDX-License-Identifier: MIT
"""Whether the indexer took what holds a text: what explain says of index_topk is tried on the daemon, and a kernel that
loses the best rows is found beside ref."""
import random
import tempfile

import plugins
from control import Control, Error
from daemon import Daemon
from scenario import by, ok, refused, said

FACT = "my codeword is poppy"
LOSER = "indexer-loses-best"
EXPLAIN = "io.dsv4.Kernels.Explain"


FILLER = 30
LONG = 80  # beyond what the loser does right


def ask(d, filler=FILLER, tokens=24):
    """A fact, then more tokens than any window has, then the question."""
    text = f"Remember this: {FACT}. " + "All work and no play makes Jack a dull boy. " * filler + "What is my codeword?"
    status, _, body = d.http("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": text}],
                             "max_tokens": tokens, "temperature": 0, "reasoning_effort": "none"})
    assert status == 200, body
    return body["id"], body["choices"][0]["message"]["content"]


def explain(d, request, text=FACT, *words, reruns="0"):
    return ok(d, "explain", "--request", request, "--text", text, "--reruns", reruns, *words)


def at_is(d, request):
    """The option that asks where "The codeword is" has been said, and the word is next."""
    out = ok(d, "request", "tokens", request)["output"]
    status, _, said_is = d.http("POST", "/tokenize", {"prompt": "The codeword is", "add_special_tokens": False})
    assert status == 200 and out[:len(said_is["tokens"])] == said_is["tokens"], (out, said_is)
    return ["--at", f"output:{len(said_is['tokens'])}"]


def layer(reply, number, place=1):
    return by(reply["layers"], "place", "layer")[place, number]


def figures_agree(r):
    """What is told of rows, layers and places is one thing."""
    for x in r["layers"]:
        rows = [row for row in r["rows"] if (row["place"], row["layer"]) == (x["place"], x["layer"])]
        assert len(rows) == x["text_rows"] and x["left_out"] == 0, x
        ranks = [row["rank"] for row in rows]
        assert (min(ranks), max(ranks)) == (x["best_rank"], x["worst_rank"]), x
        assert sum(row["selected"] for row in rows) == x["selected"], x
        assert x["best_rank"] <= x["needed_topk"] <= x["worst_rank"], x
        assert x["misselected"] == 0 and all(row["selected"] == (row["rank"] <= x["topk"]) for row in rows), x
        assert (x["margin"] >= 0) == (x["best_rank"] <= x["topk"]), x
        for row in rows:
            assert row["first"] % 4 == 0 and row["last"] == row["row"] * 4 + 3 and 1 <= row["holds"] <= 8, row


def a_top_k_that_is_named_takes_it(d):
    """In the first layer with an indexer nothing before depends on top-k: what is said must come true."""
    ok(d, "param", "set", "index_topk=1")
    request, _ = ask(d)
    r = explain(d, request)
    figures_agree(r)
    assert r["set"] == "ref" and r["set_from"] == "request" and r["index_topk"] == 1, r
    assert (r["window_layers"], r["all_rows_layers"], r["found"]) == ([0, 1], [3], 1), r
    assert r["position"] == r["prompt_tokens"] - 1 and r["asking"] == "</think>", r
    place = r["places"][0]
    assert place["in_window"] == 0 and place["back"] > 5 * r["window"] and FACT in place["text"], place
    before = layer(r, 2)
    assert before["selected"] < before["text_rows"] and before["needed_topk"] > 1, before
    held = before["held"]
    for topk, taken in [(before["needed_topk"], held), (before["needed_topk"] - 1, None)]:
        ok(d, "param", "set", f"index_topk={topk}")
        request, _ = ask(d)
        r = explain(d, request)
        figures_agree(r)
        now = layer(r, 2)
        assert now["topk"] == topk and now["needed_topk"] == before["needed_topk"], (before, now)
        assert now["seen"] == held if taken else now["seen"] < held, (before, now)
    # the parameters are the request's, not those in force, unless they are named
    ok(d, "param", "set", "index_topk=32")
    assert layer(explain(d, request), 2) == now
    other = explain(d, request, FACT, "--set", f"active,index_topk={before['worst_rank']}")
    assert layer(other, 2)["selected"] == before["text_rows"] and other["set_from"] == "given", other


def takes(d, request, topk, number=None):
    """Under that top-k, does the layer (or does each) take the text whole?"""
    if topk == 0:
        return False
    r = explain(d, request, FACT, "--set", f"ref,index_topk={topk}")
    return all(x["seen"] == x["held"] for x in r["layers"] if number in (None, x["layer"]))


def a_top_k_that_is_verified_is_the_smallest_that_takes_it(d):
    """Layer 4's rank said 252; with that it took no row of three, since layer 2 had seen others."""
    told = random.Random(3)
    filler = " ".join(told.choice(["Ann has a red kite.", "Bob has a blue boat.", "That is all.", f"The sky is {i}."])
                      for i in range(220))
    turns = [("user", f"Remember this: {FACT}. {filler}"), ("assistant", "Noted."), ("user", "What is my codeword?")]
    status, _, body = d.http("POST", "/v1/chat/completions", {"messages": [{"role": r, "content": c} for r, c in turns],
                             "max_tokens": 2, "temperature": 0})
    assert status == 200, body
    r = explain(d, body["id"], reruns="12")
    place = r["places"][0]
    print({x["layer"]: (x["needed_topk"], x["needed_told"]) for x in r["layers"]}, place["needed_told"], r["reruns"])
    assert 0 < r["reruns"] <= 12, r
    assert place["needed_verified"] and place["needed_told"] == str(place["needed_verified"]), place
    smallest = place["needed_verified"]
    assert takes(d, body["id"], smallest) and not takes(d, body["id"], smallest - 1), place
    assert layer(r, 4)["needed_verified"] > layer(r, 4)["needed_topk"], r["layers"]
    for x in r["layers"]:
        if x["needed_verified"]:
            for topk, whole in ((x["needed_verified"], True), (x["needed_verified"] - 1, False)):
                assert takes(d, body["id"], topk, x["layer"]) == whole, (topk, x)
    assert not takes(d, body["id"], layer(r, 4)["needed_topk"]), "ranks alone would have said it"
    few = explain(d, body["id"])
    assert few["reruns"] == 0 and "0 reruns were used up" in few["unverified"], few
    assert layer(few, 2)["needed_told"] == str(layer(few, 2)["needed_topk"]), "nothing before it depends on top-k"
    assert layer(few, 4)["needed_told"] == f">={layer(few, 4)['needed_topk']}", few["layers"]
    assert few["places"][0]["needed_verified"] is None, few["places"]


def who_asks(d):
    """The text near the asking token is in its window; of the tokens of an answer one has the fact as its best row."""
    request, answer = ask(d, 12)
    assert "poppy" in answer, answer
    near = explain(d, request, "What is my")["places"][0]
    assert near["in_window"] == near["last"] - near["first"] + 1 and near["back"] < 64, near
    end = ok(d, "request", "tokens", request)
    n = len(end["output"])
    r = explain(d, request, "poppy", "--at", "end")
    assert r["position"] == r["prompt_tokens"] + n - 2, r
    first = explain(d, request, "poppy", "--at", "output:0")
    assert first["rows"] == explain(d, request, "poppy")["rows"] and first["position"] == first["prompt_tokens"] - 1
    says = explain(d, request, "poppy", *at_is(d, request))
    assert says["asking"] == " is", says
    assert layer(says, 2)["best_rank"] == 1 and layer(says, 2)["selected"] > 0, says
    # the best of all is the best of each
    each = [explain(d, request, "poppy", "--at", f"output:{i}") for i in range(n)]
    best = min(each, key=lambda r: (-r["places"][0]["layers_some"], min(x["best_rank"] for x in r["layers"]),
                                    r["position"]))
    found = explain(d, request, "poppy", "--at", "best", "--against", "ref,index_topk=2")
    assert found["tried"] == n and found["position"] == best["position"], (found["position"], best["position"])
    assert [{**x, "against": None} for x in found["layers"]] == [{**x, "against": None} for x in best["layers"]], found
    assert all(x["against"]["topk"] == 2 for x in found["layers"]), found
    asked = explain(d, request, "poppy", "--asking", "What is my codeword?")
    assert asked["asking"] in ("?", "word?", " codeword?") and asked["position"] < asked["prompt_tokens"] - 1, asked
    table = said(d, "explain", "--request", request, "--text", "poppy", "--rows", "1")
    assert all(word in table
               for word in ["NEEDED_TOPK", "BEST_RANK", "MARGIN", "TEXT"]) and "AGAINST" not in table, table


def every_place(d):
    """Of a text that stands there often, each place that the asking token can have seen, or the one that is named."""
    request, _ = ask(d)
    r = explain(d, request, "dull boy", "--rows", "0")
    assert r["found"] == FILLER and [p["place"] for p in r["places"]] == list(range(1, 17)) and not r["rows"], r
    assert all(x["left_out"] == x["text_rows"] for x in r["layers"]) and len(r["layers"]) == 32, r
    last = explain(d, request, "dull boy", "--occurrence", str(FILLER))
    assert [p["place"] for p in last["places"]] == [FILLER] and last["places"][0]["in_window"] > 0, last
    two = explain(d, request, "dull boy", "--asking", FACT + ". All work and no play makes Jack a dull boy.", "--rows",
                  "2")
    assert [p["place"] for p in two["places"]] == [1] and two["found"] == FILLER, two


def what_cannot_be_explained(d):
    request, _ = ask(d)
    words = ["explain", "--request", request]
    for more, text in [
        (["--text", "My  Codeword is poppy"], "with other white space or case it is there, 1 time, first from token"),
        (["--text", "xyzzy"], "text: not in the prompt"), (["--text", ""], "text: 0 bytes"),
        (["--text", "x" * 5000], "text: 5000 bytes, must be 1 to 4096"), ([], "request, text: both"),
        (["--text", "poppy", "--asking", "xyzzy"], "asking: not in the prompt"),
        (["--text", "poppy", "--asking", "Jack", "--at", "end"], "at, asking: one of the two"),
        (["--text", "poppy", "--at", "output:1000"], "output tokens, counted from 0"),
        (["--text", "poppy", "--at", "nowhere"], "none of prompt, output:N, end, best"),
        (["--text", "What is my", "--asking", FACT], "it stands behind the position that asks"),
        (["--text", "poppy", "--occurrence", "2"], "occurrence: must be within 1 to 1"),
        (["--text", "poppy", "--set", "nothing"], "nothing"),
        (["--text", "poppy", "--against", "ref,index_topk=x"], '"x"'),
        (["--text", "poppy", "--rows", "1000"], "rows: must be within"),
    ]:
        refused(d, 1, text, *words, *more)
    refused(d, 1, "no request", "explain", "--request", "x", "--text", "x")
    assert "poppy" not in d.log() and "Jack" not in d.log(), "a prompt was logged"


def a_kernel_that_loses_rows(d):
    """Its own view shows the row missed, ref's beside it shows it taken."""
    sound, answer = ask(d, LONG)
    assert "poppy" in answer, answer
    at = at_is(d, sound)
    ok(d, "plugin", "load", LOSER)
    ok(d, "kernels", "use", f"indexer={LOSER}")
    _, answer = ask(d, LONG)
    print(f"with {LOSER}: {answer!r}")
    assert "poppy" not in answer, answer
    r = explain(d, sound, "poppy", *at, "--set", LOSER, "--against", "ref")
    assert r["set"] == f"indexer={LOSER}" and r["against"] == "ref", r
    mine = layer(r, 2)
    assert mine["selected"] == 0 and mine["against"]["best_rank"] == 1 and mine["against"]["selected"] > 0, mine
    for row in r["rows"]:
        if row["layer"] == 2 and row["against"]["rank"] <= 2:
            assert row["score"] is None and not row["selected"] and row["against"]["selected"], row
            assert row["rank"] > mine["rows"] - 16, row
    assert r["places"][0]["layers_some"] < r["places"][0]["against"]["layers_some"], r["places"]
    return sound


def its_own_set(d):
    """Each request by the set it ran under, for as long as that lives; then by the active one."""
    request, _ = ask(d, 3)
    ok(d, "kernels", "use", "all=ref")
    sound, _ = ask(d, 3)
    table = said(d, "explain", "--request", sound, "--text", "poppy", "--set", LOSER, "--against", "ref")
    assert all(word in table for word in ["AGAINST_RANK", "AGAINST_SELECTED"]), table
    own = explain(d, request)
    assert (own["set"], own["set_from"]) == (f"indexer={LOSER}", "request") and explain(d, sound)["set"] == "ref", own
    ok(d, "kernels", "use", "mhc=mhc-bf16")
    ok(d, "kernels", "use", "all=ref")
    gone = plugins.until(lambda: (r := explain(d, request))["set_from"] == "active" and r, "the set has gone")
    assert gone["set"] == "ref", gone


def bounds(d, request):
    """Of a long prompt progress is told; others are answered, and the daemon does not wait for it."""
    with Control(d.control, timeout=120) as c:
        replies = c.calls(EXPLAIN, request=request, text="poppy")
        progress = next(replies)["progress"]
        assert progress["op"] == "explain" and 0 < progress["done"] < progress["total"], progress
        assert ok(d, "status")["level"], "others are answered while it runs"
    with Control(d.control, timeout=120) as c:
        replies = c.calls(EXPLAIN, request=request, text="poppy")
        next(replies)
        d.process.terminate()
        try:
            assert "layers" not in list(replies)[-1]
        except (Error, AssertionError):
            pass  # cancelled, or hung up
        assert d.process.wait(60) == 0


with tempfile.TemporaryDirectory() as tmp:
    shipped = plugins.shipped()
    with Daemon(plugins=plugins.directory(tmp, plugins.fixture(LOSER), shipped["mhc-bf16"])) as d:
        ok(d, "plugin", "load", "mhc-bf16")
        a_top_k_that_is_named_takes_it(d)
        if not plugins.sanitizer():  # a prompt of 1,700 tokens, 20 times
            a_top_k_that_is_verified_is_the_smallest_that_takes_it(d)
        who_asks(d)
        every_place(d)
        what_cannot_be_explained(d)
        long = a_kernel_that_loses_rows(d)
        its_own_set(d)
        bounds(d, long)
print("ok")
