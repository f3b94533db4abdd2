#!/usr/bin/env python3
"""Opens the live pages of `rpc_tracker --http` and `autotune tune --http` in headless Chromium.

Starts a tracker and two device servers, tunes examples/resnet20.onnx on them for a moment, and looks at both pages at
three widths, light and dark. What the pages show must be what /status.json says; they must report no error, ask nobody
but their own server, say so when that is gone, and come back when it is. --keep FOLDER keeps pictures.
Without Chromium, the test is skipped.
"""
import argparse
import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from browser import Browser, find_chromium  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTHS = (400, 1000, 1600)
HOSTILE = ["<script>alert(1)</script>", "\"quotes' & &amp;", "x" * 5000, "\u202e\u05e9\u05dc\u05d5\u05dd right to left", "a\u2028b",
           "<img src=http://127.0.0.1:1/x onerror=alert(1)>", "__proto__", "constructor"]
NOW = "new Promise((done) => setTimeout(done, %d))"
options = None


def soon(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    return condition()


def get(url):
    with urllib.request.urlopen(url, timeout=20) as response:
        return response.read()


class FakeServer:
    """Serves a page's files from `url`, and events that a test sets: for states that no tracker would make up."""

    def __init__(self, url, state):
        fake = self
        self.state = state

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                if self.path == "/events":
                    self.send_response(200)
                    self.send_header("Content-Type", "text/event-stream")
                    self.end_headers()
                    try:
                        while fake.state:
                            self.wfile.write(b"event: state\ndata: " + json.dumps(fake.state).encode() + b"\n\n")
                            self.wfile.flush()
                            time.sleep(1)
                    except OSError:
                        pass
                    return
                with urllib.request.urlopen(url + self.path[1:]) as original:
                    body = original.read()
                    self.send_response(200)
                    for name in ("Content-Type", "Content-Security-Policy"):
                        self.send_header(name, original.headers[name])
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # a browser that goes on to another page
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.state = None
        self.server.shutdown()
        self.server.server_close()


class LivePages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        os.environ.update(XDG_STATE_HOME=str(cls.path / "s"), XDG_RUNTIME_DIR=str(cls.path / "r"),
                          AUTOTUNE_HOST_LOCK=str(cls.path / "lock"), AUTOTUNE_DB=str(cls.path / "tuned.db"))
        (cls.path / "r").mkdir(mode=0o700)
        cls.programs = pathlib.Path(options.autotune).parent
        cls.processes = []
        cls.port = 0
        cls.start_tracker()
        for key in ("zen4", "rpi4"):
            cls.spawn("rpc_server", "--key", key)
        assert soon(lambda: [d["state"] for d in cls.status()["devices"].values()] == ["free", "free"]), cls.status()
        cls.browser = Browser(find_chromium())

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        for process in reversed(cls.processes):
            process.kill()
            process.wait()
        cls.folder.cleanup()

    @classmethod
    def spawn(cls, program, *arguments):
        with open(cls.path / f"{program}.log", "ab") as log:
            process = subprocess.Popen([str(cls.programs / program), *arguments], stdout=log, stderr=log, cwd=cls.path)
        cls.processes.append(process)
        return process

    @classmethod
    def start_tracker(cls):
        (cls.path / "rpc_tracker.log").write_bytes(b"")
        cls.tracker = cls.spawn("rpc_tracker", "--http", f"127.0.0.1:{cls.port}")
        found = soon(lambda: re.search(r"page at (http://\S+/)\n", (cls.path / "rpc_tracker.log").read_text()))
        cls.url = found[1]
        cls.port = int(cls.url.split(":")[-1].strip("/"))

    @classmethod
    def status(cls, url=None):
        return json.loads(get((url or cls.url) + "status.json"))

    def setUp(self):
        self.browser.open("about:blank")  # the page of the test before may still ask for its server
        self.browser.problems.clear()
        self.browser.own = ("http://127.0.0.1:",)

    def open(self, url, width=1000, dark=False):
        self.browser.view(width, dark=dark)
        self.browser.open(url)
        self.assertTrue(soon(lambda: self.news() == "Live"), self.news())

    def news(self):
        return self.browser.run("document.querySelector('.news').textContent")

    def look(self, url, name, check=None):
        for width in WIDTHS:
            for dark in (False, True):
                self.open(url, width, dark)
                self.browser.run(NOW % 300)
                self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width, name)
                if check:
                    check()
                if options.keep:
                    self.browser.picture(pathlib.Path(options.keep) / f"{name}-{width}-{'dark' if dark else 'light'}.png")
        self.assertEqual(self.browser.problems, [])

    def rows(self):
        return self.browser.run("""[...document.querySelectorAll('#devices-table tbody tr')].map((row) => ({id: row.id.slice(7),
          state: row.dataset.state, holder: row.dataset.holder, key: row.querySelector('strong').textContent,
          strip: row.querySelector('.strip').getAttribute('aria-label')}))""")

    def check_devices(self):
        expected = {i: (d["key"], d["state"]) for i, d in self.status()["devices"].items()}
        self.assertEqual({row["id"]: (row["key"], row["state"]) for row in self.rows()}, expected)

    def test_a_run_on_the_farm_is_seen_on_both_pages(self):
        tune = subprocess.Popen([options.autotune, "tune", "--model", str(ROOT / "examples/resnet20.onnx"), "--trials", "300", "--key", "zen4",
                                 "--http", "127.0.0.1:0", "-o", str(self.path / "m.tar")], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                text=True, cwd=self.path)
        self.processes.append(tune)
        self.addCleanup(lambda: (tune.kill(), tune.wait()))  # so that a failure here disturbs no other test
        lines = []
        threading.Thread(target=lambda: lines.extend(iter(tune.stderr.readline, "")), daemon=True).start()
        url = soon(lambda: next((line.split(": ")[1].strip() for line in lines if line.startswith("live page of this run: ")), None))
        self.assertTrue(url, lines)
        self.assertTrue(soon(lambda: self.status(url).get("round", {}).get("best_ms"), 120), lines)
        self.assertTrue(soon(lambda: any(job["curve"] for job in self.status()["jobs"].values())), self.status()["jobs"])

        self.open(self.url)
        card = soon(lambda: self.browser.run("document.querySelector('.job')?.innerText || ''"), 30)  # while it runs
        self.assertIn("resnet20", card or "no card")
        self.look(self.url, "farm", self.check_devices)
        self.open(self.url)
        busy = lambda: [row for row in self.rows() if row["state"] == "busy"]
        self.assertTrue(all(row["holder"] for row in busy()), busy())
        # A half minute of the strip has the state of most of it.
        self.assertTrue(soon(lambda: all("busy" in row["strip"] for row in busy()), 60), busy())
        run, job = next(iter(self.status()["jobs"].items()))
        self.assertEqual(job["network"], "resnet20")

        self.open(url)
        first = self.status(url)["round"]
        drawn = "Chart.getChart('best').data.datasets[0].data.map((p) => p.x)"
        if not soon(lambda: self.browser.run("Boolean(Chart.getChart('best'))"), 10):
            self.fail("no chart")
        before = self.browser.run(drawn)
        if tune.poll() is None and not self.status(url).get("ended"):
            grown = soon(lambda: tune.poll() is not None or self.browser.run(drawn)[-1] > before[-1], 120)
            self.assertTrue(grown, "the curve grows")
        if tune.poll() is None:
            self.look(url, "tune")
        if tune.poll() is None:
            self.browser.open(url + "report")
            self.assertEqual(self.browser.run("document.querySelector('h1').textContent"), "tuned.db")
            self.assertTrue(self.browser.run("Boolean(Object.keys(Chart.instances).length)"), "its charts are drawn")
            self.open(url)
        ended = soon(lambda: "ended" in self.news(), 300)
        self.assertTrue(ended, self.news())
        self.assertGreaterEqual(int(self.browser.run("document.querySelector('[data-field=trials]').dataset.value")), first["trials"])
        self.assertEqual(tune.wait(60), 0)
        self.browser.run(NOW % 9000)
        self.assertIn("ended", self.news(), "its end is not a lost connection")
        if options.keep:
            self.browser.picture(pathlib.Path(options.keep) / "tune-ended.png")
        self.assertTrue(soon(lambda: self.status()["jobs"][run]["state"] == "done"), self.status()["jobs"])
        problems = [p for p in self.browser.problems if "ERR_" not in p]
        self.assertEqual(problems, [])

    def test_without_its_tracker_the_page_says_so_and_comes_back(self):
        self.open(self.url)
        os.kill(self.tracker.pid, signal.SIGSTOP)
        self.assertTrue(soon(lambda: self.news().startswith("Not live: no news from the tracker since "), 20), self.news())
        self.assertTrue(self.browser.run("document.body.classList.contains('stale')"))
        age = "document.querySelector('.tiles time').textContent"
        before = self.browser.run(age)
        self.browser.run(NOW % 2500)
        self.assertEqual(self.browser.run(age), before, "times of the past do not grow")
        os.kill(self.tracker.pid, signal.SIGCONT)
        self.assertTrue(soon(lambda: self.news() == "Live", 20), self.news())
        self.tracker.kill()
        self.tracker.wait()
        self.assertTrue(soon(lambda: self.news().startswith("Not live"), 20), self.news())
        self.start_tracker()
        self.assertTrue(soon(lambda: self.news() == "Live", 30), self.news())
        self.assertTrue(soon(lambda: [row["state"] for row in self.rows()] == ["free", "free"], 30), self.rows())

    def test_nothing_is_replaced_while_nothing_happens(self):
        self.open(self.url)
        self.browser.run("""window.changes = 0; new MutationObserver((list) => {
          for (const m of list) if (m.type === 'childList' && !m.target.closest('time, .news')) ++changes; }).observe(
          document.querySelector('main'), {childList: true, subtree: true})""")
        self.browser.run("document.querySelector('#filter').focus()")
        self.browser.run(NOW % 3500)
        self.assertEqual(self.browser.run("changes"), 0)
        self.assertEqual(self.browser.run("document.activeElement.id"), "filter")
        self.browser.run("document.querySelector('#filter').value = 'rpi4'; document.querySelector('#filter').dispatchEvent(new Event('input'))")
        self.assertEqual([row["key"] for row in self.rows()], ["rpi4"])
        self.assertEqual(self.browser.problems, [])

    def test_hostile_names_are_text(self):
        state = self.status()
        now = state["now"]
        device = next(iter(state["devices"].values()))
        state["devices"] = {f"{i:08d}": {**device, "key": name[:256], "model": name, "why": name, "holder": name, "job": name, "state": name[:64],
                                         "lease": "1234", "since": now, "trials": {name[:64]: 3}, "error": name} for i, name in enumerate(HOSTILE)}
        state["devices"]["__proto__"] = {**device, "key": "proto"}
        state["queue"] = {f"k/{i}": {"key": name, "place": i, "since": now, "holder": name, "job": name, "why": name} for i, name in enumerate(HOSTILE)}
        state["holds"] = {name[:64]: {"how": "drain", "who": name, "note": name} for name in HOSTILE}
        state["jobs"] = {f"run{i}": {"state": "running", "network": name, "holder": name, "key": name, "task": name, "trials": 8, "planned": 9,
                                     "records": 9, "began": now, "curve": {"4": 2.0, "8": 1.0}, "outcomes": {name[:64]: 4}, "phase": name}
                         for i, name in enumerate(HOSTILE)}
        state["jobs"]["ended"] = {**state["jobs"]["run0"], "state": "done", "ended": now, "result": HOSTILE[2]}
        # Addresses and file names of members: only those of the web become links.
        state["jobs"]["ended"].update(report="javascript:alert(1)", database="/tmp/a'; rm -rf ~ #<b>.db")
        state["jobs"]["run0"].update(page="http://good.example@evil.example/")
        state["faults"] = [{"at": now, "text": name} for name in HOSTILE]
        with FakeServer(self.url, state) as fake:

            def check():
                shown = self.browser.run("document.querySelector('main').textContent")
                for name in HOSTILE:
                    self.assertIn(name, shown)
                self.assertEqual(self.browser.run("document.querySelectorAll('main img, main script').length"), 0)
                self.assertEqual(len(self.rows()), len(HOSTILE) + 1)
                self.assertEqual(self.links(), [])
                self.assertEqual(self.browser.run("getComputedStyle(document.querySelector('#holds li span')).unicodeBidi"), "isolate",
                                 "a note must not turn the button beside it around")
                table = self.browser.run("document.querySelector('#devices-table').innerText")  # what is not hidden
                self.assertIn(HOSTILE[0], table)
                self.assertIn("held by" if self.browser.run("innerWidth") > 700 else "held by " + HOSTILE[0], table)
                self.assertIn("autotune report --db '/tmp/a'\\''; rm -rf ~ #<b>.db' -o report.html", shown)

            self.look(fake.url, "hostile", check)

    def links(self):
        return self.browser.run("[...document.querySelectorAll('main a[href]')].filter((a) => a.checkVisibility()).map((a) => [a.href, a.rel, a.textContent])")

    def test_links_lead_to_pages_that_are_served(self):
        state = self.status()
        now = state["now"]
        job = {"state": "running", "network": "net", "holder": "ann@lab:7", "key": "pi", "trials": 8, "planned": 9, "records": 9, "began": now,
               "curve": {"4": 2.0, "8": 1.0}, "outcomes": {"ok": 8}, "database": "/home/ann/tuned.db"}
        ended = {**job, "state": "done", "ended": now, "seconds": 4000, "result": "twice as fast"}
        state["jobs"] = {"here": {**job, "page": "http://127.0.0.1:4001/", "here": True}, "there": {**job, "page": "http://127.0.0.1:4002/"},
                         "silent": {**job, "page": "http://127.0.0.1:4003/", "here": True, "silent": now},
                         "published": {**ended, "report": "https://lab.example/r.html?a=1#b"}, "made": ended,
                         "lost": {**ended, "database": None}, "new": {**job, "trials": 0, "curve": {}}}
        with FakeServer(self.url, state) as fake:

            def check():
                self.assertEqual(self.links(), [[url, "noopener noreferrer", url] for url in ("http://127.0.0.1:4001/", "https://lab.example/r.html?a=1#b")])
                shown = self.browser.run("document.querySelector('main').innerText")
                self.assertIn("for browsers on its host: http://127.0.0.1:4002/", shown)
                self.assertNotIn("4003", shown, "the run may have been killed")
                figures = self.browser.run("[...document.querySelectorAll('.job figure')].map((f) => f.checkVisibility())")
                self.assertEqual(sorted(figures), [False, True, True, True], "a run without trials has no curve yet")
                self.assertEqual(shown.count("autotune report --db /home/ann/tuned.db -o report.html"), 1)
                self.assertEqual(shown.count("Report, on its host"), 1)
                self.assertEqual(shown.count("Report: "), 1)

            self.look(fake.url, "links", check)
            self.assertIn("66 min", self.browser.run("document.querySelector('#ended-table').innerText"))

    def test_another_run_at_the_same_address_shows_nothing_of_the_former(self):
        tune = subprocess.Popen([options.autotune, "tune", "--model", str(ROOT / "examples/resnet20.onnx"), "--trials", "100000", "--key", "rpi4",
                                 "--http", "127.0.0.1:0", "-o", str(self.path / "n.tar")], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                text=True, cwd=self.path)
        self.processes.append(tune)
        self.addCleanup(lambda: (tune.kill(), tune.wait()))
        lines = iter(tune.stderr.readline, "")
        url = next(line.split(": ")[1].strip() for line in lines if line.startswith("live page of this run: "))
        threading.Thread(target=lambda: list(lines), daemon=True).start()
        later = self.status(url)
        later.update(began=later["now"], curve={}, tasks={}, speeds={}, phase="searching")
        task = {"label": "conv", "curve": {"8": 2.0, "16": 1.5}, "best_ms": 1.5}
        first = {**later, "began": later["now"] - 60000, "curve": {"8": 4.0, "16": 3.0}, "tasks": {"aa": task}, "speeds": {"4": 2.0},
                 "round": {"trials": 16, "planned_trials": 64, "outcomes": {"ok": 14, "rejected": 2}, "tasks": 1, "tasks_measured": 1, "best_ms": 3.0,
                           "task": "conv", "hash": "aa"}}
        drawn = "Object.values(Chart.instances).map((chart) => chart.canvas.id).sort()"
        with FakeServer(url, first) as fake:
            self.open(fake.url)
            self.assertTrue(soon(lambda: self.browser.run(drawn) == ["best", "failures", "speeds", "task-best"], 20), self.browser.run(drawn))
            for chart in ("best", "task-best"):
                self.assertEqual(self.browser.run(f"Chart.getChart('{chart}').scales.x.max"), 64, "the axis stays while the run goes on")
            self.browser.run("window.former = true")
            self.browser.run(NOW % 2500)
            self.assertTrue(self.browser.run("window.former"), "a page stays while its run does")
            fake.state = later
            fresh = "!window.former && document.querySelector('.news')?.textContent === 'Live'"
            self.assertTrue(soon(lambda: self.browser.run(fresh), 20), self.browser.run("document.body.innerText"))
            self.assertEqual(self.browser.run(drawn), [])
            self.assertEqual(self.browser.problems, [])
        tune.send_signal(signal.SIGINT)
        tune.wait(120)

    def test_a_thousand_devices_are_shown(self):
        state = self.status()
        device = next(iter(state["devices"].values()))
        state["devices"] = {f"{i:08x}": {**device, "key": f"board{i % 7}", "state": ("free", "busy", "unreachable")[i % 3],
                                         "strip": "".join("fbhx."[(i * j) % 5] for j in range(120))} for i in range(1000)}
        with FakeServer(self.url, state) as fake:
            self.open(fake.url)
            self.assertEqual(len(self.rows()), 1000)
            self.assertEqual(self.browser.problems, [])  # before the server ends, which the page reports


def main():
    global options
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--autotune", required=True)
    parser.add_argument("--keep", metavar="FOLDER", help="keep pictures there")
    options, rest = parser.parse_known_args()
    options.autotune = os.path.abspath(options.autotune)
    if not find_chromium():
        print("skipped: needs chromium")
        return
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
