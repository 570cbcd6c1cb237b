#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the HTTP front refuses, and that every refusal says which parameter, with message, type, code and id."""
import http.client
import json
import os
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from fake import Fake, chat  # noqa: E402
from plugins import until  # noqa: E402

PATH = "/v1/chat/completions"
USER = {"role": "user", "content": "s"}
TOOL = {"type": "function", "function": {"name": "f"}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}

# (fields that override a good body, the param that the error must name)
WRONG = [
    ({"messages": None}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": ["hi"]}, "messages[0]"),
    ({"messages": [USER, {"content": "x"}]}, "messages[1].role"),
    ({"messages": [{"role": 3, "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": {"text": "x"}}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}, "messages[0].content[0].text"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"role": "user", "content": [{"type": "refusal", "refusal": "No."}]}]}, "messages[0].content[0].type"),
    ({"messages": [USER, {"role": "assistant", "content": [{"type": "refusal"}]}]}, "messages[1].content[0].refusal"),
    ({"messages": [USER, {"role": "assistant", "reasoning_content": 1}]}, "messages[1].reasoning_content"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": {}}]}, "messages[1].tool_calls"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [1]}]}, "messages[1].tool_calls[0]"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [{**CALL, "id": 1}]}]}, "messages[1].tool_calls[0].id"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [{"id": "c"}]}]}, "messages[1].tool_calls[0].function"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [{"function": {}}]}]}, "messages[1].tool_calls[0].function.name"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 1}}]}]},
     "messages[1].tool_calls[0].function.arguments"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [{"function": {"name": 'f" x="'}}]}]}, "messages[1].tool_calls[0].function.name"),
    ({"messages": [USER, {"role": "assistant", "tool_calls": [{"function": {"name": ""}}]}]}, "messages[1].tool_calls[0].function.name"),
    ({"messages": [USER, {"role": "tool", "tool_call_id": 1}]}, "messages[1].tool_call_id"),
    ({"model": 3}, "model"), ({"model": "other"}, "model"),
    ({"temperature": "1"}, "temperature"), ({"temperature": -0.1}, "temperature"), ({"temperature": 2.1}, "temperature"),
    ({"temperature": True}, "temperature"), ({"temperature": [1]}, "temperature"),
    ({"top_p": 1.5}, "top_p"), ({"top_p": "x"}, "top_p"), ({"min_p": -1}, "min_p"),
    ({"top_k": 1.5}, "top_k"), ({"top_k": -2}, "top_k"),
    ({"repetition_penalty": 0}, "repetition_penalty"), ({"presence_penalty": 3}, "presence_penalty"),
    ({"frequency_penalty": "no"}, "frequency_penalty"),
    ({"max_tokens": 0}, "max_tokens"), ({"max_tokens": -7584}, "max_tokens"), ({"max_tokens": "10"}, "max_tokens"),
    ({"max_completion_tokens": 1.5}, "max_completion_tokens"), ({"max_completion_tokens": 1 << 40}, "max_completion_tokens"),
    ({"seed": "x"}, "seed"), ({"seed": 1.5}, "seed"),
    ({"n": 17}, "n"), ({"n": 0}, "n"), ({"n": "1"}, "n"),
    ({"stop": 3}, "stop"), ({"stop": ["a", 3]}, "stop[1]"), ({"stop": ""}, "stop"), ({"stop": ["x"] * 17}, "stop"),
    ({"stop": "x" * 1025}, "stop"), ({"stop": {}}, "stop"),
    ({"logit_bias": []}, "logit_bias"), ({"logit_bias": {"x": 1}}, "logit_bias"), ({"logit_bias": {"-1": 1}}, "logit_bias"),
    ({"logit_bias": {"999999999": 1}}, "logit_bias"), ({"logit_bias": {"5": "x"}}, "logit_bias.5"),
    ({"logit_bias": {"5": 101}}, "logit_bias.5"),
    ({"logprobs": 1}, "logprobs"), ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"), ({"top_logprobs": 2}, "top_logprobs"),
    ({"stream": "yes"}, "stream"), ({"stream_options": True}, "stream_options"),
    ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
    ({"tools": {}}, "tools"), ({"tools": ["f"]}, "tools[0]"), ({"tools": [{"type": "retrieval"}]}, "tools[0].type"),
    ({"tools": [{"type": "function"}]}, "tools[0].function"), ({"tools": [{"function": {}}]}, "tools[0].function.name"),
    ({"tools": [TOOL, {"function": {"name": "a b\">"}}]}, "tools[1].function.name"),
    ({"tools": [{"function": {"name": "f", "parameters": "{}"}}]}, "tools[0].function.parameters"),
    ({"tools": [{"function": {"name": "f", "description": 1}}]}, "tools[0].function.description"),
    ({"tool_choice": 1}, "tool_choice"), ({"tool_choice": "maybe"}, "tool_choice"), ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": TOOL}, "tool_choice"),
    ({"thinking": True}, "thinking"), ({"thinking": {}}, "thinking.type"), ({"thinking": {"type": "on"}}, "thinking.type"),
    ({"thinking": {"type": 1}}, "thinking.type"),
    ({"chat_template_kwargs": []}, "chat_template_kwargs"),
    ({"chat_template_kwargs": {"thinking": "no"}}, "chat_template_kwargs.thinking"),
    ({"chat_template_kwargs": {"enable_thinking": 0}}, "chat_template_kwargs.enable_thinking"),
    ({"reasoning_effort": "huge"}, "reasoning_effort"), ({"reasoning_effort": 1}, "reasoning_effort"),
    ({"response_format": "json"}, "response_format"), ({"response_format": {"type": "json_object"}}, "response_format.type"),
    ({"functions": [{}]}, "functions"), ({"guided_json": {"a": 1}}, "guided_json"),
]

# (fields, what of the spec they must become)
RIGHT = [
    ({}, {"thinking": True, "effort": 0, "temperature": 1.0, "top_p": 1.0, "max_tokens": 0, "has_seed": False, "label": "http"}),
    ({"temperature": 0, "top_p": 0.5, "min_p": 0.25, "top_k": 7}, {"temperature": 0.0, "top_p": 0.5, "min_p": 0.25, "top_k": 7}),
    ({"top_k": -1, "max_tokens": 5.0}, {"top_k": 0, "max_tokens": 5}),
    ({"repetition_penalty": 2, "presence_penalty": -1.5, "frequency_penalty": 0.5},
     {"repetition_penalty": 2.0, "presence_penalty": -1.5, "frequency_penalty": 0.5}),
    ({"max_tokens": 9, "max_completion_tokens": 5}, {"max_tokens": 5}),
    ({"max_completion_tokens": 5, "max_tokens": 9}, {"max_tokens": 5}),
    ({"seed": -1}, {"has_seed": True, "seed": -1}), ({"seed": None}, {"has_seed": False}),
    ({"stop": "x"}, {"stop": ["x"]}), ({"stop": ["a", "b,c"]}, {"stop": ["a", "b,c"]}), ({"stop": None}, {"stop": []}),
    ({"logit_bias": {"5": -100, "6": 1.5}}, {"bias": {"5": -100.0, "6": 1.5}}),
    ({"logprobs": True, "top_logprobs": 20}, {"logprobs": True, "top_logprobs": 20}),
    ({"tools": [TOOL]}, {"tools": [TOOL]}), ({"tools": [TOOL], "tool_choice": "auto"}, {"tools": [TOOL]}),
    ({"thinking": {"type": "disabled"}}, {"thinking": False}), ({"thinking": {"type": "enabled"}}, {"thinking": True}),
    ({"chat_template_kwargs": {"thinking": False}}, {"thinking": False}),
    ({"chat_template_kwargs": {"enable_thinking": False}}, {"thinking": False}),
    ({"reasoning_effort": "none"}, {"thinking": False}),
    ({"reasoning_effort": "low"}, {"thinking": True, "effort": 1}), ({"reasoning_effort": "medium"}, {"effort": 1}),
    ({"reasoning_effort": "high"}, {"effort": 1}), ({"reasoning_effort": "xhigh"}, {"effort": 2}),
    ({"reasoning_effort": "max"}, {"effort": 2}), ({"reasoning_effort": None}, {"thinking": True, "effort": 0}),
    ({"reasoning_effort": "max", "thinking": {"type": "disabled"}}, {"thinking": False}),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "sone"}, {"type": "text", "text": "two"}]}]},
     {"messages": [{"role": "user", "content": "sone\n\ntwo"}]}),
    ({"messages": [USER, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, USER]},
     {"messages": [USER, {"role": "assistant", "content": "No."}, USER]}),
    ({"store": True, "user": 7, "metadata": {"x": 1}, "made_up": [1], "response_format": {"type": "text"}, "n": 1,
      "parallel_tool_calls": True, "functions": None}, {"thinking": True}),
]


class OnFake(unittest.TestCase):
    def setUp(self):
        self.fake = self.enterContext(Fake())

    def refused(self, status, got, headers, body):
        self.assertEqual(got, status, body)
        e = body["error"]
        self.assertTrue(e["message"] and e["type"] and e["code"], e)
        self.assertEqual(e["request_id"], headers["x-request-id"])
        return e


class Chat(OnFake):
    def test_wrong_fields(self):
        for fields, param in WRONG:
            for stream in (False, True) if "stream" not in fields else (None,):
                body = {"messages": [USER], "stream": stream, **fields}
                with self.subTest(fields=fields):
                    e = self.refused(404 if param == "model" and fields["model"] == "other" else 400,
                                     *self.fake.http("POST", PATH, body))
                    self.assertEqual(e["param"], param)
                    self.assertIn(param, e["message"])
        self.assertEqual(self.fake.command("counts"), "0 0")

    def test_right_fields(self):
        for fields, want in RIGHT:
            with self.subTest(fields=fields):
                status, _, body = self.fake.http("POST", PATH, {"messages": [USER], **fields})
                self.assertEqual(status, 200, body)
                last = json.loads(self.fake.command("last"))
                self.assertEqual({k: last.get(k) for k in want}, want)

    def test_tool_choice_none_hides_the_tools(self):
        self.fake.http("POST", PATH, {"messages": [USER], "tools": [TOOL], "tool_choice": "none"})
        last = json.loads(self.fake.command("last"))
        self.assertNotIn("tools", last)
        self.assertTrue(last["no_tools"])

    def test_malformed_bodies(self):
        for raw in (b"", b"{", b"[]", b"3", b"null", b'{"messages":', b"{} x", b'{"a":1,"a":2}', b'{"a":"\\u0000"}', b'{"a\\u0000":1}',
                    b'{"a":"\x00"}', b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\\ud800"}', b'{"a":1e999}',
                    b'{"a":99999999999999999999}', b'{"messages":NaN}', b"\xef\xbb\xbf{}", b'{"a":"\n"}'):
            with self.subTest(raw=raw):
                e = self.refused(400, *self.fake.http("POST", PATH, raw))
                self.assertEqual(e["code"], "invalid_json")

    def test_integers_beyond_64_bits(self):
        for raw, param in ((b'{"seed":9223372036854775808,"messages":[]}', "seed"),
                           (b'{"messages":[{"a":1,"seed":2}],"top_k" : -9223372036854775809}', "top_k"),
                           (b'{"max_tokens":1, "x":"\\"}[9,", "logit_bias":{"5":99999999999999999999}}', "logit_bias"),
                           (b'{"tools":[{"x":[1,99999999999999999999]}]}', "tools")):
            with self.subTest(raw=raw):
                e = self.refused(400, *self.fake.http("POST", PATH, raw))
                self.assertEqual((e["code"], e["param"]), ("invalid_json", param))
                self.assertIn("9223372036854775807", e["message"])

    def test_depth_and_count(self):
        deep = b'{"x":' + b"[" * 63 + b"]" * 63 + b',"messages":[{"role":"user","content":"s"}]}'
        self.assertEqual(self.fake.http("POST", PATH, deep)[0], 200)
        for raw in (deep.replace(b"[[", b"[[[", 1).replace(b"]]", b"]]]", 1), b'{"x":' + b"[" * 60000 + b"]" * 60000 + b"}",
                    b'{"x":[' + b"0," * 262144 + b"0]}"):
            e = self.refused(400, *self.fake.http("POST", PATH, raw))
            self.assertEqual(e["code"], "invalid_json")
        in_text = json.dumps(chat("s", x="[" * 1000 + "," * 300000))
        self.assertEqual(self.fake.http("POST", PATH, in_text)[0], 200)


class Http(OnFake):
    def test_body_limit(self):
        body = chat("s", x="x" * (1 << 20))
        e = self.refused(413, *self.fake.http("POST", PATH, body))
        self.assertIn("1048576", e["message"])
        chunks = [json.dumps(body).encode()] * 2
        e = self.refused(413, *self.fake.http("POST", PATH, iter(chunks), {"Content-Type": "application/json"}))
        c = socket.create_connection(("127.0.0.1", self.fake.port))
        with c:
            c.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n"
                      b"Expect: 100-continue\r\n\r\n" % PATH.encode())
            self.assertTrue(c.recv(100).startswith(b"HTTP/1.1 413 "))
        self.assertEqual(self.fake.http("POST", PATH, chat("s"))[0], 200)

    def test_bodies_give_their_share_of_the_total_back(self):
        with Fake(max_body=1 << 16) as fake:
            for i in range(40):
                body = json.dumps(chat("s", x="x" * 60000)).encode()
                if i % 4 == 3:  # a client that leaves halfway
                    with socket.create_connection(("127.0.0.1", fake.port)) as c:
                        c.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                                  b"Content-Length: 60100\r\n\r\n" % PATH.encode() + body[:50000])
                else:
                    # a goodbye may be noticed late on a busy machine, at the last when the connection times out: 503
                    # says try again, and a share that never came back would say so for ever
                    until(lambda: fake.http("POST", PATH, body)[0] == 200, f"room for body {i}", 90)

    def test_header_limits(self):
        for headers in ({"X-Long": "x" * 40000}, {f"X-{i}": "1" for i in range(101)}):
            e = self.refused(431, *self.fake.http("GET", "/health", headers=headers))
            self.assertEqual(e["code"], "headers")
        c = http.client.HTTPConnection("127.0.0.1", self.fake.port)
        c.request("GET", "/health", headers={"X-Long": "x" * 50000, "X-Longer": "x" * 200000})
        self.assertIn(c.getresponse().status, (413, 431))
        c.close()

    def raw(self, text):
        """Everything that comes until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.fake.port), timeout=30) as c:
            c.sendall(text)
            return b"".join(iter(lambda: c.recv(65536), b""))

    def test_requests_that_two_readers_could_frame_differently(self):
        body = json.dumps(chat("s")).encode()
        after = b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        for name, headers in (("same lengths", b"Host: x\r\nContent-Length: %d\r\nContent-Length: %d\r\n" % ((len(body),) * 2)),
                              ("other lengths", b"Host: x\r\nContent-Length: %d\r\nContent-Length: 0\r\n" % len(body)),
                              ("length and chunks", b"Host: x\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n" % len(body)),
                              ("unknown coding", b"Host: x\r\nTransfer-Encoding: gzip\r\n"),
                              ("two codings", b"Host: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),
                              ("two hosts", b"Host: x\r\nHost: y\r\nContent-Length: %d\r\n" % len(body)),
                              ("no host", b"Content-Length: %d\r\n" % len(body)),
                              ("space before a colon", b"Host: x\r\nContent-Length : %d\r\n" % len(body)),
                              ("no colon", b"Host: x\r\nContent-Length\r\n"),
                              ("negative length", b"Host: x\r\nContent-Length: -1\r\n"),
                              ("trailing letters in a length", b"Host: x\r\nContent-Length: 5x\r\n")):
            for method, path in ((b"POST", PATH.encode()), (b"GET", b"/version")):
                with self.subTest(name=name, method=method):
                    got = self.raw(b"%s %s HTTP/1.1\r\nContent-Type: application/json\r\n%s\r\n%s%s"
                                   % (method, path, headers, body, after))
                    self.assertTrue(got.startswith(b"HTTP/1.1 400 "), got)
                    self.assertNotIn(b"HTTP/1.1 200 ", got)
                    if name not in ("no colon", "negative length", "trailing letters in a length"):  # libmicrohttpd's own
                        self.assertEqual(got.count(b"HTTP/1.1 "), 1, got)
                        self.assertEqual(json.loads(got.partition(b"\r\n\r\n")[2])["error"]["code"], "invalid_value")
        self.assertEqual(self.fake.command("counts"), "0 0")
        self.assertEqual(self.raw(after)[:13], b"HTTP/1.1 200 ")

    def test_client_that_sends_no_head_is_soon_let_go(self):
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", self.fake.port), timeout=30) as c:
            c.sendall(b"GET /version HTTP/1.1\r\nHo")
            while c.recv(65536):
                pass
        self.assertLess(time.monotonic() - began, 20)

    def test_media_types(self):
        for headers in ({"Content-Type": "text/plain"}, {"Content-Type": ""}, {"Content-Type": "application/jsonx"},
                        {"Content-Type": "application/json", "Content-Encoding": "gzip"}):
            self.refused(415, *self.fake.http("POST", PATH, json.dumps(chat("s")), headers))
        for kind in ("application/json; charset=utf-8", "Application/JSON"):
            self.assertEqual(self.fake.http("POST", PATH, chat("s"), {"Content-Type": kind})[0], 200)

    def test_unknown_routes_and_methods(self):
        for path in ("/", "/v1", "/v1/models/", "/v1/chat/completions/", "/%00", "/v1/" + "x" * 5000, "/%ff"):
            e = self.refused(404, *self.fake.http("GET", path))
            self.assertEqual(e["code"], "not_found")
        for method, path, allow in (("GET", PATH, "POST"), ("DELETE", "/v1/models", "GET"), ("POST", "/health", "GET")):
            got = self.fake.http(method, path, "{}" if method == "POST" else None)
            self.refused(405, *got)
            self.assertEqual(got[1]["allow"], allow)
        self.assertEqual(self.fake.http("HEAD", "/health")[:1], (200,))

    def test_ids_differ(self):
        ids = {self.fake.http("GET", "/health")[1]["x-request-id"] for _ in range(20)}
        self.assertEqual(len(ids), 20)

    def test_kept_alive_connection_serves_on_after_errors(self):
        c = http.client.HTTPConnection("127.0.0.1", self.fake.port)
        json_type = {"Content-Type": "application/json"}
        for path, body, status in ((PATH, "{", 400), ("/nowhere", "{}", 404), (PATH, json.dumps(chat("chi|s")), 200),
                                   (PATH, json.dumps(chat("x", x="x" * (1 << 20))), 413), (PATH, json.dumps(chat("Q")), 503),
                                   (PATH, json.dumps(chat("s")), 200)):
            c.request("POST", path, body, json_type)
            r = c.getresponse()
            r.read()
            self.assertEqual(r.status, status)
        c.close()


if __name__ == "__main__":
    unittest.main()
