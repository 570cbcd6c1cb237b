#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""GET /metrics and /v1/status while whoever knows the answer takes its time: nothing waits but the call itself."""
import concurrent.futures
import os
import socket
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import Stream  # noqa: E402
from fake import Fake, chat  # noqa: E402
from plugins import until  # noqa: E402


class Held(unittest.TestCase):
    """Two threads serve, and each question is held until it is told to be answered."""

    def setUp(self):
        self.fake = self.enterContext(Fake(ask="hold"))
        self.pool = self.enterContext(concurrent.futures.ThreadPoolExecutor(8))

    def ask(self, path):
        return self.pool.submit(self.fake.http, "GET", path)

    def test_each_gets_its_own_answer(self):
        calls = [self.ask(p) for p in ("/metrics", "/v1/status", "/metrics", "/v1/status")]
        self.fake.command("asked 4")
        self.assertFalse(any(c.done() for c in calls))
        self.fake.command("answer")
        metrics, state, *_ = (c.result(30) for c in calls)
        self.assertIn(b"\ndsv4d_epoch 7\n", metrics[2])
        self.assertRegex(metrics[2], rb"\ndsv4d_http_open_requests [1-4]\n")  # the others may be over by then
        self.assertEqual((state[0], state[2]), (200, {"held": 4}))

    def test_whoever_waits_holds_no_thread(self):
        calls = [self.ask("/metrics") for _ in range(6)]
        self.fake.command("asked 6")
        self.assertEqual(self.fake.http("GET", "/health")[0], 200)
        events = list(Stream(self.fake.port, "/v1/chat/completions", {**chat("chi|s"), "stream": True}, 60))
        self.assertEqual(events[-1], "[DONE]")
        self.fake.command("answer")
        self.assertEqual({c.result(30)[0] for c in calls}, {200})

    def test_a_server_that_stops_waits_for_no_answer(self):
        calls = [self.ask(p) for p in ("/metrics", "/v1/status")]
        self.fake.command("asked 2")
        self.assertEqual(self.fake.command("stop"), "ok")
        for c in calls:
            status, _, body = c.result(30)
            self.assertEqual((status, body["error"]["code"]), (503, "draining"))
        self.assertEqual(self.fake.command("answer"), "ok")  # nobody is there any more

    def test_a_client_that_left_is_answered_in_vain(self):
        with socket.create_connection(("127.0.0.1", self.fake.port)) as s:
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            self.fake.command("asked 1")
            s.shutdown(socket.SHUT_WR)
            s.settimeout(0.05)
            until(lambda: self.fake.command("tick") and self.hung_up(s), "the server saw it")
        self.assertEqual(self.fake.command("answer"), "ok")
        call = self.ask("/metrics")
        self.fake.command("asked 1")
        self.fake.command("answer")
        self.assertIn(b'dsv4d_http_disconnects_total{method="GET",route="/metrics"} 1\n', call.result(30)[2])

    def hung_up(self, s):
        try:
            return s.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionResetError:
            return True


class Nobody(unittest.TestCase):
    def test_without_anybody_to_ask(self):
        fake = self.enterContext(Fake())
        status, _, page = fake.http("GET", "/metrics")
        self.assertEqual(status, 200)
        self.assertIn(b"# HELP dsv4d_epoch ", page)
        self.assertNotIn(b"\ndsv4d_epoch ", page)
        status, _, body = fake.http("GET", "/v1/status")
        self.assertEqual((status, body["error"]["code"]), (503, "not_ready"))


if __name__ == "__main__":
    unittest.main()
