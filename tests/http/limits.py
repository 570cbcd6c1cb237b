#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a client may hold: connections that dribble, vanish or sit idle, readers that do not read, streams that wait."""
import contextlib
import json
import os
import re
import select
import signal
import socket
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from fake import Fake, chat  # noqa: E402

CHAT = "/v1/chat/completions"
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
STREAMS = 200


def connect(fake):
    return socket.create_connection(("127.0.0.1", fake.port), timeout=60)


def dribble(fake, c, most=6000):
    """Sends a byte now and then until the server hangs up; what it said."""
    said = b""
    for _ in range(most):
        fake.command("tick")
        if select.select([c], [], [], 0.01)[0]:
            with contextlib.suppress(ConnectionResetError):
                part = c.recv(65536)
                said += part
                if part:
                    continue
            return said
        with contextlib.suppress(OSError):
            c.sendall(b"x")
    raise AssertionError("it goes on for ever")


class Holding(unittest.TestCase):
    def test_a_head_in_dribbles_is_cut_off(self):
        with Fake(head=1) as f, connect(f) as c:
            c.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            self.assertEqual(dribble(f, c), b"")

    def test_a_second_head_in_dribbles_is_cut_off(self):
        with Fake(head=1, idle=1) as f, connect(f) as c:
            c.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertTrue(c.recv(65536).startswith(b"HTTP/1.1 200 "))
            c.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            self.assertEqual(dribble(f, c), b"")

    def test_a_body_in_dribbles_is_cut_off(self):
        with Fake(body=1) as f, connect(f) as c:
            c.sendall(POST % 100000 + b"{")
            self.assertEqual(dribble(f, c), b"")
            self.assertEqual(f.command("counts"), "0 0")

    def test_clients_that_vanish_with_their_last_bytes_give_their_body_share_back(self):
        # Stopped meanwhile, the server finds bytes and goodbye at once; for libmicrohttpd's epoll that is one edge.
        with Fake(max_body=1 << 16) as f:
            body = json.dumps(chat("s", x="x" * 60000)).encode()
            os.kill(f.process.pid, signal.SIGSTOP)
            try:
                for _ in range(8):
                    with connect(f) as c:
                        c.sendall(POST % 60100 + body[:50000])
            finally:
                os.kill(f.process.pid, signal.SIGCONT)
            gone = f'dsv4d_http_disconnects_total{{method="POST",route="{CHAT}"}} 8\n'
            for _ in range(1000):
                if gone in f.http("GET", "/metrics")[2].decode():
                    break
                f.command("tick")
            else:
                self.fail("they are still waited for")
            self.assertEqual(f.http("POST", CHAT, body)[0], 200)

    def test_connections_of_one_address(self):
        with Fake(max_connections_per_address=5) as f:
            kept = []
            for _ in range(5):
                c = connect(f)
                c.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
                self.assertTrue(c.recv(65536).startswith(b"HTTP/1.1 200 "))
                kept.append(c)
            with connect(f) as c, contextlib.suppress(ConnectionResetError, BrokenPipeError):
                c.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
                self.assertEqual(c.recv(65536), b"")
            for c in kept:
                c.close()

    def test_a_connection_that_says_nothing_between_requests_is_closed(self):
        with Fake(idle=1) as f, connect(f) as c:
            c.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertTrue(c.recv(65536).startswith(b"HTTP/1.1 200 "))
            self.assertEqual(c.recv(65536), b"")


def switches(fake):
    """How often the threads of libmicrohttpd have been woken, by thread."""
    found = {}
    tasks = f"/proc/{fake.process.pid}/task"
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/comm", encoding="utf-8") as comm, open(f"{tasks}/{task}/status",
                                                                          encoding="utf-8") as status:
            if comm.read().startswith("MHD"):
                found[task] = sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)
    return found


class Parked(unittest.TestCase):
    def streams(self, f, n):
        made = [f.stream(chat("w|s")) for _ in range(n)]
        for s in made:
            self.assertEqual(s.status, 200)
            self.assertTrue(s.line().startswith("data: "))
        f.command(f"wait-live {n}")
        return made

    def test_idle_streams_cost_no_cpu(self):
        with Fake(max_connections=STREAMS + 8) as f:
            streams = self.streams(f, STREAMS)
            self.assertEqual(f.http("GET", "/version")[0], 200)
            before = switches(f)
            self.assertGreaterEqual(len(before), 2)
            for _ in range(50):
                f.command("tick")
            woken = sum(switches(f).values()) - sum(before.values())
            self.assertLess(woken, 50, "ticks wake streams that have nothing to do")
            # and they are not asleep for good
            streams[7].vanish()
            f.command("tick")
            f.command(f"wait-live {STREAMS - 1}")
            for _ in range(STREAMS - 1):
                f.command("release")
            for i, s in enumerate(streams):
                if i != 7:
                    self.assertEqual(list(s)[-1], "[DONE]")

    def test_no_comments_when_they_are_off(self):
        with Fake(keep_alive=-1) as f:
            s, = self.streams(f, 1)
            for _ in range(20):
                f.command("tick")
            f.command("release")
            self.assertEqual(list(s)[-1], "[DONE]")
            self.assertEqual(s.comments, 0)
            s, = self.streams(f, 1)
            s.vanish()  # is noticed all the same
            f.command("tick")
            f.command("wait-live 0")

    def test_the_kernel_takes_no_megabytes_for_a_client_that_reads_nothing(self):
        with Fake(unread=1) as f:
            s = f.stream(chat("c" + "x" * 1000 + "|*4000|s"))  # 4.8 MB
            s.line()

            def count(metric):
                page = f.http("GET", "/metrics")[2].decode()
                return int(re.search(rf'^dsv4d_{metric}{{method="POST",route="{CHAT}"}} (\d+)$', page, re.M)[1])

            while not count("http_disconnects_total"):  # by us, after a second
                f.command("tick")
            self.assertLess(count("http_sent_bytes_total"), 1 << 20)
            s.socket.close()

    def test_slow_readers_do_not_slow_others(self):
        with Fake(threads=2) as f:
            slow = [f.stream(chat("c" + "x" * 1000 + "|*4000|s")) for _ in range(8)]
            for s in slow:
                s.line()  # and reads no more
            for _ in range(20):
                self.assertEqual(f.http("POST", CHAT, chat("chi|s"))[0], 200)
                self.assertEqual(list(f.stream(chat("chi|*50|s")))[-1], "[DONE]")
            for s in slow:
                self.assertEqual(list(s)[-1], "[DONE]")


if __name__ == "__main__":
    unittest.main()
