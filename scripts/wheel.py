#!/usr/bin/env python3
"""Makes wheels: of the runtime, the Python package with the stripped library in it, or with --compiler of the compiler.

    scripts/wheel.py [--compiler] [--build BUILD] [--output FOLDER]
    scripts/wheel.py --library FILE --strip PROGRAM [--output FOLDER]

It needs a build (`cmake --build BUILD --target autotune_runtime`, or autotune_compiler and the programs) and no package
of Python. With --library, the wheel has this file, of another machine (scripts/cross/wheel.sh), which PROGRAM strips.
Both wheels are for every CPython since 3.9, and have the licences of all that they contain. Their names state the glibc
of this system, the oldest that they are for. The wheel of the compiler has the programs, libautotune.so.0 and every shared
library that they load but glibc, as scripts/bundle.sh packs them, and needs the wheel of the runtime. patchelf is
installed if it is missing.
"""

import argparse
import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import licences

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = ["autotune", "rpc_server", "rpc_tracker"]
COMPILER = "libautotune.so.0"
RUNTIME = "libautotune_runtime.so.0"
STARTERS = '''"""The programs of autotune, the commands that start them, and the library that autotune.tune calls."""

import os
import sys

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")
'''
STARTER = '''

def %(name)s():
    os.execv(os.path.join(FOLDER, "%(name)s"), ["%(name)s"] + sys.argv[1:])
'''
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
            if name == RUNTIME:
                files["autotune/" + name] = path
            elif inside.startswith(package):
                files[inside[len(package) :].replace(os.sep, "/")] = path
    return files


def around(library, strip, folder):
    """The files of a wheel with this library, by their names in it."""
    stripped = os.path.join(folder, os.path.basename(library))
    output_of(strip, "--strip-unneeded", "-o", stripped, library)
    files = {"autotune/" + RUNTIME: stripped}
    package = os.path.join(ROOT, "python", "autotune")
    for name in os.listdir(package):
        if name.endswith(".py") or name == "py.typed":
            files["autotune/" + name] = os.path.join(package, name)
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


def texts_of_licences(packages):
    """The licences of Debian packages, and our own, by their names in the wheel."""
    with open(os.path.join(ROOT, "LICENSE"), encoding="utf-8") as file:
        return dict(licences.texts(packages), autotune=file.read())


def bundled(programs, library, folder):
    """Copies the programs, the library and the shared libraries that these load, but those of glibc, which must match the
    loader of the machine, and of the runtime, which is in its own wheel. Returns the packages of the copied libraries."""
    paths = {}
    for name, path in re.findall(r"(\S+) => (/\S+)", output_of("ldd", *programs, library)):
        if name != RUNTIME and not re.match(r"lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|nsl)\.so\.", name):
            paths[name] = os.path.realpath(path)
    libraries = dict(paths, **{COMPILER: library})
    for place, files in (("bin", {os.path.basename(path): path for path in programs}), ("lib", libraries)):
        os.makedirs(os.path.join(folder, place))
        for name, path in files.items():
            copy = os.path.join(folder, place, name)
            shutil.copy(path, copy)
            os.chmod(copy, 0o755)
            beside = "$ORIGIN/../lib" if place == "bin" else "$ORIGIN"
            output_of("patchelf", "--set-rpath", beside + (":$ORIGIN/../../autotune" if name == COMPILER else ""), copy)
            output_of("strip", "--strip-unneeded", copy)
    return licences.packages_of(paths.values())


def compiler_files(build, folder):
    """The files of the wheel of the compiler by their names in it, and the packages whose code they contain."""
    if not shutil.which("patchelf"):
        output_of("apt-get", "install", "-y", "--no-install-recommends", "patchelf")
    programs = [os.path.join(build, "tools", name) for name in PROGRAMS]
    library = os.path.join(build, "service", COMPILER)
    missing = [path for path in programs + [library] if not os.path.exists(path)]
    if missing:
        targets = " ".join(["autotune_compiler"] + PROGRAMS)
        sys.exit("%s is missing: cmake --build %s --target %s" % (missing[0], build, targets))
    packages = bundled(programs, library, folder)
    with open(os.path.join(folder, "__init__.py"), "w", encoding="utf-8") as file:
        file.write(STARTERS + "".join(STARTER % {"name": name} for name in PROGRAMS))
    files = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            files["autotune_compiler/" + os.path.relpath(path, folder).replace(os.sep, "/")] = path
    return files, sorted({*packages, *licences.CONTAINED["programs"], *licences.CONTAINED["compiler"]})


def write_wheel(name, summary, files, packages, output, requires="", scripts=()):
    """Writes a wheel of `files`, paths by their names in it. `requires`: another wheel; `scripts`: functions of the
    package by names of commands."""
    with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
        version = re.search(r"project\(autotune VERSION ([0-9.]+)", file.read()).group(1)
    module = name.replace("-", "_")
    contents, executable = {}, set()
    for inside, path in files.items():
        with open(path, "rb") as file:
            contents[inside] = file.read()
        if os.access(path, os.X_OK) and "/bin/" in inside:
            executable.add(inside)
    library = next(path for inside, path in files.items() if re.search(r"\.so\.|/bin/", inside))
    tag = "py3-none-" + platform_of(library)
    info = "%s-%s.dist-info/" % (module, version)
    metadata = "Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: %s\n" % (name, version, summary)
    metadata += "License: Apache-2.0\nRequires-Python: >=3.9\n"
    if requires:
        metadata += "Requires-Dist: %s (==%s)\n" % (requires, version)
    contents[info + "METADATA"] = metadata.encode()
    contents[info + "WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: autotune\nRoot-Is-Purelib: false\nTag: %s\n" % tag
    ).encode()  # fmt: skip
    if scripts:
        lines = ["[console_scripts]"] + ["%s = %s:%s" % (script, module, script) for script in scripts]
        contents[info + "entry_points.txt"] = ("\n".join(lines) + "\n").encode()
    for title, text in texts_of_licences(packages).items():
        contents[info + "licenses/" + title] = text.encode()
    record = ["%s,%s,%d" % (inside, digest(data), len(data)) for inside, data in sorted(contents.items())]
    contents[info + "RECORD"] = "\n".join(record + [info + "RECORD,,\n"]).encode()
    path = os.path.join(output, "%s-%s-%s.whl" % (module, version, tag))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for inside, data in sorted(contents.items()):
            entry = zipfile.ZipInfo(inside, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if inside in executable else 0o100644) << 16
            wheel.writestr(entry, data)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", action="store_true", help="make the wheel of the compiler")
    parser.add_argument("--library", help="make the wheel of the runtime with this library")
    parser.add_argument("--strip", default="strip", help="the program that strips the library")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="folder of the build")
    parser.add_argument("--output", default=".", help="folder for the wheel, made if it is missing")
    options = parser.parse_args()
    try:
        os.makedirs(options.output, exist_ok=True)
    except OSError as error:
        sys.exit("cannot make the folder %s: %s" % (options.output, error.strerror))
    with tempfile.TemporaryDirectory() as folder:
        if options.compiler:
            files, packages = compiler_files(options.build, os.path.join(folder, "files"))
            summary = "Tunes and compiles neural networks for autotune-runtime"
            path = write_wheel(
                "autotune-compiler", summary, files, packages, options.output, "autotune-runtime", PROGRAMS
            )
        else:
            library, packages = options.library, licences.CONTAINED["runtime"]
            files = around(library, options.strip, folder) if library else installed(options.build, folder)
            summary = "Runs neural networks that autotune has compiled"
            path = write_wheel("autotune-runtime", summary, files, packages, options.output)
    print(path)


if __name__ == "__main__":
    sys.exit(main())
