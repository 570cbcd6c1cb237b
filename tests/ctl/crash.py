# SPDX-License-Identifier: MIT
"""A kernel that passes every check and dies while it serves: the log's last line says which one, where and for whom,
and the next start is with the set that was good before."""
import http.client
import os
import re
import shutil
import signal

from client import BUILD
from daemon import Daemon
from plugins import sanitizer, until
from scenario import ok

SHORT = {"messages": [{"role": "user", "content": "Who are you?"}], "max_tokens": 8, "temperature": 0}
# A kept prefix would make the prompt that dies as short as one that does not.
LONG, LATER = ({"messages": [{"role": "user", "content": word + "seven and " * 48}], "max_tokens": 1, "temperature": 0}
               for word in ("", "now "))
LINE = re.compile(r"<2>crashed signal=SEGV address=0x40 op=rms_norm phase=prefill layer=\d provider=crash-late "
                  r"set_generation=(\d+) request=(\S+) kernels=\"([^\"]*)\" plugins=\"([^\"]*)\"")


def ask(d, body):
    status, _, reply = d.http("POST", "/v1/chat/completions", body)
    assert status == 200, reply
    return reply


def died(d, of):
    """The daemon's last line. A sanitizer, which has the signal after the daemon, adds its own and ends it its own
    way."""
    status, lines = d.process.wait(60), d.log().splitlines()
    if not sanitizer():
        assert status == -of, status
        return lines[-1]
    assert status != 0
    return [line for line in lines if line.startswith("<2>")][-1]


def good(d):
    """The same prompt is nothing to the set that becomes last-good."""
    ok(d, "plugin", "load", "mhc-bf16")
    ok(d, "kernels", "use", "mhc=mhc-bf16")
    ok(d, "param", "set", "good_steps=2")
    tokens = ask(d, LONG)["usage"]["prompt_tokens"]
    assert 4 * tokens >= 640 and 4 * tokens <= 960, tokens
    ask(d, SHORT)
    until(lambda: ok(d, "status")["last_good"] == "mhc=mhc-bf16", "last good")
    ok(d, "param", "set", "good_steps=1000000")


def crash(d):
    ok(d, "plugin", "load", "crash-late")
    generation = ok(d, "kernels", "use", "norm=crash-late")["generation"]
    ask(d, SHORT)
    try:
        status, _, reply = d.http("POST", "/v1/chat/completions", LATER)
        raise AssertionError((status, reply))
    except (http.client.HTTPException, ConnectionError):
        pass
    found = LINE.fullmatch(died(d, signal.SIGSEGV))
    assert found and int(found[1]) == generation and len(found[2]) > 8 and "norm=crash-late" in found[3] and \
        "mhc-bf16" in found[4].split(), (d.log(), generation)


def restart(d):
    d.start()
    status = ok(d, "status")
    assert (status["started_from"], status["kernels"]) == ("last_good", "mhc=mhc-bf16"), status
    ask(d, LATER)


def idle(d):
    """A signal that another process sent ends it as well, and no kernel is blamed."""
    d.process.send_signal(signal.SIGBUS)
    line = died(d, signal.SIGBUS)
    assert re.fullmatch(rf"<2>crashed signal=BUS from_pid={os.getpid()} op=none kernels=\"[^\"]+\" plugins=\"[^\"]*\"",
                        line), line
    d.start()


with Daemon(plugins=["mhc-bf16"]) as d:
    shutil.copy(os.path.join(BUILD, "tests", "plugins", "crash-late.so"), d.plugins)
    for part in (good, crash, restart, idle):
        part(d)
print("ok")
