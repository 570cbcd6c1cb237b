# SPDX-License-Identifier: MIT
"""The Debian packages: built from what `make dist` takes, installed, enabled, serving, upgraded while it serves,
removed and purged, under a systemd as PID 1."""
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from box import Box
from client import BUILD, SKIP

PACKAGES = ("dsv4d", "dsv4d-plugins", "dsv4ctl", "libdsv4-dev")
ENV = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
NVCC = """#!/bin/sh
while [ $# -gt 1 ]; do
	case $1 in -o) out=$2 ;; -MF) : >"$2" ;; esac
	shift
done
cp "%s/$out" "$out"
"""
CHAT = json.dumps({"messages": [{"role": "user", "content": "Who are you?"}], "max_tokens": 8, "temperature": 0})


def make(directory, *words, **more):
    r = subprocess.run(words, cwd=directory, env={**ENV, **more}, stdin=subprocess.DEVNULL, capture_output=True,
                       text=True, check=False)
    assert r.returncode == 0, (words, r.stdout[-3000:], r.stderr[-3000:])


def kernels(tmp):
    """A folder with an nvcc that gives what this build's made of the same sources, which takes minutes; empty without one."""
    path = os.path.join(tmp, "bin", "nvcc")
    os.mkdir(os.path.dirname(path))
    with open(os.path.join(BUILD, "Makefile"), encoding="utf-8") as f:
        has_nvcc = re.search(r"^NVCC = \S", f.read(), re.M)
    if has_nvcc:
        with open(path, "w", encoding="utf-8") as f:
            f.write(NVCC % os.path.abspath(BUILD))
        os.chmod(path, 0o755)
    return os.path.dirname(path)


def build(tmp):
    """The packages of this version, and those of the next one, as two folders."""
    make(BUILD, "make", "-s", "distdir", f"distdir={tmp}/source")
    options = {"DEB_BUILD_OPTIONS": f"noautodbgsym nocheck parallel={os.cpu_count()}",
               "PATH": kernels(tmp) + ":" + os.environ["PATH"]}
    made = []
    for version, more in (("0.1.0", ()), ("0.1.1", ("--no-pre-clean",))):
        changelog = os.path.join(tmp, "source", "debian", "changelog")
        with open(changelog, encoding="utf-8") as f:
            text = re.sub(r"^dsv4d \(.*?\)", f"dsv4d ({version})", f.read(), count=1)
        with open(changelog, "w", encoding="utf-8") as f:
            f.write(text)
        make(os.path.join(tmp, "source"), "dpkg-buildpackage", "-b", "-us", "-uc", *more, **options)
        made.append(os.path.join(tmp, version))
        os.mkdir(made[-1])
        for path in glob.glob(os.path.join(tmp, f"*_{version}_*.deb")):
            shutil.move(path, made[-1])
    return made


def put(b, folder):
    """Their paths in the box."""
    where = "/root/" + os.path.basename(folder)
    shutil.copytree(folder, b.all + where)
    files = [f"{where}/{name}" for name in sorted(os.listdir(folder))]
    assert len(files) == len(PACKAGES), files
    return files


def serves(b):
    reply = json.loads(b.run("curl", "-sS", "--max-time", "60", "-H", "Content-Type: application/json", "-d", CHAT,
                             "http://127.0.0.1:8420/v1/chat/completions"))
    assert reply["usage"]["completion_tokens"] > 0, reply


def installs_enables_and_serves(b, files):
    b.run("dpkg", "-i", *files)
    for unit in ("dsv4d.service", "dsv4d.socket"):
        assert b.run("systemctl", "is-enabled", unit).strip() == "enabled", unit
        assert b.show(unit, "ActiveState") == "active", unit
    serves(b)
    status = json.loads(b.run("dsv4ctl", "--json", "status"))
    assert status["config"] == "/etc/dsv4d/dsv4d.conf" and status["model_dir"].startswith("/usr/share/dsv4d"), status
    b.run("dsv4d", "-t")
    with open(b.all + "/usr/sbin/dsv4d", "rb") as f:
        program = f.read()
    plugins = glob.glob(b.all + "/usr/lib/dsv4d/plugins/*.so")
    assert plugins
    for path in plugins:
        with open(path, "rb") as f:  # what was stripped after the build would be a stranger's
            assert hashlib.sha256(f.read()).hexdigest().encode() in program, path
    b.run("dsv4ctl", "plugin", "load", "moe-fused")


def upgrades_while_it_serves(b, files):
    b.write("/etc/dsv4d/dsv4d.conf", "[daemon]\nlog_level = debug\n")  # an operator's own
    curl = b.start("sh", "-c", "until [ -e /root/upgraded ]; do "
                   "curl -sS -o /dev/null -w '%{http_code}\\n' --max-time 60 http://127.0.0.1:8420/v1/models; done | "
                   "sort -u")
    before, opened = b.show("dsv4d", "MainPID"), b.show("dsv4d.socket", "ActiveEnterTimestampMonotonic")
    b.run("dpkg", "-i", "--force-confold", *files)
    b.write("/root/upgraded", "")
    assert curl.communicate()[0].split() == ["200"]
    assert b.show("dsv4d.socket", "ActiveEnterTimestampMonotonic") == opened
    assert b.show("dsv4d", "MainPID") != before and b.show("dsv4d", "ActiveState") == "active"
    assert "0.1.1" in b.run("dpkg-query", "-W", "-f", "${Version}", "dsv4d")
    with open(b.all + "/etc/dsv4d/dsv4d.conf", encoding="utf-8") as f:
        assert "log_level = debug" in f.read()
    serves(b)


def removes_and_purges(b):
    b.run("dpkg", "-r", "dsv4d")
    assert b.call("systemctl", "is-active", "dsv4d").stdout.strip() != "active"
    assert os.path.isdir(b.all + "/var/lib/dsv4d") and os.path.exists(b.all + "/etc/dsv4d/dsv4d.conf")
    b.run("dpkg", "-P", *PACKAGES)
    for path in ("/var/lib/dsv4d", "/etc/dsv4d/dsv4d.conf", "/usr/lib/dsv4d", "/usr/sbin/dsv4d", "/usr/include/dsv4",
                 "/run/dsv4d"):
        assert not os.path.exists(b.all + path), path
    assert b.call("systemctl", "status", "dsv4d").returncode == 4  # no such unit


if not shutil.which("dpkg-buildpackage") or not shutil.which("dh"):
    print("needs dpkg-dev and debhelper")
    sys.exit(SKIP)
with Box(install=False) as box, tempfile.TemporaryDirectory() as folder:
    if os.path.exists(box.all + "/usr/sbin/policy-rc.d"):
        os.unlink(box.all + "/usr/sbin/policy-rc.d")  # of the machine around it: "start nothing"
    now, later = (put(box, made) for made in build(folder))
    installs_enables_and_serves(box, now)
    upgrades_while_it_serves(box, later)
    removes_and_purges(box)
