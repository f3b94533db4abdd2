// `autotune inspect` on a supported model, an unsupported model, and files that are no models.
#include <gmock/gmock.h>

#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::CliResult;
using test::kExample;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

class InspectCommand : public test::CliTest {};

const std::string kUnsupported = std::string(AUTOTUNE_SOURCE_DIR) + "/tests/fuzz/corpus/onnx/adagrad";

TEST_F(InspectCommand, ShowsTensorsOperatorsAndWork) {
  CliResult result = Run({"inspect", kExample});
  EXPECT_EQ(result.code, 0) << result.err;
  std::vector<std::string> lines = test::Lines(result.out);
  EXPECT_THAT(lines, Contains("inputs       image  f32[1,3,32,32]"));
  EXPECT_THAT(lines, Contains("outputs      probabilities  f32[1,10]"));
  EXPECT_THAT(lines, Contains("parameters   274042 numbers, 1.096 MB"));
  // 21 convolutions with 40.8 million multiply-adds, minus those that padding saves.
  EXPECT_THAT(lines, Contains(MatchesRegex("Conv +21 +8[01]\\.[0-9]{3} +2\\.[0-9]{3}")));
  EXPECT_THAT(lines, Contains(MatchesRegex("Gemm +1 +0\\.001 +0\\.003")));
  EXPECT_THAT(lines, Contains(MatchesRegex("all +74 .*")));
  EXPECT_THAT(result.out, Not(HasSubstr("not supported")));
  // Two images double the counts, except for the weights.
  CliResult two = Run({"inspect", "--model", kExample, "--shape", "image:2,3,32,32"});
  EXPECT_THAT(test::Lines(two.out), Contains(MatchesRegex("Conv +21 +16[0-9]\\.[0-9]{3} +4\\.[0-9]{3}")));
}

TEST_F(InspectCommand, ListsWhatIsNotSupported) {
  CliResult result = Run({"inspect", kUnsupported});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, AllOf(HasSubstr("ai.onnx.preview.training.Adagrad"), HasSubstr("\nnot supported:\n"),
                                HasSubstr("  ai.onnx.preview.training.Adagrad (node #0) is not supported\n"),
                                Not(HasSubstr("MFLOPs"))));
  EXPECT_THAT(result.err, HasSubstr("cannot be imported: 1 problem, listed above"));
}

TEST_F(InspectCommand, ShowsPackages) {
  ASSERT_EQ(Run({"compile", "--model", SmallModel(), "--no-records", "-o", File("m.tar")}).code, 0);
  CliResult result = Run({"inspect", File("m.tar")});
  EXPECT_EQ(result.code, 0) << result.err;
  std::vector<std::string> lines = test::Lines(result.out);
  EXPECT_THAT(lines, Contains("inputs       image  f32[1,3,12,12]"));
  EXPECT_THAT(lines, Contains(MatchesRegex("[0-9a-f]{8} +[0-9.]+ +[a-z0-9_]+ +no +conv2d_add_relu .*")));
  EXPECT_THAT(lines, Contains(MatchesRegex("[0-9]+ kernels, 0 of them tuned")));
  // A shared object gives the same report as the package.
  ASSERT_EQ(Run({"compile", "--model", SmallModel(), "--no-records", "-o", File("m.so")}).code, 0);
  CliResult shared = Run({"inspect", File("m.so")});
  EXPECT_EQ(shared.code, 0) << shared.err;
  EXPECT_EQ(shared.out, result.out);
  CliResult no_object = Run({"inspect", Write("damaged.so",
                                              "\x7f"
                                              "ELF")});
  EXPECT_EQ(no_object.code, 1);
  EXPECT_THAT(no_object.err, HasSubstr("damaged.so"));
  CliResult damaged = Run({"inspect", Write("damaged.tar", "no package")});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_THAT(damaged.err, HasSubstr("damaged.tar"));
}

TEST_F(InspectCommand, NamesTheMachineOfAPackageInWords) {
  const std::string target = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72 -num-cores=4", package = File("m.tar");
  ASSERT_EQ(Run({"compile", "--op", "softmax:4,10", "--target", target, "-o", package}).code, 0);
  const CliResult result = Run({"inspect", package});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(test::Lines(result.out), Contains(MatchesRegex("package +[^ ]+, for 4 cores of cortex-a72 \\(NEON\\)")));
  EXPECT_THAT(result.out, Not(HasSubstr("-mtriple")));
  const CliResult verbose = Run({"inspect", package, "--verbose"});
  EXPECT_THAT(verbose.out, AllOf(HasSubstr("for 4 cores of cortex-a72 (NEON)\ntarget       llvm -mtriple=aarch64"),
                                 HasSubstr("-mcpu=cortex-a72")));
}

TEST_F(InspectCommand, WhatIsNoModelIsOneLine) {
  CliResult result = Run({"inspect", Write("m.onnx", "no model")});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "error: " + File("m.onnx") + " is not an ONNX model (damaged or cut short?)\n");
  EXPECT_EQ(Run({"inspect"}).code, 2);
  CliResult dim = Run({"inspect", kExample, "--dim", "batch=2"});
  EXPECT_EQ(dim.code, 1);
  EXPECT_THAT(dim.out, HasSubstr("--dim names 'batch', which no input of the model has"));
  EXPECT_THAT(Run({"inspect", kExample, "--dim", "batch"}).err, HasSubstr("--dim batch is not of the form name=128"));
}

}  // namespace
}  // namespace autotune
