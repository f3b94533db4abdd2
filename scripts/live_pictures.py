#!/usr/bin/env python3
"""Makes docs/farm.png and docs/tune.png: the pages of a farm and of a run, as headless Chromium shows them.

Starts a tracker and two device servers on this host, has two runs of examples/resnet20.onnx compete for one of the
devices, and takes the pictures while the first one tunes and when it has ended."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/tools"))
from browser import Browser, find_chromium  # noqa: E402


def wait_for(what, found, seconds=600):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.2)
    sys.exit("timed out: " + what)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("--trials", default="240")
    parser.add_argument("-o", "--output", default=ROOT / "docs", type=pathlib.Path, help="folder")
    options = parser.parse_args()
    chromium = find_chromium()
    if not chromium:
        sys.exit("chromium is missing: apt-get install chromium")
    processes = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "run").mkdir(mode=0o700)
        os.environ.update(XDG_STATE_HOME=f"{folder}/state", XDG_RUNTIME_DIR=f"{folder}/run", AUTOTUNE_DB=f"{folder}/records.db")

        def start(name, program, *arguments):
            with open(path / name, "wb") as log:
                processes.append(subprocess.Popen([options.build / "tools" / program, *arguments], stdout=log, stderr=log, cwd=folder))
            return processes[-1]

        def url_in(name):
            return wait_for(f"the URL of {name}", lambda: re.search(r"page[^\n]* (http://\S+/)\n", (path / name).read_text()))[1]

        def status(url):
            with urllib.request.urlopen(url + "status.json") as response:
                return json.load(response)

        def tune(name, model, trials):
            return start(name, "autotune", "tune", "--model", str(model), "--key", "xeon", "--trials", trials, "--http", "127.0.0.1:0",
                         "--seed", str(len(name)))

        try:
            start("tracker", "rpc_tracker", "--http", "127.0.0.1:0")
            farm = url_in("tracker")
            for key in ("xeon", "epyc"):
                start(key, "rpc_server", "--key", key)
            wait_for("two devices", lambda: [d["state"] for d in status(farm)["devices"].values()] == ["free", "free"])
            first = tune("resnet20", ROOT / "examples/resnet20.onnx", options.trials)
            run = url_in("resnet20")
            wait_for("some trials", lambda: status(run).get("round", {}).get("trials", 0) >= int(options.trials) // 2)
            tune("waits", ROOT / "examples/resnet20.onnx", "16")
            wait_for("a queue", lambda: status(farm)["queue"], 120)
            with Browser(chromium) as browser:
                browser.own = ("http://127.0.0.1:",)
                for url, file, last in ((farm, "farm.png", "#faults"), (run, "tune.png", "#tasks")):
                    browser.view(1000)
                    browser.open(url)
                    if file == "tune.png":
                        wait_for("the end", lambda: first.poll() is not None)
                    browser.run("new Promise((done) => setTimeout(done, 1500))")
                    end = browser.run(f"document.querySelector('{last}').getBoundingClientRect().top + scrollY")
                    browser.picture(options.output / file, int(end))
                problems = [p for p in browser.problems if "ERR_" not in p]  # the run's server has ended
                if problems:
                    sys.exit("\n".join(problems))
        finally:
            for process in reversed(processes):
                process.kill()
                process.wait()


if __name__ == "__main__":
    main()
