#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where HTTP is served: several addresses, Unix sockets, TLS, and the pages of other origins."""
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import BUILD, need  # noqa: E402
from daemon import Daemon  # noqa: E402
from fake import Fake, chat  # noqa: E402
from plugins import until  # noqa: E402

CHAT = "/v1/chat/completions"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(connection, path="/version", headers=None):
    """One GET: (status, lower-case headers, body)."""
    connection.request("GET", path, headers=headers or {})
    r = connection.getresponse()
    body = r.read()
    connection.close()
    return r.status, {k.lower(): v for k, v in r.getheaders()}, body


def pair(folder, name):
    """Files of a certificate for 127.0.0.1 that its own key signed."""
    cert, key = (os.path.join(folder, f"{name}.{kind}") for kind in ("cert", "key"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2",
                    "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    os.chmod(key, 0o600)
    return cert, key


class Unix(unittest.TestCase):
    def setUp(self):
        self.dir = self.enterContext(tempfile.TemporaryDirectory())
        self.path = os.path.join(self.dir, "http")

    def conf(self, text):
        path = os.path.join(self.dir, "conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def dsv4d(self, *args):
        return subprocess.run([os.path.join(BUILD, "dsv4d"), "--control", os.path.join(self.dir, "control"), "--state",
                               os.path.join(self.dir, "state"), "--model",
                               os.path.join(os.environ["top_srcdir"], "etc", "tiny"), *args],
                              capture_output=True, text=True, check=False, timeout=600)

    def test_a_port_and_a_socket_at_once(self):
        conf = self.conf("[http]\nsocket_mode = 0600\n")
        with Daemon("--config", conf) as d:
            port = d.port
        with Daemon("--config", conf, "--listen", f"127.0.0.1:{port}  unix:{self.path}") as d:
            self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o600)
            self.assertEqual(ask(UnixConnection(self.path))[0], 200)
            d.port = port
            self.assertEqual(d.http("GET", "/version")[0], 200)
            self.assertIn(f"127.0.0.1:{port} unix:{self.path}", d.log())
        self.assertFalse(os.path.exists(self.path))

    def test_limits_of_an_address_and_certificates_are_none_of_a_socket(self):
        text = "[http]\nmax_connections_per_address = 2\n"
        if shutil.which("openssl"):
            cert, key = pair(self.dir, "a")
            text += f"tls_cert = {cert}\ntls_key = {key}\n"
        with Daemon("--config", self.conf(text), "--listen", f"unix:{self.path} 127.0.0.1:0"):
            kept = [UnixConnection(self.path) for _ in range(6)]
            for c in kept:
                c.request("GET", "/version")
                self.assertEqual(c.getresponse().read()[:1], b"{")
            for c in kept:
                c.close()

    def test_a_stale_socket_is_replaced_and_a_live_one_is_not(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(self.path)  # and nobody listens: what a killed process leaves
        with Daemon("--listen", f"unix:{self.path}"):
            self.assertEqual(ask(UnixConnection(self.path))[0], 200)
            r = self.dsv4d("--listen", f"unix:{self.path}")
            self.assertEqual(r.returncode, 75, r.stderr)
            self.assertIn("listens here", r.stderr)
            self.assertEqual(ask(UnixConnection(self.path))[0], 200)

    def test_what_is_no_socket_is_left_alone(self):
        with open(self.path, "w", encoding="utf-8") as f:
            f.write("mine")
        r = self.dsv4d("--listen", f"unix:{self.path}")
        self.assertEqual(r.returncode, 75, r.stderr)
        self.assertIn("is no socket", r.stderr)
        with open(self.path, encoding="utf-8") as f:
            self.assertEqual(f.read(), "mine")

    def test_a_path_that_is_too_long_says_so(self):
        r = self.dsv4d("--listen", f"unix:{self.dir}/{'x' * 110}")
        self.assertEqual(r.returncode, 75, r.stderr)
        self.assertIn("at most 107 bytes", r.stderr)

    def test_wrong_addresses_are_refused_by_the_configuration(self):
        for listen in ("unix:relative", "unix:", "127.0.0.1:80 nonsense", "127.0.0.1:80 unix:x", "http://127.0.0.1:80"):
            r = self.dsv4d("-t", "--config", self.conf(""), "--listen", listen)
            self.assertEqual(r.returncode, 78, (listen, r.stderr))


class Several(unittest.TestCase):
    def test_all_ports_serve_and_stop(self):
        with Fake(listen="127.0.0.1:0 [::1]:0 127.0.0.1:0") as f:
            ports = [a.rpartition(":")[2] for a in f.addresses]
            self.assertEqual(len(set(ports)), 3)
            for address, port in zip(("127.0.0.1", "::1", "127.0.0.1"), ports):
                self.assertEqual(ask(http.client.HTTPConnection(address, int(port), timeout=60))[0], 200)


@unittest.skipUnless(shutil.which("openssl"), "no openssl")
class Tls(unittest.TestCase):
    def setUp(self):
        self.dir = self.enterContext(tempfile.TemporaryDirectory())
        self.cert, self.key = self.pair("a")

    def pair(self, name):
        return pair(self.dir, name)

    def connect(self, port, cert):
        return http.client.HTTPSConnection("127.0.0.1", port, timeout=60,
                                           context=ssl.create_default_context(cafile=cert))

    def test_the_certificate_is_the_one_in_the_file(self):
        other, _ = self.pair("b")
        with Fake(tls_cert=self.cert, tls_key=self.key) as f:
            self.assertEqual(ask(self.connect(f.port, self.cert))[0], 200)
            with self.assertRaises(ssl.SSLCertVerificationError):
                ask(self.connect(f.port, other))
            with self.assertRaises((http.client.HTTPException, OSError)):  # no plain text beside it
                ask(http.client.HTTPConnection("127.0.0.1", f.port, timeout=60))

    def test_a_new_certificate_at_a_reload_and_the_old_one_when_it_is_bad(self):
        with Fake(tls_cert=self.cert, tls_key=self.key) as f:
            kept = self.connect(f.port, self.cert)
            kept.request("GET", "/version")
            kept.getresponse().read()
            old = self.cert + ".old"
            shutil.copy(self.cert, old)
            new, key = self.pair("b")
            shutil.copy(new, self.cert)
            self.assertIn("is not the key of", f.command("reload"))
            self.assertEqual(ask(self.connect(f.port, old))[0], 200)
            shutil.copy(key, self.key)
            self.assertEqual(f.command("reload"), "ok")
            self.assertEqual(ask(self.connect(f.port, new))[0], 200)
            with self.assertRaises(ssl.SSLCertVerificationError):
                ask(self.connect(f.port, old))
            self.assertEqual(ask(kept)[0], 200)  # a connection that stands goes on
            os.chmod(self.key, 0o644)
            self.assertIn("chmod", f.command("reload"))

    def test_streams_and_goodbyes(self):
        with Fake(tls_cert=self.cert, tls_key=self.key, keep_alive=1e-9) as f:
            def stream(script):
                c = self.connect(f.port, self.cert)
                c.request("POST", CHAT, json.dumps({**chat(script), "stream": True}),
                          {"Content-Type": "application/json"})
                return c, c.getresponse()
            c, r = stream("w|c0123456789|*20000|s")
            self.assertTrue(r.readline().startswith(b"data: "))
            f.command("release")
            text = r.read().decode()
            self.assertEqual(text.count("0123456789"), 20001)
            self.assertTrue(text.endswith("data: [DONE]\n\n"))
            for politely in (True, False):
                c, r = stream("w|s")
                r.readline()
                f.command("wait-live 1")
                if politely:
                    try:
                        c.sock.unwrap()  # says goodbye in TLS first
                    except OSError:
                        pass
                r.close()
                c.close()
                f.command("tick")
                f.command("wait-live 0")

    def test_an_endless_body_gets_its_413_in_tls_as_well(self):
        with Fake(tls_cert=self.cert, tls_key=self.key, max_body=1 << 14) as f:
            c = self.connect(f.port, self.cert)
            c.connect()
            c.sock.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: "
                           b"chunked\r\n\r\n" % CHAT.encode()
                           + (b"1000\r\n" + b"x" * 4096 + b"\r\n") * 5)
            said = b""
            while part := c.sock.recv(65536):
                said += part
            self.assertTrue(said.startswith(b"HTTP/1.1 413 ")
                            and b'"code":"too_large"' in said.replace(b'": "', b'":"'), said)
            c.close()

    def test_the_official_client(self):
        openai = need("openai")
        conf = os.path.join(self.dir, "conf")
        with open(conf, "w", encoding="utf-8") as c:
            c.write(f"[http]\ntls_cert = {self.cert}\ntls_key = {self.key}\n")
        with Daemon("--config", conf) as d:
            verify = ssl.create_default_context(cafile=self.cert)
            client = openai.OpenAI(base_url=f"https://127.0.0.1:{d.port}/v1", api_key="x", max_retries=0,
                                   http_client=openai.DefaultHttpxClient(verify=verify))
            said = [c.choices[0].delta.content or "" for c in client.chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": "Hello"}], temperature=0, stream=True)]
            self.assertIn("help", "".join(said))
            new, key = self.pair("b")
            shutil.copy(new, self.cert)
            shutil.copy(key, self.key)
            d.process.send_signal(signal.SIGHUP)

            def renewed():
                try:
                    return ask(self.connect(d.port, new))[0] == 200
                except ssl.SSLCertVerificationError:
                    return False
            until(renewed, "the new certificate", 60)

    def test_one_file_without_the_other_is_refused(self):
        conf = os.path.join(self.dir, "conf")
        for text, says in ((f"tls_cert = {self.cert}\n", "one without the other"),
                           (f"tls_cert = {self.key}\ntls_key = {self.key}\n", self.key),
                           (f"tls_cert = {self.cert}\ntls_key = {self.dir}/none\n", "No such file")):
            with open(conf, "w", encoding="utf-8") as c:
                c.write("[http]\n" + text)
            r = subprocess.run([os.path.join(BUILD, "dsv4d"), "-t", "--config", conf], capture_output=True, text=True,
                               check=False)
            self.assertEqual(r.returncode, 78, r.stderr)
            self.assertIn(says, r.stderr)


class Cors(unittest.TestCase):
    ASK = {"Origin": "https://chat.example", "Access-Control-Request-Method": "POST",
           "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os"}

    def allowed(self, headers):
        return {k: v for k, v in headers.items() if k.startswith("access-control-")}

    def test_off_by_default(self):
        with Fake() as f:
            status, headers, _ = f.http("OPTIONS", CHAT, headers=self.ASK)
            self.assertEqual((status, self.allowed(headers)), (405, {}))
            status, headers, _ = f.http("GET", "/version", headers={"Origin": "https://chat.example"})
            self.assertEqual((status, self.allowed(headers)), (200, {}))

    def test_listed_origins_only_and_without_credentials(self):
        with Fake(cors="http://localhost:3000 https://chat.example") as f:
            for path in (CHAT, "/nowhere"):
                status, headers, body = f.http("OPTIONS", path, headers=self.ASK)
                self.assertEqual((status, body), (204, b""))
                a = self.allowed(headers)
                self.assertEqual(a["access-control-allow-origin"], "https://chat.example")
                self.assertEqual(set(a["access-control-allow-methods"].split(", ")), {"GET", "HEAD", "POST", "DELETE"})
                self.assertIn("Authorization", a["access-control-allow-headers"])
                self.assertNotIn("access-control-allow-credentials", a)
                self.assertEqual(headers["vary"], "Origin")
            for got in (f.http("POST", CHAT, chat("s"), {"Origin": "https://chat.example"}),
                        f.http("GET", "/nowhere", headers={"Origin": "https://chat.example"})):
                self.assertEqual(got[1]["access-control-allow-origin"], "https://chat.example")
                self.assertIn("x-request-id", got[1]["access-control-expose-headers"])
            s = f.stream(chat("chi|s"), headers={"Origin": "http://localhost:3000"})
            self.assertEqual(s.headers["access-control-allow-origin"], "http://localhost:3000")
            self.assertEqual(list(s)[-1], "[DONE]")
            for origin in ("https://chat.example.evil", "https://chat.exampl", "http://chat.example", "null", "", "*",
                           "https://chat.example http://localhost:3000"):
                status, headers, _ = f.http("OPTIONS", CHAT, headers={**self.ASK, "Origin": origin})
                self.assertEqual((status, self.allowed(headers)), (405, {}), origin)
            self.assertEqual(f.http("OPTIONS", CHAT, headers={"Origin": "https://chat.example"})[0],
                             405)  # no such question

    def test_any_origin(self):
        with Fake(cors="*") as f:
            self.assertEqual(f.http("OPTIONS", CHAT, headers=self.ASK)[1]["access-control-allow-origin"], "*")

    def test_what_is_no_origin_is_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
            for origins in ("chat.example", "https://chat.example/", "https://", "https://chat.example/x",
                            "HTTPS://chat.example"):
                conf.seek(0)
                conf.truncate()
                conf.write(f"[http]\ncors_origins = {origins}\n")
                conf.flush()
                r = subprocess.run([os.path.join(BUILD, "dsv4d"), "-t", "--config", conf.name], capture_output=True,
                                   text=True, check=False)
                self.assertEqual(r.returncode, 78, origins)
                self.assertIn("cors_origins", r.stderr)


if __name__ == "__main__":
    unittest.main()
