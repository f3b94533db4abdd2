"""Tests of bench/gpu/run without a GPU: each part plans its rows within its minutes, and its order is right."""

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

RUN = Path(__file__).resolve().parents[2] / "bench/gpu/run"
MINUTES = {"smoke": 3, "kernels": 6, "nets": 6, "cpu": 4}


def dry_run(part, *words):
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(RUN), part, "--dry-run", "--out", folder, "--autotune", shutil.which("true"), *words]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.returncode, result.stdout, result.stderr


class DryRun(unittest.TestCase):
    def test_each_part_fits_its_minutes(self):
        for part, minutes in MINUTES.items():
            code, out, err = dry_run(part)
            self.assertEqual((code, err), (0, ""), part)
            planned, most = map(int, re.search(r"^(\d+) s of (\d+) s$", out, re.M).groups())
            self.assertEqual(most, 60 * minutes)
            self.assertTrue(0 < planned <= most, out)

    def test_rows_that_do_not_fit_are_named(self):
        self.assertIn("do not fit into the 1 minutes", dry_run("kernels", "--minutes", "1")[1])

    def test_untuned_rows_come_first_and_large_products_last(self):
        rows = re.findall(r'"table": "([a-z ]+)", "name": "([^"]+)"', dry_run("kernels", "--minutes", "60")[1])
        tables = [table for table, _ in rows]
        self.assertEqual(tables.index("sgemm"), tables.count("untuned"))
        last_convolution = max(i for i, table in enumerate(tables) if table == "convolutions")
        for i, (table, name) in enumerate(rows):
            if table != "untuned" and name.endswith((" 4096", " 8192")):
                self.assertGreater(i, last_convolution)
        self.assertEqual({n for t, n in rows if t == "convolutions"}, {n for t, n in rows if t == "untuned" and "conv" in n})


if __name__ == "__main__":
    unittest.main()
