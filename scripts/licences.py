#!/usr/bin/env python3
"""The licences of the code of others that our binaries contain: headers, static libraries and a script of Debian's
packages, whose copyright files have the texts.

    scripts/licences.py copyright COMPONENT    prints a file debian/copyright for a component of the installation
    scripts/licences.py links BUILD TARGET...  prints the packages whose code is in these files of a build
    scripts/licences.py install COMPONENT PACKAGE VERSION MAINTAINER FOLDER
                                               writes copyright and changelog.gz of a Debian package

CONTAINED is the list of these packages. tests/api/test_licences.py compares it with `links`.
"""

import email.utils
import gzip
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BOOST = "libboost1.81-dev"
RUNTIME = [BOOST, "libdlpack-dev", "libfmt-dev", "libspdlog-dev", "libxxhash-dev", "nlohmann-json3-dev"]
RUNTIME += ["opencl-c-headers"]
# By component of the installation (cmake/install.cmake); components that are not here have our own files alone.
CONTAINED = {
    "runtime": RUNTIME,
    "compiler": sorted(
        RUNTIME
        + ["libarchive-dev", "liblld-19", "liblld-19-dev", "libonnx-dev", "libprotobuf-dev", "libseccomp-dev"]
        + ["libsodium-dev", "libsqlite3-dev", "libxgboost-dev", "libzmq3-dev", "llvm-19-dev"]
    ),
    "programs": sorted(
        RUNTIME
        + ["libarchive-dev", "libcli11-dev", "libjs-chart.js", "liblld-19", "liblld-19-dev", "libonnx-dev"]
        + ["libprotobuf-dev", "libseccomp-dev", "libsodium-dev", "libsqlite3-dev", "libxgboost-dev", "libzmq3-dev"]
        + ["llvm-19-dev"]
    ),
}
# The compiler's own files, whose licences set no conditions for programs that are compiled with them.
SYSTEM = r"^(libc6|libstdc\+\+-\d+|libgcc-\d+|linux-libc)-dev$"
HEAD = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: autotune
Comment: Files in a folder that has the name of a Debian package are of that package. The compiler has made a part of
 them part of the programs or libraries here.

Files: *
Copyright: 2026 the authors of autotune
License: Apache-2.0
"""


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def packages_of(files):
    """The Debian packages that installed these files. Packages may call a file of /usr/lib one of /lib."""
    names = set(files) | {path[len("/usr") :] for path in files if path.startswith("/usr/lib")}
    done = subprocess.run(
        ["dpkg-query", "--search", *sorted(names)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    found = {}
    for line in done.stdout.splitlines():
        packages, _, path = line.partition(": ")
        found[path] = packages.split(",")[0].split(":")[0]
    owners = {path: found.get(path, found.get(path[len("/usr") :])) for path in files}
    unknown = [path for path, owner in owners.items() if not owner]
    if unknown:
        sys.exit("no Debian package has installed " + ", ".join(sorted(unknown)))
    return sorted(set(owners.values()))


def links(build, targets):
    """The packages whose headers, static libraries and other files ninja reads to make the targets."""
    inputs = set(output_of("ninja", "-C", build, "-t", "inputs", *targets).splitlines())
    files = {path for path in inputs if path.startswith("/usr/")}
    belongs = False
    for line in output_of("ninja", "-C", build, "-t", "deps").splitlines():
        if line.startswith(" "):
            if belongs and line.strip().startswith("/usr/"):
                files.add(line.strip())
        elif line:
            belongs = line.split(": #deps")[0] in inputs
    static = {path for path in files if not re.search(r"\.so(\.|$)", path)}
    return [name for name in packages_of(static) if not re.match(SYSTEM, name)]


def read(package):
    """The copyright file of a Debian package."""
    with open("/usr/share/doc/%s/copyright" % package, encoding="utf-8") as file:
        text = file.read()
    if package != BOOST:
        return text
    # Boost's file lists the authors of all its libraries in 2 MB, and binaries need not even carry the licence.
    begin = text.index("Boost Software License - Version 1.0")
    end = text.index("DEALINGS IN THE SOFTWARE.", begin)
    licence = text[begin:end] + "DEALINGS IN THE SOFTWARE."
    lines = [" " + (line.strip() or ".") for line in licence.splitlines()]
    return "Format: 1.0\n\nFiles: *\nCopyright: the authors of Boost\nLicense: BSL-1.0\n" + "\n".join(lines) + "\n"


def texts(packages):
    """The licences of packages as files of their own, by file name, with the common ones that they name."""
    found = {package: read(package) for package in packages}
    for text in list(found.values()):
        for name in re.findall(r"/usr/share/common-licenses/([A-Za-z0-9]+(?:-[0-9.]*[0-9])?)", text):
            with open("/usr/share/common-licenses/" + name, encoding="utf-8") as file:
                found[name] = file.read()
    return found


def paragraphs(text):
    """The paragraphs of a machine-readable copyright file: lists of its fields, a name and its lines."""
    found = []
    for block in re.split(r"\n\s*\n", text.strip()):
        fields = []
        for line in block.splitlines():
            if line.startswith("#"):
                continue
            if line[:1] in (" ", "\t"):
                fields[-1][1] += "\n" + line.rstrip()
            else:
                name, value = line.split(":", 1)
                fields.append([name, value.strip()])
        found.append(dict(fields))
    return found[1:]  # the first one is about the file


def tokens(expression, names):
    """An expression such as "GPL-2+ or Expat", with some of the licences that it names under other names."""
    return re.sub(r"[^\s,]+", lambda word: names.get(word.group(), word.group()), names.get(expression, expression))


def section(package, others, bodies):
    """The lines about the files of a package; `others` have the same licences. Adds to the licences' texts in `bodies`
    those that the lines name. A licence whose text differs from another one of its name gets the package's name."""
    found = paragraphs(read(package))
    files = [each for each in found if "License" in each and not each.get("Files", "debian/").startswith("debian/")]
    own = {}
    for each in found:
        title, _, body = each.get("License", "").partition("\n")
        if body:
            own.setdefault(title.strip(), "\n" + body)
    names = {}
    for title, body in own.items():
        name = title.replace(" ", "-")
        shared = name == "Apache-2.0" or bodies.get(name, body) == body
        names[title] = name if shared else name + "~" + package
    lines = []
    for each in files:
        expression = tokens(each["License"].split("\n")[0].strip(), names)
        for title, body in own.items():
            if names[title] in re.split(r"[\s,]+", expression):
                bodies.setdefault(names[title], body)
        lines.append("Files: " + " ".join("%s/%s" % (name, each["Files"].split()[0]) for name in [package] + others))
        lines += ["  %s/%s" % (package, pattern) for pattern in each["Files"].split()[1:]]
        lines += ["Copyright: " + each.get("Copyright", "see the files"), "License: " + expression, ""]
    return lines


def debian_copyright(component):
    """A machine-readable file debian/copyright. The files of a contained package are named PACKAGE/FILE."""
    lines = HEAD.splitlines() + [""]
    bodies = {"Apache-2.0": "\n On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0."}
    same = {}
    for package in CONTAINED.get(component, []):
        same.setdefault(read(package), []).append(package)
    for packages in same.values():
        lines += section(packages[0], packages[1:], bodies)
    for name, body in bodies.items():
        lines += ["License: " + name + body, ""]
    return "\n".join(lines)


def changelog(package, version, maintainer):
    """A changelog of one entry, with the time of the commit."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or output_of("git", "-C", ROOT, "log", "-1", "--format=%ct").strip()
    return "%s (%s) unstable; urgency=medium\n\n  * Version %s.\n\n -- %s  %s\n" % (
        package, version, version, maintainer, email.utils.formatdate(int(seconds)),
    )  # fmt: skip


def install(component, package, version, maintainer, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "copyright"), "w", encoding="utf-8") as file:
        file.write(debian_copyright(component))
    with open(os.path.join(folder, "changelog.gz"), "wb") as file:
        file.write(gzip.compress(changelog(package, version, maintainer).encode(), compresslevel=9, mtime=0))


def main(arguments):
    if len(arguments) == 6 and arguments[0] == "install":
        install(*arguments[1:])
    elif len(arguments) == 2 and arguments[0] == "copyright":
        print(debian_copyright(arguments[1]), end="")
    elif len(arguments) >= 3 and arguments[0] == "links":
        print("\n".join(links(arguments[1], arguments[2:])))
    else:
        sys.exit(__doc__.split("\n\n")[1])


if __name__ == "__main__":
    main(sys.argv[1:])
