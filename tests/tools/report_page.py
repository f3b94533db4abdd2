#!/usr/bin/env python3
"""Opens the pages of `autotune report` and `autotune compare` in headless Chromium.

Tunes examples/resnet20.onnx for a moment, and looks at its report, at that of the database, at a comparison, at names
that are meant to break pages, and at a thousand kernels: at three widths, light and dark. The numbers that the page
shows must be those of --json; the page must report no error and request nothing. --keep FOLDER keeps pictures of all.
Without Chromium, the test is skipped; --install installs it (Debian).
"""
import argparse
import copy
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from browser import Browser, find_chromium  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTHS = (400, 1000, 1600)
HOSTILE = ["<script>alert(1)</script>", "</script><script>throw 1</script>", "<!--<script>", "\"quotes' & &amp;",
           "x" * 5000, "\u202e\u05e9\u05dc\u05d5\u05dd right to left", "a\u2028b\u2029c", "\x1b[31m\x00",
           "<img src=http://127.0.0.1:1/x onerror=alert(1)>", "__proto__", ""]
# What the page shows, by field and row: {row: {field: value}}, and the numbers at its top.
READ = """(() => {
  const rows = {};
  for (const tr of document.querySelectorAll('table.wide tbody tr[id]')) {
    const row = rows[tr.id] = {};
    for (const td of tr.querySelectorAll('td[data-field]')) row[td.dataset.field] = td.dataset.value;
  }
  const top = {};
  for (const span of document.querySelectorAll('dl.tiles .number')) top[span.dataset.field] = Number(span.dataset.value);
  return {rows, top, wide: document.documentElement.scrollWidth, title: document.title,
    text: document.querySelector('main').innerText};
})()"""
# Charts: their pixels that are not empty, and whether each has a text for screen readers.
CHARTS = """[...document.querySelectorAll('canvas')].map((canvas) => {
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let inked = 0;
  for (let i = 3; i < pixels.length; i += 4) inked += pixels[i] > 0;
  return {id: canvas.id, inked, role: canvas.getAttribute('role'), label: canvas.getAttribute('aria-label')};
})"""
options = None


def numbers_agree(shown, value):
    if value is None:
        return shown == ""
    return shown != "" and abs(float(shown) - value) <= 1e-9 * max(1, abs(value))


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        os.environ["AUTOTUNE_DB"] = str(cls.path / "tuned.db")
        model = str(ROOT / "examples/resnet20.onnx")
        cls.autotune("tune", "--model", model, "--trials", "32", "-o", cls.path / "tuned.tar", "-q")
        cls.autotune("compile", "--model", model, "--no-records", "-o", cls.path / "untuned.tar", "-q")
        cls.browser = Browser(find_chromium())

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    @classmethod
    def autotune(cls, *arguments):
        command = [options.autotune, *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def setUp(self):
        self.browser.problems.clear()

    def make(self, name, *arguments):
        """Makes a page, and returns its numbers as --json prints them."""
        return json.loads(self.autotune(*arguments, "--json", "-o", self.path / f"{name}.html"))

    def look(self, name, check):
        """Calls `check` with what the page shows at every width, light and dark."""
        for width in WIDTHS:
            for dark in (False, True):
                self.browser.view(width, dark=dark)
                seconds = self.browser.open(self.path / f"{name}.html")
                shown = self.browser.run(READ)
                self.assertLessEqual(shown["wide"], width, f"{name} is wider than {width} pixels")
                for chart in self.browser.run(CHARTS):
                    self.assertGreater(chart["inked"], 1000, chart)
                    self.assertEqual(chart["role"], "img")
                    self.assertTrue(chart["label"], chart["id"])
                check(shown)
                if options.keep:
                    path = pathlib.Path(options.keep) / f"{name}-{width}-{'dark' if dark else 'light'}.png"
                    self.browser.picture(path)
        self.assertEqual(self.browser.problems, [])
        return seconds

    def check_kernels(self, report, shown):
        self.assertEqual(len(shown["rows"]), len(report["kernels"]))
        for kernel in report["kernels"]:
            row = shown["rows"]["task-" + kernel["task"]]
            history = kernel["history"] or {}
            expected = {"time": (kernel["time"] or {}).get("median_us"), "share": kernel["share"],
                        "roof_share": kernel["roof_share"], "gflops": kernel["gflops"],
                        "gbytes": kernel["gbytes_per_second"], "trials": history.get("trials")}
            for field, value in expected.items():
                self.assertTrue(numbers_agree(row[field], value), (kernel["task"], field, row[field], value))
            self.assertEqual(row["label"], kernel["label"])
        self.assertAlmostEqual(shown["top"]["kernels_us"], report["kernels_us"])

    def test_report_of_a_network(self):
        report = self.make("network", "report", self.path / "tuned.tar", "--seconds", "0.3")

        def check(shown):
            self.check_kernels(report, shown)
            self.assertAlmostEqual(shown["top"]["network_us"], report["time"]["median_us"])
            self.assertEqual(shown["top"]["trials"], 32)
            self.assertIn(" of the time; the five slowest of 15 take ", shown["text"])

        seconds = self.look("network", check)
        self.assertLess(seconds, 5)
        self.assertLess((self.path / "network.html").stat().st_size, 1e6)
        self.assertNotIn("8-bit", self.browser.run("document.querySelector('#roofline').innerText"))
        # A kernel above all peaks must have another reason than Winograd's algorithm.
        for kernel in report["kernels"]:
            kernel.update(gflops=10 * max(peak["gflops"] for peak in report["ceilings"]["peaks"]), bound="L2", winograd="", roof_share=0.3)
        self.draw("small", report)
        self.browser.open(self.path / "small.html")
        text = self.browser.run("document.querySelector('#roofline').innerText")
        self.assertIn("Kernels of 8-bit and 16-bit numbers without a line of their own", text)
        self.assertNotIn("Winograd", text)

    def test_report_of_a_database(self):
        report = self.make("database", "report", "--db", self.path / "tuned.db")
        self.look("database", lambda shown: self.check_kernels(report, shown))

    def test_comparison(self):
        both = self.make("comparison", "compare", self.path / "untuned.tar", self.path / "tuned.tar", "--seconds", "0.3")

        def check(shown):
            for change in both["changes"]:
                row = shown["rows"]["task-" + change["task"]]
                self.assertTrue(numbers_agree(row["before"], change["before"]["median_us"]))
                self.assertTrue(numbers_agree(row["after"], change["after"]["median_us"]))
                self.assertTrue(numbers_agree(row["speedup"], change["speedup"]["median"]))
                self.assertEqual(row["verdict"], change["speedup"]["verdict"])
            self.assertAlmostEqual(shown["top"]["speedup"], both["speedup"]["median"])
            self.assertIn("measured in turns. Times as fast is the median", shown["text"])
            self.assertEqual(" of the sure ones by an unchanged schedule" in shown["text"], self.has_same(both))
            labels = [float(text) for text in self.browser.run("Chart.getChart('speedups-chart').scales.x.ticks.map((t) => t.label)")]
            self.assertEqual(labels, sorted(set(labels)), "each tick has a number of its own")
            self.assertTrue(labels[0] < 1 < labels[-1], labels)

        self.look("comparison", check)
        # The same kernels with the same schedules, of which one seems to have become faster.
        for change in both["changes"]:
            change["other_schedule"] = False
            change["speedup"] = {"median": 1.02, "low": 0.99, "high": 1.03, "verdict": "undecided"}
        both["changes"][0]["speedup"] = {"median": 40, "low": 1.01, "high": 300, "verdict": "faster"}
        page = (self.path / "comparison.html").read_text()
        begin = page.index('id="data">') + len('id="data">')
        data = json.dumps(both).replace("<", "\\u003c")
        (self.path / "same.html").write_text(page[:begin] + data + page[page.index("</script>", begin):])
        self.look("same", lambda shown: self.assertIn("1 of the sure ones by an unchanged schedule", shown["text"]))

    @staticmethod
    def has_same(both):
        return any(c["speedup"]["verdict"] in ("faster", "slower") and not c["other_schedule"] for c in both["changes"])

    def draw(self, name, report):
        with open(self.path / f"{name}.json", "w", encoding="utf-8") as file:
            json.dump(report, file)
        self.autotune("report", self.path / f"{name}.json", "-o", self.path / f"{name}.html", "-q")

    def test_hostile_names_are_text(self):
        report = self.make("plain", "report", self.path / "tuned.tar", "--no-run")
        kernel = report["kernels"][0]
        report["kernels"] = []
        for number, name in enumerate(HOSTILE):
            other = copy.deepcopy(kernel)
            other.update(task=f"{number:08x}" * 4, kernel=name, label=name, nodes=[name], trace=name, bound=name)
            other["why"]["sentence"] = name
            report["kernels"].append(other)
        report.update(name="</title>" + HOSTILE[1], notes=HOSTILE[:4], machine=HOSTILE[0], command=HOSTILE[2],
                      failures=[{"outcome": name, "count": 1, "first_error": name, "task": name} for name in HOSTILE])
        self.draw("hostile", report)

        def check(shown):
            self.assertEqual({row["label"] for row in shown["rows"].values()}, {k["label"] for k in report["kernels"]})
            self.assertEqual(self.browser.run("document.querySelectorAll('img, main script').length"), 0)
            self.browser.run("document.querySelectorAll('.open').forEach((button) => button.click())")
            self.assertIn(HOSTILE[1], shown["title"])

        self.look("hostile", check)

    def test_a_thousand_kernels_sort_without_a_pause(self):
        report = self.make("few", "report", self.path / "tuned.tar", "--seconds", "0.1")
        rng = random.Random(1)
        kernels = []
        for _ in range(1000):
            kernel = copy.deepcopy(rng.choice(report["kernels"]))
            kernel["task"] = f"{rng.getrandbits(128):032x}"
            kernel["time"]["median_us"] = rng.paretovariate(1)
            kernels.append(kernel)
        report["kernels_us"] = sum(k["time"]["median_us"] for k in kernels)
        for kernel in kernels:
            kernel["share"] = kernel["time"]["median_us"] / report["kernels_us"]
        report["kernels"] = sorted(kernels, key=lambda k: -k["share"])
        self.draw("thousand", report)
        self.assertLess((self.path / "thousand.html").stat().st_size, 5e6)
        self.browser.view(1000)
        self.browser.open(self.path / "thousand.html")
        times = self.browser.run("""[...document.querySelectorAll('#kernels th button')].map((button) => {
          const begin = performance.now();
          button.click();
          document.body.offsetHeight;
          return performance.now() - begin;
        })""")
        self.assertLess(sorted(times)[len(times) // 2], 250, times)
        firsts = self.browser.run("""(() => {
          const first = () => document.querySelector('#kernels tbody tr').id;
          const title = [...document.querySelectorAll('#kernels th button')].find((b) => b.textContent === 'time');
          title.click(); const a = first(); title.click(); return [a, first()];
        })()""")
        by_time = sorted(kernels, key=lambda k: k["time"]["median_us"])
        self.assertEqual(set(firsts), {"task-" + by_time[0]["task"], "task-" + by_time[-1]["task"]})
        self.browser.run("document.querySelector('button.rest').click()")
        self.assertEqual(self.browser.run("document.querySelectorAll('#kernels tbody tr').length"), 1000)
        self.assertEqual(self.browser.problems, [])

    def test_the_keyboard_opens_rows_and_paper_is_light(self):
        self.make("keys", "report", self.path / "tuned.tar", "--seconds", "0.1")
        self.browser.view(1000, dark=True)
        self.browser.open(self.path / "keys.html")
        self.browser.run("document.querySelector('.bar button').focus()")
        for kind in ("keyDown", "keyUp"):
            self.browser.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", text="\r",
                              windowsVirtualKeyCode=13)
        self.assertEqual(self.browser.run("document.querySelectorAll('tr.detail').length"), 1)
        self.assertEqual(self.browser.run("document.activeElement.getAttribute('aria-expanded')"), "true")
        self.browser.pdf(self.path / "keys.pdf")
        self.assertGreater((self.path / "keys.pdf").stat().st_size, 10000)
        self.assertEqual(self.browser.problems, [])

    def test_a_browser_that_finds_faults_says_so(self):
        page = self.path / "faulty.html"
        page.write_text("<!DOCTYPE html><meta http-equiv=Content-Security-Policy content=\"script-src 'unsafe-inline'\">"
                        "<script>console.error('x'); setTimeout(() => { throw Error('y'); })</script>"
                        "<img src=http://127.0.0.1:1/z>")
        self.browser.view(400)
        self.browser.open(page)
        self.browser.run("new Promise((done) => setTimeout(done, 100))")
        found = " ".join(self.browser.problems)
        for sign in ("console: ['x']", "Error: y", "request: http://127.0.0.1:1/z"):
            self.assertIn(sign, found)


def main():
    global options
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--autotune", required=True)
    parser.add_argument("--keep", metavar="FOLDER", help="keep a picture of each page there")
    parser.add_argument("--install", action="store_true", help="install Chromium if it is missing (Debian)")
    options, rest = parser.parse_known_args()
    options.autotune = os.path.abspath(options.autotune)
    if options.install and not find_chromium():
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", "chromium"], check=True)
    if not find_chromium():
        print("skipped: needs chromium")
        return
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
