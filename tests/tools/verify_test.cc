// `autotune verify` finds an error of ten times the allowance beside a value of 1e9, and accepts one of half the
// allowance, on real files.
#include <gmock/gmock.h>

#include <cmath>

#include "frontend/onnx/tensor_pb.h"
#include "runtime/compare.h"
#include "support/rng.h"
#include "tests/frontend/model_maker.h"
#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::CliResult;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int64_t kElements = 2000;
constexpr int64_t kPlace = 1990;  // index of the planted error, behind all large values

struct Type {
  DType dtype;
  int onnx = 0;        // number of ONNX's element type
  double large = 1e9;  // the value beside the error
};

// Returns outputs of which the first `large` ones are large, alternately of both signs, and the others are of size 1.
std::vector<double> Numbers(const Type& type, int64_t large) {
  Rng rng(static_cast<uint64_t>(large));
  std::vector<double> numbers(kElements);
  for (int64_t i = 0; i < kElements; ++i) numbers[i] = i >= large ? rng.Normal() : i % 2 ? -type.large : type.large;
  const auto rounded = graph::TensorValue::FromNumbers(type.dtype, {kElements}, numbers);
  for (int64_t i = 0; i < kElements; ++i) numbers[i] = rounded.Number(i);
  return numbers;
}

double Allowance(const Type& type, const std::vector<double>& expected) {
  const double neighbours = type.dtype.bits == 16 ? 0x1p-10 : 0;
  const Tensor tensor = Tensor::FromBytes({kElements}, DataTypeFromText("f64").value(),
                                          {reinterpret_cast<const char*>(expected.data()), 8 * expected.size()})
                            .value();
  const Tolerance tolerance;
  return (tolerance.rtol + neighbours) * std::fabs(expected[kPlace]) + tolerance.atol * SmallMagnitude(tensor);
}

class Verify : public test::CliTest {
 protected:
  // Makes a folder with a model that computes x - b, and a package of it.
  void MakeModel(const Type& type) {
    ModelMaker m;
    m.Input("x", {kElements}, type.onnx).Input("b", {1}, type.onnx).Output("y").Node("Sub", {"x", "b"}, {"y"});
    std::filesystem::create_directory(File("case"));
    const CliResult compiled = Run({"compile", "--model", Write("case/model.onnx", m.Bytes()), "-o", File("m.tar")});
    ASSERT_EQ(compiled.code, 0) << compiled.Text();
  }
  void WriteTensor(const std::string& name, const Type& type, const std::vector<double>& numbers) {
    const graph::Shape shape = {static_cast<int64_t>(numbers.size())};
    ASSERT_TRUE(
        WriteTensorPb(File("case/" + name), {"", graph::TensorValue::FromNumbers(type.dtype, shape, numbers)}).ok());
  }
  // Writes a data set whose expected output is off by `error` allowances at kPlace.
  void WriteCase(const Type& type, int64_t large, double error) {
    std::vector<double> numbers = Numbers(type, large);
    WriteTensor("input_0.pb", type, numbers);
    WriteTensor("input_1.pb", type, {0});
    numbers[kPlace] += error * Allowance(type, numbers);
    WriteTensor("output_0.pb", type, numbers);
  }
  void ExpectRight(const CliResult& result) {
    EXPECT_EQ(result.code, 0) << result.Text();
    EXPECT_THAT(result.out, HasSubstr("y: all 2000 elements match"));
  }
  void ExpectWrong(const CliResult& result) {
    EXPECT_EQ(result.code, 3) << result.Text();
    EXPECT_THAT(result.out, HasSubstr("y: 1 of 2000 elements differ; worst at 1990"));
  }
};

TEST_F(Verify, FindsPlantedErrorsBesideLargeValues) {
  for (const Type& type : {Type{DType::Float(32), 1}, {DType::Float(64), 11}, {DType::Float(16), 10, 6e4}}) {
    MakeModel(type);
    for (const int64_t large : {1, 200, 1800}) {
      SCOPED_TRACE(type.dtype.Text() + ", large values: " + std::to_string(large));
      const std::vector<std::string> words = {"verify", "--package", File("m.tar"), "--data", File("case")};
      for (const double error : {0.0, 0.5, -0.5}) {
        WriteCase(type, large, error);
        ExpectRight(Run(words));
      }
      for (const double error : {10.0, -10.0}) {
        WriteCase(type, large, error);
        ExpectWrong(Run(words));
      }
    }
  }
}

// The same, by all ways to name a model, on several targets.
TEST_F(Verify, FindsPlantedErrorsInModelsAndFolders) {
  const Type type{DType::Float(32), 1};
  MakeModel(type);
  const std::vector<std::string> model = {"verify", "--model", File("case/model.onnx"), "--data", File("case")},
                                 in_c = {"verify", "--target",  "c", "--model", File("case/model.onnx"),
                                         "--data", File("case")},
                                 folder = {"verify", "--data", folder_};
  for (const std::vector<std::string>& words : {model, in_c, folder}) {
    WriteCase(type, 1, 0.5);
    ExpectRight(Run(words));
    WriteCase(type, 1, 10);
    ExpectWrong(Run(words));
  }
}

// Numbers at the middle of two steps may take either; numbers elsewhere may not, and none may be steps apart.
TEST_F(Verify, NumbersBetweenTwoStepsMayTakeEither) {
  constexpr int64_t kCount = 64;
  const Type type{DType::Float(32), 1};
  ModelMaker m;
  m.Input("x", {kCount}).Output("y").Floats("s", {}, {1}).Bytes8("z", {}, {100}, 2);
  m.Node("QuantizeLinear", {"x", "s", "z"}, {"q"});
  m.Node("DequantizeLinear", {"q", "s", "z"}, {"y"});
  std::filesystem::create_directory(File("case"));
  Write("case/model.onnx", m.Bytes());
  // Expects x + `up` of numbers that lie `place` above whole ones.
  const auto verify = [&](double place, double up) {
    std::vector<double> x, y;
    for (int64_t i = 0; i < kCount; ++i) x.push_back(static_cast<double>(i) + place), y.push_back(x.back() + up);
    WriteTensor("input_0.pb", type, x);
    WriteTensor("output_0.pb", type, y);
    return Run({"verify", "--model", File("case/model.onnx"), "--data", File("case")});
  };
  for (const double up : {0.5, -0.5}) {
    const CliResult right = verify(0.5, up);
    EXPECT_EQ(right.code, 0) << right.Text();
    EXPECT_THAT(right.out, HasSubstr("of 64 elements differ, "));
    EXPECT_THAT(right.out, HasSubstr("times as much as other roundings before the network's steps change them"));
  }
  EXPECT_EQ(verify(0.4, -0.4).code, 0);
  EXPECT_EQ(verify(0.4, 0.6).code, 3) << "the other step";
  const CliResult far = verify(0.5, 3.5);
  EXPECT_EQ(far.code, 3);
  EXPECT_THAT(far.out, HasSubstr("; 1.5 times is allowed"));
}

// The allowance follows --rtol and --atol.
TEST_F(Verify, TolerancesMoveTheBorder) {
  const Type type{DType::Float(32), 1};
  MakeModel(type);
  WriteCase(type, 1, 10);
  const std::vector<std::string> words = {"verify", "--package", File("m.tar"), "--data", File("case")};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return Run(more);
  };
  ExpectWrong(Run(words));
  ExpectRight(with({"--rtol", "0.02", "--atol", "0.02"}));
  WriteCase(type, 1, 0.5);
  ExpectRight(Run(words));
  ExpectWrong(with({"--rtol", "1e-4", "--atol", "1e-4"}));
}

}  // namespace
}  // namespace autotune
