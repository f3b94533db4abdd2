#!/usr/bin/env python3
"""Prints the Markdown tables of docs/performance.md, docs/layers.md and docs/nets.md from the outputs of benches.

    bench/tables.py sgemm RUN_TIME.txt CONSTANT.txt TWO_THREADS.txt    outputs of sgemm.py
    bench/tables.py layers ROWS.jsonl                                  output of conv_layers.py --json: every row
    bench/tables.py kinds ROWS.jsonl                                   output of conv_layers.py --json: kinds of layers
    bench/tables.py nets NETS.txt                                      output of nets.py --layers: times, then kernels
"""

import json
import math
import re
import sys

LETTERS = {"resnet50": "R", "mobilenet_v2": "M", "vgg19": "V", "efficientnet_b0": "E"}


def mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values))


def sgemm(*paths):
    columns = []
    for path in paths:
        rows = {}
        for line in open(path):
            words = line.split()
            if len(words) == 8 and all(w.isdigit() for w in words[:3]):
                m, n, k, ours, _, ratio, peak, _ = words
                rows[f"{m} x {n} x {k}"] = (float(ours), float(ratio), float(peak))
        columns.append(rows)
    print("| M x N x K | run-time operands, packing timed, 1 thread | constant B, 1 thread | run-time, 2 threads |")
    print("|---|---|---|---|")
    for shape in columns[0]:
        print(f"| {shape} | " + " | ".join("{:.0f}, {:.2f}, {:.0f} %".format(*rows[shape]) for rows in columns) + " |")
    means = [[ratio for _, ratio, _ in rows.values()] for rows in columns]
    print("| **geometric mean, least** | " + " | ".join(f"**{mean(r):.2f}**, {min(r):.2f}" for r in means) + " |")


def layer_rows(path):
    """Returns the rows by layer and by number of threads."""
    layers = {}
    for line in open(path):
        row = json.loads(line)
        if "layer" in row:
            layers.setdefault(row["layer"], {})[row["threads"]] = row
    return layers


def layers(path):
    print("| layer | nets | 1 thread: ms, ratio, % peak, % bound | 2 threads | reorders, ours / theirs: 1, 2 threads |")
    print("|---|---|---|---|---|")
    for name, rows in layer_rows(path).items():
        any_row = next(iter(rows.values()))
        nets = " ".join(LETTERS.get(net, net) + (str(n) if n > 1 else "") for net, n in any_row["nets"].items())
        cells = [
            f"{r['ms']:.3f}, {r['ratio']:.2f}, {r['peak']:.0f}, {100 * r['bound_ms'] / r['ms']:.0f}" if r else ""
            for r in (rows.get(1), rows.get(2))
        ]
        reorders = "" if any_row["chain"] else ", ".join("{:.2f} / {:.2f}".format(*rows[t]["reorders_ms"]) for t in rows)
        print(f"| {name.replace('groups', 'g')}{'' if any_row['chain'] else ' p'} | {nets} | {cells[0]} | {cells[1]} | {reorders} |")


def kind_of(name):
    if name.startswith("dense"):
        return "dense, batch 1"
    kernel, stride, size, rest = re.match(r"(\dx\d) s(\d) (\d+x\d+) (.*)", name).groups()
    if size == "1x1":
        return "1x1 of one pixel, where a call costs more than the work"
    channels, groups = re.search(r"(\d+) -> \d+(?: groups (\d+))?", rest).groups()
    if groups:
        return "depthwise 3x3, 5x5" if channels == groups else "grouped"
    if kernel == "3x3" and stride == "1":
        return "3x3 s1 (Winograd allowed)"
    return f"1x1 s{stride}" if kernel == "1x1" else "3x3 s2, 7x7 s2"


def kinds(path):
    groups, nets = {}, {}
    for name, rows in layer_rows(path).items():
        groups.setdefault(kind_of(name), []).append(rows)
        for net in rows[1]["nets"]:
            nets.setdefault(net, []).append(rows)

    def text(some, threads):
        ratios = [rows[threads]["ratio"] for rows in some]
        return f"{mean(ratios):.2f} ({min(ratios):.2f})"

    print("| layers | number | 1 thread: geomean (least) | 2 threads |\n|---|---|---|---|")
    everything = [rows for some in groups.values() for rows in some]
    larger = [rows for kind, some in groups.items() if "one pixel" not in kind for rows in some]
    for kind, some in list(groups.items()) + [("**all**", everything), ("without those of one pixel", larger)] + list(nets.items()):
        print(f"| {kind} | {len(some)} | {text(some, 1)} | {text(some, 2)} |")


def nets(path):
    times, kernels, net, profile = {}, {}, None, []  # profile: rows whose number of threads follows below them
    for line in open(path):
        words = line.split()
        if len(words) == 7 and words[1] in ("1", "2"):  # net threads ms untuned ORT ratio of-medians
            net = words[0]
            times.setdefault(net, {})[int(words[1])] = [float(w) for w in words[2:6]]
        elif row := re.match(r"\s*([\d.]+)\s+[\d.]+\s+([\d.]+)w?\s+([\d.]+)\s+([\d.]+)  \S+\s+\S+\s+(.*)", line):
            profile.append((row[5].split(": ", 1)[-1], tuple(float(number) for number in row.groups()[:4])))
        elif footer := re.match(r"% roof: .* on (\d+) thread", line):
            for label, numbers in profile:
                kernels.setdefault(net, {}).setdefault(label, {}).setdefault(int(footer[1]), []).append(numbers)
            profile = []
    print("| network | 1 thread: ms, untuned, ORT, ratio | 2 threads: ms, untuned, ORT, ratio |\n|---|---|---|")
    for name, row in times.items():
        print(f"| {name} | " + " | ".join("{:.3g}, {:.3g}, {:.3g}, {:.2f}".format(*row[t]) for t in (1, 2)) + " |")
    print("| **geometric mean** | " + " | ".join(f"**{mean([row[t][3] for row in times.values()]):.2f}**" for t in (1, 2)) + " |")
    for name, rows in kernels.items():
        total = sum(us for by_threads in rows.values() for us, *_ in by_threads.get(1, []))
        print(f"\n## {name}\n\n| kernel | 1 thread: us, GFLOPS, GB/s, % roof | 2 threads |\n|---|---|---|")
        left_out = 0
        for label, by_threads in rows.items():
            if sum(us for us, *_ in by_threads.get(1, [])) < 0.004 * total:
                left_out += 1
                continue
            cells = ["{:.0f}, {:.0f}, {:.1f}, {:.0f}".format(*min(by_threads.get(t, [(0, 0, 0, 0)]))) for t in (1, 2)]
            count = len(by_threads.get(1, []))
            print(f"| {label}{f' ({count})' if count > 1 else ''} | {cells[0]} | {cells[1]} |")
        if left_out:
            print(f"\n{left_out} kernels with less than 0.4 % of the time each are left out.")


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("sgemm", "layers", "kinds", "nets"):
        raise SystemExit(__doc__)
    globals()[sys.argv[1]](*sys.argv[2:])
