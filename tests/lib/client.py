# SPDX-License-Identifier: MIT
"""What a test does as an HTTP client: plain requests, server-sent events, the official openai client."""
import http.client
import json
import os
import socket
import sys

SRC = os.path.abspath(os.environ.get("top_srcdir") or os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.path.abspath(os.environ.get("top_builddir") or os.path.join(SRC, "build"))
SKIP = 77


def skip(reason):
    """Ends the test as automake's "skipped"."""
    print("skipped:", reason)
    sys.exit(SKIP)


def need(module):
    """Imports a module that is not in the standard library, or skips the test."""
    try:
        return __import__(module)
    except ImportError:
        return skip(f"python lacks the package {module}")


class Stream:
    """Server-sent events of one POST. Iterate for the data of each event; comments are counted."""

    def __init__(self, port, path, body, timeout, headers=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        self.connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
        self.socket = self.connection.sock
        self.response = self.connection.getresponse()
        self.status = self.response.status
        self.headers = {k.lower(): v for k, v in self.response.getheaders()}
        self.comments = 0

    def line(self):
        """The next line that is not blank, or None at the end."""
        while True:
            raw = self.response.readline()
            if not raw:
                self.response.close()
                self.connection.close()
                return None
            text = raw.decode("utf-8")  # strict: what is not UTF-8 fails the test
            if text.strip():
                return text.rstrip("\n")

    def __iter__(self):
        while (text := self.line()) is not None:
            if text.startswith(":"):
                self.comments += 1
            else:
                assert text.startswith("data: "), text
                yield text[6:]

    def named(self):
        """(name, data as JSON) of each event, of the protocols that name theirs."""
        name = None
        while (text := self.line()) is not None:
            if text.startswith(":"):
                self.comments += 1
            elif text.startswith("event: "):
                assert name is None, text
                name = text[7:]
            else:
                assert name and text.startswith("data: "), text
                yield name, json.loads(text[6:])
                name = None
        assert name is None, name

    def vanish(self):
        """Drops the connection as a killed client does."""
        self.socket.shutdown(socket.SHUT_RDWR)
        self.response.close()
        self.connection.close()


class Client:
    """Mixed into what has a `port`."""
    port = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def http(self, method, path, body=None, headers=None, timeout=60):
        """One request on its own connection: (status, lower-case headers, body as JSON where it is, else bytes)."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            h = dict(headers or {})
            if isinstance(body, (dict, list)):
                body = json.dumps(body)
            if body is not None:
                h.setdefault("Content-Type", "application/json")
            c.request(method, path, body, h)
            r = c.getresponse()
            data = r.read()
            found = {k.lower(): v for k, v in r.getheaders()}
            if "json" in found.get("content-type", "") and data:
                data = json.loads(data)
            return r.status, found, data
        finally:
            c.close()

    def stream(self, body, path="/v1/chat/completions", timeout=60, headers=None):
        return Stream(self.port, path, {**body, "stream": True}, timeout, headers)

    def anthropic(self, **kw):
        anthropic = need("anthropic")
        kw.setdefault("max_retries", 0)
        kw.setdefault("timeout", 60)
        return anthropic.Anthropic(base_url=self.url, api_key="unused", **kw)

    def openai(self, **kw):
        openai = need("openai")
        kw.setdefault("max_retries", 0)
        kw.setdefault("timeout", 60)
        kw.setdefault("api_key", "unused")
        return openai.OpenAI(base_url=self.url + "/v1", **kw)
