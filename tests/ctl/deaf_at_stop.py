# SPDX-License-Identifier: MIT
"""A peer that does not read at stop: the daemon waits for it a second, asleep, and others get their replies."""
import json
import os
import resource
import select
import signal

from control import Control
from daemon import Daemon

MAX_CPU_S = 0.5  # from the signal to the end; a daemon that spins takes the whole second


def fill(d):
    """A connection with replies that nobody reads, until the daemon takes no more calls from it."""
    c = Control(d.control)
    c.sock.setblocking(False)
    call = json.dumps({"method": "io.dsv4.Engine.ParamList"}).encode() + b"\0"
    sent = 0
    while sent < 8 << 20:
        if not select.select([], [c.sock], [], 0.5)[1]:
            return c
        try:
            sent += c.sock.send(call * 1000)
        except BlockingIOError:
            pass
    raise AssertionError("the daemon reads on although its replies wait")


def cpu_so_far(d):
    with open(f"/proc/{d.process.pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_of_ended():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


with Daemon() as d:
    deaf, waiting = fill(d), Control(d.control)
    waiting.send({"method": "io.dsv4.Daemon.Wait", "parameters": {"condition": "drained", "timeout": 1000},
                  "more": True})
    assert waiting.receive()["continues"]
    before, ended = cpu_so_far(d), cpu_of_ended()
    d.process.send_signal(signal.SIGTERM)
    assert d.process.wait(60) == 0, d.log()
    used = cpu_of_ended() - ended - before
    assert used < MAX_CPU_S, f"{used} s of CPU to stop"
    while (last := waiting.receive()) is not None and last.get("continues"):
        pass
    waiting.check("io.dsv4.Daemon.Wait", last)
    deaf.sock.close()
print("ok")
