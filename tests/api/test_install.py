"""`cmake --install` to a prefix: a project of two files finds the libraries by CMake and by pkg-config, and Python finds
the package there, after the prefix was moved. The compiler finds its programs in the prefix."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import BUILD, SOURCE, TAR

MAIN = """
#include <autotune/c_api.h>
#include <stdio.h>
int main(int argc, char** argv) {
  autotune_executor* executor = NULL;
  if (argc != 2 || autotune_executor_load(argv[1], NULL, &executor)) {
    fprintf(stderr, "%s\\n", autotune_last_error());
    return 1;
  }
  printf("%d input\\n", (int)autotune_executor_num_inputs(executor));
  autotune_executor_free(executor);
  return 0;
}
"""
LISTS = """
cmake_minimum_required(VERSION 3.16)
project(user C)
find_package(autotune 0.2 REQUIRED)
add_executable(user main.c)
target_link_libraries(user PRIVATE autotune::runtime)
"""

COMPILES = """
#include <autotune/compiler_c_api.h>
#include <stdio.h>
int main(int argc, char** argv) {
  autotune_request* request = NULL;
  char* report = NULL;
  if (argc != 3 || autotune_request_create(&request) || autotune_request_set(request, "model", argv[1]) ||
      autotune_request_set(request, "schedules", "default") || autotune_compile_file(request, argv[2], &report)) {
    fprintf(stderr, "%s\\n", autotune_last_error());
    return 1;
  }
  printf("%s\\n", report);
  autotune_text_free(report);
  autotune_request_free(request);
  return 0;
}
"""
COMPILER_LISTS = LISTS.replace("autotune::runtime", "autotune::autotune")
MODEL = os.path.join(SOURCE, "examples", "resnet20.onnx")


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise AssertionError("%s\n%s" % (" ".join(command), done.stdout))
    return done.stdout


class Prefix:
    """A prefix with some components, which was moved after the installation."""

    components = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="autotune-install-")
        first = os.path.join(cls.folder, "first")
        for component in cls.components:
            run("cmake", "--install", BUILD, "--prefix", first, "--component", component)
        cls.prefix = os.path.join(cls.folder, "a prefix")
        os.rename(first, cls.prefix)
        cls.library = next(root for root, _, names in os.walk(cls.prefix) if "libautotune_runtime.so.0" in names)
        cls.environment = {k: v for k, v in os.environ.items() if not k.startswith(("AUTOTUNE_", "PYTHONPATH"))}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def write(self, name, **files):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        for file, text in files.items():
            with open(os.path.join(folder, file.replace("_", ".")), "w") as out:
                out.write(text)
        return folder


class InstallTest(Prefix, unittest.TestCase):
    components = ("runtime", "dev", "python")

    def test_a_cmake_project_of_two_files(self):
        folder = self.write("project", main_c=MAIN, CMakeLists_txt=LISTS)
        run("cmake", "-S", folder, "-B", folder + "/build", "-DCMAKE_PREFIX_PATH=" + self.prefix, env=self.environment)
        run("cmake", "--build", folder + "/build", env=self.environment)
        self.assertEqual(run(folder + "/build/user", TAR, env=self.environment), "1 input\n")
        newer = self.write("newer", main_c=MAIN, CMakeLists_txt=LISTS.replace("0.2", "9.0"))
        with self.assertRaisesRegex(AssertionError, "9.0"):
            run("cmake", "-S", newer, "-B", newer + "/build", "-DCMAKE_PREFIX_PATH=" + self.prefix, env=self.environment)
        compiler = self.write("compiler", main_c=COMPILES, CMakeLists_txt=COMPILER_LISTS)  # which is not installed
        with self.assertRaisesRegex(AssertionError, "autotune::autotune"):
            run("cmake", "-S", compiler, "-B", compiler + "/build", "-DCMAKE_PREFIX_PATH=" + self.prefix)

    @unittest.skipUnless(shutil.which("pkg-config"), "no pkg-config")
    def test_pkg_config(self):
        folder = self.write("plain", main_c=MAIN)
        environment = dict(self.environment, PKG_CONFIG_PATH=self.library + "/pkgconfig")
        flags = shlex.split(run("pkg-config", "--cflags", "--libs", "autotune-runtime", env=environment))
        run("cc", "-std=c99", "-o", "user", "main.c", *flags, "-Wl,-rpath," + self.library, cwd=folder)
        self.assertEqual(run(folder + "/user", TAR, env=self.environment), "1 input\n")
        self.assertEqual(run("pkg-config", "--modversion", "autotune-runtime", env=environment).strip(), "0.2.0")

    def test_the_python_package_finds_the_library(self):
        packages = os.path.join(self.prefix, "lib", "python3", "dist-packages")
        program = "import autotune, sys; print(autotune._library.LIB._name, autotune.load(sys.argv[1]).get_inputs()[0].name)"
        output = run(sys.executable, "-c", program, TAR, env=dict(self.environment, PYTHONPATH=packages))
        self.assertEqual(output, self.library + "/libautotune_runtime.so.0 image\n")
        self.assertIn("py.typed", os.listdir(packages + "/autotune"))
        alone = os.path.join(self.folder, "alone")
        shutil.copytree(packages + "/autotune", alone + "/autotune")
        with self.assertRaisesRegex(AssertionError, "install the runtime library, or set AUTOTUNE_RUNTIME_LIBRARY"):
            run(sys.executable, "-c", program, TAR, env=dict(self.environment, PYTHONPATH=alone))


class CompilerInstallTest(Prefix, unittest.TestCase):
    components = ("runtime", "dev", "compiler", "compiler-dev", "programs", "python")

    def check(self, program):
        package = os.path.join(self.folder, "net.tar")
        self.assertIn('"model":"resnet20"', run(program, MODEL, package, env=self.environment))
        self.assertTrue(os.path.exists(package))
        os.remove(package)

    def test_a_cmake_project_of_two_files(self):
        folder = self.write("project", main_c=COMPILES, CMakeLists_txt=COMPILER_LISTS)
        run("cmake", "-S", folder, "-B", folder + "/build", "-DCMAKE_PREFIX_PATH=" + self.prefix, env=self.environment)
        run("cmake", "--build", folder + "/build", env=self.environment)
        self.check(folder + "/build/user")

    @unittest.skipUnless(shutil.which("pkg-config"), "no pkg-config")
    def test_pkg_config(self):
        folder = self.write("plain", main_c=COMPILES)
        environment = dict(self.environment, PKG_CONFIG_PATH=self.library + "/pkgconfig")
        flags = shlex.split(run("pkg-config", "--cflags", "--libs", "autotune", env=environment))
        run("cc", "-std=c99", "-o", "user", "main.c", *flags, "-Wl,-rpath," + self.library, cwd=folder)
        self.check(folder + "/user")

    def test_the_python_package_finds_library_and_programs(self):
        packages = os.path.join(self.prefix, "lib", "python3", "dist-packages")
        program = "import autotune, sys; print(autotune.compile(*sys.argv[1:], schedules='default')['model'])"
        command = [sys.executable, "-c", program, MODEL, os.path.join(self.folder, "net.tar")]
        environment = dict(self.environment, PYTHONPATH=packages)
        self.assertEqual(run(*command, env=environment), "resnet20\n")
        for root, _, names in os.walk(self.prefix):
            if "rpc_server" in names and "autotune" in names:
                os.rename(root, root + ".away")
        with self.assertRaisesRegex(AssertionError, "cannot find the executable autotune in .*AUTOTUNE_LIBEXEC"):
            run(*command, env=environment)
        os.rename(os.path.join(self.prefix, "bin.away"), os.path.join(self.prefix, "bin"))


if __name__ == "__main__":
    unittest.main()
