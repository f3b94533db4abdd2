// Measures the time from the request to build a candidate to its artifact. The candidates are those that the search
// would build for ResNet-50's convolutions, with every algorithm of the compiler. One real build worker builds them one
// after another. Prints the medians of all candidates and of those that were built; the goal is 25 ms on an idle
// machine.
//   build_latency [candidates=500] [seed=1] [target=cpu]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>

#include "codegen/builder.h"
#include "compiler/network.h"
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

struct ConvShape {
  int64_t size, ic, oc, kernel, stride, pad;
};

// The distinct convolutions of ResNet-50. The 3x3 convolutions and the shortcuts have the strides.
constexpr ConvShape kShapes[] = {
    {224, 3, 64, 7, 2, 3},     {56, 64, 64, 1, 1, 0},    {56, 64, 64, 3, 1, 1},    {56, 64, 256, 1, 1, 0},
    {56, 256, 64, 1, 1, 0},    {56, 256, 128, 1, 1, 0},  {56, 128, 128, 3, 2, 1},  {28, 128, 512, 1, 1, 0},
    {56, 256, 512, 1, 2, 0},   {28, 512, 128, 1, 1, 0},  {28, 128, 128, 3, 1, 1},  {28, 512, 256, 1, 1, 0},
    {28, 256, 256, 3, 2, 1},   {14, 256, 1024, 1, 1, 0}, {28, 512, 1024, 1, 2, 0}, {14, 1024, 256, 1, 1, 0},
    {14, 256, 256, 3, 1, 1},   {14, 1024, 512, 1, 1, 0}, {14, 512, 512, 3, 2, 1},  {7, 512, 2048, 1, 1, 0},
    {14, 1024, 2048, 1, 2, 0}, {7, 2048, 512, 1, 1, 0},  {7, 512, 512, 3, 1, 1}};

// Returns a graph with all convolutions as separate branches, each with bias and ReLU, in the layout in which the
// compiler tunes them.
graph::Graph Convolutions() {
  graph::GraphBuilder b;
  auto constant = [&](graph::Shape shape) {
    int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    std::vector<float> values(static_cast<size_t>(count), 0.5F);
    return b.AddConstant("", graph::TensorValue::Of<float>(shape, values));
  };
  for (const ConvShape& s : kShapes) {
    std::string name = "conv" + std::to_string(&s - kShapes);
    graph::ValueId x = b.Input(name + ".x", {DType::Float(32), {1, s.size, s.size, s.ic}});
    graph::ConvAttrs attrs{.strides = {s.stride, s.stride}, .pads = {s.pad, s.pad, s.pad, s.pad}};
    attrs.layout = graph::Layout::kNHWC;
    graph::ValueId y = b.Must(graph::Op::kConv2d, {x, constant({s.kernel, s.kernel, s.ic, s.oc})}, attrs);
    b.Output(b.Must(graph::Op::kRelu, {b.Must(graph::Op::kAdd, {y, constant({s.oc})})}), name);
  }
  return b.Finish();
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

  Network network = MakeNetwork(IRModule(Convolutions()), {}, target, **builder).value();
  const std::vector<TuneTask> tasks = MakeTuneTasks(network);
  std::vector<BuildRequest> requests;
  for (size_t i = 0; i < tasks.size(); ++i) {
    TaskSpace space = TaskSpace::Make(tasks[i], target).value();
    int n = static_cast<int>((i + 1) * wanted / tasks.size() - i * wanted / tasks.size());
    for (const Proposal& proposal : MakeEvolutionarySearch(space, nullptr, seed)->Propose(n).value()) {
      BuildRequest request;
      request.func = ToText(space.FuncOf(space.sketches[proposal.sketch]));
      request.trace = ToText(proposal.trace);
      request.target = target.Text();
      requests.push_back(std::move(request));
    }
  }
  Rng rng(seed);
  for (size_t i = requests.size(); i > 1; --i) std::swap(requests[i - 1], requests[rng.Below(static_cast<int64_t>(i))]);

  std::vector<double> all, ok, bytes;
  std::map<std::string, std::vector<double>> stages;
  std::map<std::string, int> outcomes;
  for (const BuildRequest& request : requests) {
    auto start = std::chrono::steady_clock::now();
    BuildResult result = (*builder)->Build({request})[0];
    double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    ++outcomes[std::string(ToText(result.status))];
    bool built = result.status == TrialStatus::kOk;
    all.push_back(ms);
    if (!built) continue;
    ok.push_back(ms);
    bytes.push_back(static_cast<double>(result.facts.code_bytes));
    for (const auto& [stage, stage_ms] : result.facts.times_ms) stages[stage].push_back(stage_ms);
  }
  std::printf("%zu candidates of %zu convolutions:", requests.size(), tasks.size());
  for (const auto& [status, count] : outcomes) std::printf(" %d %s", count, status.c_str());
  std::printf("\nmedian of all %.1f ms; of those built %.1f ms, 10 %% %.1f, 90 %% %.1f; code: median %.0f bytes\n",
              Quantile(all, 0.5), Quantile(ok, 0.5), Quantile(ok, 0.1), Quantile(ok, 0.9), Quantile(bytes, 0.5));
  std::printf("CPU time by stage, medians of those built, ms:");
  for (const auto& [stage, values] : stages) std::printf(" %s %.2f", stage.c_str(), Quantile(values, 0.5));
  std::printf("\n");
  return 0;
}
