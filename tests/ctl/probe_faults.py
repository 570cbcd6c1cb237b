#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Probes against servers by their URL: a sound one of another make passes, each fault of a server is told by its
check's name."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from probing import CHECKS, FAIL, PASS, WARN, bad_checks, probe  # noqa: E402
from scripted import MODEL, Served, Sound  # noqa: E402
from wrong_servers import FAULTS, ArgumentsObject  # noqa: E402


class Faults(unittest.TestCase):
    def test_a_sound_server_of_another_make_passes(self):
        with Served(Sound) as url:
            code, result = probe(url)
        self.assertEqual((code, result["verdict"], bad_checks(result)), (PASS, "pass", set()), result["why"])
        self.assertEqual(result["figures"]["context"], 32768)
        self.assertGreater(len(result["requests"]), 3)
        self.assertIn("fields: not OpenAI's, but known: ", result["why"])
        self.assertIn("completion.kv_transfer_params (null)", result["why"])

    def test_each_fault_is_told_by_its_name(self):
        for checks, handler in FAULTS:
            with self.subTest(handler.__name__), Served(handler) as url:
                code, result = probe(url, "--patience", "1")
                self.assertEqual((code, result["verdict"]), (FAIL, "fail"), result)
                self.assertEqual(bad_checks(result), checks, result["why"])
                for check in checks:
                    self.assertIn(f"{check}: ", result["why"])
                self.assertIn(handler.__doc__, result["why"])

    def test_arguments_that_are_an_object_are_of_the_wrong_type_too(self):
        with Served(ArgumentsObject) as url:
            code, result = probe(url)
        self.assertEqual((code, bad_checks(result)), (FAIL, {"tools", "fields"}), result["why"])
        self.assertIn("function.arguments (object)", result["why"])

    def test_fields_that_nobody_knows_are_a_warning(self):
        class Extra(Sound):
            def completion(self, message, finish):
                return {**super().completion(message, finish), "mood": "sunny"}

        with Served(Extra) as url:
            code, result = probe(url)
        self.assertEqual((code, result["verdict"], bad_checks(result)), (WARN, "warn", {"fields"}), result["why"])
        self.assertIn("unknown: completion.mood (string)", result["why"])

    def test_every_check_runs_on_a_server_that_answers_nothing(self):
        class Broken(Sound):
            def do_POST(self):
                self.vanish()

            do_GET = do_POST

        with Served(Broken) as url:
            code, result = probe(url, "--model", MODEL)
        self.assertEqual((code, bad_checks(result)), (FAIL, CHECKS), result["why"])


if __name__ == "__main__":
    unittest.main()
