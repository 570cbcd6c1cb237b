#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the HTTP front refuses, and that every refusal says which parameter, with message, type, code and id."""
import contextlib
import http.client
import json
import os
import select
import socket
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from fake import Fake, Refusing, chat  # noqa: E402
from plugins import until  # noqa: E402

PATH = "/v1/chat/completions"


class Bodies(Refusing):
    def test_malformed_bodies(self):
        for raw in (b"", b"{", b"[]", b"3", b"null", b'{"messages":', b"{} x", b'{"a":1,"a":2}',
                    b'{"a\\u0000":1,"a\\u0000":2}',
                    b'{"a":"\x00"}', b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}', b'{"a":"\\ud80"}', b'{"a":"\\',
                    b'{"a":1e999}',
                    b'{"a":' + b"9" * 400 + b"}", b'{"messages":NaN}', b"\xef\xbb\xbf{}", b'{"a":"\n"}'):
            with self.subTest(raw=raw):
                e = self.refused(400, *self.fake.http("POST", PATH, raw))
                self.assertEqual(e["code"], "invalid_json")

    def test_numbers_beyond_reals(self):
        for raw, param in ((b'{"seed":1e999,"messages":[]}', "seed"),
                           (b'{"messages":[{"a":1,"seed":2}],"top_k" : -1e999}', "top_k"),
                           (b'{"max_tokens":1, "x":"\\"}[9,\\u0000", "logit_bias":{"5":1e400}}', "logit_bias"),
                           (b'{"tools":[{"x":[1,' + b"9" * 400 + b"]}]}", "tools")):
            with self.subTest(raw=raw):
                e = self.refused(400, *self.fake.http("POST", PATH, raw))
                self.assertEqual((e["code"], e["param"]), ("invalid_json", param))
                self.assertIn("1.8e308", e["message"])

    def test_integers_beyond_64_bits_are_no_integers(self):
        for n in (b"9223372036854775808", b"-9223372036854775809"):
            e = self.refused(400, *self.fake.http("POST", PATH,
                                                  b'{"seed":%s,"messages":[{"role":"user","content":"s"}]}' % n))
            self.assertEqual(e["param"], "seed")
            self.assertIn("expected an integer", e["message"])
        for n in (b"9223372036854775807", b"-9223372036854775808"):
            self.assertEqual(self.fake.http("POST", PATH,
                                            b'{"seed":%s,"messages":[{"role":"user","content":"s"}]}' % n)[0], 200)

    def test_names_roles_and_ids_with_a_nul_are_not_those_before_it(self):
        for body, param in (({"messages": [{"role": "user\0", "content": "s"}]}, "messages[0].role"),
                            (chat("s", model="fake\0"), "model"), (chat("s", tool_choice="auto\0"), "tool_choice"),
                            (chat("s", tools=[{"type": "function", "function": {"name": "f\0"}}]),
                             "tools[0].function.name"),
                            (chat("s", response_format={"type": "text\0"}), "response_format.type")):
            with self.subTest(body=body):
                status, headers, answer = self.fake.http("POST", "/apply-template", body)
                self.assertEqual(answer["error"]["param"], param)
                self.assertIn(status, (400, 404))

    def test_depth_and_count(self):
        deep = b'{"x":' + b"[" * 63 + b"]" * 63 + b',"messages":[{"role":"user","content":"s"}]}'
        self.assertEqual(self.fake.http("POST", PATH, deep)[0], 200)
        for raw in (deep.replace(b"[[", b"[[[", 1).replace(b"]]", b"]]]", 1), b'{"x":' + b"[" * 60000 + b"]" * 60000
                    + b"}",
                    b'{"x":[' + b"0," * 262144 + b"0]}"):
            e = self.refused(400, *self.fake.http("POST", PATH, raw))
            self.assertEqual(e["code"], "invalid_json")
        in_text = json.dumps(chat("s", x="[" * 1000 + "," * 300000))
        self.assertEqual(self.fake.http("POST", PATH, in_text)[0], 200)


class Http(Refusing):
    def test_a_path_with_the_server_before_it_is_that_path(self):
        for url in ("http://localhost:1/health", "HTTP://localhost/health?x=/version", "https://localhost/health"):
            with self.subTest(url=url):
                self.assertEqual(self.fake.http("GET", url, headers={"Host": "localhost"})[0], 200)
        self.assertEqual(self.fake.http("GET", "http://localhost/healt", headers={"Host": "localhost"})[0], 404)
        self.assertEqual(self.fake.http("POST", "http://localhost" + PATH, chat("s"),
                                        {"Host": "localhost", "Content-Type": "application/json"})[0], 200)

    def test_body_limit(self):
        body = chat("s", x="x" * (1 << 20))
        e = self.refused(413, *self.fake.http("POST", PATH, body))
        self.assertIn("1048576", e["message"])
        chunks = [json.dumps(body).encode()] * 2
        e = self.refused(413, *self.fake.http("POST", PATH, iter(chunks), {"Content-Type": "application/json"}))
        c = socket.create_connection(("127.0.0.1", self.fake.port))
        with c:
            c.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "
                      b"99999999999\r\n"
                      b"Expect: 100-continue\r\n\r\n" % PATH.encode())
            self.assertTrue(c.recv(100).startswith(b"HTTP/1.1 413 "))
        self.assertEqual(self.fake.http("POST", PATH, chat("s"))[0], 200)

    def test_a_client_that_sends_chunks_for_ever_gets_its_413_and_is_cut_off(self):
        with Fake(max_body=1 << 14) as fake, socket.create_connection(("127.0.0.1", fake.port), 60) as c:
            c.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: "
                      b"chunked\r\n\r\n" % PATH.encode())
            said, sent = b"", 0
            with contextlib.suppress(ConnectionError):
                while sent < 1 << 26:
                    if select.select([c], [], [], 0)[0]:
                        part = c.recv(65536)
                        said += part
                        if not part:
                            break
                    c.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
                    sent += 4096
                else:
                    self.fail("it is read for ever")
            head, _, body = said.partition(b"\r\n\r\n")
            self.assertTrue(head.startswith(b"HTTP/1.1 413 ") and b"\r\nConnection: close" in head, head)
            self.assertEqual(json.loads(body)["error"]["code"], "too_large")
            self.assertEqual(fake.http("POST", PATH, chat("s"))[0], 200)

    def test_chunks_without_an_end_get_their_answer_as_soon_as_they_are_too_many(self):
        for kind, status in ((b"application/json", 413),
                             (b"text/plain", 415)):  # what is refused for another reason is not read for longer
            with Fake(max_body=1 << 14) as fake, socket.create_connection(("127.0.0.1", fake.port), 60) as c:
                c.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\n" % (PATH.encode(), kind)
                          + b"Transfer-Encoding: chunked\r\n\r\n"
                          + (b"1000\r\n" + b"x" * 4096 + b"\r\n") * 5)  # one more than there may be, and then nothing
                said = b""
                while part := c.recv(65536):
                    said += part
                self.assertTrue(said.startswith(b"HTTP/1.1 %d " % status), said)

    def test_blanks_at_the_end_of_a_header_s_value_are_no_part_of_it(self):
        body = json.dumps(chat("s")).encode()
        for line in (b"Host: 127.0.0.1 \r\nContent-Type: application/json",
                     b"Host: x\r\nContent-Type: application/json \t",
                     b"Host: x\r\nContent-Type: application/json\r\nContent-Encoding: identity "):
            with socket.create_connection(("127.0.0.1", self.fake.port), 60) as c:
                c.sendall(b"POST %s HTTP/1.1\r\n%s\r\n" % (PATH.encode(), line)
                          + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                self.assertTrue(c.recv(65536).startswith(b"HTTP/1.1 200 "), line)

    def test_bodies_give_their_share_of_the_total_back(self):
        with Fake(max_body=1 << 16) as fake:
            for i in range(40):
                body = json.dumps(chat("s", x="x" * 60000)).encode()
                if i % 4 == 3:  # a client that leaves halfway
                    with socket.create_connection(("127.0.0.1", fake.port)) as c:
                        c.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                                  b"Content-Length: 60100\r\n\r\n" % PATH.encode() + body[:50000])
                else:
                    # the server looks for clients that left at its ticks; 503 says try again
                    until(lambda: fake.http("POST", PATH, body)[0] == 200 or not fake.command("tick"),
                          f"room for body {i}", 90)

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
        for name, headers in (("same lengths",
                               b"Host: x\r\nContent-Length: %d\r\nContent-Length: %d\r\n" % ((len(body),) * 2)),
                              ("other lengths", b"Host: x\r\nContent-Length: %d\r\nContent-Length: 0\r\n" % len(body)),
                              ("length and chunks",
                               b"Host: x\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n" % len(body)),
                              ("unknown coding", b"Host: x\r\nTransfer-Encoding: gzip\r\n"),
                              ("two codings",
                               b"Host: x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),
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
                    if name not in ("no colon", "negative length",
                                    "trailing letters in a length"):  # libmicrohttpd's own
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
        for path in ("/index.html", "/v1", "/v1/models/", "/v1/chat/completions/", "/%00", "/health%00",
                     "/v1/" + "x" * 5000, "/%ff"):
            e = self.refused(404, *self.fake.http("GET", path))
            self.assertEqual(e["code"], "not_found")
        for method, path, allow in (("GET", PATH, "POST"), ("DELETE", "/v1/models", "GET, HEAD"),
                                    ("POST", "/health", "GET, HEAD"),
                                    ("POST", "/v1/responses/x", "GET, HEAD, DELETE")):
            got = self.fake.http(method, path, "{}" if method == "POST" else None)
            e = self.refused(405, *got)
            self.assertEqual(got[1]["allow"], allow)
            self.assertTrue(e["message"].endswith(f"only {allow}"), e)
        self.assertEqual(self.fake.http("HEAD", "/health")[:1], (200,))

    def test_allow_names_no_method_that_the_path_answers_with_404(self):
        for path, allow in (("/v1/responses/x/input_items", "GET, HEAD"), ("/v1/responses/x", "GET, HEAD, DELETE")):
            got = self.fake.http("PUT", path)
            self.refused(405, *got)
            self.assertEqual(got[1]["allow"], allow)
        e = self.refused(405, *self.fake.http("DELETE", "/v1/responses/x/input_items"))
        self.assertEqual(e["code"], "method")
        for method in ("POST", "DELETE", "GET"):  # no route, whatever the method
            for path in ("/v1/responses/x/cancel", "/v1/responses//input_items", "/v1/responses/x/input_items/y",
                         "/v1/responses/x/"):
                got = self.fake.http(method, path, "{}" if method == "POST" else None)
                self.refused(404, *got)
                self.assertNotIn("allow", got[1])

    def test_no_refusal_is_longer_than_a_kilobyte_whatever_it_repeats(self):
        long = "ü" * 20000
        for got in (self.fake.http("POST", PATH, chat("s", model=long)),
                    self.fake.http("POST", PATH, chat("s", tools=[{"type": long}])),
                    self.fake.http("POST", PATH, chat("I" + long)), self.fake.http("GET", "/" + "y" * 20000),
                    self.fake.http("POST", "/v1/messages", {**chat("s"), "max_tokens": 1, "model": long})):
            message = got[2]["error"]["message"]
            self.assertGreater(got[0], 399)
            self.assertLessEqual(len(message.encode()), 1024)
            self.assertTrue(message.endswith(" ...") and "\ufffd" not in message, message)

    def test_ids_differ(self):
        ids = {self.fake.http("GET", "/health")[1]["x-request-id"] for _ in range(20)}
        self.assertEqual(len(ids), 20)

    def test_kept_alive_connection_serves_on_after_errors(self):
        c = http.client.HTTPConnection("127.0.0.1", self.fake.port)
        json_type = {"Content-Type": "application/json"}
        for path, body, status in ((PATH, "{", 400), ("/nowhere", "{}", 404), (PATH, json.dumps(chat("chi|s")), 200),
                                   (PATH, json.dumps(chat("x", x="x" * (1 << 20))), 413),
                                   (PATH, json.dumps(chat("Q")), 503),
                                   (PATH, json.dumps(chat("s")), 200)):
            c.request("POST", path, body, json_type)
            r = c.getresponse()
            r.read()
            self.assertEqual(r.status, status)
        c.close()


HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
GET = b"GET /health HTTP/1.1\r\n"
# (what is sent, status): the library's own. A head beyond its memory is one too, but a close
# with bytes unread may lose the answer.
LIBRARY = [
    (HEAD + b"Content-Length: -1\r\n\r\n", 400), (HEAD + b"Content-Length: many\r\n\r\n", 400),
    (HEAD + b"Content-Length: +5\r\n\r\nhello", 400),
    (HEAD + b"Content-Length: " + b"9" * 24 + b"\r\n\r\n", 413),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    (GET + b"Host: x\r\nno colon\r\n\r\n", 400), (b"GET /health\r\n\r\n", 400),
    (b"GET /health HTTP/2.0\r\nHost: x\r\n\r\n", 505),
]
# And these are ours.
OURS = [
    (GET + b"\r\n", 400), (GET + b"Host: x\r\nHost: y\r\n\r\n", 400), (GET + b"Host: x\r\nA b : v\r\n\r\n", 400),
    (GET + b" Host: x\r\n\r\n", 400),
    (HEAD + b"Transfer-Encoding: gzip\r\n\r\n", 400), (HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
    (GET + b"Host: x\r\nConnection: close\r\nA: " + b"x" * 60000 + b"\r\n\r\n", 431),
]


class Raw(Refusing):
    def said(self, sent):
        """All that comes back until the server closes."""
        with socket.create_connection(("127.0.0.1", self.fake.port), timeout=60) as c:
            got = b""
            try:
                c.sendall(sent)
                while part := c.recv(65536):
                    got += part
            except ConnectionError:
                pass  # closed with bytes of ours unread
        return got

    def test_what_the_library_refuses_has_the_right_status_and_ends_the_connection(self):
        for sent, status in LIBRARY:
            with self.subTest(sent=sent[:120]):
                said = self.said(sent)
                self.assertEqual(said[:13], b"HTTP/1.1 %d " % status)
                # It has no hook for the body; should it come to have one, this is to become an error as all others.
                self.assertIn(b"<html>", said)
        self.assertEqual(self.fake.http("GET", "/health")[0], 200)
        self.assertEqual(self.fake.command("counts"), "0 0")

    def test_what_else_is_wrong_with_a_head_is_an_error_in_json(self):
        for sent, status in OURS:
            with self.subTest(sent=sent[:120]):
                head, _, body = self.said(sent).partition(b"\r\n\r\n")
                self.assertEqual(head[:13], b"HTTP/1.1 %d " % status)
                self.assertIn(json.loads(body)["error"]["request_id"].encode(), head)


if __name__ == "__main__":
    unittest.main()
