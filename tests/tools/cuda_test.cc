// Networks for NVIDIA GPUs, compiled on any machine.
#include <gmock/gmock.h>

#include "package/package.h"
#include "support/file.h"
#include "support/json.h"
#include "support/printf_text.h"
#include "tests/tools/cli.h"
#include "tools/autotune/text.h"

namespace autotune {
namespace {

using test::CliResult;
using test::Lines;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class CudaCommands : public test::CliTest {};

TEST_F(CudaCommands, ANetworkIsCompiledWithoutAGpu) {
  const CliResult compiled =
      Run({"compile", "--model", SmallModel(), "--target", "cuda -arch=sm_80", "-o", File("m.tar")});
  ASSERT_EQ(compiled.code, 0) << compiled.Text();
  EXPECT_THAT(compiled.out, HasSubstr("for 108 units of a GPU sm_80"));
  const std::string bytes = ReadFile(File("m.tar")).value();
  EXPECT_THAT(bytes, HasSubstr("codegen/cuda/k0_conv2d_add_relu.ptx"));
  EXPECT_THAT(bytes, HasSubstr(".visible .entry k0_conv2d_add_relu_0("));
  EXPECT_EQ(Run({"compile", "--model", SmallModel(), "--target", "cuda -arch=sm_80", "-o", File("m.so")}).code, 0);
  EXPECT_THAT(ReadFile(File("m.so")).value(), HasSubstr(".visible .entry k0_conv2d_add_relu_0("));
}

TEST_F(CudaCommands, OldArchitecturesAreRefusedInOneLine) {
  const CliResult refused =
      Run({"compile", "--model", SmallModel(), "--target", "cuda -arch=sm_60", "-o", File("m.tar")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("-arch: 'sm_60' is no architecture since sm_70"));
  EXPECT_THAT(Lines(refused.err),
              ::testing::AnyOf(SizeIs(1), ::testing::ElementsAre(::testing::_, ::testing::StartsWith("hint: "))));
}

// A note says which PTX is made for a GPU whose own PTX is not written; a known architecture needs no note.
TEST_F(CudaCommands, ANoteNamesThePtxOfANewArchitecture) {
  for (const auto& [arch, ptx] :
       {std::pair{"sm_70", "sm_70"}, {"sm_90a", "sm_90"}, {"sm_100", "sm_90"}, {"sm_999", "sm_90"}}) {
    const CliResult compiled = Run({"compile", "--op", "matmul:16,16,16", "--target", "cuda -arch=" + std::string(arch),
                                    "--db", ":memory:", "-o", File("m.tar")});
    ASSERT_EQ(compiled.code, 0) << compiled.Text();
    const std::string note = "the code for " + std::string(arch) + " is PTX for " + ptx;
    EXPECT_EQ(compiled.Text().find(note) != std::string::npos, std::string_view(arch) != ptx) << compiled.Text();
    EXPECT_THAT(ReadFile(File("m.tar")).value(), HasSubstr("\n.target " + std::string(ptx) + "\n"));
  }
}

// The list of tasks names those that no rule schedules. A large product is scheduled, so its list is empty.
TEST_F(CudaCommands, TheListOfTasksNamesWhatNoRuleBinds) {
  const CliResult product =
      Run({"tune", "--op", "matmul:256,256,256", "--target", "cuda -arch=sm_90", "--tasks", "list"});
  EXPECT_EQ(product.code, 0) << product.Text();
  EXPECT_THAT(product.out, HasSubstr("\n0 tasks with loops that no rule binds to threads (bind_rest), 0.0 % of the"));
  const CliResult network = Run({"tune", "--model", SmallModel(), "--target", "cuda -arch=sm_90", "--tasks", "list"});
  EXPECT_EQ(network.code, 0) << network.Text();
  EXPECT_THAT(network.out, HasSubstr("with loops that no rule binds to threads (bind_rest), "));
  EXPECT_THAT(Run({"tune", "--model", SmallModel(), "--tasks", "list"}).out, Not(HasSubstr("bind_rest")));

  // --json tells the same of each task.
  double shares = 0, predicted = 0;
  int unbound = 0;
  for (const std::string& line : test::Lines(
           Run({"tune", "--model", SmallModel(), "--target", "cuda -arch=sm_90", "--tasks", "list", "--json"}).out)) {
    const Json task = Json::Parse(line).value();
    const double calls = task["weight"].Number().value(), ms = task["bind_rest_ms"].Number().value();
    shares += task["bind_rest_share"].Number().value();
    predicted += calls * task["predicted_ms"].Number().value();
    unbound += ms > 0;
    EXPECT_LE(ms, task["predicted_ms"].Number().value());
  }
  EXPECT_GT(unbound, 0);
  EXPECT_THAT(network.out, HasSubstr("\n" + CountText(unbound, "task") + " with loops that no rule"));
  EXPECT_THAT(network.out,
              HasSubstr(Format("(bind_rest), %.1f %% of the predicted %.4g ms\n", 100 * shares, predicted)));
  EXPECT_THAT(Run({"tune", "--model", SmallModel(), "--tasks", "list", "--json"}).out, Not(HasSubstr("bind_rest")));
}

}  // namespace
}  // namespace autotune
