#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`probe run api` of the daemon goes through the daemon's own front."""
import hashlib
import os
import secrets
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from daemon import Daemon  # noqa: E402
from probing import CONNECT, PASS, WARN, bad_checks, dsv4ctl, ok_or, probe  # noqa: E402
from scenario import ok  # noqa: E402


class Front(unittest.TestCase):
    def setUp(self):
        self.dir = self.enterContext(tempfile.TemporaryDirectory())

    def file(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, 0o600)
        return path

    def key_file(self, *limits):
        salt = secrets.token_bytes(16)
        digest = hashlib.sha256(salt + b"users").hexdigest()
        return self.file("keys", " ".join(["user", f"sha256${salt.hex()}${digest}", *limits]) + "\n")

    def api(self, d):
        result = ok(d, "probe", "run", "api")["results"][0]
        self.assertEqual((result["verdict"], bad_checks(result)), ("pass", set()), result["why"])
        return result

    def test_without_keys(self):
        with Daemon() as d:
            self.assertIn("auth: open, no key is needed; only this machine", self.api(d)["why"])
            self.assertIn("method=GET path=/v1/models", d.log())

    def test_with_keys_it_has_one_of_its_own_past_every_limit(self):
        keys = self.key_file("requests_per_minute=1", "concurrent=1")
        with Daemon("--config", self.file("conf", f"[http]\nkeys = {keys}\n")) as d:
            for _ in range(2):
                result = self.api(d)
            self.assertNotIn("open", result["why"])
            self.assertEqual(len(result["requests"]), 5)
            labels = {r["label"] for r in ok(d, "request", "list")["requests"]}
            self.assertEqual(labels, {"probe"})
            self.assertEqual(d.http("GET", "/v1/models")[0], 401)
            # Whoever looks finds no key.
            self.assertNotIn("sk-dsv4-", d.log())

    def test_its_key_is_another_at_each_start_and_no_one_elses(self):
        keys = self.key_file()
        with Daemon("--config", self.file("conf", f"[http]\nkeys = {keys}\n")) as d:
            for key in ("", "probe", "users2", "sk-dsv4-" + "0" * 48):
                self.assertEqual(d.http("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})[0], 401, key)
            self.assertEqual(d.http("GET", "/v1/models", headers={"Authorization": "Bearer users"})[0], 200)

    def test_over_tls(self):
        cert, key = os.path.join(self.dir, "cert"), os.path.join(self.dir, "key")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "2", "-subj", "/CN=elsewhere.example", "-keyout", key, "-out", cert],
                       check=True, capture_output=True)
        os.chmod(key, 0o600)
        with Daemon("--config", self.file("conf", f"[http]\ntls_cert = {cert}\ntls_key = {key}\n")) as d:
            self.api(d)
            # Others have its certificate checked.
            code, _, err = dsv4ctl("probe", "run", "api", "--url", f"https://127.0.0.1:{d.port}", "--patience", "5")
            self.assertEqual(code, CONNECT, err)
            self.assertIn("certificate", err)

    def test_over_a_unix_socket(self):
        path = os.path.join(self.dir, "http")
        with Daemon("--listen", f"unix:{path}") as d:
            self.api(d)
            code, result = probe(f"unix:{path}")
            self.assertEqual((code, bad_checks(result)), (PASS, set()), result["why"])

    def test_any_address_is_reached_by_the_loopback_one(self):
        with Daemon("--config", self.file("conf", "[http]\nallow_no_keys = yes\n"), "--listen", "0.0.0.0:0") as d:
            result = ok_or(d, WARN, "probe", "run", "api")["results"][0]
            self.assertEqual((result["verdict"], bad_checks(result)), ("warn", {"auth"}), result["why"])
            self.assertIn("auth: open, no key is needed, and other machines can reach it", result["why"])


if __name__ == "__main__":
    unittest.main()
