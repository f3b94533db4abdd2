"""Opens pages in headless Chromium, by its debugging protocol over two pipes. Needs nothing but Python and Chromium."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium():
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One browser with one page. `problems` has what the page did wrong: errors, and requests to anywhere else."""

    def __init__(self, program, timeout=120):
        self.timeout = timeout
        self.problems = []
        self.own = ()  # beginnings of addresses that pages may ask
        self.next_id = 0
        self.buffer = b""
        self.profile = tempfile.mkdtemp(prefix="browser-")
        to_read, self.to = os.pipe()
        self.back, back_write = os.pipe()

        def connect():  # the protocol's descriptors are 3 and 4
            high = [os.dup2(fd, 100 + i) for i, fd in enumerate((to_read, back_write))]
            for fd, number in zip(high, (3, 4)):
                os.dup2(fd, number, inheritable=True)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
             "--disable-background-networking", "--no-first-run", f"--user-data-dir={self.profile}", "about:blank"],
            preexec_fn=connect, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(back_write)
        self.session = None
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def call(self, method, **parameters):
        self.next_id += 1
        message = {"id": self.next_id, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        wanted = self.next_id
        return self.wait(lambda m: m.get("id") == wanted, method)

    def wait(self, fits, what):
        end = time.monotonic() + self.timeout
        while True:
            while b"\0" in self.buffer:
                text, self.buffer = self.buffer.split(b"\0", 1)
                message = json.loads(text)
                self.note(message)
                if fits(message):
                    if "error" in message:
                        raise RuntimeError(f"{what}: {message['error']}")
                    return message.get("result", message.get("params"))
            if not select.select([self.back], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"the browser did not answer {what}")
            part = os.read(self.back, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self.buffer += part

    def note(self, message):
        method, data = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = data["exceptionDetails"]
            self.problems.append("exception: " + details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and data["type"] in ("error", "warning", "assert"):
            self.problems.append("console: " + str([a.get("value") for a in data["args"]]))
        elif method == "Log.entryAdded" and data["entry"]["level"] in ("error", "warning"):
            self.problems.append("log: " + data["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url = data["request"]["url"]
            if not url.startswith(("file:", "data:", "about:", *self.own)):
                self.problems.append("request: " + url)

    def view(self, width, height=900, dark=False, media=""):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, path):
        """Opens a file, or an address of HTTP. Returns the seconds until the page had loaded."""
        begin = time.monotonic()
        url = str(path)
        self.call("Page.navigate", url=url if url.startswith(("http:", "about:")) else "file://" + os.path.abspath(path))
        self.wait(lambda m: m.get("method") == "Page.loadEventFired", "Page.navigate")
        return time.monotonic() - begin

    def run(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description"))
        return result["result"].get("value")

    def picture(self, path, height=None):
        """Writes a PNG of the whole page, or of its first `height` pixels."""
        if height is None:
            height = self.run("document.documentElement.scrollHeight")
        width = self.run("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def pdf(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"]))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (OSError, RuntimeError, TimeoutError):
            self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
