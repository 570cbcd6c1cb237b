# SPDX-License-Identifier: MIT
"""A regular expression over what is kept of requests: which, where, how often; and neither pattern nor prompt in the
log."""
from daemon import Daemon
from scenario import ok, refused, said

CODEWORD = "poppy"


def ask(d, *texts, **more):
    messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": t} for i, t in enumerate(texts)]
    status, _, body = d.http("POST", "/v1/chat/completions",
                             {"messages": messages, "max_tokens": 24, "temperature": 0, **more})
    assert status == 200, body
    return body["id"], body["choices"][0]["message"]["content"] or ""


def found(reply, where=None):
    return [(f["id"], f["where"], f["lines"]) for f in reply["found"] if where in (None, f["where"])]


with Daemon() as d:
    remembers, answer = ask(d, f"Remember this: my codeword is {CODEWORD}.", f"Noted. The codeword is {CODEWORD}.",
                            "What is my codeword?", reasoning_effort="none")
    other, _ = ask(d, "What is 7 plus 5?\nAnd what is 5 plus 7?")
    assert CODEWORD in answer, answer
    r = ok(d, "request", "grep", CODEWORD)
    assert {(i, w) for i, w, _ in found(r)} == {(remembers, w) for w in ("prompt", "output", "messages")}, r
    assert found(r, "messages") == [(remembers, "messages", 2)], r
    assert r["requests"] == r["looked_at"] == 2 and not r["stopped"] and r["unread"] == 0 == r["left_out"], r
    assert all(CODEWORD in f["text"] for f in r["found"]) and r["lines"] == sum(f["lines"] for f in r["found"]), r
    # newest first; case; one place only; the count and number of lines
    r = ok(d, "request", "grep", "^.*what IS", "--ignore-case", "--in", "messages")
    assert found(r) == [(other, "messages", 2), (remembers, "messages", 1)] and r["found"][0]["line"] == 1, r
    assert found(ok(d, "request", "grep", "^And", "--in", "prompt"))[0] == (other, "prompt", 1)
    assert not found(ok(d, "request", "grep", "what IS")), "case counts unless told otherwise"
    # what is left out is counted
    r = ok(d, "request", "grep", "is", "--max", "1")
    assert len(r["found"]) == 1 and r["left_out"] > 0, r
    table = said(d, "request", "grep", CODEWORD)
    assert all(word in table for word in ["WHERE", "LINES", remembers, "prompt"]), table
    # a pattern that would never end does, and says so; the daemon answers meanwhile and after
    ask(d, "a" * 300 + "!")
    r = ok(d, "request", "grep", "^(a|a)*$", "--in", "messages")
    assert r["unread"] >= 1 and not r["found"], r
    refused(d, 1, "at byte", "request", "grep", "(")
    refused(d, 1, "max: must be", "request", "grep", "x", "--max", "0")
    assert CODEWORD not in d.log() and '"regex":"***"' in d.log().replace("\\", ""), d.log()
print("ok")
