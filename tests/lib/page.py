# SPDX-License-Identifier: MIT
"""Whether a program's man page lists the options that the program has."""
import os
import re
import subprocess

from client import BUILD, SRC


def check(name, section=1):
    with open(os.path.join(SRC, "man", f"{name}.{section}"), encoding="utf-8") as f:
        told = set(re.findall(r"(?<=\\-)[a-z][a-z-]+", " ".join(re.findall(r"^\.It (Fl .*)$", f.read(), re.M))))
    text = subprocess.run([os.path.join(BUILD, name), "--help"], capture_output=True, text=True, check=True).stdout
    there = set(re.findall(r"^  --([a-z-]+)", text, re.M))
    assert told == there, (told - there, there - told)
