# SPDX-License-Identifier: MIT
"""What a service manager sees of the daemon: readiness, status, reloads, the watchdog's food; and sockets that it
gives."""
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from client import BUILD, SRC, Client
from daemon import PATIENCE


# Puts the descriptors at 3, 4, ... and becomes the program: LISTEN_PID must be the process's own.
BECOME = """
import os, sys
given = [int(x) for x in sys.argv[1].split(",") if x]
for i, fd in enumerate(given):
    os.dup2(fd, 3 + i)
    os.close(fd)
if given:
    os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(given)))
os.execv(sys.argv[2], sys.argv[2:])
"""


class Managed(Client):
    """A dsv4d whose manager is this test: what it says is kept, in order; sockets given are at 3 and up."""

    def __init__(self, *args, sockets=(), env=None):
        self.dir = tempfile.mkdtemp(prefix="dsv4d-")
        self.control, self.config = os.path.join(self.dir, "control"), os.path.join(self.dir, "conf")
        self.said, self.port = [], 0
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(os.path.join(self.dir, "notify"))
        self.write("")
        command = [os.path.join(BUILD, "dsv4d"), "--model", os.path.join(SRC, "etc", "tiny"), "--control", self.control,
                   "--state",
                   os.path.join(self.dir, "state"), "--config", self.config, *args]
        given = [fcntl.fcntl(x, fcntl.F_DUPFD, 50) for x in sockets]  # far from where they must be
        self.process = subprocess.Popen([sys.executable, "-c", BECOME, ",".join(map(str, given)), *command],
                                        pass_fds=given,
                                        stdin=subprocess.DEVNULL,
                                        env={**os.environ, "NOTIFY_SOCKET": os.path.join(self.dir, "notify"),
                                             **(env or {})})
        for x in given:
            os.close(x)

    def write(self, text):
        with open(self.config, "w", encoding="utf-8") as f:
            f.write(text)

    def until(self, pattern):
        """The first message from here on that has a line like this; what came before is in `said`."""
        self.notify.settimeout(PATIENCE)
        while True:
            text = self.notify.recv(65536).decode()
            self.said += text.split("\n")
            found = re.search(pattern, text, re.MULTILINE)
            if found:
                return found

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait()
        self.notify.close()
        shutil.rmtree(self.dir)


def loading_ready_reloading_stopping():
    with Managed("--listen", "127.0.0.1:0") as d:
        d.until("^READY=1$")
        assert any(re.match(r"STATUS=loading .*/tiny", s) for s in d.said), d.said
        d.until(r"^STATUS=serving tiny on 127\.0\.0\.1:\d+$")
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        for text in ("[daemon]\nlog_level = debug\n", "[daemon]\nlog_levle = debug\n"):  # a bad file is over, too
            d.write(text)
            d.process.send_signal(signal.SIGHUP)
            stamp = int(d.until(r"^RELOADING=1\nMONOTONIC_USEC=(\d+)$").group(1))
            assert before <= stamp <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            d.until("^READY=1$")
        d.process.send_signal(signal.SIGTERM)
        seconds = int(d.until("^STOPPING=1\nEXTEND_TIMEOUT_USEC=(\\d+)$").group(1)) / 1e6
        assert 30 < seconds < 120, seconds  # drain_timeout and what comes after
        d.until("^STATUS=finishing requests$")
        assert d.process.wait(PATIENCE) == 0


def a_manager_that_does_not_read_holds_nothing_up():
    with Managed("--listen", "127.0.0.1:0") as d:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s, contextlib.suppress(BlockingIOError):
            s.setblocking(False)
            while True:
                s.sendto(b"STATUS=full", os.path.join(d.dir, "notify"))
        ask = [os.path.join(BUILD, "dsv4ctl"), "--socket", d.control, "status", "--json"]
        end = time.monotonic() + PATIENCE
        while True:
            r = subprocess.run(ask, capture_output=True, check=False, timeout=PATIENCE)
            if r.returncode == 0 and json.loads(r.stdout)["state"] == "ready":
                break
            assert time.monotonic() < end and d.process.poll() is None, r
        d.until("^READY=1$")  # what was dropped is said when there is room
        d.until(r"^STATUS=serving tiny on 127\.0\.0\.1:\d+$")


def bad_start_is_never_ready():
    with Managed("--listen", "127.0.0.1:0", "--model", "/nowhere") as d:
        assert d.process.wait(PATIENCE) == 69
        d.notify.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                said = d.notify.recv(65536)
                assert b"READY=1" not in said, said


def status_tells_of_requests_and_watchdog_is_fed():
    with Managed("--listen", "127.0.0.1:0", env={"WATCHDOG_USEC": "60000000"}) as d:
        d.port = int(d.until(r"^STATUS=serving tiny on 127\.0\.0\.1:(\d+)$").group(1))
        d.until("^WATCHDOG=1$")  # idle
        s = d.stream({"messages": [{"role": "user", "content": "Write a story."}], "max_tokens": 100000,
                      "ignore_eos": True})
        next(iter(s))
        d.until(r"^STATUS=serving tiny on [\d.:]+: 1 running, 0 waiting, [\d.]+ tokens/s$")
        d.until("^WATCHDOG=1$")  # working
        s.vanish()


def without_a_watchdog_nothing_is_fed():
    with Managed("--listen", "127.0.0.1:0") as d:
        d.until("^READY=1$")
        d.write("[daemon]\nlog_level = debug\n")
        time.sleep(1.5)  # a tick; there is no event for what does not happen
        d.process.send_signal(signal.SIGTERM)
        d.until("^STOPPING=1$")
        assert "WATCHDOG=1" not in d.said, d.said


def given_sockets_are_served_and_left():
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as tmp:
        http, local, control = (stack.enter_context(socket.socket(f))
                                for f in (socket.AF_INET, socket.AF_UNIX, socket.AF_UNIX))
        http.bind(("127.0.0.1", 0))
        local.bind(os.path.join(tmp, "http"))
        control.bind(os.path.join(tmp, "control"))
        for s in (http, local, control):
            s.listen(8)
        # A request from before the daemon began: it waits in the socket, and is answered.
        early = stack.enter_context(socket.create_connection(http.getsockname()))
        early.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        d = stack.enter_context(Managed("--control", os.path.join(tmp, "control"), "--listen",
                                        f"127.0.0.1:1 unix:{tmp}/http",
                                        sockets=(control, http, local)))
        early.settimeout(PATIENCE)
        answer = b""
        while piece := early.recv(4096):
            answer += piece
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        d.port = http.getsockname()[1]
        assert d.http("GET", "/ready")[0] == 200
        status = subprocess.run([os.path.join(BUILD, "dsv4ctl"), "--socket", os.path.join(tmp, "control"), "status",
                                 "--json"],
                                capture_output=True, check=True, timeout=PATIENCE)
        assert json.loads(status.stdout)["state"] == "ready", status.stdout
        with socket.socket(socket.AF_UNIX) as c:
            c.connect(os.path.join(tmp, "http"))
            c.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert c.recv(4096).startswith(b"HTTP/1.1 200 ")
        d.process.send_signal(signal.SIGTERM)
        assert d.process.wait(PATIENCE) == 0
        # They are the manager's: the next request waits in them for the next start.
        for path in ("http", "control"):
            with socket.socket(socket.AF_UNIX) as c:
                c.connect(os.path.join(tmp, path))


def a_unix_socket_of_nobody_is_refused():
    """Else dsv4ctl's own would be served as HTTP where `control` says something else."""
    with tempfile.TemporaryDirectory() as tmp, socket.socket(socket.AF_UNIX) as s:
        s.bind(os.path.join(tmp, "control"))
        s.listen(1)
        with Managed("--listen", "127.0.0.1:0", sockets=(s,)) as d:
            assert d.process.wait(PATIENCE) == 78
        os.symlink(tmp, os.path.join(tmp, "spelled"))
        with Managed("--listen", "127.0.0.1:0", "--control", os.path.join(tmp, "spelled", "control"),
                     sockets=(s,)) as d:
            d.until("^READY=1$")
            d.until(r"^STATUS=serving tiny on 127\.0\.0\.1:\d+$")  # only control was given: `listen` counts


def a_datagram_socket_is_refused():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        with Managed("--listen", "127.0.0.1:0", sockets=(udp,)) as d:
            assert d.process.wait(PATIENCE) == 78



if __name__ == "__main__":
    loading_ready_reloading_stopping()
    a_manager_that_does_not_read_holds_nothing_up()
    bad_start_is_never_ready()
    status_tells_of_requests_and_watchdog_is_fed()
    without_a_watchdog_nothing_is_fed()
    given_sockets_are_served_and_left()
    a_unix_socket_of_nobody_is_refused()
    a_datagram_socket_is_refused()
