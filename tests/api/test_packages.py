"""`cpack -G DEB`: six packages with the right contents, dependencies and sizes, which work wherever they are unpacked.
scripts/package.sh --check installs them in a bare Debian."""

import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import BUILD, SOURCE, TAR

sys.path.insert(0, os.path.join(SOURCE, "scripts"))
import licences

NAMES = {
    "programs": "autotune",
    "runtime": "libautotune-runtime0",
    "dev": "libautotune-dev",
    "compiler": "libautotune0",
    "compiler-dev": "libautotune-compiler-dev",
    "python": "python3-autotune",
}
MOST_KIB = 3072  # installed, of the runtime


def output_of(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise AssertionError("%s\n%s" % (" ".join(command), done.stdout))
    return done.stdout


@unittest.skipUnless(shutil.which("dpkg-deb") and shutil.which("dpkg-shlibdeps"), "skipped: needs dpkg-dev")
class PackagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="autotune-packages-")
        config = os.path.join(BUILD, "packages", "CPackConfig.cmake")
        output_of(
            "cpack", "-G", "DEB", "--config", config, "-B", cls.folder, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip"
        )  # fmt: skip
        cls.files = {name.split("_")[0]: os.path.join(cls.folder, name) for name in os.listdir(cls.folder)
                     if name.endswith(".deb")}  # fmt: skip
        cls.root = os.path.join(cls.folder, "a root")
        for file in cls.files.values():
            output_of("dpkg-deb", "-x", file, cls.root)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def field(self, component, name):
        return output_of("dpkg-deb", "-f", self.files[NAMES[component]], name).strip()

    def control(self, component):
        """The names of the control files of a package."""
        place = os.path.join(self.folder, "control-" + component)
        if not os.path.exists(place):
            output_of("dpkg-deb", "-e", self.files[NAMES[component]], place)
        return place

    def paths(self, component):
        listed = output_of("dpkg-deb", "-c", self.files[NAMES[component]])
        return re.findall(r"(?m) \./(\S*[^/\n])(?: -> .*)?$", listed)

    def test_there_is_a_package_of_each_component(self):
        self.assertEqual(sorted(self.files), sorted(NAMES.values()))
        for component, name in NAMES.items():
            self.assertIn("usr/share/doc/%s/copyright" % name, self.paths(component))
            self.assertRegex(self.field(component, "Version"), r"^\d+\.\d+\.\d+$")
            self.assertRegex(self.field(component, "Description"), r"^\S.*\n \S")
            place = os.path.join(self.root, "usr/share/doc", name)
            with gzip.open(place + "/changelog.gz", "rt") as file:
                self.assertRegex(file.read(), r"^%s \(%s\) unstable" % (name, self.field(component, "Version")))
            with open(place + "/copyright", encoding="utf-8") as file:
                self.assertEqual(file.read(), licences.debian_copyright(component))

    def test_programs_and_libraries_need_the_packages_that_they_load(self):
        for name in ("libllvm19", "libxgboost0", "libzmq5", "libc6"):
            self.assertRegex(self.field("programs", "Depends"), r"\b%s\b" % name)
        self.assertEqual(
            sorted(re.findall(r"[a-z][a-z0-9+-]+[0-9]", re.sub(r"\(.*?\)", "", self.field("runtime", "Depends")))),
            ["libc6", "libgcc-s1", "libstdc++6"],
        )
        version = self.field("runtime", "Version")
        self.assertEqual(self.field("dev", "Depends"), "libautotune-runtime0 (= %s)" % version)
        self.assertIn("libautotune-runtime0 (= %s)" % version, self.field("python", "Depends"))
        # The compiler's library needs the programs, and Python works without it.
        needed = self.field("compiler", "Depends")
        for name in ("autotune", "libautotune-runtime0"):
            self.assertIn("%s (= %s)" % (name, version), needed)
        self.assertNotIn("libllvm", needed)
        self.assertEqual(
            sorted(self.field("compiler-dev", "Depends").split(", ")),
            ["%s (= %s)" % (name, version) for name in ("libautotune-dev", "libautotune0")],
        )
        self.assertEqual(self.field("python", "Recommends"), "libautotune0 (= %s)" % version)
        self.assertNotRegex(self.field("python", "Depends"), r"libautotune\d")
        self.assertEqual(self.field("python", "Architecture"), "all")
        self.assertNotEqual(self.field("runtime", "Architecture"), "all")

    def test_the_sizes_are_those_of_the_files(self):
        self.assertLessEqual(int(self.field("runtime", "Installed-Size")), MOST_KIB)
        for component in NAMES:
            sizes = []
            for path in self.paths(component):
                place = os.path.join(self.root, path)
                sizes.append(1 if os.path.islink(place) else -(-os.path.getsize(place) // 1024))
            least = sum(sizes)  # without folders
            self.assertTrue(least <= int(self.field(component, "Installed-Size")) <= least + 40, component)

    def test_dpkg_updates_the_loader_and_no_script_does(self):
        control = self.control("runtime")
        self.assertEqual(sorted(os.listdir(control)), ["control", "md5sums", "shlibs", "triggers"])
        with open(control + "/shlibs") as file:
            self.assertRegex(file.read(), r"^libautotune_runtime 0 libautotune-runtime0 \(>= [0-9.]+\)")
        with open(self.control("compiler") + "/shlibs") as file:
            self.assertRegex(file.read(), r"^libautotune 0 libautotune0 \(>= [0-9.]+\)")
        self.assertEqual(sorted(os.listdir(self.control("python"))), ["control", "md5sums", "postinst", "prerm"])

    def test_programs_have_pages_and_completions_and_no_path_of_libraries(self):
        paths = self.paths("programs")
        for program in ("autotune", "rpc_server", "rpc_tracker"):
            for path in ("bin/", "share/bash-completion/completions/"):
                self.assertIn("usr/" + path + program, paths)
            self.assertIn("usr/share/man/man1/%s.1.gz" % program, paths)
            self.assertIn("usr/share/fish/vendor_completions.d/%s.fish" % program, paths)
            self.assertTrue([path for path in paths if re.match(r"usr/share/zsh/.*/_%s$" % program, path)])
            dynamic = output_of("readelf", "-dS", os.path.join(self.root, "usr/bin", program))
            self.assertNotRegex(dynamic, r"RUNPATH|RPATH|\.symtab")
        (library,) = [path for path in self.paths("compiler") if path.endswith(".so.%s" % self.field("dev", "Version"))]
        self.assertNotRegex(output_of("readelf", "-dS", os.path.join(self.root, library)), r"RUNPATH|RPATH|\.symtab")

    def test_they_work_where_they_are_unpacked(self):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("AUTOTUNE_", "PYTHONPATH"))}
        packages = os.path.join(self.root, "usr/lib/python3/dist-packages")
        program = "import autotune, sys; print(autotune.load(sys.argv[1]).get_outputs()[0].name, autotune._library.LIB)"
        output = output_of(sys.executable, "-c", program, TAR, env=dict(environment, PYTHONPATH=packages))
        self.assertRegex(output, "^probabilities .*%s/usr/lib/" % re.escape(self.root))
        self.assertIn("autotune", output_of(os.path.join(self.root, "usr/bin/autotune"), "--version", env=environment))
        compiles = "import autotune, sys; print(autotune.compile(sys.argv[1], sys.argv[2])['package'])"
        place = os.path.join(self.folder, "compiled.tar")
        model = os.path.join(SOURCE, "examples", "resnet20.onnx")
        environment.update(PYTHONPATH=packages, AUTOTUNE_DB=os.path.join(self.folder, "none.db"))
        self.assertIn(place, output_of(sys.executable, "-c", compiles, model, place, env=environment))

    @unittest.skipUnless(shutil.which("lintian"), "no lintian")
    def test_lintian_has_no_error(self):
        output_of("lintian", "--fail-on", "error", *self.files.values())


if __name__ == "__main__":
    unittest.main()
