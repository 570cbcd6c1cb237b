#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every route with requests that are right, wrong and nonsense, made from its fields: nothing crashes, nothing is a 5xx
but a 503 that says when to come again, every error says what, of which type, about which field, and with which request
id.

    REQUESTS=100000 SEED=7 tests/lib/python.sh tests/http/fuzz.py     # more of them, others
    ONLY=1234 SEED=7 tests/lib/python.sh tests/http/fuzz.py           # that one alone, shown
"""
import concurrent.futures
import copy
import http.client
import json
import os
import random
import re
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import SRC  # noqa: E402
from daemon import PATIENCE, Daemon  # noqa: E402
from plugins import sanitizer  # noqa: E402

SEED = os.environ.get("SEED", "1")
REQUESTS = int(os.environ.get("REQUESTS") or (600 if sanitizer() else 10000))
CONTEXT = 256  # of the daemon: what a damaged max_tokens can cost

USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {
    "type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": \"x\"}"}}
SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"], "additionalProperties": False}
SETTINGS = {"temperature": 0.5, "top_p": 0.9, "min_p": 0.1, "top_k": 5, "repetition_penalty": 1.1,
            "presence_penalty": 0.1,
            "frequency_penalty": 0.1, "n": 2, "seed": 7, "stop": ["x", "yy"], "logit_bias": {"5": -1.5},
            "model": "tiny",
            "stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True, "user": "u",
            "metadata": {"k": "v"}}
CHAT = {**SETTINGS, "max_completion_tokens": 2, "logprobs": True, "top_logprobs": 2, "tools": [TOOL],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}},
        "thinking": {"type": "enabled"}, "reasoning_effort": "high", "chat_template_kwargs": {"thinking": True},
        "thinking_budget": 1, "store": False, "service_tier": "auto"}
HISTORY = [{"role": "system", "content": "s"}, USER,
           {"role": "assistant", "content": None, "reasoning_content": "r", "tool_calls": [CALL]},
           {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "t"}]}, USER]
BLOCKS = [{"type": "text", "text": "t"}, {"type": "image", "source": {"type": "base64", "data": "AA=="}},
          {"type": "thinking", "thinking": "t", "signature": "s"},
          {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": "x"}},
          {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "t"}]}]
MESSAGES = {"model": "claude-x", "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
            "temperature": 0.5, "top_p": 0.9,
            "top_k": 5, "stop_sequences": ["x"], "stream": True, "metadata": {"user_id": "u"},
            "tools": [{"name": "f", "description": "d", "input_schema": SCHEMA}], "tool_choice": {"type": "auto"},
            "thinking": {"type": "enabled", "budget_tokens": 1}}
ANTHROPIC = [USER, {"role": "assistant", "content": BLOCKS[2:4]}, {"role": "user", "content": [BLOCKS[4], BLOCKS[0]]}]
INPUTS = [{"input": "Hi"}, {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}]},
          {"input": [USER, {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
                     {"type": "function_call_output", "call_id": "c1", "output": "o"}]}]
RESPONSES = {"model": "tiny", "instructions": "i", "temperature": 0.5, "top_p": 0.9, "stream": True,
             "tools": [{"type": "function", "name": "f", "parameters": SCHEMA, "strict": True}], "tool_choice": "auto",
             "parallel_tool_calls": True, "store": True, "metadata": {"k": "v"}, "previous_response_id": "resp_1",
             "reasoning": {"effort": "low", "summary": "auto"}, "include": [], "truncation": "disabled", "user": "u",
             "top_logprobs": 2,
             "text": {"format": {"type": "json_schema", "name": "s", "schema": SCHEMA}}}


class Shape:
    """What a route takes: fields it cannot do without, in several versions; optional ones with a value that is right;
    the tables of routes' own fields (api/*/*_fields.def), whose names are tried with anything."""

    def __init__(self, *needed, optional=None, tables=(), limit=None):
        self.needed, self.optional, self.limit = needed, optional or {}, limit
        self.names = sorted({n for t in tables
                             for n in table_names(t)} | set(self.optional) | {k for n in needed for k in n})


def table_names(table):
    with open(os.path.join(SRC, "api", table + ".def"), encoding="utf-8") as f:
        found = re.findall(r"^(?:INT|REAL|FLAG|REFUSED|ONLY)\((\w+),", f.read(), re.M)
    assert found, table
    return found


NOTHING = Shape({})
ROUTES = {
    "GET /": NOTHING, "GET /health": NOTHING, "GET /ready": NOTHING, "GET /metrics": NOTHING, "GET /v1/status": NOTHING,
    "GET /version": NOTHING, "GET /v1/models": NOTHING, "GET /v1/models/**": NOTHING,
    "POST /v1/chat/completions": Shape({"messages": [USER]}, {"messages": HISTORY}, optional=CHAT,
                                       tables=("request/common_fields", "request/settings_fields",
                                               "request/chat_fields"), limit="max_tokens"),
    "POST /v1/completions": Shape({"prompt": "Hi"}, {"prompt": [1, 2]}, {"prompt": ["a", "b"]},
                                  {"prompt": [[1], [2, 3]]},
                                  optional={**SETTINGS, "echo": True, "logprobs": 1, "best_of": 1,
                                            "parse_special": False},
                                  tables=("request/common_fields", "request/settings_fields",
                                          "completions/completions_fields"), limit="max_tokens"),
    "POST /v1/messages": Shape({"messages": [USER]}, {"messages": ANTHROPIC}, optional=MESSAGES,
                               tables=("request/common_fields", "anthropic/anthropic_fields",),
                               limit="max_tokens"),
    "POST /v1/messages/count_tokens": Shape({"messages": [USER]}, {"messages": ANTHROPIC}, optional=MESSAGES,
                                            tables=("request/common_fields", "anthropic/anthropic_fields",)),
    "POST /v1/responses": Shape(*INPUTS, optional=RESPONSES,
                                tables=("request/common_fields", "responses/responses_fields"),
                                limit="max_output_tokens"),
    "POST /v1/responses/input_tokens": Shape(*INPUTS, optional=RESPONSES,
                                             tables=("request/common_fields", "responses/responses_fields",)),
    "GET /v1/responses/*": NOTHING, "GET /v1/responses/*/input_items": NOTHING, "DELETE /v1/responses/*": NOTHING,
    "POST /tokenize": Shape({"text": "Hi"}, {"prompt": "Hi"}, {"messages": [USER]},
                            optional={"parse_special": True, "with_pieces": True, "add_special_tokens": False,
                                      "return_token_strs": True, "content": "c", "tools": [TOOL]}),
    "POST /detokenize": Shape({"tokens": [1, 2, 3]}, {"tokens": []},
                              optional={"skip_special": True, "skip_special_tokens": True}),
    "POST /apply-template": Shape({"messages": [USER]}, {"messages": HISTORY},
                                  optional={"tools": [TOOL], "thinking": {"type": "disabled"},
                                            "reasoning_effort": "max"}),
}
# Routes to what other requests made, by names that a request made here cannot know.
UNKNOWN = {"GET /v1/responses/*", "GET /v1/responses/*/input_items", "DELETE /v1/responses/*"}


def check_table():
    """A route that is new in routes.def needs a row here."""
    with open(os.path.join(SRC, "api", "http", "routes.def"), encoding="utf-8") as f:
        served = {f"{m} {p}" for m, p in re.findall(r'^ROUTE\("(\w+)",\s*"([^"]+)"', f.read(), re.M)}
    assert len(served) > 8, served
    assert served <= set(ROUTES), f"routes without a row in tests/http/fuzz.py: {served - set(ROUTES)}"
    assert set(ROUTES) <= served, f"rows for no route: {set(ROUTES) - served}"
    return sorted(served)


# ---- values ----

WORDS = ["", "x", "auto", "none", "any", "required", "function", "tool", "text", "json_object", "json_schema",
         "enabled", "disabled",
         "max", "low", "user", "system", "assistant", "developer", "null", "tiny", "é" * 9, "漢字😀", "<｜User｜>",
         "</think>", "<｜DSML｜invoke",
         "\x00", "\ud800", "\x7f\x1b", "a" * 3000, "{\"a\": 1}", "[", "\\", "../..", "%s%n", "1e9999"]
NUMBERS = [0, 1, -1, 2, 16, 17, 20, 21, 255, 65536, 1 << 31, (1 << 31) - 1, -(1 << 31), 1 << 53, (1 << 63) - 1, 1 << 63,
           -(1 << 63), -(1 << 63) - 1,
           10 ** 40, 0.5, -0.0, 1.5, 1e308, -1e308, 5e-324, 2.0, 1e-9, 4294967295.0]
KEYS = ["type", "name", "text", "content", "role", "properties", "a", "", "$ref", "é", "x" * 300, "__proto__"]


def junk(r, depth=0):
    kind = r.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return r.choice([None, True, False])
    if kind <= 2:
        return r.choice(NUMBERS)
    if kind <= 5:
        return r.choice(WORDS)
    if kind == 6:
        return {r.choice(KEYS): junk(r, depth + 1) for _ in range(r.randrange(4))}
    if kind == 7:
        return [junk(r, depth + 1) for _ in range(r.randrange(4))]
    return schema(r, depth)


def schema(r, depth=0):
    """A JSON schema, possible or not."""
    s = {}
    for _ in range(r.randrange(1, 4)):
        key = r.choice(["type", "type", "properties", "items", "enum", "const", "anyOf", "allOf", "oneOf", "not",
                        "$ref", "required", "pattern",
                        "minimum", "maxLength", "minItems", "maxItems", "additionalProperties", "prefixItems", "$defs",
                        "format", "description"])
        deeper = depth < 4
        s[key] = (r.choice(["string", "integer", "number", "boolean", "null", "array", "object", "any",
                            ["string", "null"], 3]) if key == "type" else
                  {r.choice(KEYS): schema(r, depth + 1) if deeper else True for _ in range(r.randrange(3))}
                  if key in ("properties", "$defs") else
                  [schema(r, depth + 1) if deeper else {} for _ in range(r.randrange(3))]
                  if key in ("anyOf", "allOf", "oneOf", "prefixItems") else
                  (schema(r, depth + 1) if deeper else False) if key in ("items", "not", "additionalProperties") else
                  r.choice(["#", "#/$defs/a", "#/properties/a", "#/nowhere", "http://x/y", ""]) if key == "$ref" else
                  r.choice(["^a+$", "(", "[a-z]{1,5}", "(a*)*b", "\\d+", "a{99999}"]) if key == "pattern" else
                  [r.choice(WORDS), junk(r, 4)] if key in ("enum", "required") else junk(r, 4))
    return s


def places(v, found=None):
    """(container, key) of everything inside."""
    found = [] if found is None else found
    for k in v if isinstance(v, dict) else range(len(v)) if isinstance(v, list) else ():
        found.append((v, k))
        places(v[k], found)
    return found


def mutate(r, body):
    """One thing wrong, at any depth."""
    spots = places(body)
    if not spots:
        body[r.choice(KEYS)] = junk(r)
        return
    where, key = r.choice(spots)
    what = r.randrange(7)
    if what <= 2:
        where[key] = junk(r)
    elif what == 3:
        del where[key]
    elif what == 4 and isinstance(where, list):
        where.append(copy.deepcopy(where[key]))
    elif what == 4:
        where[r.choice(KEYS)] = junk(r)
    elif what == 5:
        where[key] = [where[key]] if r.random() < 0.5 else {"type": where[key]}
    elif isinstance(where[key], str):
        where[key] = r.choice(WORDS)
    else:
        where[key] = schema(r)


def cheap(body, limit):
    """What is right stays cheap."""
    if not isinstance(body, dict) or not limit:
        return
    for name in (limit, "max_completion_tokens"):
        v = body.get(name)
        if (name == limit and v is None) or (isinstance(v, (int, float)) and not isinstance(v, bool)
                                             and 3 < v < 1 << 31):
            body[name] = 1
    if isinstance(body.get("n"), (int, float)) and 2 < body["n"] <= 16:
        body["n"] = 2


def spoil(r, text):
    """JSON text damaged as bytes; what comes before the first comma, the limit, stays."""
    at = r.randrange(text.index(b",") if b"," in text else 0, len(text) + 1)
    deep = r.choice([60, 64, 70, 5000])
    return r.choice([
        text[:at], text + b"x", text + b" \n\t", b"\xef\xbb\xbf" + text, text[:at] + b"\xff" + text[at:],
        text[:at] + b"\x00" + text[at:],
        text[:at] + b"\xed\xa0\x80" + text[at:], text[:at] + b"\"" + text[at:], text[:at] + b"," + text[at:],
        text[:-1] + b",\"a\":1,\"a\":2}",
        text[:-1] + b",\"deep\":" + b"[" * deep + b"]" * deep + b"}", text[:-1] + b",\"deep\":" + b"{\"a\":" * deep
        + b"1" + b"}" * deep + b"}",
        b"", b"null", b"[]", b"\"x\"", b"{", b"NaN", b"{}"])


HEADERS = [{"Content-Type": "text/plain"}, {"Content-Type": "application/json; charset=utf-16"}, {"Content-Type": ""},
           {"Content-Encoding": "gzip"},
           {"X-Long": "x" * 40000}, {"Accept": "text/html"}, {"Accept": "\x01"},
           {"Authorization": "Bearer " + "k" * 1000}, {"x-api-key": "ké"},
           {"Origin": "http://evil.example"}, {"Range": "bytes=0-1"}, {"Expect": "100-continue"},
           {"Transfer-Encoding": "gzip"},
           {"Host": "evil.example"}, {"Cookie": "a=b"}, {"If-None-Match": "*"}, {"x-request-id": "mine\tand yours"},
           {"Connection": "close"},
           {f"X-{i}": "1" for i in range(120)}]
NAMES = ["tiny", "other", "", "%ff", "%00", "a/b", "..%2f..", "x" * 2000, "%F0%9F%98%80", "tiny?x=1", "tiny%20", "*"]


class Request:
    """The i-th request, always the same."""

    def __init__(self, i, served):
        r = random.Random(f"{SEED}-{i}")
        # Those that generate nothing are few and soon known.
        self.route = r.choice([x for x in served if x.startswith("POST") or r.random() < 0.2] or served)
        self.number, shape = i, ROUTES[self.route]
        self.method, _, path = self.route.partition(" ")
        self.path = path.replace("*", r.choice(NAMES)) + r.choice(["", "", "", "", "?a=b", "?",
                                                                   "?%00=%ff&" + "x=1&" * 30])
        body = copy.deepcopy(r.choice(shape.needed))
        for name in r.sample(sorted(shape.optional), min(len(shape.optional), r.choice([0, 1, 2, 4]))):
            body[name] = copy.deepcopy(shape.optional[name])
        for _ in range(r.choice([0, 1, 1, 1, 2, 3])):
            if shape.names and r.random() < 0.4:
                body[r.choice(shape.names)] = junk(r)
            else:
                mutate(r, body)
        cheap(body, shape.limit)
        if shape.limit in body:
            body = {shape.limit: body.pop(shape.limit), **body}
        text = json.dumps(body, ensure_ascii=r.random() < 0.5).encode("utf-8", "surrogatepass")
        self.body = spoil(r, text) if r.random() < 0.1 else text
        self.headers = {"Content-Type": "application/json"}
        if r.random() < 0.05:
            self.headers.update(r.choice(HEADERS))
        if r.random() < 0.05:
            self.method = r.choice(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "BREW"])
        if self.method in ("GET", "HEAD") and r.random() < 0.9:
            self.body = None

    def __str__(self):
        body = (self.body or b"")[:2000]
        return f"SEED={SEED} ONLY={self.number}: {self.method} {self.path[:200]} {self.headers} {body!r}"


# ---- answers ----

def check_error(status, headers, data):
    assert headers.get("x-request-id"), "no x-request-id"
    if status >= 500:
        assert status == 503 and int(headers["retry-after"]) >= 1, "a fault of the server's"
    body = json.loads(data)
    e = body["error"]
    for key in ("message", "type", "code"):
        assert isinstance(e[key], str) and e[key], key
    assert e["param"] is None or isinstance(e["param"], str), "param"


def check_stream(data):
    text = data.decode("utf-8")
    for line in text.splitlines():
        if line.startswith("data: {"):
            event = json.loads(line[6:])
            error = event.get("error") or (event.get("response") or {}).get("error")
            assert not error or error["type"] not in ("server_error", "api_error"), error
    last = [line for line in text.splitlines() if line and not line.startswith(":")][-1]
    assert (last == "data: [DONE]" or "message_stop" in last or '"type":"response.' in last
            or '"type":"error"' in last), last


def check(q, status, headers, data):
    if q.method == "HEAD":
        assert not data
        assert status < 500 or status == 503
    elif status >= 400:
        check_error(status, headers, data)
    elif headers.get("content-type", "").startswith("text/event-stream"):
        check_stream(data)
    elif headers.get("content-type", "").startswith("application/json"):
        json.loads(data)


class Peer:
    """One client with a connection that it keeps as long as the server does."""

    def __init__(self, port):
        self.port, self.connection = port, None

    def ask(self, q):
        """Sends q: (status, headers, body). A connection that ended between two requests is made anew."""
        for last in (False, True):
            fresh = self.connection is None
            if fresh:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            try:
                return self.once(q)
            except (ConnectionError, http.client.BadStatusLine):
                self.connection.close()
                self.connection = None
                if fresh or last:
                    raise
        return None

    def once(self, q):
        c = self.connection
        c.putrequest(q.method, q.path, skip_host="Host" in q.headers, skip_accept_encoding=True)
        for k, v in q.headers.items():
            c.putheader(k, v.encode("utf-8"))
        if q.body is not None and "Transfer-Encoding" not in q.headers:
            c.putheader("Content-Length", str(len(q.body)))
        c.endheaders(None if "Transfer-Encoding" in q.headers else q.body)
        r = c.getresponse()
        headers = {k.lower(): v for k, v in r.getheaders()}
        data = r.read()
        if headers.get("connection") == "close" or r.will_close:
            c.close()
            self.connection = None
        return r.status, headers, data


def run(d, served):
    counts, seen, lock, here = {}, set(), threading.Lock(), threading.local()

    def one(i):
        q = Request(i, served)
        if not hasattr(here, "peer"):
            here.peer = Peer(d.port)
        try:
            status, headers, data = here.peer.ask(q)
            check(q, status, headers, data)
        except Exception as e:
            raise AssertionError(f"{q}: {e!r} {locals().get('status')} {str(locals().get('data'))[:500]}") from e
        with lock:
            counts[status] = counts.get(status, 0) + 1
            seen.add((q.route, status))

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        for job in [pool.submit(one, i) for i in range(REQUESTS)]:
            job.result()
    return counts, seen


def main():
    served = check_table()
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
        conf.write(f"[daemon]\nmax_context = {CONTEXT}\nlog_level = warn\n")
        conf.flush()
        with Daemon("--config", conf.name) as d:
            if "ONLY" in os.environ:
                q = Request(int(os.environ["ONLY"]), served)
                print(q, *Peer(d.port).ask(q), sep="\n")
                return
            counts, seen = run(d, served)
            assert d.http("GET", "/health")[0] == 200
            assert d.ctl("wait", "idle")[0] == 0
            print(dict(sorted(counts.items())))
    # It is no test of refusals alone, nor of a few routes.
    assert counts.get(200, 0) > REQUESTS // 20, counts
    for route in served:
        status = 404 if route in UNKNOWN else 200
        assert (route, status) in seen or REQUESTS < 5000, f"{route} was never answered {status}"


if __name__ == "__main__":
    main()
