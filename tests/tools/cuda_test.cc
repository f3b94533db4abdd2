// Networks for NVIDIA GPUs, compiled on any machine.
#include <gmock/gmock.h>

#include "package/package.h"
#include "support/file.h"
#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::CliResult;
using test::Lines;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class CudaCommands : public test::CliTest {};

TEST_F(CudaCommands, ANetworkIsCompiledWithoutAGpu) {
  const CliResult compiled =
      Run({"compile", "--model", test::kExample, "--target", "cuda -arch=sm_80", "-o", File("m.tar")});
  ASSERT_EQ(compiled.code, 0) << compiled.Text();
  EXPECT_THAT(compiled.out, HasSubstr("for 108 units of a GPU sm_80"));
  const std::string bytes = ReadFile(File("m.tar")).value();
  EXPECT_THAT(bytes, HasSubstr("codegen/cuda/k0_conv2d_add_add_relu.ptx"));
  EXPECT_THAT(bytes, HasSubstr(".visible .entry k0_conv2d_add_add_relu_0("));
  EXPECT_EQ(Run({"compile", "--model", test::kExample, "--target", "cuda -arch=sm_80", "-o", File("m.so")}).code, 0);
  EXPECT_THAT(ReadFile(File("m.so")).value(), HasSubstr(".visible .entry k0_conv2d_add_add_relu_0("));
}

TEST_F(CudaCommands, OldArchitecturesAreRefusedInOneLine) {
  const CliResult refused =
      Run({"compile", "--model", test::kExample, "--target", "cuda -arch=sm_60", "-o", File("m.tar")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("-arch: 'sm_60' is no architecture since sm_70"));
  EXPECT_THAT(Lines(refused.err), SizeIs(1));
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

}  // namespace
}  // namespace autotune
