#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""dsv4-api(7) is right: it names every field of the tables and every repair of the parser, and its examples are
taken."""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import SRC  # noqa: E402
from fake import Fake  # noqa: E402

PAGE = os.path.join(SRC, "man", "dsv4-api.7")


def read(*path):
    with open(os.path.join(SRC, *path), encoding="utf-8") as f:
        return f.read()


def example(name):
    """The display between the comments `begin NAME` and `end`."""
    text = read("man", "dsv4-api.7").partition(f'.\\" begin {name}\n')[2].partition('.\\" end\n')[0]
    return json.loads("".join(line + "\n" for line in text.splitlines() if not line.startswith(".")))


def listed(list_, table):
    """The fields between the comments `begin LIST TABLE` and `end`."""
    text = read("man", "dsv4-api.7").partition(f'.\\" begin {list_} {table}\n')[2].partition('.\\" end\n')[0]
    return [word for line in text.splitlines() if line.startswith(".Va ") for word in re.findall(r"\w+", line[4:])]


class Page(unittest.TestCase):
    def test_it_is_a_man_page(self):
        if not shutil.which("mandoc"):
            self.skipTest("no mandoc here")
        r = subprocess.run(["mandoc", "-Tlint", "-Wwarning", PAGE], capture_output=True, text=True, check=False)
        self.assertEqual((r.returncode, r.stdout), (0, ""))

    def test_it_names_every_repair(self):
        table = read("engine", "text", "completion.h").partition("#define COMPLETION_FLAGS(X)")[2].partition("\n\n")[0]
        flags = re.findall(r'X\([A-Z_]+, "([a-z_]+)"', table)
        self.assertGreater(len(flags), 10)
        section = read("man", "dsv4-api.7").partition("WHAT BECOMES OF DAMAGED CALLS")[2].partition(".Sh ")[0]
        self.assertEqual(re.findall(r"^\.It Sy (\w+)$", section, re.M), flags)

    def test_its_lists_of_fields_are_the_tables(self):
        n = 0
        for table in ("request/common_fields", "request/settings_fields", "request/chat_fields",
                      "completions/completions_fields", "anthropic/anthropic_fields", "responses/responses_fields"):
            for list_, rows in (("served", "REAL|INT|FLAG"), ("refused", "REFUSED"), ("only", "ONLY"),
                                ("remarks", "REMARK")):
                code = re.findall(rf"^(?:{rows})\((\w+),", read("api", table + ".def"), re.M)
                page = listed(list_, table.partition("/")[2])
                self.assertEqual(page, code, (table, list_))
                n += len(code)
        self.assertGreater(n, 150)
        for list_, rows in (("refused_in", "REFUSED_IN"), ("only_in", "ONLY_IN"), ("remarks_in", "REMARK_IN")):
            code = re.findall(rf"^{rows}\((\w+), (\w+),", read("api", "request", "common_fields.def"), re.M)
            self.assertTrue(code)
            self.assertEqual(listed(list_, "common_fields"), [word for pair in code for word in pair], list_)

    def test_its_examples_are_taken(self):
        want = {"call.json": {"calls": "named", "function": "get_weather", "thinking": False},
                "json.json": {"format": "json_schema", "max_reasoning": 64, "thinking": True}}
        with Fake() as fake:
            for name, spec in want.items():
                body = example(name)
                body["messages"][-1]["content"] = "s"  # a script
                status, _, answer = fake.http("POST", "/v1/chat/completions", body)
                self.assertEqual(status, 200, answer)
                last = json.loads(fake.command("last"))
                self.assertEqual({k: last.get(k) for k in spec}, spec)


if __name__ == "__main__":
    unittest.main()
