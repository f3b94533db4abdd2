"""Checks autotune.seal, the list of all other members with CRC-32 and size. Packages of other programs have no seal."""

import zlib

MEMBER, FIRST_LINE = "autotune.seal", "autotune-seal 1"


def check(report, files, needed):
    """Reports each member that its line in the seal does not describe. `needed`: autotune wrote the package."""
    if MEMBER not in files:
        return report.require(not needed, MEMBER, "is missing")
    lines = files[MEMBER].decode("utf-8", "replace").split("\n")
    if not report.require(lines[0] == FIRST_LINE and lines[-1] == "", MEMBER, "does not begin or end as a seal does"):
        return False
    sealed = dict(line.split(" ", 2)[::-2] for line in lines[1:-1] if line.count(" ") >= 2)
    good = report.require(len(sealed) == len(lines) - 2, MEMBER, "has a line without a name, or a name twice")
    for path, data in files.items():
        if path == MEMBER:
            continue
        expected = f"{zlib.crc32(data):08x} {len(data)} {path}"
        good &= report.require(path in sealed, path, f"is not in {MEMBER}")
        good &= report.require(path not in sealed or expected in lines, path, f"differs from its line in {MEMBER}")
    for path in sealed:
        good &= report.require(path in files, path, f"is in {MEMBER}, but not in the package")
    return good
