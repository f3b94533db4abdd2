#!/usr/bin/env python3
"""Makes docs/report.png: the report of examples/resnet20.onnx after a short tuning, as headless Chromium shows it."""
import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/tools"))
from browser import Browser, find_chromium  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--autotune", default=ROOT / "build/tools/autotune")
    parser.add_argument("--trials", default="400")
    parser.add_argument("-o", "--output", default=ROOT / "docs/report.png")
    options = parser.parse_args()
    chromium = find_chromium()
    if not chromium:
        sys.exit("chromium is missing: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:

        def autotune(*arguments):
            subprocess.run([str(options.autotune), *arguments], check=True, cwd=folder)

        autotune("tune", "--model", str(ROOT / "examples/resnet20.onnx"), "--trials", options.trials, "--db", "records.db",
                 "-o", "resnet20.tar", "-q")
        autotune("report", "resnet20.tar", "--db", "records.db", "-o", "report.html", "-q")
        with Browser(chromium) as browser:
            browser.view(1000)
            browser.open(f"{folder}/report.html")
            end = browser.run("document.querySelector('#failures, #choice, #table').getBoundingClientRect().top")
            browser.picture(options.output, int(end))
            if browser.problems:
                sys.exit("\n".join(browser.problems))


if __name__ == "__main__":
    main()
