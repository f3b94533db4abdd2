"""Reads a package's tarball into {path: bytes}.

The format says "a tarball", so a compressed one is accepted. Each member is a regular file or a folder below the root
and occurs once. TVM writes their names with a leading "./".
"""

import lzma
import posixpath
import tarfile
import zlib

BLOCK = 512
END = bytes(2 * BLOCK)  # POSIX: two blocks of zeros end an archive


def read(report, path):
    """Returns the files by path, without a leading "./"; None after reporting that the archive cannot be read."""
    try:
        with tarfile.open(path) as archive:
            members = archive.getmembers()
            check_end(report, archive, members)
            return read_members(report, archive, members)
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        report.add("archive", f"cannot be read: {error}")
        return None


def check_end(report, archive, members):
    """Reports data after the last member. The module tarfile does not: it ends silently at the first damaged header."""
    last = max((m.offset_data + (m.size if m.isreg() else 0) for m in members), default=0)
    archive.fileobj.seek((last + BLOCK - 1) // BLOCK * BLOCK)
    rest = archive.fileobj.read()
    report.require(rest.startswith(END) and not any(rest), "archive",
                   "does not end with blocks of zeros after the last member")


def read_members(report, archive, members):
    files, seen = {}, set()
    for member in members:
        name = posixpath.normpath(member.name)
        if name.startswith("/") or ".." in member.name.split("/"):
            report.add(member.name, "points outside the archive's root")
        elif not (member.isreg() or member.isdir()):
            report.add(member.name, "is neither a regular file nor a folder")
        elif name in (files if member.isdir() else seen):
            report.add(member.name, "occurs twice in the archive")
        elif member.isreg():
            files[name] = archive.extractfile(member).read()
        seen.add(name)
    return files
