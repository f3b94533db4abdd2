// Bad candidates of products of bytes: instructions that saturate, operands taken with the wrong sign, and wrong
// corrections by zero points. The device's check finds each, and none becomes best.
#include <gtest/gtest.h>

#include <map>

#include "records/open.h"
#include "te/create_prim_func.h"
#include "te/reference.h"
#include "tests/runtime/c_artifact.h"
#include "tests/tools/cli.h"
#include "tests/tools/forwarding_builder.h"
#include "tests/tuner/programs.h"
#include "topi/elementwise.h"
#include "topi/matmul.h"
#include "tracker/local_farm.h"
#include "tuner/farm_measurer.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

// y = x w - z * sums, as graph passes write (x - z) w: x of u8, w of i8, the rest of i32.
PrimFunc CenteredProduct() {
  const DType wide = DType::Int(32);
  te::Tensor x = te::Placeholder("x", {16, 64}, DType::UInt(8)), w = te::Placeholder("w", {64, 96}, DType::Int(8));
  te::Tensor z = te::Placeholder("z", {1}, wide), sums = te::Placeholder("sums", {96}, wide);
  te::Tensor y = topi::Sub("y", topi::MatMul("dense", x, w), topi::Mul("excess", z, sums));
  return te::CreatePrimFunc("centered", {{x, ParamRole::kInput},
                                         {w, ParamRole::kConstant},
                                         {z, ParamRole::kInput},
                                         {sums, ParamRole::kConstant},
                                         {y, ParamRole::kOutput}});
}

// Returns an artifact with the signature of CenteredProduct. `sum` adds products to s, and `correction` is subtracted.
std::string Impostor(const std::string& sum, const std::string& correction) {
  std::string metadata = R"({"abi_version":1,"target":"test","kernels":[{"name":"kernel","params":[
    {"name":"x","dtype":"u8","shape":[16,64],"kind":"input"},{"name":"w","dtype":"i8","shape":[64,96],"kind":"constant"},
    {"name":"z","dtype":"i32","shape":[1],"kind":"input"},{"name":"sums","dtype":"i32","shape":[96],"kind":"constant"},
    {"name":"y","dtype":"i32","shape":[16,96],"kind":"output"}]}]})";
  return CompileArtifact(metadata,
                         "int32_t raw(AtContext* c, void* const* a) ENTRY(\"kernel.raw\");\n"
                         "int32_t raw(AtContext* c, void* const* a) {\n"
                         "  uint8_t* x = a[0]; int8_t* w = a[1]; uint32_t *z = a[2], *sums = a[3], *y = a[4];\n"
                         "  for (int i = 0; i < 16; ++i) for (int j = 0; j < 96; ++j) { uint32_t s = 0; " +
                             sum + " y[i * 96 + j] = s - " + correction +
                             "; }\n return 0; }\n"
                             "int32_t kernel(AtContext* c, const DLTensor* const* a, int32_t n) {\n"
                             "  void* p[5] = {a[0]->data, a[1]->data, a[2]->data, a[3]->data, a[4]->data};\n"
                             "  return raw(c, p); }\n");
}

constexpr char kSum[] = "for (int k = 0; k < 64; ++k) s += x[i * 64 + k] * w[k * 96 + j];";
constexpr char kCorrection[] = "z[0] * sums[j]";
// As vpmaddubsw: the sum of two products is limited to 16 bits.
constexpr char kSaturating[] =
    "for (int k = 0; k < 64; k += 2) { int t = x[i * 64 + k] * w[k * 96 + j] + x[i * 64 + k + 1] * w[(k + 1) * 96 + j];"
    " s += t > 32767 ? 32767 : t < -32768 ? -32768 : t; }";

struct Candidate {
  std::string sum, correction;
  TrialStatus status;
};

// Builds as requested, but replaces the artifacts of the first candidates.
class Swapping : public test::ForwardingBuilder {
 public:
  Swapping(Builder& builder, std::vector<Candidate> candidates)
      : ForwardingBuilder(builder), candidates_(std::move(candidates)) {}
  std::vector<BuildResult> Build(const std::vector<BuildRequest>& requests,
                                 const std::function<void(const BuildResult&)>& on_result) override {
    std::vector<BuildResult> results = ForwardingBuilder::Build(requests, on_result);
    for (size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].kernel != "kernel" || results[i].status != TrialStatus::kOk) continue;
      if (built_ == candidates_.size()) break;
      const Candidate& candidate = candidates_[built_++];
      results[i].artifact.data = Impostor(candidate.sum, candidate.correction);
      swapped[requests[i].trace] = candidate;
    }
    return results;
  }

  std::map<std::string, Candidate> swapped;  // by trace

 private:
  std::vector<Candidate> candidates_;
  size_t built_ = 0;
};

class IntegerInjection : public test::CliTest {};

TEST_F(IntegerInjection, WrongProductsOfBytesAreFoundAndRightOnesPass) {
  auto workers = MakeBuildWorkers({.workers = 1, .command = {test::kTools + "/autotune", "--build-worker"}});
  ASSERT_TRUE(workers.ok()) << workers.error().Text();
  auto farm = LocalFarm::Start();
  ASSERT_TRUE(farm.ok()) << farm.error().Text();
  using enum TrialStatus;
  const std::string as_signed = "for (int k = 0; k < 64; ++k) s += (int8_t)x[i * 64 + k] * w[k * 96 + j];";
  const std::string two_short = "for (int k = 0; k < 62; ++k) s += x[i * 64 + k] * w[k * 96 + j];";
  const std::vector<Candidate> candidates = {
      {kSum, kCorrection, kOk},
      {kSaturating, kCorrection, kWrongAnswer},
      {as_signed, kCorrection, kWrongAnswer},
      {two_short, kCorrection, kWrongAnswer},
      {kSum, "0", kWrongAnswer},                                      // no correction
      {kSum, "(z[0] + 128) * sums[j]", kWrongAnswer},                 // the zero point of the other type
      {kSum, "(0 - z[0]) * sums[j]", kWrongAnswer},                   // the wrong sign
      {kSum, "z[0] * sums[j > 94 ? 94 : j]", kWrongAnswer},           // one column's is that of its neighbour
      {kSum, "z[0] * sums[j] + (i == 15 && j == 95)", kWrongAnswer},  // one result is wrong by 1
  };
  Swapping builder(**workers, candidates);
  auto measurer = MakeFarmMeasurer(builder, {.tracker = (*farm)->tracker(), .key = (*farm)->key()});
  ASSERT_TRUE(measurer.ok()) << measurer.error().Text();

  std::vector<TuneTask> tasks = {test::MakeTask("centered", CenteredProduct())};
  tasks[0].full_range = te::FullRangeInputs(tasks[0].alternatives[0].func);
  EXPECT_EQ(tasks[0].full_range.size(), 4U);
  // With tiles there are fewer schedules than candidates.
  std::string text = Target::Parse("cpu")->Text();
  for (const std::string feature : {"+amx-bf16,", "+amx-int8,", "+amx-tile,"}) {
    if (const size_t at = text.find(feature); at != std::string::npos) text.erase(at, feature.size());
  }
  Target target = Target::Parse(text).value();
  auto store = OpenStore(db_).value();
  TuneOptions options{
      .trials = 12, .batch = 12, .seed = 3, .search = SearchKind::kRandom, .run = "r", .confirm = false};
  options.measure = {.repeats = 2, .min_repeat_ms = 1};
  auto report = Tune(tasks, target, options, *store, **measurer);
  ASSERT_TRUE(report.ok()) << report.error().Text();
  ASSERT_EQ(builder.swapped.size(), candidates.size());

  size_t judged = 0;
  for (const Record& record : store->Scan({}, 0, 1000).value().records) {
    const auto swapped = builder.swapped.find(record.trace);
    const TrialStatus want = swapped == builder.swapped.end() ? kOk : swapped->second.status;
    EXPECT_EQ(record.status, want) << record.error << ": "
                                   << (swapped == builder.swapped.end()
                                           ? "a candidate of the search"
                                           : swapped->second.sum + " - " + swapped->second.correction);
    judged += swapped != builder.swapped.end();
  }
  EXPECT_GE(judged, candidates.size());
  const auto best = store->Best(tasks[0].hash.Hex(), target.Text()).value();
  ASSERT_TRUE(best.has_value());
  EXPECT_EQ(best->status, kOk);
}

}  // namespace
}  // namespace autotune
