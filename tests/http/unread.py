#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Clients of a real daemon that read nothing of long streams: what they cost others, and how they end."""
import contextlib
import json
import os
import select
import socket
import sys
import threading
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from daemon import Daemon  # noqa: E402
from scenario import ok  # noqa: E402

LONG = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 600, "ignore_eos": True, "stream": True}
HEAVY = {"logprobs": True, "top_logprobs": 20}  # some 3 kB a token: a socket is full after a hundred
FEW = 300


class Deaf:
    """Asks, and reads nothing; its own side of the socket holds little, and never grows."""

    held = 4096

    def __init__(self, daemon, unix=None, **fields):
        body = json.dumps({**LONG, **fields}).encode()
        self.socket = socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
        if self.held:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.held)
        self.socket.connect(unix or ("127.0.0.1", daemon.port))
        self.socket.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: "
                            b"application/json\r\n"
                            b"Content-Length: %d\r\n\r\n" % len(body) + body)

    def __enter__(self):
        return self

    def __exit__(self, *how):
        self.socket.close()

    def rest(self):
        """All that comes until the end, or until the connection breaks."""
        said = b""
        with contextlib.suppress(ConnectionResetError):
            self.socket.settimeout(60)
            while part := self.socket.recv(1 << 20):
                said += part
        return said


class Slow(Deaf):
    """Reads some bytes a tenth of a second, as a terminal on a bad line does; its side is as the kernel makes it."""

    held = 0

    def read(self, most, each):
        """What came: `most` bytes, or less when the connection breaks."""
        said = b""
        with contextlib.suppress(ConnectionResetError):
            self.socket.settimeout(600)
            while len(said) < most and (part := self.socket.recv(each)):
                said += part
                select.select([], [], [], 0.1)  # the pace, which is what is tested; nothing is waited for
        return said


def requests(d):
    return ok(d, "request", "list")["requests"]


def running(d):
    return [r for r in requests(d) if r["finish"] == "running"]


def wait_for(condition):
    while not condition():
        pass


class Unread(unittest.TestCase):
    def daemon(self, stall=3600, places=2):
        d = Daemon()
        self.unix = os.path.join(d.dir, "http")
        path = os.path.join(d.dir, "unread.conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"[daemon]\nmax_running = {places}\n[http]\nstall_timeout = {stall}\n")
        d.args += ["--config", path, "--listen", f"127.0.0.1:{d.port} unix:{self.unix}"]
        return self.enterContext(d)

    def deaf(self, d, n, **fields):
        made = [self.enterContext(Deaf(d, **fields)) for _ in range(n)]
        wait_for(lambda: len(requests(d)) == n)
        return made

    def test_two_unread_streams_do_not_keep_the_third_waiting(self):
        d = self.daemon()
        made = self.deaf(d, 2, **HEAVY)
        status, _, reply = d.http("POST", "/v1/chat/completions", {**LONG, "max_tokens": 20, "stream": False},
                                  timeout=600)
        self.assertEqual(status, 200, reply)
        unread = running(d)
        self.assertEqual(len(unread), 2, requests(d))
        for r in unread:
            self.assertLess(r["usage"]["completion"], FEW)
        # and nothing of them is lost
        for c in made:
            self.assertTrue(c.rest().endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"))

    def test_one_that_reads_nothing_is_ended_as_unread(self):
        d = self.daemon(stall=1)
        c, = self.deaf(d, 1, **HEAVY)
        wait_for(lambda: not running(d))
        r, = requests(d)
        self.assertEqual((r["finish"], r["detail"].split()[0]), ("cancelled", "unread"))
        self.assertLess(r["usage"]["completion"], FEW)
        self.assertNotIn(b"[DONE]", c.rest())
        wait_for(lambda: "error=unread" in d.log())

    def test_who_reads_slowly_but_steadily_is_not_ended_as_unread(self):
        d = self.daemon(stall=10)
        got = {}
        # Twenty seconds of them. What frees room for more, 64 kB of TCP's and a piece of 16 kB
        # of the other's, takes 1.5.
        pace = {None: 4000, self.unix: 1200}

        def read(unix):
            with Slow(d, unix, **{**HEAVY, "max_tokens": 400}) as s:
                got[unix] = s.read(200 * pace[unix], pace[unix]), s.rest()

        readers = [threading.Thread(target=read, args=(unix,)) for unix in pace]
        for t in readers:
            t.start()
        for t in readers:
            t.join()
        self.assertEqual(len(got), 2)
        for slowly, rest in got.values():
            self.assertTrue((slowly + rest).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), d.log())


if __name__ == "__main__":
    unittest.main()
