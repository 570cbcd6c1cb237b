# SPDX-License-Identifier: MIT
"""Who may do what, by the peer's credentials: root administers, a group operates, others monitor. Needs root."""
import grp
import json
import os
import subprocess
import tempfile

from client import BUILD, skip
from daemon import Daemon

NOBODY = 65534

def as_user(groups, *command):
    """Runs a command as nobody with these supplementary groups."""
    r = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, user=NOBODY, group=NOBODY,
                       extra_groups=groups, cwd="/")
    return r.returncode, r.stdout, r.stderr


def copy(tmp, name):
    """The build directory may be closed to others; a copy in an open directory is not."""
    path = os.path.join(tmp, name)
    with open(os.path.join(BUILD, name), "rb") as a, open(path, "wb") as b:
        b.write(a.read())
    os.chmod(path, 0o755)
    return path


def levels(d, ctl, operators, admins):
    def does(groups, expected, *words):
        code, out, err = as_user(groups, ctl, "--socket", d.control, *words)
        assert code == expected, (groups, words, code, out, err)
        return out + err
    status, _, body = d.http("POST", "/v1/chat/completions", {
        "messages": [{"role": "user", "content": "All work and no play. " * 60}], "max_tokens": 1})
    assert status == 200, body
    def keys(groups):
        blocks = json.loads(does(groups, 0, "--json", "cache", "tree"))["blocks"]
        assert all(b["key"].startswith(b["tree"].strip()) for b in blocks), blocks
        return [(b["key"], b["parent"]) for b in blocks]
    # a block's name is a hash of the prompt: who may not know that cannot try guesses, but can tell one from another
    hidden, real = keys([]), keys([admins])
    assert len(real) > 1 and not {x for k in hidden for x in k} & {x for k in real for x in k}, (hidden, real)
    assert hidden == keys([]) and hidden[1][1] == hidden[0][0] and real[1][1] == real[0][0], hidden
    for groups, level, operate, admin in [([], "monitor", 4, 4), ([operators], "operate", 0, 4),
                                          ([admins], "admin", 0, 0)]:
        assert json.loads(does(groups, 0, "--json", "status"))["level"] == level
        does(groups, 0, "request", "list")
        does(groups, operate, "log", "level", "info")
        does(groups, operate, "param", "set", "index_topk=8")
        does(groups, admin, "param", "set", "index_topk=8", "--keep-cache")
        does(groups, admin, "kernels", "use", "all=ref", "--keep-cache")
        tree = json.loads(does(groups, 0, "--json", "cache", "tree"))["blocks"]
        # what people wrote is not for those who only monitor
        assert tree and all(("text" in b) == (level != "monitor") for b in tree), tree
        does(groups, operate, "cache", "verify")
        does(groups, admin, "cache", "clear")
        text = does(groups, admin, "reload")
        assert admin == 0 or "needs the level admin, you have " + level in text, text
    does([], 4, "stop")
    does([], 4, "request", "prompt", "x")
    assert does([operators], 1, "request", "prompt", "x")
    lines = [x for x in d.log().splitlines() if "audit uid=65534" in x]
    assert sum("result=denied" in x for x in lines) == 13, lines
    assert sum("result=ok" in x for x in lines) == 10, lines


def socket_mode(tmp):
    """At the default mode, whoever is not in the group cannot even connect."""
    with Daemon() as d:
        os.chmod(d.dir, 0o755)
        code, _, err = as_user([], copy(tmp, "dsv4ctl"), "--socket", d.control, "status")
        assert code == 3 and "Permission denied" in err, (code, err)


if os.geteuid() != 0:
    skip("needs root")
names = [g for g in grp.getgrall() if g.gr_gid not in (0, NOBODY)][:2]
if len(names) < 2:
    skip("needs two groups")
with tempfile.TemporaryDirectory() as tmp:
    os.chmod(tmp, 0o755)
    conf = os.path.join(tmp, "conf")
    with open(conf, "w", encoding="utf-8") as f:
        f.write(f"[control]\nmode = 0666\ngroup = {names[0].gr_name}\nadmin_group = {names[1].gr_name}\n")
    with Daemon("--config", conf) as d:
        os.chmod(d.dir, 0o755)
        assert os.stat(d.control).st_gid == names[0].gr_gid
        levels(d, copy(tmp, "dsv4ctl"), names[0].gr_gid, names[1].gr_gid)
    socket_mode(tmp)
print("ok")
