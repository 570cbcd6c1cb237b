# SPDX-License-Identifier: MIT
"""The golden vectors through a whole daemon: all positions of all cases, in both profiles, over HTTP."""
from daemon import Daemon
from golden import EXACT, Golden
from plugins import sanitizer
from scenario import ok

if sanitizer():
    raise SystemExit(77)  # golden.sh has the same numbers there

with Daemon() as d:
    Golden(d, "native").all()
    ok(d, "param", "set", *EXACT)
    Golden(d, "exact").all()
