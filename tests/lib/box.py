# SPDX-License-Identifier: MIT
"""A real systemd as PID 1 with this build installed, in namespaces of its own (box.sh). Needs root, and says 77
(skipped) where namespaces cannot be had.

    with Box() as b:
        b.run("systemctl", "start", "dsv4d")      # output; fails unless the exit status is 0
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

from client import BUILD, SKIP, SRC
from plugins import sanitizer

PATIENCE = 120
# What unshare(1) and mount(8) say where a box cannot be made at all: no privilege, no overlay file system.
CANNOT = ("Operation not permitted", "ermission denied", "wrong fs type", "unknown filesystem", "unshare failed")


class Box:
    def __init__(self, install=True):
        if os.geteuid() != 0 or sanitizer() or not os.path.exists("/lib/systemd/systemd"):
            print("needs root, systemd and a build without sanitizers")
            sys.exit(SKIP)
        self.root = tempfile.mkdtemp(prefix="dsv4d-box-")
        self.log = open(os.path.join(self.root + ".log"), "w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(["sh", os.path.join(SRC, "tests", "lib", "box.sh"), self.root],
                                        stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=self.log)
        try:
            self.init = self._boot()
            if install:
                self.install()
        except BaseException:
            self.close()
            raise

    def _boot(self):
        """The PID of the box's systemd, once it runs."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.process.poll() is not None:
                self.log.seek(0)
                said = self.log.read()
                if any(why in said for why in CANNOT):
                    print(f"no namespaces here: {said}")
                    self.close()
                    sys.exit(SKIP)
                raise RuntimeError(f"the box did not start: {said}")
            found = subprocess.run(["pgrep", "-x", "systemd", "-P", str(self.process.pid)], capture_output=True,
                                   text=True, check=False)
            if found.stdout.strip():
                self.init = found.stdout.split()[0]
                self.all = f"/proc/{self.init}/root"  # the overlay is mounted in there alone
                if self.call("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"):
                    return self.init
            time.sleep(0.1)
        raise RuntimeError("the box did not boot")

    def install(self):
        """As `make install` and a package's own steps do it."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
        subprocess.run(["make", "-s", "-C", BUILD, "install", f"DESTDIR={self.all}"], env=env, stdout=self.log,
                       stderr=self.log, check=True)
        self.run("systemd-sysusers")
        self.run("systemd-tmpfiles", "--create")
        self.run("systemctl", "daemon-reload")

    def command(self, *words):
        return ["nsenter", "-t", self.init, "-p", "-m", "-u", "-i", "-n", "-C", "--root", "--wd", "env", "-i",
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", *words]

    def call(self, *words, **more):
        return subprocess.run(self.command(*words), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE, check=False,
                              **more)

    def run(self, *words):
        r = self.call(*words)
        if r.returncode:
            raise AssertionError(f"{words}: {r.returncode}: {r.stdout}{r.stderr}\n{self.journal()}")
        return r.stdout

    def start(self, *words):
        """In the background; the caller waits for it."""
        return subprocess.Popen(self.command(*words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

    def show(self, unit, name):
        return self.run("systemctl", "show", "--value", "-p", name, unit).strip()

    def journal(self, *words):
        return self.call("journalctl", "--no-pager", "-o", "short-precise", "-u", "dsv4d", *words).stdout

    def until(self, what, condition):
        end = time.monotonic() + PATIENCE
        while not (got := condition()):
            if time.monotonic() > end:
                raise AssertionError(f"not within {PATIENCE} s: {what}\n{self.journal()}")
            time.sleep(0.1)
        return got

    def write(self, path, text, mode=0o644):
        where = self.all + path
        os.makedirs(os.path.dirname(where), exist_ok=True)
        with open(where, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(where, mode)

    def close(self):
        if self.process.poll() is None:
            if getattr(self, "init", None):
                subprocess.run(["kill", "-KILL", self.init], check=False)
            self.process.kill()
            self.process.wait()
        self.log.close()
        subprocess.run(["umount", "-l", self.root], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(self.root, ignore_errors=True)
        os.unlink(self.root + ".log")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
