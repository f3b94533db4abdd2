// Prints the default schedules of networks for a GPU, without a GPU: for each task its calls, its predicted time in
// microseconds, the part of it that no rule schedules, and of each of its kernels the blocks, the threads of a block
// and its shared memory. A `!` marks a kernel of few warps: it has fewer blocks than the GPU has compute units, and
// less than a warp for each part of one. The last line has the sums over all calls.
//   bench_gpu_tasks [--target TEXT] [--sketches DRAWS] MODEL.onnx ...
// --sketches also prints the best of so many random schedules of each sketch: its predicted time, that of each of its
// stages, its decisions, and the rules.
#include <cmath>
#include <cstdio>
#include <limits>

#include "bench/arguments.h"
#include "bench/main.h"
#include "compiler/network.h"
#include "ir/threads.h"
#include "ir/visit.h"
#include "lower/lower.h"
#include "schedule/replay.h"
#include "target/machine.h"
#include "tuner/defaults.h"

namespace autotune::bench {
namespace {

struct Kernel {
  int64_t blocks = 1, threads = 1, shared = 0;  // shared: bytes of shared memory
};

// Returns the kernels of a lowered program: its outermost bound loops.
std::vector<Kernel> KernelsOf(const Stmt& s) {
  std::vector<Kernel> kernels;
  Walk(s, [&](const Stmt& x) {
    const For* outermost = x.As<For>();
    if (!outermost || !IsBound(outermost->kind)) return true;
    Kernel kernel;
    std::map<LoopKind, int64_t> extents;
    Walk(x, [&](const Stmt& inner) {
      if (const Alloc* alloc = inner.As<Alloc>(); alloc && alloc->buffer->scope == Scope::kShared)
        kernel.shared += *AsInt(alloc->buffer->shape[0]) * alloc->buffer->dtype.Bytes();
      const For* loop = inner.As<For>();
      if (loop && IsBound(loop->kind)) extents[loop->kind] = *AsInt(loop->extent);
      return true;
    });
    for (const auto& [kind, extent] : extents) (IsThreadAxis(kind) ? kernel.threads : kernel.blocks) *= extent;
    kernels.push_back(kernel);
    return false;
  });
  return kernels;
}

struct Sums {
  double seconds = 0, unbound = 0;
  int kernels = 0;
};

void PrintSketches(const TaskSpace& space, int draws) {
  for (const Sketch& sketch : space.sketches) {
    Rng rng(1);
    double best = std::numeric_limits<double>::infinity();
    Decisions decisions;
    for (int i = 0; i < draws; ++i) {
      Decisions drawn = DrawDecisions(sketch, rng);
      const double seconds = DraftSeconds(sketch, drawn, space.target);
      if (seconds < best) best = seconds, decisions = std::move(drawn);
    }
    if (!std::isfinite(best)) continue;
    const std::string& alternative = space.task->alternatives[static_cast<size_t>(sketch.alternative)].name;
    std::printf("  %8.2f %s %s |", best * 1e6, alternative.c_str(), sketch.name.c_str());
    for (const StageModel& stage : sketch.stages)
      std::printf(" %.2f", GpuStageSeconds(stage, decisions, space.target) * 1e6);
    std::printf(" |");
    for (const Decision& decision : decisions) std::printf(" %d", static_cast<int>(decision.values[0]));
    std::printf("\n");
  }
}

Status Print(const TuneTask& task, const Target& target, int draws, Sums& sums) {
  const PredictedTime time = TRY(PredictDefault(task, target));
  const TaskSpace space = TRY(TaskSpace::Make(task, target));
  const std::vector<Proposal> proposals = DefaultProposals(space, 1);
  if (proposals.empty()) return Err("task ", task.label, " has no default schedule");
  const Sketch& sketch = space.sketches[static_cast<size_t>(proposals[0].sketch)];
  const Schedule schedule = TRY(Replay(space.FuncOf(sketch), proposals[0].trace));
  const LoweredKernel lowered = TRY(Lower(schedule.func(), target));
  std::string text;
  const GpuMachine machine = GpuMachineOf(target);
  const std::vector<Kernel> kernels = KernelsOf(lowered.run.body);
  for (const Kernel& kernel : kernels) {
    const bool few =
        kernel.blocks < target.num_cores && kernel.threads < static_cast<int64_t>(machine.parts * machine.warp);
    text += " " + std::to_string(kernel.blocks) + "x" + std::to_string(kernel.threads) + (few ? "!" : "") +
            (kernel.shared > 0 ? "/" + std::to_string(kernel.shared / 1024) + "K" : "");
  }
  std::printf("%s %3d %8.2f %6.2f %s |%s | %s\n", task.hash.Hex().substr(0, 8).c_str(), task.weight, time.seconds * 1e6,
              time.unbound_seconds * 1e6, task.label.c_str(), text.c_str(), sketch.name.c_str());
  if (draws > 0) PrintSketches(space, draws);
  sums.seconds += time.seconds * task.weight, sums.unbound += time.unbound_seconds * task.weight;
  sums.kernels += task.weight * static_cast<int>(kernels.size());
  return {};
}

Result<int> Main(int argc, char** argv) {
  Arguments arguments = TRY(Arguments::Parse(argc, argv, {"target", "sketches"}, {"sketches"}));
  const std::string text = arguments.Text("target", "cuda -arch=sm_90");
  const Target target = TRY(Target::Parse(text));
  if (!target.IsGpu()) return Err("--target: '", text, "' is no GPU");
  const int draws = static_cast<int>(arguments.Number("sketches", 0));
  const std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
  for (const std::string& model : arguments.words) {
    const Network network = TRY(LoadNetwork(model, {}, target, *builder));
    Sums sums;
    for (const TuneTask& task : MakeTuneTasks(network)) TRY(Print(task, target, draws, sums));
    std::printf("%s: %.1f us, of them %.1f without a schedule; %d kernels\n", model.c_str(), sums.seconds * 1e6,
                sums.unbound * 1e6, sums.kernels);
  }
  return 0;
}

}  // namespace
}  // namespace autotune::bench

int main(int argc, char** argv) {
  autotune::bench::UseProgramsOfBuildTree();
  return autotune::bench::ExitCode("bench_gpu_tasks", autotune::bench::Main(argc, argv));
}
