#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every file and every test that tests/README.md cites exists: a table of what is guarded must not outlive its
guards."""
import os
import re
import sys

TESTS = os.path.dirname(os.path.abspath(__file__))
FOLDERS = ("unit", "http", "ctl", "e2e", "fuzz", "lib", "kcheck", "bench", "plugins", "faults", "cuda", "cusim")
NAME = re.compile(r"[A-Za-z]\w*_\w+|[A-Z][a-z]\w*|[A-Z]{4,}")


def source(path):
    """The text of the cited test, None if there is none."""
    for end in ("", ".c", ".py", ".sh"):
        if os.path.isfile(name := os.path.join(TESTS, path + end)):
            with open(name, encoding="utf-8") as f:
                return f.read()
    return None


def cited(line):
    """(file, names) of each citation of a row: a file in backticks, and the words after it that name its tests."""
    parts = re.split(r"`((?:%s)/\w+(?:\.\w+)?)`" % "|".join(FOLDERS), line)
    for path, after in zip(parts[1::2], parts[2::2]):
        names = []
        for word in re.split(r"[\s,;|]+", after.strip()):
            if not NAME.fullmatch(word):
                break
            names.append(word)
        yield path, names


def missing(text):
    files, names, bad = 0, 0, []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("|"):
            continue
        for path, tests in cited(line.rsplit("|", 2)[1]):
            code = source(path)
            files += 1
            if code is None:
                bad.append(f"{number}: no {path}")
                continue
            for test in tests:
                names += 1
                if not re.search(rf"^(?:static void |    def |def |class )?\w*{test}\b|^{test} =", code, re.M):
                    bad.append(f"{number}: no {test} in {path}")
    return files, names, bad


def main():
    with open(os.path.join(TESTS, "README.md"), encoding="utf-8") as f:
        text = f.read()
    files, names, bad = missing(text)
    for line in bad:
        print(f"tests/README.md:{line}")
    assert files > 100 and names > 60, (files, names)  # or the tables have another form by now
    _, _, found = missing("| 1 | x | `unit/nothing_here`, `http/keys.py` test_that_never_was |")
    assert len(found) == 2, found
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
