# SPDX-License-Identifier: MIT
"""bugreport: one file, no prompts unless asked for, useful without a daemon and of one that hangs; top: on a terminal
and as text."""
import io
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tarfile
import tempfile
import termios
import time
from fcntl import ioctl

from client import BUILD
from daemon import PATIENCE, Daemon

SECRET = "my dog is called Waldemar"
CTL = os.path.join(BUILD, "dsv4ctl")


def members(path):
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    with tarfile.open(path) as t:
        assert {m.name.split("/")[0] for m in t} == {os.path.commonpath(t.getnames())}
        return {m.name.partition("/")[2]: t.extractfile(m).read() for m in t}


def report_has_no_prompts_unless_asked(d, tmp):
    status, _, body = d.http("POST", "/v1/chat/completions",
                             {"messages": [{"role": "user", "content": SECRET}], "max_tokens": 4})
    assert status == 200, body
    path = os.path.join(tmp, "r.tar.gz")
    code, out, err = d.ctl("bugreport", "-o", path)
    assert code == 0 and out.strip() == path, (out, err)
    got = members(path)
    assert not any(b"Waldemar" in data for data in got.values())
    for name in ("status", "model", "kernels_show", "request_list", "cache_stats", "config_diff"):
        assert json.loads(got[name + ".json"]), name
    assert "no shadow" in got["shadow_report.error"].decode() or got["shadow_report.error"], got["shadow_report.error"]
    assert b"model name" in got["cpuinfo.txt"] or got["cpuinfo.txt"]
    assert body["id"].encode() in got["request_list.json"]
    code, out, err = d.ctl("--json", "bugreport", "--prompts", f"--output={path}")
    assert code == 0 and json.loads(out) == {"file": path}, (out, err)
    assert b"Waldemar" in members(path)["requests/0.messages.json"]
    code, out, err = d.ctl("bugreport", "--output", os.path.join(tmp, "none", "r.tar.gz"))
    assert code == 1 and "none" in err and not os.path.exists(os.path.join(tmp, "none")), (code, err)
    code, out, err = d.ctl("bugreport", "everything")
    assert code == 2, (code, err)
    assert sorted(os.listdir(tmp)) == ["r.tar.gz"], os.listdir(tmp)  # no half a file


def report_without_a_daemon(tmp):
    r = subprocess.run([CTL, "--socket", os.path.join(tmp, "nobody"), "bugreport"], cwd=tmp, capture_output=True,
                       text=True, check=True)
    name = r.stdout.strip()
    assert re.fullmatch(r"dsv4d-\d{4}-\d{6}\.tar\.gz", name), r
    got = members(os.path.join(tmp, name))
    assert "nobody" in got["status.error"].decode() and "system.txt" in got, got.keys()


def report_replaces_only_files(tmp):
    """A FIFO, links and a folder, and what a link points to, stay what they are."""
    file, fifo, link, nowhere = (os.path.join(tmp, name) for name in ("file", "fifo", "link", "nowhere"))
    with open(file, "w", encoding="utf-8") as f:
        f.write("old")
    os.mkfifo(fifo)
    os.symlink(file, link)
    os.symlink(os.path.join(tmp, "none"), nowhere)
    before = sorted(os.listdir(tmp))
    for path in (fifo, link, nowhere, tmp):
        mode = os.lstat(path).st_mode
        r = subprocess.run([CTL, "--socket", os.path.join(tmp, "nobody"), "bugreport", "-o", path], capture_output=True,
                           text=True, check=False)
        assert r.returncode == 1 and f"{path}: exists and is no regular file" in r.stderr, (path, r)
        assert os.lstat(path).st_mode == mode and sorted(os.listdir(tmp)) == before, path
    with open(file, encoding="utf-8") as f:
        assert f.read() == "old"


def report_with(control, tmp, journal):
    """Begins a report with a journalctl that is this shell script: (process, its file)."""
    folder = tempfile.mkdtemp(dir=tmp)
    tool = os.path.join(folder, "journalctl")
    with open(tool, "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\n" + journal)
    os.chmod(tool, 0o755)
    path = os.path.join(folder, "r.tar.gz")
    env = {**os.environ, "PATH": folder + ":" + os.environ["PATH"]}
    return subprocess.Popen([CTL, "--socket", control, "bugreport", "-o", path], env=env,
                            stdout=subprocess.DEVNULL), path


def report_keeps_the_newest_of_the_log(tmp):
    p, path = report_with(os.path.join(tmp, "nobody"), tmp,
                          "echo oldest; yes some words of a log | head -c 13000000; echo newest\n")
    assert p.wait(PATIENCE) == 0
    log = members(path)["log.txt"]
    assert len(log) == 4 << 20 and log.endswith(b"newest\n") and b"oldest" not in log, (len(log), log[-100:])


def report_of_what_hangs(d, tmp):
    """A stopped daemon, a journalctl without an end, and a daemon that takes no more callers: each is waited for
    once."""
    full = os.path.join(tmp, "full")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as caller:
        listener.bind(full)
        listener.listen(0)
        caller.connect(full)
        d.process.send_signal(signal.SIGSTOP)
        try:
            stopped, path = report_with(d.control, tmp, "echo begun; exec sleep 1000\n" if shutil.which("timeout")
                                        else "echo begun\n")
            crowded, other = report_with(full, tmp, "")
            assert stopped.wait(PATIENCE) == 0 and crowded.wait(PATIENCE) == 0
        finally:
            d.process.send_signal(signal.SIGCONT)
    for file in (path, other):
        got = members(file)
        assert (b"not asked" not in got["status.error"]
                and b"deadline passed" in got["status.error"]), got["status.error"]
        errors = [name for name in got if name.endswith(".error") and name != "status.error"]
        assert len(errors) == 12 and all(got[name].startswith(b"not asked") for name in errors), got
    got = members(path)
    assert got["log.txt"].startswith(b"begun\n") and "system.txt" in got, got["log.txt"]
    assert b"124" in got["log.txt"] or not shutil.which("timeout"), got["log.txt"]


def top_as_text(d):
    code, out, err = d.ctl("top", "--once")
    assert code == 0 and re.search(r"^dsv4d \S+   ä+   ready   up \d\d:\d\d:\d\d   127", out), (out, err)
    for begin in ("requests ", "tokens ", "kernels ", "cache ", "probes "):
        assert re.search(rf"^{begin}", out, re.MULTILINE), (begin, out)
    code, _, err = d.ctl("top", "--twice")
    assert code == 2, err


def top_begin(d, term="xterm", columns=120):
    """(pid, terminal) of a top that no hangup ends, as below nohup."""
    pid, fd = pty.fork()
    if pid == 0:
        ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        os.environ.update(TERM=term, LC_ALL="C.UTF-8", DSV4D_SOCKET=d.control)
        # of a terminal that it does not know curses leaves memory behind, which is not ours to free
        if term != "xterm":
            os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        if not term:
            del os.environ["TERM"]
        os.execv(CTL, [CTL, "top"])
    return pid, fd


def top_seen(fd, text):
    """All that was drawn until this text stands there."""
    seen, end = io.BytesIO(), time.monotonic() + PATIENCE
    while text not in seen.getvalue():
        assert time.monotonic() < end, seen.getvalue()
        if select.select([fd], [], [], 1)[0]:
            seen.write(os.read(fd, 65536))
    return seen.getvalue()


def top_end(pid, fd):
    """All that is still drawn, until its end."""
    rest = b""
    while True:
        try:
            piece = os.read(fd, 65536)
        except OSError:
            piece = b""
        rest += piece
        if not piece:
            break
    os.close(fd)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return rest


def top_on_a_terminal(d):
    """What it draws, read until a rate stands there; then q."""
    pid, fd = top_begin(d)
    seen = top_seen(fd, b"tokens/s generated")
    assert "ä".encode() in seen and b"Waldemar" not in seen
    os.write(fd, b"q")
    top_end(pid, fd)


def top_ends_when_its_terminal_is_gone(d):
    pid, fd = top_begin(d)
    top_seen(fd, b"q: end")
    os.close(fd)
    gone = os.pidfd_open(pid)
    if not select.select([gone], [], [], PATIENCE)[0]:
        os.kill(pid, signal.SIGKILL)
    os.close(gone)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def top_on_an_unknown_terminal(d):
    for term in ("", "no-such-terminal"):
        seen = top_end(*top_begin(d, term))
        assert b"\nrequests " in seen and b"Error" not in seen and b"\x1b" not in seen, seen


def top_cuts_lines_by_columns(d):
    """The name of the model goes beyond the last column: as much of it is seen as fits."""
    _, out, _ = d.ctl("top", "--once")
    pid, fd = top_begin(d, columns=40)
    seen = top_seen(fd, b"q: end").decode()
    os.write(fd, b"q")
    top_end(pid, fd)
    assert seen.count("ä") == 40 - out.index("ä"), (seen, out)


with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="utf-8") as conf:
    conf.write(f"[daemon]\nmodel_name = {'ä' * 50}\n[plugins]\ntrial_timeout = {PATIENCE}\n")
    conf.flush()
    with tempfile.TemporaryDirectory() as folder, Daemon("--config", conf.name) as daemon:
        report_has_no_prompts_unless_asked(daemon, folder)
        top_as_text(daemon)
        top_on_a_terminal(daemon)
        top_ends_when_its_terminal_is_gone(daemon)
        top_on_an_unknown_terminal(daemon)
        top_cuts_lines_by_columns(daemon)
        report_of_what_hangs(daemon, folder)
with tempfile.TemporaryDirectory() as folder:
    report_without_a_daemon(folder)
with tempfile.TemporaryDirectory() as folder:
    report_replaces_only_files(folder)
    report_keeps_the_newest_of_the_log(folder)
