# SPDX-License-Identifier: MIT
"""The manual pages: nothing that mandoc complains of, every verb and key in them, every example run as it stands; and
the configuration that is installed: all its lines are allowed, commented and not."""
import glob
import os
import re
import shlex
import socket
import subprocess
import tempfile

import page
from client import BUILD, SRC
from daemon import PATIENCE, Daemon

PAGES = {os.path.basename(p): p for d in (BUILD, SRC) for p in glob.glob(os.path.join(d, "man", "*.[1578]"))}


def read(name):
    with open(PAGES[name], encoding="utf-8") as f:
        return f.read()


def plain(text):
    return text.replace("\\-", "-").replace("\\e", "\\")


def table(path):
    out = subprocess.run(["sh", os.path.join(SRC, "man", "table.sh"), os.path.join(SRC, path)], capture_output=True,
                         text=True, check=True)
    return [line.split("\t") for line in out.stdout.splitlines()]


def checks_configuration(text):
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write(text)
        f.flush()
        r = subprocess.run([os.path.join(BUILD, "dsv4d"), "-t", "--config", f.name], capture_output=True, text=True,
                           timeout=PATIENCE,
                           check=False)
        assert r.returncode == 0, (text, r.stderr)


def lint_says_nothing():
    assert len(PAGES) >= 10, PAGES
    for path in PAGES.values():
        r = subprocess.run(["mandoc", "-Tlint", "-Wwarning", path], capture_output=True, text=True, check=False)
        assert not r.stdout + r.stderr, r.stdout + r.stderr


def every_verb_and_key_is_told_of():
    page = plain(read("dsv4ctl.1"))
    for row in table("ctl/verbs.def"):
        assert re.search(rf"^\.It {row[2]}\b", page, re.MULTILINE), row
    page = plain(read("dsv4d.8"))
    says = subprocess.run([os.path.join(BUILD, "dsv4d"), "--help"], capture_output=True, text=True, check=True).stdout
    for flag in re.findall(r"^  --(\S+)", says, re.MULTILINE):
        assert re.search(rf"^\.It Fl (t , Fl )?-{flag}( |$)", page, re.MULTILINE), flag
    page = read("dsv4d.conf.5")
    for row in table("daemon/conf.def"):
        assert re.search(rf"^\.It Va {row[2]}( |$)", page, re.MULTILINE), row
    for row in table("engine/kernels/numerics.def"):
        assert re.search(rf"^\.It Va {row[1]} ", page, re.MULTILINE), row


def programs_have_the_options_of_their_pages():
    for program in ("dsv4-bench", "dsv4-eval", "dsv4-mkmodel", "kcheck"):
        page.check(program)


def every_page_that_is_named_is_there():
    for name in PAGES:
        for other, section in re.findall(r"^\.Xr (dsv4\S*|kcheck) (\d)", read(name), re.MULTILINE):
            assert f"{other}.{section}" in PAGES, (name, other)


def examples_run(tmp):
    """`.Dl` lines of the programs' own pages, against a daemon that has a set to go back to."""
    with Daemon() as d:
        for words in (("plugin", "load", "mhc-bf16.so"), ("kernels", "use", "mhc=mhc-bf16"),
                      ("kernels", "use", "all=ref")):
            code, out, err = d.ctl(*words)
            assert code == 0, (out, err)
        env = {**os.environ, "DSV4D_SOCKET": d.control}
        n = 0
        for name in ("dsv4ctl.1", "kcheck.1", "dsv4d.8"):
            for line in re.findall(r"^\.Dl (.*)", plain(read(name)), re.MULTILINE):
                if line.startswith(("journalctl", "systemctl")) or "--device" in line:
                    continue  # tests/systemd, tests/cuda
                line = line.replace("/srv/models/flash", os.path.join(SRC, "etc", "tiny"))
                program, *rest = shlex.split(line)
                r = subprocess.run([os.path.join(BUILD, program), *rest], env=env, cwd=tmp, capture_output=True,
                                   text=True,
                                   timeout=10 * PATIENCE, check=False)
                assert r.returncode in ((0, 10) if "probe" in rest else (0,)), (line, r.returncode, r.stdout, r.stderr)
                n += 1
        assert n >= 8, n
        printed = re.search(r"^printf .*\n.*$", plain(read("dsv4-control.7")), re.MULTILINE).group(0).splitlines()[0]
        call = subprocess.run(["sh", "-c", printed.rstrip(" |")], capture_output=True, check=True).stdout
        with socket.socket(socket.AF_UNIX) as c:
            c.connect(d.control)
            c.sendall(call)
            answer = b""
            while not answer.endswith(b"\0"):
                answer += c.recv(65536)
        assert b'"state":"ready"' in answer.replace(b" ", b""), answer


def configurations_are_allowed(tmp):
    keys = os.path.join(tmp, "keys")
    with open(os.open(keys, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as f:
        subprocess.run([os.path.join(BUILD, "dsv4ctl"), "key", "new", "me"], stdout=f, stderr=subprocess.DEVNULL,
                       check=True)
    for text in re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", read("dsv4d.conf.5"), re.MULTILINE | re.DOTALL):
        checks_configuration(re.sub(r"/\S+/keys", keys, plain(text)))
    with open(os.path.join(BUILD, "etc", "dsv4d.conf"), encoding="utf-8") as f:
        sample = f.read()
    checks_configuration(sample)
    for row in table("daemon/conf.def"):
        assert re.search(rf"^#{row[2]} =", sample, re.MULTILINE), row
    said = re.sub(r"^#(\w+ = (?!\().+|\[probe\..*)$", r"\1", sample, flags=re.MULTILINE)
    assert said.count("\n#") < sample.count("\n#") - 20
    checks_configuration(said)


if __name__ == "__main__":
    lint_says_nothing()
    every_verb_and_key_is_told_of()
    programs_have_the_options_of_their_pages()
    every_page_that_is_named_is_there()
    with tempfile.TemporaryDirectory() as d:
        configurations_are_allowed(d)
        examples_run(d)
