// Prints the schedules that are chosen without records: for each task of networks or each drawn task, the default
// candidates in the order in which `compile` tries them, one per line. Compare the outputs before and after a change to
// see whether it affects these schedules. Measures no times.
//   bench_default_traces [--target TEXT] [--drawn 0] [--seed 1] [MODEL.onnx ...]
// --drawn is the number of tasks to draw (bench/drawn_tasks.h).
#include <cstdio>

#include "bench/arguments.h"
#include "bench/drawn_tasks.h"
#include "bench/main.h"
#include "compiler/network.h"
#include "schedule/trace.h"
#include "support/hash.h"
#include "support/join.h"
#include "tuner/defaults.h"

namespace autotune::bench {
namespace {

constexpr size_t kHashDigits = 12;  // enough to distinguish traces

// Prints a line for each default candidate: task, alternative, sketch, hash of the trace, decisions by knob.
Status Print(const std::string& where, const TuneTask& task, const Target& target) {
  const TaskSpace space = TRY(TaskSpace::Make(task, target));
  for (const Proposal& proposal : DefaultCandidates(space)) {
    const Sketch& sketch = space.sketches[proposal.sketch];
    const std::string hash = HashBytes128(ToText(proposal.trace)).Hex().substr(0, kHashDigits);
    std::string decisions;
    for (size_t knob = 0; knob < proposal.decisions.size(); ++knob) {
      decisions += (knob == 0 ? "" : " ") + Joined(proposal.decisions[knob].values, ",");
    }
    std::printf("%s | %s | %s | %s | %s | %s\n", where.c_str(), task.label.c_str(),
                task.alternatives[static_cast<size_t>(sketch.alternative)].name.c_str(), sketch.name.c_str(),
                hash.c_str(), decisions.c_str());
  }
  return {};
}

Result<int> Main(int argc, char** argv) {
  Arguments arguments = TRY(Arguments::Parse(argc, argv, {"target", "drawn", "seed"}, {"drawn", "seed"}));
  const std::string text = arguments.Text("target", "cpu");
  const Target target = TRY(Target::Parse(text));
  const std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
  for (const std::string& model : arguments.words) {
    const Network network = TRY(LoadNetwork(model, {}, target, *builder));
    for (const TuneTask& task : MakeTuneTasks(network)) TRY(Print(network.name, task, target));
  }
  const int drawn = static_cast<int>(arguments.Number("drawn", 0));
  const uint64_t seed = static_cast<uint64_t>(arguments.Number("seed", 1));
  for (const DrawnTask& task : TRY(DrawTasks(seed, drawn, target, *builder))) TRY(Print(task.kind, task.task, target));
  return 0;
}

}  // namespace
}  // namespace autotune::bench

int main(int argc, char** argv) {
  autotune::bench::UseProgramsOfBuildTree();
  return autotune::bench::ExitCode("bench_default_traces", autotune::bench::Main(argc, argv));
}
