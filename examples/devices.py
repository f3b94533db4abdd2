#!/usr/bin/env python3
"""Runs a compiled network on this machine or on a device of a farm, by the same code.

    devices.py m.tar image.bin scores.bin                               # this machine
    devices.py m.tar image.bin scores.bin --join alice.join --key rpi4  # a device of a farm (docs/farm.md)

The network has one input and one output. The files have their elements, without a header. --key needs libautotune.so.0.
"""

import argparse
import os

import autotune


def run(session, path, image):
    """Runs the network on the session's machine. Returns its output and the median time of a run in seconds."""
    session.upload(path)
    factory = session.load_module(os.path.basename(path))
    network = factory["default"](session.cpu())
    network.set_input(0, image)
    network.run()
    return network.get_output(0), network.time_evaluator("run", number=10, repeat=5)()["median"]


def read_input(package, path):
    """The elements of a file as the network's input."""
    entry = autotune.InferenceSession(package).get_inputs()[0]
    image = autotune.empty(entry.shape)
    with open(path, "rb") as file:
        image.memoryview().cast("B")[:] = file.read()
    return image


def main():
    parser = argparse.ArgumentParser(description="runs a network here or on a device of a farm")
    parser.add_argument("package", help="what `autotune compile -o` wrote")
    parser.add_argument("input", help="a file with the elements of the input, f32")
    parser.add_argument("output", help="the file to write the output to")
    parser.add_argument("--join", help="a join file of the farm")
    parser.add_argument("--key", help="the key of the device; default: this machine")
    options = parser.parse_args()

    session = autotune.rpc.connect(options.join, options.key) if options.key else autotune.rpc.LocalSession()
    output, seconds = run(session, options.package, read_input(options.package, options.input))
    with open(options.output, "wb") as file:
        file.write(output.memoryview().cast("B"))
    print("%.3f ms on %s" % (seconds * 1e3, options.key or "this machine"))


if __name__ == "__main__":
    main()
