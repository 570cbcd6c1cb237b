# SPDX-License-Identifier: MIT
"""What idle cached conversations cost, on the tiny model: the time of a decode step with so many of them in the cache,
which should not matter. Printed. (How fast streams are says `dsv4-bench serve`.)

    make && tests/lib/python.sh tests/bench/bench_serving.py
"""
import concurrent.futures
import json
import os
import tempfile
import time

from daemon import Daemon
from turns import config, fast_kernels

TOKENS = 200
STREAMS = 8
IDLE = [0, 100, 200, 400]


def answer(d, text, n):
    status, _, reply = d.http("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": text}], "max_tokens": n, "ignore_eos": True, "temperature": 0},
                              timeout=600)
    assert status == 200 and reply["usage"]["completion_tokens"] == n, reply
    return n


def rate(d, streams):
    """Tokens per second of so many at once, with short prompts."""
    with concurrent.futures.ThreadPoolExecutor(streams) as pool:
        start = time.monotonic()
        n = sum(pool.map(lambda i: answer(d, f"Tell me story {i}.", TOKENS), range(streams)))
        return n / (time.monotonic() - start)


def idle(d):
    made = 0
    for wanted in IDLE:
        with concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
            list(pool.map(lambda i: answer(d, f"{i} " + "wug blicket " * 60, 1), range(made, wanted)))
        made = wanted
        cache = json.loads(d.ctl("--json", "cache", "stats")[1])
        best = max(rate(d, 1) for _ in range(3))
        print(f"{wanted:4} idle conversations, {cache['blocks']:5} blocks cached: {1000 / best:.2f} ms a step")


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "conf")
    config(path, memory="1G", disk="no", **fast_kernels())
    with Daemon("--config", path, "--threads", "2") as daemon:
        answer(daemon, "Hello", 10)
        idle(daemon)
