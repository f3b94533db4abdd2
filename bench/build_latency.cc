// How long a candidate takes from request to bytes: candidates that the search would build for ResNet-50's
// convolutions, one after another through one real build worker. Prints medians; the bar is 25 ms on an idle machine.
//   build_latency [candidates=500] [seed=1] [target=cpu]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "bench/resnet50.h"
#include "codegen/builder.h"
#include "ir/text.h"
#include "support/rng.h"
#include "tuner/search.h"

using namespace autotune;

namespace {

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(q * static_cast<double>(values.size())))];
}

}  // namespace

int main(int argc, char** argv) {
  int wanted = argc > 1 ? std::atoi(argv[1]) : 500;
  uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  auto parsed = Target::Parse(argc > 3 ? argv[3] : "cpu");
  if (!parsed.ok()) return std::fprintf(stderr, "%s\n", parsed.error().Text().c_str()), 1;
  const Target& target = *parsed;
  BuildWorkersOptions options{.workers = 1};
  options.command = {AUTOTUNE_BINARY_DIR "/tools/autotune", "--build-worker"};
  auto builder = MakeBuildWorkers(options);
  if (!builder.ok()) return std::fprintf(stderr, "%s\n", builder.error().Text().c_str()), 1;

  std::vector<bench::ConvShape> shapes = bench::ResNet50Shapes();
  std::vector<BuildRequest> requests;
  for (size_t i = 0; i < shapes.size(); ++i) {
    TuneTask task = bench::ConvTask(shapes[i]);
    TaskSpace space = TaskSpace::Make(task, target).value();
    int n = static_cast<int>((i + 1) * wanted / shapes.size() - i * wanted / shapes.size());
    for (const Proposal& proposal : MakeEvolutionarySearch(space, nullptr, seed)->Propose(n)) {
      BuildRequest request;
      request.func = ToText(space.FuncOf(space.sketches[proposal.sketch]));
      request.trace = ToText(proposal.trace);
      request.target = target.Text();
      requests.push_back(std::move(request));
    }
  }
  Rng rng(seed);
  for (size_t i = requests.size(); i > 1; --i) std::swap(requests[i - 1], requests[rng.Below(static_cast<int64_t>(i))]);

  std::vector<double> ok, refused, bytes;
  std::map<std::string, std::vector<double>> stages;
  std::map<std::string, int> outcomes;
  for (const BuildRequest& request : requests) {
    auto start = std::chrono::steady_clock::now();
    BuildResult result = (*builder)->Build({request})[0];
    double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    ++outcomes[std::string(ToText(result.status))];
    bool built = result.status == TrialStatus::kOk;
    (built ? ok : refused).push_back(ms);
    if (!built) continue;
    bytes.push_back(static_cast<double>(result.facts.code_bytes));
    for (const auto& [stage, stage_ms] : result.facts.times_ms) stages[stage].push_back(stage_ms);
  }
  std::printf("%zu candidates:", requests.size());
  for (const auto& [status, count] : outcomes) std::printf(" %d %s", count, status.c_str());
  std::printf("\nbuilt: median %.1f ms, 10 %% %.1f, 90 %% %.1f; not built: median %.1f ms; code: median %.0f bytes\n",
              Quantile(ok, 0.5), Quantile(ok, 0.1), Quantile(ok, 0.9), Quantile(refused, 0.5), Quantile(bytes, 0.5));
  std::printf("CPU time by stage, medians of those built, ms:");
  for (const auto& [stage, values] : stages) std::printf(" %s %.2f", stage.c_str(), Quantile(values, 0.5));
  std::printf("\n");
  return 0;
}
