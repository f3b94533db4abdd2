// Checks whether the times in a database can be reproduced.
//   bench_remeasure DB [COUNT [SEED [busy]]]
// Measures COUNT (default 20) random good records of this machine's target, and the best record of every task, again,
// with build worker, device server and runner as in a tuning run. With "busy", a process that never sleeps runs beside
// half of the measurements. Prints the differences between old and new times, and how many pairs of records of one task
// keep their order. Like the search, it measures a reference kernel beside each record and compares the times of an
// unusual state of the machine as multiples of the reference's (tuner/machine_state.h).
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "bench/main.h"
#include "ir/text.h"
#include "records/open.h"
#include "schedule/trace.h"
#include "support/statistics.h"
#include "te/reference.h"
#include "tracker/local_farm.h"
#include "tuner/farm_measurer.h"
#include "tuner/machine_state.h"
#include "tuner/task_state.h"

namespace autotune {
namespace {

// FLOPs per second and core. Bounds the work of a record by its time, for the deadline of the reference.
constexpr double kFlopsAtMost = 1e11;

struct Choice {
  Record record;
  bool sampled = false, winner = false;  // drawn at random; the best record of its task
  bool busy = false;                     // measured beside the process that never sleeps
  Outcome now;
  double before_seconds = 0, now_seconds = 0;  // comparable times: of the record, and of the new measurement

  double Difference() const { return now_seconds / before_seconds - 1; }
};

// A process that never sleeps. It ends with this object or with the bench.
class Neighbour {
 public:
  Neighbour() : pid_(fork()) {
    if (pid_ == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (pid_ == 0) {
    }
  }
  Neighbour(const Neighbour&) = delete;
  ~Neighbour() {
    if (pid_ < 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

// Returns `count` random good records, each drawn with the same probability in one pass over the records, and the best
// record of each task. Sorted by task.
Result<std::vector<Choice>> Choose(RecordStore& store, const std::string& target, size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<Record> sample;
  std::set<std::string> tasks;
  int64_t cursor = 0, seen = 0;
  for (;;) {
    RecordPage page = TRY(store.Scan({.target = target, .status = TrialStatus::kOk}, cursor, 500));
    if (page.records.empty()) break;
    cursor = page.cursor;
    for (Record& record : page.records) {
      if (!IsRanked(record) || record.versions.step_language != kStepLanguageVersion) continue;
      tasks.insert(record.task);
      ++seen;
      if (sample.size() < count) {
        sample.push_back(std::move(record));
      } else if (int64_t i = rng.Below(seen); i < static_cast<int64_t>(count)) {
        sample[static_cast<size_t>(i)] = std::move(record);
      }
    }
  }
  std::map<std::string, Choice> choices;
  for (Record& record : sample) {
    std::string id = record.id;
    choices[id] = {.record = std::move(record), .sampled = true};
  }
  for (const std::string& task : tasks) {
    std::optional<Record> best = TRY(store.Best(task, target));
    if (!best) continue;
    Choice& choice = choices[best->id];
    choice.record = *best;
    choice.winner = true;
  }
  std::vector<Choice> list;
  for (auto& [id, choice] : choices) list.push_back(std::move(choice));
  std::stable_sort(list.begin(), list.end(),
                   [](const Choice& a, const Choice& b) { return a.record.task < b.record.task; });
  return list;
}

// A record as a task of its own. The record holds everything that this needs; its network is not needed. An object must
// stay where it is, since its space refers to its task.
struct RecordedTask {
  TuneTask task;
  TaskSpace space;
  Proposal proposal;

  static Result<std::unique_ptr<RecordedTask>> Make(const Record& record, const Target& target) {
    auto made = std::make_unique<RecordedTask>();
    PrimFunc func = TRY(ParsePrimFunc(record.func));
    made->task = {.label = func.name.str(), .flops = record.cost * kFlopsAtMost * target.num_cores};
    // Use one reference per program: alternatives of one task may round their intermediates differently.
    made->task.hash = HashBytes128(record.task + record.func);
    made->task.reference = te::ToReference(func);
    made->task.alternatives.push_back({record.alternative, std::move(func)});
    made->space = {.task = &made->task, .target = target, .sketches = {Sketch{.name = "recorded"}}};
    made->proposal.trace = TRY(ParseTrace(record.trace));
    return made;
  }
  MeasureItem Item(bool check) const { return {.space = &space, .proposal = proposal, .check = check}; }
};

// Measures a record again, after the reference kernel.
Status MeasureAgain(Measurer& measurer, const Target& target, const RecordedTask& reference, Choice& choice) {
  auto recorded = TRY(RecordedTask::Make(choice.record, target));
  MeasureOptions options;
  if (const int64_t* cold_bytes = choice.record.facts[kColdBytesFact].As<int64_t>()) options.cold_bytes = *cold_bytes;
  std::vector<Outcome> outcomes = TRY(measurer.Measure({reference.Item(false), recorded->Item(true)}, options));
  choice.now = std::move(outcomes[1]);
  // The time of a confirmed record is the median of its turns, not the least time.
  if (choice.record.confirmation > 0 && !choice.now.times.empty()) choice.now.cost = Median(choice.now.times);
  if (outcomes[0].status == TrialStatus::kOk) choice.now.reference_seconds = outcomes[0].cost;
  return {};
}

// Returns the record whose kernel becomes the reference: the slowest of those whose calls fit a repeat.
const Record& ReferenceOf(const std::vector<Choice>& choices) {
  const double longest = MeasureOptions{}.min_repeat_ms / 1e3;
  const Record* best = &choices.front().record;
  for (const Choice& choice : choices) {
    const double cost = choice.record.cost;
    if (cost <= longest && (cost > best->cost || best->cost > longest)) best = &choice.record;
  }
  return *best;
}

// Sets the comparable times of all choices. Each run that made records had its own reference kernel. Runs also differ
// in their cold bytes, on which the time of the reference kernel depends.
void Compare(std::vector<Choice>& choices) {
  std::map<std::string, MachineState> then, now;  // by run
  auto reference_of = [](const Choice& choice) { return choice.record.facts[kReferenceFact].Number().value_or(0); };
  for (const Choice& choice : choices) {
    then[choice.record.run].Add(reference_of(choice));
    now[choice.record.run].Add(choice.now.reference_seconds);
  }
  for (Choice& choice : choices) {
    choice.before_seconds = then[choice.record.run].Comparable(choice.record.cost, reference_of(choice));
    choice.now_seconds = now[choice.record.run].Comparable(choice.now.cost, choice.now.reference_seconds);
  }
}

// Returns the shapes of a record's parameters, that of the output last: "1x56x56x64 64x64 1x56x56x64".
std::string ShapesOf(const Record& record) {
  Result<PrimFunc> func = ParsePrimFunc(record.func);
  if (!func.ok()) return "?";
  std::string text;
  for (const Param& param : func->params) {
    std::string shape;
    for (int64_t extent : ConstShape(param.buffer)) shape += (shape.empty() ? "" : "x") + std::to_string(extent);
    text += (text.empty() ? "" : " ") + shape;
  }
  return text;
}

void PrintGroup(const char* name, const std::vector<Choice>& choices, bool Choice::*group) {
  std::vector<double> signed_, absolute;
  for (const Choice& choice : choices) {
    if (!(choice.*group) || choice.now.status != TrialStatus::kOk) continue;
    signed_.push_back(100 * choice.Difference());
    absolute.push_back(std::abs(signed_.back()));
  }
  if (absolute.empty()) {
    printf("%-8s no records\n", name);
    return;
  }
  printf("%-8s %3zu records: median difference %.2f %% (signed %+.2f %%), largest %.2f %%\n", name, absolute.size(),
         Median(absolute), Median(signed_), *std::max_element(absolute.begin(), absolute.end()));
}

// Prints how many pairs of records of one task have the same order again, among the pairs whose recorded times differ
// by a factor of kDiffer or more.
void PrintOrder(const std::vector<Choice>& choices) {
  constexpr double kDiffer = 1.03;
  int pairs = 0, alike = 0;
  for (const Choice& a : choices) {
    for (const Choice& b : choices) {
      if (a.record.task != b.record.task || a.before_seconds * kDiffer > b.before_seconds) continue;
      if (a.now.status != TrialStatus::kOk || b.now.status != TrialStatus::kOk) continue;
      ++pairs;
      alike += a.now_seconds < b.now_seconds;
    }
  }
  if (pairs > 0)
    printf("%d pairs of one task differ by 3 %% or more; %.1f %% have the same order again\n", pairs,
           100.0 * alike / pairs);
}

Result<int> Run(const std::string& path, size_t count, uint64_t seed, bool busy) {
  if (access(path.c_str(), R_OK) != 0) return Err("cannot read ", path);
  Target target = TRY(Target::Parse("cpu"));
  std::unique_ptr<RecordStore> store = TRY(OpenStore(path));
  std::vector<Choice> choices = TRY(Choose(*store, target.Text(), count, seed));
  if (choices.empty()) return Err(path, " has no good record for ", target.Text());

  std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
  std::unique_ptr<LocalFarm> farm = TRY(LocalFarm::Start());
  std::unique_ptr<Measurer> measurer =
      TRY(MakeFarmMeasurer(*builder, {.tracker = farm->tracker(), .key = farm->key(), .job = "remeasure"}));
  const std::unique_ptr<RecordedTask> reference = TRY(RecordedTask::Make(ReferenceOf(choices), target));
  Rng rng(seed);
  for (Choice& choice : choices) {
    choice.busy = busy && rng.Below(2) == 1;
    std::optional<Neighbour> neighbour;
    if (choice.busy) neighbour.emplace();
    TRY_NOTE(MeasureAgain(*measurer, target, *reference, choice), "while measuring record " + choice.record.id);
  }
  Compare(choices);
  int failed = 0;
  printf("%-49s %-7s %11s %11s %8s\n", "task and shapes", "group", "old us", "new us", "diff %");
  for (const Choice& choice : choices) {
    const char* group = choice.sampled && choice.winner ? "both" : choice.winner ? "winner" : "sample";
    printf("%.8s %-40.40s %-7s %11.2f ", choice.record.task.c_str(), ShapesOf(choice.record).c_str(), group,
           choice.before_seconds * 1e6);
    if (choice.now.status == TrialStatus::kOk) {
      printf("%11.2f %+8.2f%s\n", choice.now_seconds * 1e6, 100 * choice.Difference(), choice.busy ? " busy" : "");
    } else {
      ++failed;
      printf("%s: %s\n", std::string(ToText(choice.now.status)).c_str(), choice.now.error.c_str());
    }
  }
  PrintGroup("sample", choices, &Choice::sampled);
  PrintGroup("winners", choices, &Choice::winner);
  PrintOrder(choices);
  if (failed > 0) printf("%d records did not run again\n", failed);
  return failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace autotune

int main(int argc, char** argv) {
  const bool busy = argc == 5 && std::string(argv[4]) == "busy";
  if (argc < 2 || argc > 5 || (argc == 5 && !busy)) {
    fprintf(stderr, "usage: bench_remeasure DB [COUNT [SEED [busy]]]\n");
    return 2;
  }
  autotune::bench::UseProgramsOfBuildTree();
  const size_t count = argc > 2 ? static_cast<size_t>(atoll(argv[2])) : 20;
  const uint64_t seed = argc > 3 ? static_cast<uint64_t>(atoll(argv[3])) : 0;
  return autotune::bench::ExitCode("bench_remeasure", autotune::Run(argv[1], count, seed, busy));
}
