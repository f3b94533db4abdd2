"""scripts/licences.py: the list of packages whose code our files contain is the one of the build, and every licence is
in the copyright file of Debian's packages."""

import os
import re
import shutil
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import BUILD, SOURCE

sys.path.insert(0, os.path.join(SOURCE, "scripts"))
import licences

LIBRARY = os.path.relpath(os.path.realpath(os.environ["AUTOTUNE_RUNTIME_LIBRARY"]), BUILD)
COMPILER = os.path.relpath(os.path.realpath(os.environ["AUTOTUNE_COMPILER_LIBRARY"]), BUILD)
PROGRAMS = ["tools/autotune", "tools/rpc_server", "tools/rpc_tracker"]


class LicencesTest(unittest.TestCase):
    @unittest.skipUnless(shutil.which("ninja") and os.path.exists(os.path.join(BUILD, "build.ninja")), "no ninja")
    def test_the_list_is_what_the_build_reads(self):
        self.assertEqual(licences.links(BUILD, [LIBRARY]), sorted(licences.CONTAINED["runtime"]))
        self.assertEqual(licences.links(BUILD, PROGRAMS), sorted(licences.CONTAINED["programs"]))
        self.assertEqual(licences.links(BUILD, [COMPILER]), sorted(licences.CONTAINED["compiler"]))
        # What a target does not use is not in its list.
        self.assertNotIn("llvm-19-dev", licences.links(BUILD, PROGRAMS[1:]))
        self.assertIn("libgtest-dev", licences.links(BUILD, ["tests/test_support"]))

    def test_a_copyright_file_names_all_and_is_whole(self):
        for component in ("programs", "runtime", "dev", "compiler", "compiler-dev", "python"):
            text = licences.debian_copyright(component)
            for package in licences.CONTAINED.get(component, []):
                self.assertRegex(text, r"(?m)^(Files: (.* )?| +)%s/" % re.escape(package), component)
            defined, named = set(), set()
            for fields in licences.paragraphs(text):
                title, _, body = fields["License"].partition("\n")
                if body:
                    self.assertNotIn(title, defined, "two texts of one name")
                    defined.add(title)
                if "Files" in fields:
                    named |= set(re.split(r"\s+(?:or|and)\s+", title))
                    self.assertTrue(fields["Copyright"])
            self.assertEqual(named, defined, component)
        self.assertNotIn("libfmt", licences.debian_copyright("python"))

    def test_licences_of_one_name_and_two_texts_keep_both(self):
        packages = {}
        for name, body in (("one", "Do."), ("two", "Do not."), ("three", "Do.")):
            packages[name] = "Format: x\n\nFiles: *\nCopyright: %s\nLicense: L\n %s\n" % (name, body)
        bodies = {}
        with mock.patch.object(licences, "read", packages.get):
            lines = [licences.section(name, [], bodies) for name in packages]
        self.assertEqual(bodies, {"L": "\n Do.", "L~two": "\n Do not."})
        self.assertEqual([each[2] for each in lines], ["License: L", "License: L~two", "License: L"])

    def test_common_licences_are_added_in_full(self):
        texts = licences.texts(["libseccomp-dev", "libfmt-dev", "libdlpack-dev"])
        common = ["Apache-2.0", "CC0-1.0", "LGPL-2.1"]
        self.assertEqual(sorted(texts), common + ["libdlpack-dev", "libfmt-dev", "libseccomp-dev"])
        self.assertIn("GNU LESSER GENERAL PUBLIC LICENSE", texts["LGPL-2.1"])


if __name__ == "__main__":
    unittest.main()
