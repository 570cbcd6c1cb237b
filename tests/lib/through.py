# SPDX-License-Identifier: MIT
"""A server with a fault: what it is asked goes on to a daemon d, and what comes back is passed on, but for the fault.

    class Eaten(Through):
        def answered(self, reply): ...
    with served(Eaten, d) as url:
        d.ctl("probe", "run", "recall", "--url", url)
"""
import contextlib
import http.client
import http.server
import json
import threading


class Through(http.server.BaseHTTPRequestHandler):
    """Sound. self.server.d is the daemon, self.server.memory a dict of its own for whoever must remember."""

    # ---- what a fault overrides ----

    def asked(self, body):
        """The request's body, to be changed in place."""

    def answered(self, body, reply):
        """A whole answer to it, to be changed in place."""

    def streaming(self, body, n):
        """Before the n-th event of a stream is passed on."""

    def told(self, body, event):
        """An event of a stream, to be changed in place."""

    # ---- passing on ----

    def log_message(self, *_):
        pass

    def upstream(self, method, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.d.port, timeout=600)
        connection.request(method, self.path, body, {"Content-Type": "application/json"})
        return connection.getresponse()

    def pass_on(self, response, data=None):
        data = response.read() if data is None else data
        self.send_response(response.status)
        self.send_header("Content-Type", response.getheader("Content-Type"))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.pass_on(self.upstream("GET"))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        sent = json.loads(json.dumps(body))
        if isinstance(sent.get("messages"), list):
            self.asked(sent)
        response = self.upstream("POST", json.dumps(sent))
        if response.status != 200:
            self.pass_on(response)
        elif body.get("stream"):
            self.stream(response, body)
        else:
            reply = json.loads(response.read())
            self.answered(body, reply)
            self.pass_on(response, json.dumps(reply).encode())

    def changed(self, body, line):
        if line.strip() == b"data: [DONE]":
            return line
        event = json.loads(line.removeprefix(b"data:"))
        before = json.dumps(event)
        self.told(body, event)
        return line if json.dumps(event) == before else b"data: " + json.dumps(event).encode() + b"\n"

    def stream(self, response, body):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        n = 0
        try:
            for line in response:
                if line.startswith(b"data:"):
                    self.streaming(body, n)
                    n += 1
                    line = self.changed(body, line)
                self.wfile.write(line)
        except ConnectionError:
            response.close()  # the daemon is to notice, too


@contextlib.contextmanager
def served(handler, d):
    """The base of its URLs."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads, server.d, server.memory = True, d, {}
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
