# SPDX-License-Identifier: MIT
"""The units under a real systemd: start, sockets, reload, drain, hung kernels, kills, the journal, the hardening."""
import json
import os
import re
import shutil

from box import Box
from client import BUILD

CHAT = {"messages": [{"role": "user", "content": "Who are you?"}], "max_tokens": 8, "temperature": 0}
# Longer than a block, so that the prefix cache has something to keep.
LONG = {"messages": [{"role": "user", "content": "seven and " * 48}], "max_tokens": 1, "temperature": 0}
CONFIG = "/usr/local/etc/dsv4d/dsv4d.conf"


def ask(b, body=None, *more):
    """The reply's JSON, from 127.0.0.1:8420 as a client inside the box gets it."""
    return json.loads(b.run("curl", "-sS", "--max-time", "60", *more, "-H", "Content-Type: application/json", "-d",
                            json.dumps(body or CHAT),
                            "http://127.0.0.1:8420/v1/chat/completions"))


def status(b):
    return json.loads(b.run("dsv4ctl", "--json", "status"))


def start_says_ready_and_what_it_does(b):
    b.run("systemctl", "start", "dsv4d")  # Type=notify: returns when it is ready
    assert ask(b)["usage"]["completion_tokens"] > 0
    b.until("status text", lambda: re.fullmatch(r"serving tiny on 127\.0\.0\.1:8420", b.show("dsv4d", "StatusText")))
    assert b.show("dsv4d", "ActiveState") == "active"
    stat = os.stat(b.all + "/run/dsv4d/control")
    assert stat.st_mode & 0o777 == 0o660 and stat.st_uid == 0, oct(stat.st_mode)
    main = b.show("dsv4d", "MainPID")
    assert "dsv4d" in b.run("ps", "-o", "user=", "-p", main)


def journal_has_fields(b):
    lines = [json.loads(x) for x in b.run("journalctl", "-u", "dsv4d", "DSV4_EVENT=ready", "-o", "json",
                                          "--no-pager").splitlines()]
    assert lines and lines[-1]["DSV4_MODEL"] == "tiny" and lines[-1]["PRIORITY"] == "5", lines
    assert lines[-1]["MESSAGE"].startswith("ready model=tiny "), lines[-1]
    request = ask(b)["id"]
    b.until("the request's line", lambda: b.call("journalctl", "-u", "dsv4d", f"DSV4_ID={request}", "--no-pager", "-o",
                                                 "cat").stdout.strip())


def reload_is_all_or_nothing(b):
    main = b.show("dsv4d", "MainPID")
    b.write(CONFIG, "[daemon]\nlog_level = debug\nthreads = 1\n")
    b.run("systemctl", "reload", "dsv4d")
    assert status(b)["log_level"] == "debug"
    b.write(CONFIG, "[daemon]\nlog_level = err\nno_such_key = 1\n")
    refused = b.call("systemctl", "reload", "dsv4d")
    assert refused.returncode != 0
    assert status(b)["log_level"] == "debug" and b.show("dsv4d", "ActiveState") == "active"
    assert "unknown key 'no_such_key'" in b.journal()
    # A signal is the other way; the unit is reloading only as long as it lasts.
    b.write(CONFIG, "[daemon]\nlog_level = info\n")
    b.run("systemctl", "kill", "-s", "HUP", "--kill-who=main", "dsv4d")
    b.until("reloaded", lambda: status(b)["log_level"] == "info")
    assert b.show("dsv4d", "ActiveState") == "active" and b.show("dsv4d", "MainPID") == main
    os.unlink(b.all + CONFIG)


def sockets_lose_no_request(b):
    b.run("systemctl", "stop", "dsv4d")
    assert b.show("dsv4d.socket", "ActiveState") == "active"
    # Nothing runs; the first request starts it and is answered. So is the first command.
    assert ask(b)["usage"]["completion_tokens"] > 0
    b.run("systemctl", "stop", "dsv4d")
    assert status(b)["state"] in ("loading", "ready")
    b.run("dsv4ctl", "wait", "ready")
    # While it restarts, requests wait in the socket.
    curls = [b.start("sh", "-c", f"for i in 1 2 3 4 5 6; do curl -sS -o /dev/null -w '%{{http_code}}\\n' --max-time 60 "
                     f"http://127.0.0.1:8420/v1/models || echo lost; done")
             for _ in range(4)]
    b.run("systemctl", "restart", "dsv4d")
    codes = [code for c in curls for code in c.communicate()[0].split()]
    assert len(codes) == 24 and set(codes) == {"200"}, codes


def stop_drains_a_stream(b):
    body = {"messages": [{"role": "user", "content": "Write a story."}], "max_tokens": 200, "ignore_eos": True,
            "stream": True}
    stream = b.start("curl", "-sSN", "--max-time", "60", "-H", "Content-Type: application/json", "-d", json.dumps(body),
                     "http://127.0.0.1:8420/v1/chat/completions")
    first = stream.stdout.readline()
    assert first.startswith("data:"), first
    b.run("systemctl", "stop", "dsv4d")
    rest = stream.stdout.read()
    assert (stream.wait() == 0 and rest.rstrip().endswith("data: [DONE]")
            and '"finish_reason":"length"' in rest.replace(" ", "")), rest[-400:]
    assert b.show("dsv4d", "Result") == "success" and b.show("dsv4d", "ExecMainStatus") == "0"
    b.run("systemctl", "start", "dsv4d")


def stop_may_last_as_long_as_the_drain(b):
    """The unit's own limit is for a daemon that says nothing."""
    b.write("/run/systemd/system/dsv4d.service.d/stop.conf", "[Service]\nTimeoutStopSec=1s\n")
    b.run("systemctl", "daemon-reload")
    b.run("dsv4ctl", "kernels", "use", "all=ref")  # the slowest
    body = {"messages": [{"role": "user", "content": "Write a story."}], "max_tokens": 3000, "ignore_eos": True,
            "stream": True}
    streams = [b.start("sh", "-c", "curl -sSN --max-time 100 -H 'Content-Type: application/json' -d \"$1\" "
                       "http://127.0.0.1:8420/v1/chat/completions | tail -n 2", "sh", json.dumps(body))
               for _ in range(4)]
    b.until("all run", lambda: status(b)["requests"]["running"] == 4)
    b.run("systemctl", "stop", "dsv4d")
    for s in streams:
        assert s.communicate()[0].strip() == "data: [DONE]"
    assert b.show("dsv4d", "Result") == "success", b.show("dsv4d", "Result")
    os.unlink(b.all + "/run/systemd/system/dsv4d.service.d/stop.conf")
    b.run("systemctl", "daemon-reload")
    b.run("systemctl", "start", "dsv4d")


def cached(b):
    return ask(b, LONG)["usage"]["prompt_tokens_details"]["cached_tokens"]


def kill_leaves_the_disk_cache(b):
    b.run("dsv4ctl", "cache", "clear")  # what earlier kernels left is of no use to those of now
    b.run("dsv4ctl", "param", "set",
          "good_steps=2")  # after a kill the last good kernels are started with: let it be these
    ask(b, LONG)
    ask(b)
    b.until("last good", lambda: status(b)["last_good"] == status(b)["kernels"])
    b.until("cached on disk", lambda: json.loads(b.run("dsv4ctl", "--json", "cache", "stats"))["disk"]["files"] > 0)
    main, restarts = b.show("dsv4d", "MainPID"), int(b.show("dsv4d", "NRestarts"))
    b.run("systemctl", "kill", "-s", "KILL", "--kill-who=main", "dsv4d")
    b.until("restarted", lambda: int(b.show("dsv4d", "NRestarts")) > restarts
            and b.show("dsv4d", "ActiveState") == "active")
    assert b.show("dsv4d", "MainPID") != main
    assert cached(b) >= 128


def hung_kernel_is_killed_and_the_good_one_comes_back(b):
    shutil.copy(os.path.join(BUILD, "tests", "plugins", "hang-late.so"), b.all + "/usr/local/lib/dsv4d/plugins/")
    b.write("/run/systemd/system/dsv4d.service.d/watchdog.conf", "[Service]\nWatchdogSec=3s\n")
    b.run("systemctl", "daemon-reload")
    b.run("dsv4ctl", "cache", "clear")
    b.run("systemctl", "restart", "dsv4d")
    for words in (("plugin", "load", "mhc-bf16"), ("kernels", "use", "mhc=mhc-bf16"), ("param", "set", "good_steps=2")):
        b.run("dsv4ctl", *words)
    ask(b)
    b.until("last good", lambda: status(b)["last_good"].endswith("mhc=mhc-bf16"))
    for words in (("param", "set", "good_steps=1000000"), ("plugin", "load", "hang-late"),
                  ("kernels", "use", "norm=hang-late")):
        b.run("dsv4ctl", *words)
    restarts = int(b.show("dsv4d", "NRestarts"))
    hung = b.start("curl", "-sS", "--max-time", "100", "-H", "Content-Type: application/json", "-d", json.dumps(LONG),
                   "http://127.0.0.1:8420/v1/chat/completions")
    b.until("killed by the watchdog", lambda: int(b.show("dsv4d", "NRestarts")) > restarts
            and b.show("dsv4d", "ActiveState") == "active")
    hung.communicate()
    b.run("dsv4ctl", "wait", "ready")
    s = status(b)
    assert s["started_from"] == "last_good" and s["kernels"].endswith("mhc=mhc-bf16"), s
    journal = b.run("journalctl", "-u", "dsv4d", "--no-pager", "-o", "cat")
    assert "watchdog" in journal.lower()
    # The signal comes to a thread that runs no kernel; the line tells of the one that hangs.
    assert re.search(r"crashed signal=ABRT .* op=rms_norm .* provider=hang-late .* kernels=\"[^\"]*norm=hang-late",
                     journal), journal[-4000:]
    assert ask(b, LONG)["usage"]["completion_tokens"] == 1  # the same prompt, with kernels that end


def idle_for_longer_than_the_watchdog(b):
    restarts = b.show("dsv4d", "NRestarts")
    b.run("sleep", "5")  # WatchdogSec=3s: what must not happen has no event
    assert b.show("dsv4d", "NRestarts") == restarts and b.show("dsv4d", "ActiveState") == "active"


def bad_configuration_is_not_tried_again(b):
    b.write(CONFIG, "[daemon]\nno_such_key = 1\n")
    assert b.call("systemctl", "restart", "dsv4d").returncode != 0
    b.until("failed", lambda: b.show("dsv4d", "ActiveState") == "failed")
    assert b.show("dsv4d", "ExecMainStatus") == "78"
    os.unlink(b.all + CONFIG)
    b.run("systemctl", "reset-failed", "dsv4d")
    b.run("systemctl", "restart", "dsv4d.socket")
    b.run("systemctl", "start", "dsv4d")


def hardening_is_scored(b):
    r = b.call("systemd-analyze", "security", "--no-pager", "dsv4d.service")
    score = re.search(r"Overall exposure level for dsv4d.service: ([\d.]+)", r.stdout)
    assert score and float(score.group(1)) <= 2.0, r.stdout
    assert not b.call("systemd-analyze", "verify", "dsv4d.service", "dsv4d.socket").stderr.strip()


with Box() as box:
    for test in (start_says_ready_and_what_it_does, journal_has_fields, reload_is_all_or_nothing,
                 sockets_lose_no_request,
                 stop_drains_a_stream, stop_may_last_as_long_as_the_drain, kill_leaves_the_disk_cache,
                 hung_kernel_is_killed_and_the_good_one_comes_back,
                 idle_for_longer_than_the_watchdog, bad_configuration_is_not_tried_again, hardening_is_scored):
        box.call("systemctl", "reset-failed", "dsv4d")  # as if minutes had passed: starts are counted
        test(box)
        print("ok", test.__name__, flush=True)
