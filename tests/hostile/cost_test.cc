// What the sandbox costs: batches of 64 candidates with and without it, in turns.
#include <chrono>

#include "tests/hostile/hostile.h"

namespace autotune {
namespace {

#if defined(__x86_64__)
class HostileCost : public Hostile {};

TEST_F(HostileCost, ASandboxCostsABatchLittle) {
  EndBystander();
  constexpr int kRounds = 40, kBatch = 64;
  const std::vector<Blob> batch(kBatch, Compile(kDouble));
  std::map<std::string, std::unique_ptr<FarmClient>> clients;
  std::map<std::string, double> fastest;  // seconds of a batch
  for (const char* key : {"victim", "open"}) {
    clients[key] = Client(key);
    ASSERT_TRUE(clients[key]);
    fastest[key] = 1e9;
  }
  for (int round = 0; round < kRounds; ++round) {
    for (auto& [key, client] : clients) {
      const auto begin = std::chrono::steady_clock::now();
      const auto results = client->Measure(JobOf(batch));
      ASSERT_TRUE(results.ok());
      for (const TrialResult& result : *results) ASSERT_EQ(result.status, TrialStatus::kOk) << result.error;
      fastest[key] =
          std::min(fastest[key], std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  }
  std::printf("%.0f candidates/s with the sandbox, %.0f without: %.3f of the time\n", kBatch / fastest["victim"],
              kBatch / fastest["open"], fastest["victim"] / fastest["open"]);
  EXPECT_LT(fastest["victim"], 1.5 * fastest["open"]);  // other tests may run meanwhile
}
#endif

}  // namespace
}  // namespace autotune
