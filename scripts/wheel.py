#!/usr/bin/env python3
"""Makes the wheel of the runtime: the Python package with the stripped library in it, for every CPython since 3.9.

    scripts/wheel.py [--build BUILD] [--output FOLDER]

It needs a build (`cmake --build BUILD --target autotune_runtime`) and no package of Python. The wheel's name states the
glibc of this system, the oldest that it is for. It carries the licences of what the library contains.
"""

import argparse
import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile

import licences

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EPOCH = (1980, 1, 1, 0, 0, 0)  # so that equal contents make equal wheels


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def installed(build, folder):
    """Installs library and package into `folder`; returns the files of the wheel by their names in it."""
    for component in ("runtime", "python"):
        output_of("cmake", "--install", build, "--prefix", folder, "--component", component, "--strip")
    files = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            package = os.path.join("lib", "python3", "dist-packages") + os.sep
            inside = os.path.relpath(path, folder)
            if name == "libautotune_runtime.so.0":
                files["autotune/" + name] = path
            elif inside.startswith(package):
                files[inside[len(package) :].replace(os.sep, "/")] = path
    return files


def platform_of(library):
    """The tag of the systems that run the library, such as manylinux_2_36_x86_64: those with this system's glibc or a
    newer one. The symbols that the library uses may exist in an older glibc, but its C++ library may not."""
    minor = re.search(r"glibc 2\.(\d+)", os.confstr("CS_GNU_LIBC_VERSION")).group(1)
    text = output_of("readelf", "--file-header", library)
    machine = {"X86-64": "x86_64", "AArch64": "aarch64"}[re.search(r"Machine:.*?(X86-64|AArch64)", text).group(1)]
    return "manylinux_2_%s_%s" % (minor, machine)


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def texts_of_licences():
    """The licences by their names in the wheel."""
    with open(os.path.join(ROOT, "LICENSE"), encoding="utf-8") as file:
        return dict(licences.texts(licences.CONTAINED["runtime"]), autotune=file.read())


def write_wheel(build, output):
    with tempfile.TemporaryDirectory() as folder:
        files = {name: open(path, "rb").read() for name, path in installed(build, folder).items()}
        with tempfile.NamedTemporaryFile() as library:
            library.write(files["autotune/libautotune_runtime.so.0"])
            library.flush()
            tag = "py3-none-" + platform_of(library.name)
    version = re.search(r"project\(autotune VERSION ([0-9.]+)", open(os.path.join(ROOT, "CMakeLists.txt")).read()).group(1)
    info = "autotune_runtime-%s.dist-info/" % version
    files[info + "METADATA"] = (
        "Metadata-Version: 2.1\nName: autotune-runtime\nVersion: %s\nSummary: Runs neural networks that autotune has "
        "compiled\nLicense: Apache-2.0\nRequires-Python: >=3.9\n" % version
    ).encode()
    files[info + "WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: autotune\nRoot-Is-Purelib: false\nTag: %s\n" % tag
    ).encode()  # fmt: skip
    for name, text in texts_of_licences().items():
        files[info + "licenses/" + name] = text.encode()
    record = ["%s,%s,%d" % (name, digest(data), len(data)) for name, data in sorted(files.items())]
    files[info + "RECORD"] = "\n".join(record + [info + "RECORD,,\n"]).encode()
    path = os.path.join(output, "autotune_runtime-%s-%s.whl" % (version, tag))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            wheel.writestr(entry, data)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="folder of the build")
    parser.add_argument("--output", default=".", help="folder for the wheel")
    options = parser.parse_args()
    print(write_wheel(options.build, options.output))


if __name__ == "__main__":
    sys.exit(main())
