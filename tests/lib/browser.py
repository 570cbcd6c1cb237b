# SPDX-License-Identifier: MIT
"""A headless Chromium, led over its debugging pipe.

    with Browser() as b:
        b.open(d.url)
        b.until("document.title == 'x'")     # waits for a JavaScript condition
        b.js("document.title")               # its value
        b.type("#message", "Hello")          # as a person would, key by key
        b.click("#send")
        b.screenshot("page.png")
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from client import skip

PATIENCE = 120


def program():
    """Chromium, or the test is skipped: ./bootstrap check installs it."""
    found = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None)
    return found or skip("there is no chromium")


class Browser:
    def __init__(self, width=1280, height=900, dark=False):
        self.dir = tempfile.mkdtemp(prefix="browser-")
        to_read, self.to = os.pipe()
        self.got, to_write = os.pipe()
        # the pipe is at descriptors 3 and 4: the shell puts it there
        flags = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self.dir}",
                 f"--window-size={width},{height}",
                 "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                 "--no-default-browser-check",
                 "--disable-extensions", "--disable-component-update", "--disable-background-networking",
                 "--disable-sync",
                 "--password-store=basic", "about:blank", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        self.log = open(os.path.join(self.dir, "log"), "w+b")
        self.process = subprocess.Popen(["sh", "-c", f'exec "$@" 3<&{to_read} 4>&{to_write}', "sh", program(), *flags],
                                        pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=self.log)
        os.close(to_read)
        os.close(to_write)
        self.n, self.data, self.replies, self.said, self.requests = 0, b"", {}, [], []
        self.session = None
        page = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.dark(dark)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()
        os.close(self.to)
        os.close(self.got)
        shutil.rmtree(self.dir, ignore_errors=True)

    # ---- the protocol: JSON, each message ended by a NUL ----

    def call(self, method, **params):
        self.n += 1
        message = {"id": self.n, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while self.n not in self.replies:
            self.read(end - time.monotonic())
        reply = self.replies.pop(self.n)
        assert "error" not in reply, (method, reply["error"])
        return reply["result"]

    def read(self, seconds):
        ready, _, _ = select.select([self.got], [], [], max(seconds, 0))
        got = os.read(self.got, 1 << 20) if ready else b""
        if not got:
            self.log.seek(0)
            raise AssertionError(f"chromium said nothing for {PATIENCE} s, or "
                                 f"ended:\n{self.log.read()[-2000:].decode(errors='replace')}")
        *whole, self.data = (self.data + got).split(b"\0")
        for message in map(json.loads, whole):
            self.take(message)

    def take(self, m):
        if "id" in m:
            self.replies[m["id"]] = m
        elif m["method"] == "Runtime.exceptionThrown":
            self.said.append(m["params"]["exceptionDetails"])
        elif m["method"] == "Runtime.consoleAPICalled" and m["params"]["type"] in ("error", "warning"):
            self.said.append(m["params"]["args"])
        elif m["method"] == "Log.entryAdded" and m["params"]["entry"]["level"] == "error":
            self.said.append(m["params"]["entry"])
        elif m["method"] == "Network.requestWillBeSent":
            self.requests.append(m["params"]["request"]["url"])

    # ---- what a test says ----

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.until("document.readyState == 'complete'")

    def js(self, expression):
        r = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in r, r["exceptionDetails"]
        return r["result"].get("value")

    def until(self, condition, seconds=PATIENCE):
        """Looks again at every frame the page draws, within the page."""
        ok = self.js(f"""new Promise(done => {{
            const end = performance.now() + {seconds * 1000};
            const look = () => {{ let v; try {{ v = ({condition}); }} catch (e) {{ v = false; }}
                if (v || performance.now() > end) done(!!v); else setTimeout(look, 20); }};
            look(); }})""")
        assert ok, f"after {seconds} s still not: {condition}\n{self.text('body')}"

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")

    def click(self, selector):
        """With the mouse, where the element is."""
        x, y = self.js(f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.scrollIntoView({{block: 'nearest'}});
            const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, selector, text):
        self.js(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def press(self, key, code):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                      **({"text": "\r"} if key == "Enter" and kind == "keyDown" else {}))

    def dark(self, on):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
