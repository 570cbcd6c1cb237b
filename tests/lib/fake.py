# SPDX-License-Identifier: MIT
"""The HTTP front on an engine that follows scripts (tests/http/fake_engine.h), led by commands.

    with Fake() as f:
        events = list(f.stream(chat("rThinking|cHello|s")))
        f.command("tick")
"""
import faulthandler
import json
import os
import subprocess
import unittest

from client import BUILD, SRC, Client


def chat(script, **fields):
    """A chat body whose last message is the script."""
    return {"messages": [{"role": "user", "content": script}], **fields}


class Fake(Client):
    """Options are those of fake_server.c: keys, listen, ..."""

    def __init__(self, max_body=1 << 20, keep_alive=1000.0, threads=2, **options):
        # What waits for an event that never comes must fail, not hang; every new server sets the clock back.
        faulthandler.dump_traceback_later(300, exit=True)
        command = [os.path.join(BUILD, "tests", "http", "fake_server"), os.path.join(SRC, "etc", "tiny"),
                   str(max_body), str(keep_alive), str(threads), *(f"{k}={v}" for k, v in options.items())]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.addresses = self.process.stdout.readline().split()
        self.port = int(self.addresses[0].rpartition(":")[2])

    def command(self, line):
        self.process.stdin.write(line + "\n")
        return self.process.stdout.readline().rstrip("\n")

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.process.stdin.close()
        code = self.process.wait(60)
        self.process.stdout.close()
        if kind is None and code != 0:
            raise RuntimeError(f"the server ended with status {code}")


class Refusing(unittest.TestCase):
    """Tests of what is refused, in OpenAI's form."""
    def setUp(self):
        self.fake = self.enterContext(Fake())

    def refused(self, status, got, headers, body):
        """The error, which has all that errors have; the rest is what http() returns."""
        self.assertEqual(got, status, body)
        e = body["error"]
        self.assertTrue(e["message"] and e["type"] and e["code"], e)
        self.assertEqual(e["request_id"], headers["x-request-id"])
        return e


class OnFake(unittest.TestCase):
    """Tests of one protocol that generates: its path, how a script is asked for, what a stream's events come to."""
    path, ask, put_together = None, None, None

    def setUp(self):
        self.fake = self.enterContext(Fake())

    def told(self, body, path=None):
        """What of the body reached the engine."""
        status, _, reply = self.fake.http("POST", path or self.path, body)
        self.assertEqual(status, 200, reply)
        return json.loads(self.fake.command("last"))

    def streamed(self, script, **fields):
        s = self.fake.stream(self.ask(script, **fields), self.path)
        self.assertEqual((s.status, s.headers["content-type"]), (200, "text/event-stream"))
        return self.put_together(s.named())

    def whole(self, script, **fields):
        status, _, reply = self.fake.http("POST", self.path, self.ask(script, **fields))
        self.assertEqual(status, 200, reply)
        return reply
