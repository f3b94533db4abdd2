// `autotune tune --precision auto`: the choice of precisions, the package, and its error by `verify --against`.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "runtime/npy.h"
#include "support/file.h"
#include "tests/tools/cli.h"

namespace autotune {
namespace {

using test::CliResult;
using test::kExample;
using test::kExampleData;
using test::Lines;
using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::StartsWith;

const std::string kSamples = std::string(AUTOTUNE_SOURCE_DIR) + "/examples/resnet20";

double Number(const Json& json, const char* name) {
  if (const auto* whole = json[name].As<int64_t>()) return static_cast<double>(*whole);
  const auto* number = json[name].As<double>();
  return number ? *number : NAN;
}

std::string Text(const Json& json, const char* name) {
  const auto* text = json[name].As<std::string>();
  return text ? *text : "";
}

class PrecisionCommand : public test::CliTest {
 protected:
  // Tunes with a bound, and returns the event of the choice.
  Json Chosen(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"tune",   "--model",  kExample, "--precision", "auto",        "--calibrate",
                                          kSamples, "--trials", "1",      "-o",          File("m.tar"), "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CliResult result = Run(arguments);
    EXPECT_EQ(result.code, 0) << result.Text();
    for (const std::string& line : Lines(result.out)) {
      Json json = Json::Parse(line).value();
      if (Text(json, "event") == "precisions") return json;
    }
    ADD_FAILURE() << result.Text();
    return {};
  }
  static Json PointOf(const Json& event) {
    for (const Json& point : *event["choice"]["points"].As<Json::Array>())
      if (*point["chosen"].As<bool>()) return point;
    ADD_FAILURE() << event.Dump();
    return {};
  }
  Json Verified(const std::vector<std::string>& more = {}, int code = 0) {
    std::vector<std::string> arguments = {"verify",        "--package", File("m.tar"), "--against",
                                          File("f32.tar"), "--data",    kSamples,      "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CliResult result = Run(arguments);
    EXPECT_EQ(result.code, code) << result.Text();
    return Json::Parse(result.out).value();
  }
  void ExpectRefused(std::vector<std::string> arguments, const std::string& words) {
    const CliResult result = Run(std::move(arguments));
    EXPECT_NE(result.code, 0) << result.Text();
    EXPECT_THAT(Lines(result.err),
                AnyOf(ElementsAre(StartsWith("error: ")), ElementsAre(StartsWith("error: "), StartsWith("hint: "))));
    EXPECT_THAT(result.err, HasSubstr(words));
  }
};

TEST_F(PrecisionCommand, TheStatedErrorIsThatOfThePackage) {
  ASSERT_EQ(Run({"compile", "--model", kExample, "--no-records", "-o", File("f32.tar")}).code, 0);
  const Json event = Chosen({"--max-error", "0.006"});
  const Json point = PointOf(event);
  EXPECT_LE(Number(point, "error"), 0.006);
  std::set<std::string> names;
  for (const Json& one : *event["choice"]["points"].As<Json::Array>()) {
    names.insert(Text(one, "name"));
    EXPECT_EQ(*one["holds"].As<bool>(), Number(one, "error") <= 0.006) << one.Dump();
    EXPECT_EQ(Number(one, "f32") + Number(one, "bf16") + Number(one, "int8"), 22);
  }
  EXPECT_THAT(names, IsSupersetOf({"f32", "int8"}));
  EXPECT_EQ(event["choice"]["products"].As<Json::Array>()->size(), 22u);
  // The package computes what was chosen, and the same error is found there.
  const Json verified = Verified();
  // A tuned kernel may add floats in another order, so f32 itself need not have the error 0.
  EXPECT_NEAR(Number(verified, "error"), Number(point, "error"), 1e-3 * Number(point, "error") + 1e-6);
  EXPECT_EQ(Text(verified, "worst_output"), Text(point, "output"));
  EXPECT_EQ(Text(Verified({"--max-error", "0.5"}), "verdict"), "passed");

  // The same command takes the same choice, and resumes.
  const Json again = Chosen({"--max-error", "0.006"});
  EXPECT_TRUE(*again["known"].As<bool>());
  EXPECT_FALSE(*event["known"].As<bool>());
  EXPECT_EQ(PointOf(again).Dump(), point.Dump());
}

// Another run may replace one of a choice's two files, and a disk may damage both: then the choice is made again.
TEST_F(PrecisionCommand, ADamagedChoiceIsMadeAgain) {
  const std::vector<std::string> bound = {"--max-error", "0.5"};
  EXPECT_FALSE(*Chosen(bound)["known"].As<bool>());
  EXPECT_TRUE(*Chosen(bound)["known"].As<bool>());
  std::string json, onnx;
  for (const auto& file : std::filesystem::directory_iterator(File("autotune/precision")))
    (file.path().extension() == ".json" ? json : onnx) = file.path().string();
  ASSERT_NE(json, "");
  if (!onnx.empty()) {  // where a network with 8 bits is the fastest; others are the model itself
    ASSERT_TRUE(ReplaceFile(onnx, ReadFile(kExample).value()).ok());
    EXPECT_FALSE(*Chosen(bound)["known"].As<bool>());
  }
  std::string text = ReadFile(json).value();
  const size_t at = text.find("\"chosen\":true");
  ASSERT_NE(at, std::string::npos);
  ASSERT_TRUE(ReplaceFile(json, text.replace(at, 13, "\"chosen\":false")).ok());
  EXPECT_FALSE(*Chosen(bound)["known"].As<bool>());
}

TEST_F(PrecisionCommand, AnErrorNeedsFiniteNumbers) {
  Tensor image = Tensor::Zeros({1, 3, 32, 32}, "f32").value();
  image.Data<float>()[0] = NAN;
  ASSERT_TRUE(std::filesystem::create_directory(File("nan")));
  ASSERT_TRUE(WriteNpy(File("nan/x.npy"), image).ok());
  ExpectRefused({"tune", "--model", kExample, "--precision", "auto", "--max-error", "0.1", "--calibrate", File("nan"),
                 "--trials", "1", "--quiet"},
                "of the network of f32 has numbers that are infinite or NaN");
  ASSERT_EQ(Run({"compile", "--model", kExample, "--no-records", "-o", File("f32.tar")}).code, 0);
  const CliResult verified =
      Run({"verify", "--package", File("f32.tar"), "--against", File("f32.tar"), "--data", File("nan")});
  EXPECT_EQ(verified.code, 3) << verified.Text();
  EXPECT_THAT(verified.out, AllOf(StartsWith("WRONG: "), HasSubstr("numbers that are infinite or NaN")));
}

TEST_F(PrecisionCommand, PrintsTablesForPeople) {
  const CliResult result = Run({"tune", "--model", SmallModel(), "--precision", "auto", "--calibrate", "random",
                                "--trials", "1", "--max-error", "0.5"});
  EXPECT_EQ(result.code, 0) << result.Text();
  EXPECT_THAT(result.out, AllOf(HasSubstr("network        error agreement   speed   f32  bf16  int8\n"),
                                HasSubstr("chosen\n"), HasSubstr("precisions for an error of at most 0.5")));
}

TEST_F(PrecisionCommand, VerifyAgainstTellsNetworksApart) {
  ASSERT_EQ(Run({"compile", "--model", kExample, "--no-records", "-o", File("f32.tar")}).code, 0);
  ASSERT_EQ(Run({"quantize", "--model", kExample, "--calibrate", kSamples, "-o", File("q.onnx")}).code, 0);
  ASSERT_EQ(Run({"compile", "--model", File("q.onnx"), "--no-records", "-o", File("m.tar")}).code, 0);
  const Json verified = Verified({"--max-error", "1e-4"}, 3);
  EXPECT_EQ(Text(verified, "verdict"), "failed");
  EXPECT_GT(Number(verified, "error"), 1e-3);
  ASSERT_EQ(Run({"compile", "--model", SmallModel(), "--no-records", "-o", File("small.tar")}).code, 0);
  ExpectRefused({"verify", "--package", File("small.tar"), "--against", File("f32.tar"), "--data", "random"},
                "different inputs");
}

TEST_F(PrecisionCommand, RefusesWhatDoesNotGoTogether) {
  const std::vector<std::string> tune = {"tune", "--model", SmallModel(), "--trials", "1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), tune.begin(), tune.end());
    return more;
  };
  ExpectRefused(with({"--precision", "auto", "--calibrate", "random"}), "needs a bound on the error");
  ExpectRefused(with({"--precision", "auto", "--max-error", "0.1"}), "needs --calibrate");
  ExpectRefused(with({"--max-error", "0.1"}), "go with --precision auto");
  ExpectRefused(with({"--precision", "auto", "--max-error", "0.1", "--calibrate", File("nowhere")}), "no such folder");
  ExpectRefused(with({"--precision", "auto", "--max-error", "0.1", "--calibrate", "random", "--key", "pi"}),
                "measures on this machine");
  ExpectRefused(with({"--precision", "auto", "--max-error", "0.1", "--calibrate", "random", "--target",
                      "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"}),
                "cannot run code for aarch64");
  const CliResult few = Run(with({"--precision", "auto", "--min-agreement", "0.9", "--calibrate", "random"}));
  EXPECT_EQ(few.code, 1);
  EXPECT_THAT(few.err, HasSubstr("error: --min-agreement needs 100 rows"));
  ExpectRefused({"compile", "--model", SmallModel(), "--precision", "auto", "-o", File("m.tar")}, "--precision auto");
  ExpectRefused({"tune", "--op", "matmul:8,8,8", "--precision", "auto", "--max-error", "1", "--calibrate", "random"},
                "not for --op");
  ExpectRefused({"verify", "--model", kExample, "--precision", "auto", "--data", kExampleData},
                "--precision auto is for tune");
  ExpectRefused({"explain", "--model", SmallModel(), "--precision", "auto"}, "--precision auto is for tune");
  ExpectRefused({"tune", "--model", SmallModel(), "--precision", "auto", "--max-error", "0.1", "--calibrate", "random",
                 "--tasks", "list"},
                "--tasks list measures nothing");
  for (const char* wrong : {"0", "-1", "nan", "inf", ""})
    ExpectRefused(with({"--precision", "auto", "--calibrate", "random", "--max-error", wrong}),
                  "'" + std::string(wrong) + "' is not a number above 0\n");
  ExpectRefused(with({"--precision", "auto", "--calibrate", "random", "--min-agreement", "1.5"}),
                "'1.5' is not a number above 0 and up to 1");
  ASSERT_EQ(Run({"compile", "--model", SmallModel(), "--no-records", "-o", File("f32.tar")}).code, 0);
  ExpectRefused({"verify", "--package", File("f32.tar"), "--against", File("f32.tar"), "--data", File("nowhere")},
                "error: --data " + File("nowhere") + ": no such folder");
  ExpectRefused({"verify", "--model", SmallModel(), "--against", File("f32.tar"), "--data", "random"},
                "--against compares a --package");
}

}  // namespace
}  // namespace autotune
