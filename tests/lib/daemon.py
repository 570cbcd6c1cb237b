# SPDX-License-Identifier: MIT
"""Starts a dsv4d on the tiny model in a private directory, waits until it says READY, stops it.

    with Daemon() as d:
        client = d.openai()            # the official client, pointed at it
        status, headers, body = d.http("GET", "/v1/models")
        code, out, err = d.ctl("status", "--json")
"""
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from client import BUILD, SRC, Client
from plugins import sanitizer

# Seconds after which something hangs. Sanitized kernels are ten times slower, on a busy machine thirty.
PATIENCE = 600 if sanitizer() else 240


class Daemon(Client):
    """One daemon; arguments are extra command-line flags. `args` may repeat --model or --listen to override them.
    `plugins` is their directory, or a list of plugins of the build to copy to a directory of this daemon's own."""

    def __init__(self, *args, program=None, model=None, plugins=None, env=None, timeout=PATIENCE):
        self.args, self.env, self.timeout = list(args), env or {}, timeout
        self.program = program or os.path.join(BUILD, "dsv4d")
        self.model = model or os.path.join(SRC, "etc", "tiny")
        self.dir = tempfile.mkdtemp(prefix="dsv4d-")
        self.control = os.path.join(self.dir, "control")
        self.plugins = plugins if isinstance(plugins, str) else os.path.join(BUILD, "plugins")
        if isinstance(plugins, list):
            self._own_plugins(plugins)
        self.log_path = os.path.join(self.dir, "log")
        self.process = None
        self.told = []  # to the service manager, before it was ready
        if sanitizer() and "--config" not in self.args:
            self._be_patient()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]

    def _be_patient(self):
        """The daemon's own limit on each stage of a plugin's trial."""
        config = os.path.join(self.dir, "patient.conf")
        with open(config, "w", encoding="utf-8") as f:
            f.write(f"[plugins]\ntrial_timeout = {PATIENCE}\n")
        self.args += ["--config", config]

    def _own_plugins(self, names):
        """A directory of its own with copies of these, which a test may change."""
        built, self.plugins = self.plugins, os.path.join(self.dir, "plugins")
        os.mkdir(self.plugins, 0o755)
        for name in names:
            shutil.copy(os.path.join(built, name + ".so"), self.plugins)

    def _kernels(self):
        """ref, for tests are about what is changed from there, unless they say what they begin with."""
        if "--kernels" in self.args:
            return []
        if "--config" in self.args:
            with open(self.args[self.args.index("--config") + 1], encoding="utf-8") as f:
                if any(line.split("=")[0].strip() == "use" for line in f):
                    return []
        return ["--kernels", "ref"]

    def start(self):
        command = [self.program, "--model", self.model, "--listen", f"127.0.0.1:{self.port}",
                   "--control", self.control, "--state", os.path.join(self.dir, "state"), "--plugins", self.plugins,
                   *self._kernels(), *self.args]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notify:
            path = os.path.join(self.dir, "notify")
            notify.bind(path)
            try:
                with open(self.log_path, "ab") as log:
                    self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                    env={**os.environ, **self.env, "NOTIFY_SOCKET": path})
                self._wait_ready(notify)
            finally:
                os.unlink(path)
        return self

    def _wait_ready(self, notify):
        """Waits for READY=1 (sd_notify), or for the process to end, whichever is first."""
        pid = os.pidfd_open(self.process.pid)
        try:
            while True:
                ready, _, _ = select.select([notify, pid], [], [], self.timeout)
                if notify in ready:
                    said = notify.recv(65536).decode().split("\n")
                    self.told += said
                    if "READY=1" in said:
                        return
                else:
                    what = "ended before" if ready else f"took over {self.timeout} s and was not"
                    self.kill()
                    raise RuntimeError(f"dsv4d {what} ready:\n{self.log()}")
        finally:
            os.close(pid)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def stop(self, sig=signal.SIGTERM):
        """Sends the signal, waits, returns the exit status (negative: killed by that signal)."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            return self.process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"dsv4d did not end within {self.timeout} s of signal {sig}:\n{self.log()}") from None

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            shutil.rmtree(self.dir, ignore_errors=True)
            raise

    def __exit__(self, kind, value, trace):
        try:
            code = self.stop() if self.process.poll() is None else self.process.returncode
            if kind is not None or code != 0:
                sys.stderr.write(self.log())
            if kind is None and code != 0:
                raise RuntimeError(f"dsv4d ended with status {code}")
        finally:
            self.kill()
            shutil.rmtree(self.dir, ignore_errors=True)

    def ctl(self, *args, timeout=PATIENCE):
        """Runs dsv4ctl: (exit code, standard output, standard error)."""
        r = subprocess.run([os.path.join(BUILD, "dsv4ctl"), "--socket", self.control, *args], stdin=subprocess.DEVNULL,
                           capture_output=True, text=True, timeout=timeout, check=False)
        return r.returncode, r.stdout, r.stderr
