// `autotune quantize`: from a model to a quantized one that compiles and runs, and what it refuses.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>

#include "archives/npz.h"
#include "runtime/npy.h"
#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::CliResult;
using test::kExample;
using test::Lines;
using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr double kMostError = 0.02;  // of ResNet-20, whose weights are random: 0.0102 when this was written
const std::string kSamples = std::string(AUTOTUNE_SOURCE_DIR) + "/examples/resnet20";

class QuantizeCommand : public test::CliTest {
 protected:
  Json Quantized(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"quantize", "--json", "-o", File("q.onnx")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CliResult result = Run(arguments);
    EXPECT_EQ(result.code, 0) << result.Text();
    return Json::Parse(result.out).value();
  }
  void ExpectRefused(std::vector<std::string> arguments, const std::vector<std::string>& words, int code = 1) {
    arguments.insert(arguments.begin(), "quantize");
    if (std::ranges::count(arguments, "-o") == 0) arguments.insert(arguments.end(), {"-o", File("refused.onnx")});
    const CliResult result = Run(arguments);
    EXPECT_EQ(result.code, code) << result.Text();
    EXPECT_THAT(Lines(result.err),
                AnyOf(ElementsAre(StartsWith("error: ")), ElementsAre(StartsWith("error: "), StartsWith("hint: "))));
    for (const std::string& word : words) EXPECT_THAT(result.err, HasSubstr(word));
    EXPECT_FALSE(std::filesystem::exists(File("refused.onnx")));
  }
  // Runs a model on an image, and returns its output.
  std::vector<float> Outputs(const std::string& model, const std::string& image) {
    EXPECT_EQ(Run({"compile", "--model", model, "--no-records", "-o", File("m.tar")}).code, 0);
    const CliResult run = Run({"run", File("m.tar"), "--input", image, "--output-dir", File("out")});
    EXPECT_EQ(run.code, 0) << run.Text();
    const Tensor output = ReadNpy(File("out/probabilities.npy")).value();
    return {output.Data<float>(), output.Data<float>() + output.num_elements()};
  }
};

double Number(const Json& json, const char* name) {
  if (const auto* whole = json[name].As<int64_t>()) return static_cast<double>(*whole);
  const auto* number = json[name].As<double>();
  return number ? *number : NAN;
}

TEST_F(QuantizeCommand, EightBitsOfResNet20) {
  const Json result = Quantized({"--model", kExample, "--calibrate", kSamples});
  EXPECT_EQ(Number(result, "products"), 22);
  EXPECT_EQ(Number(result, "samples"), 1);
  EXPECT_EQ(result["left_in_float"].As<Json::Array>()->size(), 1u);  // Softmax
  EXPECT_LT(Number(result, "error"), kMostError);
  EXPECT_GT(Number(result, "error"), 0);
  EXPECT_LE(Number(result, "error"), 1.1 * Number(result, "plain_error"));
  EXPECT_LT(Number(result, "output_bytes"), Number(result, "model_bytes") * 0.4);
  // The error is that of the written model after compile and run.
  const std::string image = "image=" + kSamples + "/test_data_set_0/input_0.pb";
  const std::vector<float> want = Outputs(kExample, image), got = Outputs(File("q.onnx"), image);
  double difference = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) difference += std::pow(got[i] - want[i], 2), size += want[i] * want[i];
  EXPECT_NEAR(std::sqrt(difference / size), Number(result, "error"), 1e-4);
}

TEST_F(QuantizeCommand, PassesTheCheckerOfOnnx) {
  if (std::system("/usr/bin/python3 -c 'import onnx' 2>/dev/null") != 0) GTEST_SKIP() << "needs python3-onnx";
  Quantized({"--model", SmallModel(), "--calibrate", "random"});
  const auto check = [&](const std::string& change) {
    return std::system(("/usr/bin/python3 -c \"import onnx; m = onnx.load('" + File("q.onnx") + "'); " + change +
                        "; onnx.checker.check_model(m, True)\" 2>/dev/null")
                           .c_str());
  };
  EXPECT_EQ(check("pass"), 0);
  EXPECT_NE(check("m.graph.node[0].input[0] = 'nothing'"), 0);
}

TEST_F(QuantizeCommand, ReadsArraysWithManySamples) {
  // Five images in one array, and the same ones with the input's name.
  const Tensor images = Tensor::Empty({5, 3, 12, 12}, "f32").value();
  for (int64_t i = 0; i < images.num_elements(); ++i) images.Data<float>()[i] = std::sin(static_cast<float>(i));
  std::filesystem::create_directories(File("arrays"));
  std::filesystem::create_directories(File("named"));
  ASSERT_TRUE(WriteNpy(File("arrays/a.npy"), images).ok());
  ASSERT_TRUE(WriteNpz(File("named/a.npz"), {{"image", images}}).ok());
  for (const char* folder : {"arrays", "named"}) {
    const Json result = Quantized({"--model", SmallModel(), "--calibrate", File(folder), "--method", "percentile"});
    EXPECT_EQ(Number(result, "samples"), 5) << folder;
  }
  const CliResult text = Run({"quantize", "--model", SmallModel(), "--calibrate", "random", "-o", File("r.onnx")});
  EXPECT_EQ(text.code, 0) << text.Text();
  EXPECT_THAT(text.err, HasSubstr("note: --calibrate random: the ranges are those of noise"));
  EXPECT_THAT(text.out, AllOf(HasSubstr("left in float:\n"), HasSubstr("no product with constant weights"),
                              HasSubstr("\nerror: "), HasSubstr("\nsize: ")));
}

TEST_F(QuantizeCommand, FourBitsOfMatricesOnly) {
  const Json result = Quantized({"--model", kExample, "--weights", "4", "--calibrate", kSamples});
  EXPECT_EQ(Number(result, "products"), 1);
  EXPECT_LT(Number(result, "error"), 0.2);
  const CliResult blind = Run({"quantize", "--model", kExample, "--weights", "4", "-o", File("b.onnx")});
  EXPECT_EQ(blind.code, 0) << blind.Text();
  EXPECT_THAT(blind.out, AllOf(HasSubstr("error: not measured"), HasSubstr("only weights of matrices get 4 bits")));
}

TEST_F(QuantizeCommand, RefusalsAreOneLineAndWriteNothing) {
  std::filesystem::create_directories(File("empty"));
  std::filesystem::create_directories(File("wrong"));
  ASSERT_TRUE(WriteNpy(File("wrong/x.npy"), Tensor::Zeros({1, 3, 31, 31}, "f32").value()).ok());
  ExpectRefused({"--model", kExample}, {"8 bits need --calibrate", "hint: "}, 2);
  ExpectRefused({"--model", kExample, "--calibrate", "/no/such"}, {"--calibrate /no/such: no such folder", "random"});
  ExpectRefused({"--model", kExample, "--calibrate", File("empty")}, {"holds no inputs", "hint: "});
  ExpectRefused({"--model", kExample, "--calibrate", File("wrong")},
                {"x.npy has f32[1, 3, 31, 31] for input 'image', but the model wants f32[1, 3, 32, 32]"});
  ExpectRefused({"--model", "/no/such.onnx", "--calibrate", "random"}, {"/no/such.onnx"});
  ExpectRefused({"--model", kExample, "--calibrate", "random", "-o", "/no/such/q.onnx"}, {"/no/such"});
  ExpectRefused({"--model", kExample, "--calibrate", "random", "-o", File("q.tar")}, {"name it FILE.onnx"}, 2);
  ExpectRefused({"--model", kExample, "--weights", "3"}, {"--weights"}, 2);
  ExpectRefused({"--model", kExample, "--weights", "4", "--int8"}, {"--int8"}, 2);
  ExpectRefused({"--model", kExample, "--weights", "4", "--method", "minmax"}, {"--method"}, 2);
  ExpectRefused({"--model", kExample, "--calibrate", "random", "--percentile", "99"}, {"--percentile"}, 2);
  const std::string corpus = std::string(AUTOTUNE_SOURCE_DIR) + "/tests/fuzz/corpus/onnx/";
  ExpectRefused({"--model", corpus + "adagrad", "--calibrate", "random"}, {"there is nothing to quantize"});
  ASSERT_EQ(Run({"quantize", "--model", SmallModel(), "--calibrate", "random", "-o", File("once.onnx")}).code, 0);
  ExpectRefused({"--model", File("once.onnx"), "--calibrate", "random"}, {"is quantized already", "hint: "});
}

TEST_F(QuantizeCommand, InterruptionLeavesTheOldFile) {
  Write("old.onnx", "old");
  Subprocess child = Start({"quantize", "--model", kExample, "--calibrate", "random", "-o", File("old.onnx")}, "child");
  ASSERT_TRUE(test::Soon([&] { return test::ReadAll(File("child.err")).find("compiling") != std::string::npos; }));
  kill(child.pid(), SIGINT);
  const CliResult result = Finish(child, "child");
  EXPECT_EQ(result.code, 130) << result.Text();
  EXPECT_THAT(result.err, HasSubstr("interrupted; nothing was written"));
  EXPECT_EQ(test::ReadAll(File("old.onnx")), "old");
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    EXPECT_THAT(entry.path().string(), Not(HasSubstr(".tmp")));
}

}  // namespace
}  // namespace autotune
