#!/usr/bin/env python3
"""Makes docs/report.png and docs/comparison.png, as headless Chromium shows the pages.

The report is that of examples/resnet20.onnx after a short tuning. The comparison is that of the untuned network without
and with Winograd's algorithm."""
import argparse
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/tools"))
from browser import Browser, find_chromium  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--autotune", default=ROOT / "build/tools/autotune")
    parser.add_argument("--trials", default="400")
    parser.add_argument("--only", choices=("report", "comparison"), help="make only this picture")
    parser.add_argument("-o", "--output", default=ROOT / "docs", type=pathlib.Path, help="folder")
    options = parser.parse_args()
    chromium = find_chromium()
    if not chromium:
        sys.exit("chromium is missing: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder:

        def autotune(*arguments):
            subprocess.run([str(options.autotune), *arguments], check=True, cwd=folder)

        model = str(ROOT / "examples/resnet20.onnx")
        if options.only != "comparison":
            autotune("tune", "--model", model, "--trials", options.trials, "--db", "records.db", "-o", "resnet20.tar", "-q")
            autotune("report", "resnet20.tar", "--db", "records.db", "-o", "report.html", "-q")
        if options.only != "report":
            autotune("compile", "--model", model, "--no-records", "--no-winograd", "-o", "direct.tar", "-q")
            autotune("compile", "--model", model, "--no-records", "-o", "winograd.tar", "-q")
            autotune("compare", "direct.tar", "winograd.tar", "-o", "comparison.html", "-q")
        with Browser(chromium) as browser:
            for name, next_part in (("report", "#failures, #choice, #table"), ("comparison", "#table")):
                if options.only not in (None, name):
                    continue
                browser.view(1000)
                browser.open(f"{folder}/{name}.html")
                end = browser.run(f"document.querySelector('{next_part}').getBoundingClientRect().top")
                browser.picture(options.output / f"{name}.png", int(end))
            if browser.problems:
                sys.exit("\n".join(browser.problems))


if __name__ == "__main__":
    main()
