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

TEST_F(CudaCommands, UnknownArchitecturesAreNamed) {
  const CliResult refused =
      Run({"compile", "--model", test::kExample, "--target", "cuda -arch=sm_35", "-o", File("m.tar")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("-arch: 'sm_35' is unknown; known: sm_75, sm_80, sm_86, sm_89, sm_90"));
  EXPECT_THAT(Lines(refused.err), SizeIs(1));
}

}  // namespace
}  // namespace autotune
