# SPDX-License-Identifier: MIT
"""Plugin files for a daemon under test, and what /proc says of its process.

    directory = plugins.directory(tmp, *plugins.shipped(), plugins.fixture("good"))
    plugins.mapped(d.process.pid, under=directory)       # libraries of that directory it has mapped
"""
import json
import os
import re
import shutil
import time

from client import BUILD, SRC

REFUSALS = os.path.join(SRC, "engine", "plugin", "refusals.def")


def fixture(name):
    return os.path.join(BUILD, "tests", "plugins", name + ".so")


def fixtures():
    """Every fixture's name: one per source file."""
    return sorted(f[:-2] for f in os.listdir(os.path.join(SRC, "tests", "plugins")) if f.endswith(".c"))


def facts(path):
    """What stands between a file's markers: of the plugin, and of each entry of its table."""
    with open(path, "rb") as f:
        found = re.findall(rb"<dsv4-facts>(.*?)</dsv4-facts>", f.read(), re.S)
    assert len(found) == 1, (path, len(found))
    plugin, *entries = json.loads(found[0])
    return plugin, entries


def runs_here(path):
    """Has this CPU the features the file asks for, and does it ask for no GPU?"""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        has = set(re.search(r"^flags\s*:(.*)$", f.read(), re.M).group(1).split())
    plugin = facts(path)[0]
    return not plugin.get("gpu") and set(plugin["cpu"].split()) <= has


def shipped():
    """The shipped plugins that this CPU can run: {name: path}."""
    where = os.path.join(BUILD, "plugins")
    paths = {f[:-3]: os.path.join(where, f) for f in sorted(os.listdir(where)) if f.endswith(".so")}
    return {name: path for name, path in paths.items() if runs_here(path)}


def sanitizer():
    """The sanitizer that dsv4d is built with, which has a malloc of its own; or None."""
    with open(os.path.join(BUILD, "dsv4d"), "rb") as f:
        program = f.read()
    return next((s for s in ("asan", "tsan") if f"__{s}_init".encode() in program), None)


def directory(parent, *paths):
    """A plugin directory as an operator would make it, with copies of these files."""
    path = os.path.join(parent, "plugins")
    os.makedirs(path, exist_ok=True)
    os.chmod(path, 0o755)
    for p in paths:
        install(p, os.path.join(path, os.path.basename(p)))
    return path


def install(source, target):
    """As install(1) does: a new file under the name, never a change of the old one's bytes."""
    shutil.copyfile(source, target + ".new")
    os.chmod(target + ".new", 0o644)
    os.rename(target + ".new", target)
    return target


def refusals():
    """Name of every row of refusals.def."""
    with open(REFUSALS, encoding="utf-8") as f:
        names = re.findall(r'^REFUSAL\(\w+,\s*"([a-z0-9-]+)"', f.read(), re.M)
    assert len(names) > 20, names
    return names


def families():
    """The family of each op, as kernel sets call it: {"hc_pre": "mhc"}."""
    with open(os.path.join(SRC, "plugins", "ops.def"), encoding="utf-8") as f:
        found = {op: family.lower() for op, family in re.findall(r"^OP\((\w+),\s*(\w+),", f.read(), re.M)}
    assert len(found) >= 12, found
    return found


# ---- a process ----

def mapped(pid, under):
    """Files below the directory that are mapped, also those unlinked since."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        paths = {line.split(None, 5)[5].strip() for line in f if line.count("/") > 0}
    return sorted(p for p in paths if p.startswith(os.path.realpath(under) + os.sep))


def rss_anon(pid):
    """Bytes of private memory that are resident."""
    with open(f"/proc/{pid}/status", encoding="utf-8") as f:
        return int(re.search(r"^RssAnon:\s+(\d+) kB", f.read(), re.M).group(1)) * 1024


def descriptors(pid):
    """What its open descriptors point to."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            pass
    return sorted(found)


def children(pid):
    """Its child processes and their states, "Z" for a zombie: {pid: state}."""
    found = {}
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{p}/stat", encoding="utf-8") as f:
                state, parent = f.read().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == pid:
            found[int(p)] = state
    return found


def until(condition, what, timeout=60):
    """Asks again until the condition holds: for what the kernel tells nobody about, like an unmapping."""
    end = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < end, f"after {timeout} s still not: {what}"
    return value
