// `autotune compile --executor aot`: C programs that link the result compute the bytes of the executor; the symbols
// that the result needs; what is refused.
#include <gmock/gmock.h>

#include <cstdio>
#include <fstream>

#include "frontend/onnx/tensor_pb.h"
#include "runtime/npy.h"
#include "tests/frontend/model_maker.h"
#include "tests/tools/cli.h"

namespace autotune::test {
namespace {

using ::testing::HasSubstr;

const std::string kSourceFolder = AUTOTUNE_SOURCE_DIR;
const std::string kStrict = "-std=c99 -Wall -Wextra -Werror -pedantic -D_POSIX_C_SOURCE=200809L ";

class Aot : public CliTest {
 protected:
  // Runs a command of the shell in the test's folder. Returns its output; fails if it fails.
  std::string Shell(const std::string& command) {
    FILE* pipe = popen(("cd '" + folder_ + "' && { " + command + "; } 2>&1").c_str(), "r");
    std::string output;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output += static_cast<char>(c);
    EXPECT_EQ(pclose(pipe), 0) << command << "\n" << output;
    return output;
  }
  CliResult CompileTo(const std::string& model, const std::string& output, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"compile", "--model", model, "--no-records", "--executor", "aot", "-o", File(output)});
    return Run(more);
  }
  // Runs the model's package on the input's file, and returns the bytes of the output.
  std::string BytesOfExecutor(const std::string& model, const std::string& input, const std::string& output,
                              const std::string& target) {
    EXPECT_EQ(Run({"compile", "--model", model, "--no-records", "--target", target, "-o", File("p.tar")}).code, 0);
    EXPECT_EQ(Run({"run", File("p.tar"), "--input", input, "--output-dir", folder_, "--threads", "1"}).code, 0);
    return BytesOf(ReadNpy(File(output + ".npy")).value());
  }
  static std::string BytesOf(const Tensor& tensor) {
    return {static_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.num_bytes())};
  }
  // Writes the elements of a file in ONNX's format, and returns the path.
  std::string WriteRaw(const std::string& pb, const std::string& name) {
    return Write(name, std::string(ReadTensorPb(pb).value().value.bytes.view()));
  }
};

TEST_F(Aot, ComputesTheBytesOfTheExecutor) {
  struct Case {
    std::string target, file, model, data;
  };
  // A C compiler takes long for a large network.
  const Case cases[] = {{"cpu", "resnet20.a", kExample, kExampleData},
                        {"cpu", "resnet20.o", kExample, kExampleData},
                        {"c", "resnet20.o", SmallModel(), SmallData()},
                        {"c", "resnet20.c", SmallModel(), SmallData()}};
  for (const auto& [target, file, model, data] : cases) {
    SCOPED_TRACE(target + " " + file);
    const std::string input = data + "/input_0.pb";
    WriteRaw(input, "in.bin");
    const CliResult compiled = CompileTo(model, file, {"--target", target});
    ASSERT_EQ(compiled.code, 0) << compiled.Text();
    Shell("cc " + kStrict + "-I. -c " + kSourceFolder + "/examples/aot/main.c -o main.o");
    Shell("cc -O2 -std=c99 -Wall -Wextra -Werror -I. main.o " + file + " -o main");
    EXPECT_THAT(Shell("./main in.bin out.bin"), HasSubstr("class "));
    EXPECT_EQ(ReadAll(File("out.bin")), BytesOfExecutor(model, input, "probabilities", target));
    if (file == "resnet20.c") Shell("cc -O1 -std=c99 -I. -c resnet20.c -o resnet20.o");
    if (file == "resnet20.a") continue;
    EXPECT_EQ(Shell("nm -u resnet20.o | grep -vw -e memcpy -e memset || true"), "");
    EXPECT_EQ(Shell("readelf -sW resnet20.o | "
                    "awk '$5 == \"GLOBAL\" && $6 == \"DEFAULT\" && $7 != \"UND\" {print $8}' | sort"),
              "resnet20_metadata\nresnet20_run\n");
  }
}

TEST_F(Aot, TwoNetworksShareAProgramAndItsThreads) {
  ASSERT_EQ(CompileTo(kExample, "resnet20.a").code, 0);
  ASSERT_EQ(CompileTo(SmallModel(), "small.o").code, 0);
  const std::string input = kExampleData + "/input_0.pb", small_input = SmallData() + "/input_0.pb";
  WriteRaw(input, "in.bin");
  WriteRaw(small_input, "small_in.bin");
  Shell("cc " + kStrict + "-O1 -I. " + kSourceFolder + "/tests/tools/aot_pair.c resnet20.a small.o -pthread -o pair");
  Shell("./pair in.bin out.bin small_in.bin small_out.bin");
  EXPECT_EQ(ReadAll(File("out.bin")), BytesOfExecutor(kExample, input, "probabilities", "cpu"));
  EXPECT_EQ(ReadAll(File("small_out.bin")), BytesOfExecutor(SmallModel(), small_input, "probabilities", "cpu"));
}

// The C source has no other global names, so a program may hold several, also with checks of undefined behaviour.
TEST_F(Aot, TwoSourcesShareAProgram) {
  for (const char* file : {"resnet20.c", "small.c"})
    ASSERT_EQ(CompileTo(SmallModel(), file, {"--target", "c"}).code, 0);
  WriteRaw(SmallData() + "/input_0.pb", "in.bin");
  Shell("cc -std=c99 -w -D_POSIX_C_SOURCE=200809L -O1 -fsanitize=undefined -fno-sanitize-recover=undefined -I. " +
        kSourceFolder + "/tests/tools/aot_pair.c resnet20.c small.c -pthread -o pair");
  EXPECT_EQ(Shell("./pair in.bin out.bin in.bin small_out.bin"), "");
  EXPECT_NE(ReadAll(File("out.bin")), "");
  EXPECT_EQ(ReadAll(File("out.bin")), ReadAll(File("small_out.bin")));
}

TEST_F(Aot, ExamplesOfTheDocumentRun) {
  ASSERT_EQ(CompileTo(kExample, "net.a").code, 0);
  const std::string text = ReadAll(kSourceFolder + "/docs/aot.md"), fence = "\n```";
  int programs = 0;
  for (size_t at = text.find("\n```c\n"); at != std::string::npos; at = text.find("\n```c\n", at)) {
    at += 6;
    Write("main.c", text.substr(at, text.find(fence, at) - at + 1));
    Shell("cc " + kStrict + "-I. main.c net.a -pthread -o main");
    EXPECT_NE(Shell("./main"), "");
    ++programs;
  }
  EXPECT_EQ(programs, 2);
}

// Outputs that are an input, a constant, a reshape of an input, and one value twice; names that are none in C.
TEST_F(Aot, CopiesOutputsThatNoKernelWrites) {
  ModelMaker m;
  m.Input("x/1", {2, 3}).Floats("k", {2}, {5, 7}).Floats("two", {1}, {2});
  m.Node("Mul", {"x/1", "two"}, {"y"});
  m.Node("Identity", {"y"}, {"x_1_TYPE"});
  m.Node("Identity", {"x/1"}, {"same"});
  m.Node("Flatten", {"x/1"}, {"flat"}).Int("axis", 0);
  m.Node("Identity", {"k"}, {"constant"});
  m.TypedOutput("y", {2, 3}, 1).TypedOutput("x_1_TYPE", {2, 3}, 1).TypedOutput("same", {2, 3}, 1);
  m.TypedOutput("flat", {1, 6}, 1).TypedOutput("constant", {2}, 1);
  std::ofstream(File("odd.onnx"), std::ios::binary) << m.Bytes();
  const CliResult compiled = CompileTo(File("odd.onnx"), "odd.o");
  ASSERT_EQ(compiled.code, 0) << compiled.Text();
  Write("main.cc", "#include \"odd.h\"\n#include <cstdio>\n" + std::string(R"(
alignas(64) float x[6] = {1, 2, 3, 4, 5, 6}, out[5][16];
alignas(64) char workspace[odd_WORKSPACE_BYTES(1)];
int main() {
  const void* inputs[odd_NUM_INPUTS];
  inputs[odd_INPUT_x_1] = x;
  void* outputs[odd_NUM_OUTPUTS] = {out[0], out[1], out[2], out[3], out[4]};
  if (odd_run(inputs, outputs, workspace, nullptr) != 0) return 1;
  std::printf("%g %g %g %g %g\n", out[odd_OUTPUT_y][5], out[odd_OUTPUT_x_1_TYPE][5], out[odd_OUTPUT_same][5],
              out[odd_OUTPUT_flat][5], out[odd_OUTPUT_constant][1]);
}
)"));
  Shell("c++ -std=c++17 -Wall -Wextra -Werror -pedantic -I. main.cc odd.o -o main");
  EXPECT_EQ(Shell("./main"), "12 12 6 6 7\n");
}

// No current CPU has FMA4 and XOP, so the code cannot run here. scripts/cross.sh runs such programs.
TEST_F(Aot, LeavesThePreparationToTheProgramOfAnotherMachine) {
  const CliResult compiled =
      CompileTo(SmallModel(), "small.a",
                {"--target", "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -mattr=+fma4,+xop -num-cores=1"});
  ASSERT_EQ(compiled.code, 0) << compiled.Text();
  EXPECT_THAT(compiled.err, HasSubstr("the constants cannot be prepared on this machine"));
  Write("main.c", "#include \"small.h\"\n" + std::string(R"(#include <stdio.h>
static char memory[small_WORKSPACE_BYTES(1) + small_INPUT_image_BYTES + small_OUTPUT_probabilities_BYTES + 256];
int main(void) {
  char* workspace = memory + (64 - (uintptr_t)memory % 64);
  const void* inputs[1];
  void* outputs[1];
  inputs[0] = outputs[0] = workspace + (small_WORKSPACE_BYTES(1) + 63) / 64 * 64;
  if (small_prepare(workspace + 4) != small_BAD_ARGUMENT) return 1;
  return small_NEEDS_PREPARE && small_run(inputs, outputs, workspace, NULL) == small_NOT_PREPARED ? 0 : 1;
}
)"));
  Shell("cc " + kStrict + "-I. main.c small.a -o main && ./main");
  ASSERT_EQ(CompileTo(SmallModel(), "small.a").code, 0);
  EXPECT_THAT(ReadAll(File("small.h")), ::testing::Not(HasSubstr("PREPARE")));
}

TEST_F(Aot, RefusesInOneLine) {
  const auto refused = [&](const CliResult& result, int code, const std::string& words) {
    EXPECT_EQ(result.code, code) << result.Text();
    EXPECT_THAT(Lines(result.err), ::testing::AnyOf(::testing::SizeIs(1), ::testing::SizeIs(2))) << result.Text();
    EXPECT_THAT(result.err, HasSubstr(words));
  };
  refused(CompileTo(SmallModel(), "net.tar"), 2, "name it NAME.a, an archive, NAME.o, an object, or NAME.c");
  refused(Run({"compile", "--model", SmallModel(), "-o", File("net.a")}), 2, "--executor aot");
  refused(CompileTo(SmallModel(), "my-net.a"), 1, "my-net_run, which is no name in C");
  refused(CompileTo(SmallModel(), "7.o"), 1, "7_run, which is no name in C");
  refused(CompileTo(SmallModel(), "net.c"), 1, "the target's kernels are no C sources");
  refused(CompileTo(SmallModel(), "net.a", {"--target", "cuda -arch=sm_80"}), 1, "the target is a GPU");
  EXPECT_FALSE(std::filesystem::exists(File("net.a")) || std::filesystem::exists(File("net.h")));
  setenv("AUTOTUNE_CC", "/nonexistent/cc", 1);
  const CliResult without_compiler = CompileTo(SmallModel(), "net.a");
  unsetenv("AUTOTUNE_CC");
  refused(without_compiler, 1, "the C compiler `/nonexistent/cc`");
  EXPECT_FALSE(std::filesystem::exists(File("net.a")));
  for (const char* file : {"net.a", "net.o"}) {
    ASSERT_EQ(CompileTo(SmallModel(), file).code, 0);
    for (const char* command : {"run", "bench"})
      refused(Run({command, File(file)}), 1, std::string(file) + " is for linkers");
  }
}

}  // namespace
}  // namespace autotune::test
