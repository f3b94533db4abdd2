#include "runtime/time_evaluator.h"

#include <gmock/gmock.h>

#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "runtime/fill.h"
#include "runtime/kernel_context.h"
#include "tests/runtime/c_artifact.h"

namespace autotune {
namespace {

// Counts calls, each of which takes at least `seconds`.
struct Sleeper {
  double seconds;
  int64_t calls = 0;
  Status operator()(int64_t first, int64_t count) {
    EXPECT_EQ(first, calls);
    for (int64_t i = 0; i < count; ++i, ++calls) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return {};
  }
};

TEST(EvaluateTime, ASlowFunctionIsCalledExactlyTwice) {
  for (double min_repeat : {0.0, 0.02}) {
    Sleeper f{0.1};
    auto timing = EvaluateTime({.number = 1, .repeats = 1, .min_repeat_seconds = min_repeat}, std::ref(f));
    ASSERT_TRUE(timing.ok());
    EXPECT_EQ(f.calls, 2);
    EXPECT_EQ(timing->calls, 2);
    ASSERT_EQ(timing->seconds.size(), 1u);
    EXPECT_GE(timing->seconds[0], 0.1);
    EXPECT_FALSE(timing->cut_off);
  }
}

TEST(EvaluateTime, NumberTimesRepeats) {
  Sleeper f{0.0001};
  auto timing = EvaluateTime({.number = 5, .repeats = 3}, std::ref(f)).value();
  EXPECT_EQ(f.calls, 16);
  EXPECT_EQ(timing.seconds.size(), 3u);
}

TEST(EvaluateTime, GoesOnWhileTheTwoFastestDisagree) {
  for (int64_t most : {0, 3, 6}) {
    Sleeper f{0.001};
    auto slower = [&](int64_t first, int64_t count) {
      f.seconds *= 1.5;  // so each repeat is much slower than all before it
      return f(first, count);
    };
    EXPECT_EQ(EvaluateTime({.repeats = 3, .max_repeats = most}, slower)->seconds.size(), most == 6 ? 6u : 3u);
  }
}

TEST(EvaluateTime, RepeatsGrowToTheirLeastLength) {
  Sleeper f{0.0002};
  auto timing = EvaluateTime({.number = 1, .repeats = 2, .min_repeat_seconds = 0.01}, std::ref(f)).value();
  EXPECT_EQ(timing.seconds.size(), 2u);
  // Each repeat takes at least 0.8 * 10 ms. The number of calls depends on how long a sleep of 0.2 ms really takes.
  EXPECT_GT(f.calls, 3);
}

TEST(EvaluateTime, HopelessCandidatesAreCutOff) {
  Sleeper f{0.002};
  auto timing =
      EvaluateTime({.number = 1, .repeats = 50, .min_repeat_seconds = 0.01, .cutoff_seconds = 0.001}, std::ref(f))
          .value();
  EXPECT_TRUE(timing.cut_off);
  EXPECT_EQ(timing.seconds.size(), 1u);
  EXPECT_LE(f.calls, 11);  // the warm-up and two bursts of at most five calls, not fifty repeats
  Sleeper good{0.0001};
  EXPECT_FALSE(
      EvaluateTime({.repeats = 3, .min_repeat_seconds = 0.001, .cutoff_seconds = 60}, std::ref(good))->cut_off);
}

TEST(EvaluateTime, OneInterruptDoesNotCutACandidateOff) {
  for (int64_t interrupted : {0, 1}) {  // index of the slow burst: the warm-up, or the first burst
    int64_t bursts = 0;
    auto burst = [&](int64_t, int64_t) -> Status {
      if (bursts++ == interrupted) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return {};
    };
    auto timing = EvaluateTime({.repeats = 3, .cutoff_seconds = 5e-3}, burst).value();
    EXPECT_FALSE(timing.cut_off) << interrupted;
    EXPECT_EQ(timing.seconds.size(), 3u);
  }
}

// A burst with more than `fits` calls is disturbed: it waits for a CPU most of the time, so its calls take ten times as
// long. Any other burst waits for the share `noise` of its time.
struct Neighbour {
  int64_t fits;
  double noise = 0;
  double waited = 0, all_waited = 0;  // since the last burst, and in all
  std::vector<int64_t> bursts = {};   // number of calls of each
  Result<Timing> Evaluate(const TimeOptions& options) {
    auto burst = [this](int64_t, int64_t count) -> Status {
      bursts.push_back(count);
      const bool disturbed = count > fits;
      waited = static_cast<double>(count) * (disturbed ? 0.0045 : 0.0005 * noise);
      all_waited += waited;
      Sleeper f{disturbed ? 0.005 : 0.0005};
      return f(0, count);
    };
    return EvaluateTime(options, burst, nullptr, [this] { return std::exchange(waited, 0.0); });
  }
};

TEST(EvaluateTime, DisturbedRepeatsAreMeasuredAgainInShorterBursts) {
  Neighbour neighbour{.fits = 4};
  auto timing = neighbour.Evaluate({.repeats = 8, .min_repeat_seconds = 0.02}).value();
  EXPECT_EQ(timing.seconds.size(), 8u);
  EXPECT_FALSE(timing.disturbed);
  for (double seconds : timing.seconds) EXPECT_LT(seconds, 0.005) << "the time of a disturbed repeat";
  EXPECT_GT(neighbour.all_waited, 0);
  EXPECT_LE(neighbour.bursts.back(), 4);
}

TEST(EvaluateTime, IfAllRepeatsAreDisturbedTheirTimesAreReturned) {
  Neighbour neighbour{.fits = 0};
  auto timing = neighbour.Evaluate({.repeats = 2, .max_repeats = 3, .min_repeat_seconds = 0.004}).value();
  EXPECT_EQ(timing.seconds.size(), 6u);
  EXPECT_TRUE(timing.disturbed);
  for (double seconds : timing.seconds) EXPECT_GE(seconds, 0.005);
}

// Waits below a hundredth of a repeat count as none. Waits above it make repeats shorter, and more of them.
TEST(EvaluateTime, ShortWaitsDoNotDisturb) {
  auto evaluate = [](double noise) {
    Neighbour neighbour{.fits = 1000, .noise = noise};
    auto timing = neighbour.Evaluate({.repeats = 3, .min_repeat_seconds = 0.01}).value();
    return std::pair(timing.seconds.size(), neighbour.bursts.back());
  };
  const auto quiet = evaluate(0), little = evaluate(0.005), much = evaluate(0.5);
  EXPECT_EQ(quiet.first, 3u);
  EXPECT_EQ(little.first, 3u);
  EXPECT_EQ(much.first, 6u);
  EXPECT_LT(2 * much.second, quiet.second);
  EXPECT_LT(2 * much.second, little.second);
}

// One burst suffices for a candidate that takes longer than any interrupt.
TEST(EvaluateTime, AVerySlowCandidateIsNotCalledAgain) {
  Sleeper f{0.15};
  auto timing = EvaluateTime({.repeats = 3, .min_repeat_seconds = 0.01, .cutoff_seconds = 0.001}, std::ref(f)).value();
  EXPECT_TRUE(timing.cut_off);
  EXPECT_EQ(f.calls, 1);
  EXPECT_GE(timing.seconds.at(0), 0.15);
}

TEST(EvaluateTime, NoRepeatIsBegunAfterTheLimit) {
  Sleeper f{0.002};
  auto timing = EvaluateTime({.number = 1, .repeats = 1000, .max_seconds = 0.001}, std::ref(f)).value();
  EXPECT_EQ(timing.seconds.size(), 1u);
}

TEST(EvaluateTime, AnErrorEndsIt) {
  int calls = 0;
  auto timing = EvaluateTime({.repeats = 10}, [&](int64_t, int64_t) -> Status {
    if (++calls == 3) return Err("broken");
    return {};
  });
  ASSERT_FALSE(timing.ok());
  EXPECT_EQ(timing.error().message, "broken");
  EXPECT_EQ(calls, 3);
}

// Kernel "see" appends the address of its weight to a log in its first parameter: [count, addresses...].
std::shared_ptr<const Artifact> SeeArtifact() {
  std::string metadata = R"({"abi_version":1,"kernels":[{"name":"see","params":[
    {"name":"log","dtype":"i64","shape":[1000],"kind":"output"},{"name":"w","dtype":"i64","shape":[16],"kind":"constant"}]}]})";
  return Artifact::FromBytes(CompileArtifact(metadata, R"(
int32_t see_raw(AtContext* c, void* const* a) ENTRY("see.raw");
int32_t see_raw(AtContext* c, void* const* a) {
  int64_t* log = a[0]; int64_t* w = a[1];
  for (int i = 0; i < 16; ++i) if (w[i] != 7 * i) { c->set_error(c, "bad copy"); return 1; }
  log[++log[0]] = (int64_t)w;
  return 0;
}
int32_t see(AtContext* c, const DLTensor* const* a, int32_t n) { return 1; }
)"))
      .value();
}

TEST(TimeKernel, WeightsRotate) {
  auto artifact = SeeArtifact();
  KernelContext context(1);
  CopyArena arena;
  Tensor log = Tensor::Zeros({1000}, "i64").value(), weight = Tensor::Zeros({16}, "i64").value();
  for (int i = 0; i < 16; ++i) weight.Data<int64_t>()[i] = 7 * i;
  size_t calls = 0;
  auto distinct = [&](int64_t cold_bytes) {
    log.Data<int64_t>()[0] = 0;
    auto timing = TimeKernel(artifact->kernels()[0], context, std::vector{log, weight}, {}, arena,
                             {.time = {.number = 10, .repeats = 2}, .cold_bytes = cold_bytes});
    EXPECT_TRUE(timing.ok()) << timing.error().Text();
    // A first call and two repeats of ten; repeats that other processes disturbed are made again.
    calls = static_cast<size_t>(log.Data<int64_t>()[0]);
    EXPECT_TRUE(calls >= 21 && calls % 10 == 1) << calls;
    return std::set<int64_t>(log.Data<int64_t>() + 1, log.Data<int64_t>() + 1 + calls).size();
  };
  constexpr int64_t kLog = 8000;  // bytes of the log, which every call touches
  EXPECT_EQ(distinct(0), 1u);
  EXPECT_EQ(distinct(kLog), 1u);
  EXPECT_EQ(distinct(kLog + 4 * 128), 4u);
  EXPECT_EQ(distinct(kLog + 1000 * 128), calls);
  EXPECT_EQ(distinct(-1), calls);  // enough copies to fill the last-level cache twice
}

TEST(TimeKernel, ErrorsAreReported) {
  auto artifact = SeeArtifact();
  KernelContext context(1);
  CopyArena arena;
  Tensor log = Tensor::Zeros({1000}, "i64").value(), weight = Tensor::Zeros({16}, "i64").value();
  auto timing = TimeKernel(artifact->kernels()[0], context, std::vector{log, weight}, {}, arena);
  ASSERT_FALSE(timing.ok());
  EXPECT_EQ(timing.error().Text(), "kernel see.raw failed with code 1: bad copy");
  EXPECT_FALSE(TimeKernel(artifact->kernels()[0], context, std::vector{log}, {}, arena).ok());
}

}  // namespace
}  // namespace autotune
