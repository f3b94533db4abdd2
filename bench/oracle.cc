// Finds the best known times of tasks of all kinds, drawn by a seed (bench/drawn_tasks.h). `record` searches each task
// with different seeds and settings, by random draws, and by coordinate descent from the best points so far. Then it
// measures the best candidates of each task in turns. The measurement in turns is repeated if the fastest candidate was
// not part of it, up to kMostFinals times. All records go into the database DB, so that the same command resumes where
// it was stopped.
//   bench_oracle record DB [--seed 1] [--tasks 20] [--candidates 2000] [--minutes M]
//   bench_oracle export DB FILE
//   bench_oracle judge DB [--trials 64] [--seeds 3] [--rivals OTHER.db]
// --candidates is the number of trials per task. --minutes is the total time, spread evenly over the tasks.
// bench_search_sim replays FILE (docs/recordings.md). `judge` tunes the tasks anew and compares the results with the
// best known schedules (bench/oracle_judge.h).
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "bench/arguments.h"
#include "bench/descent.h"
#include "bench/main.h"
#include "bench/oracle_judge.h"
#include "bench/oracle_store.h"
#include "records/open.h"
#include "support/clock.h"
#include "tracker/local_farm.h"
#include "tuner/confirm.h"
#include "tuner/farm_measurer.h"
#include "tuner/tune.h"

namespace autotune::bench {
namespace {

constexpr int kFinalists = 10;        // most candidates measured in turns at a time
constexpr double kFinalShare = 0.15;  // share of the time for measurements in turns
constexpr int kMostFinals = 5;        // most measurements in turns per task

std::atomic<bool> stop_requested{false};

// One search of every task. All tasks go through one stage before the next stage begins, so that a recording that is
// stopped early has about as many trials of each task.
struct Stage {
  const char* name;
  double share;  // share of the trials and of the time
  SearchKind kind = SearchKind::kEvolution;
  bool descent = false;
  EvolutionOptions evolution = {};
};
const Stage kStages[] = {
    {.name = "evolution 1", .share = 0.20},
    {.name = "random", .share = 0.10, .kind = SearchKind::kRandom},
    {.name = "descent 1", .share = 0.15, .descent = true},
    {.name = "evolution 2", .share = 0.15},
    // A wider search, with more points that the models do not favour.
    {.name = "evolution 3",
     .share = 0.15,
     .evolution = {.drafts = 4000, .replays = 320, .parents = 20, .epsilon = 0.5}},
    {.name = "descent 2", .share = 0.25, .descent = true},
};

struct RecordOptions {
  OracleSettings settings;
  int candidates = 2000;
  double minutes = 0;  // 0: no limit
};

class Recorder {
 public:
  Recorder(const std::vector<DrawnTask>& tasks, const Target& target, const RecordOptions& options, RecordStore& store,
           Measurer& measurer)
      : tasks_(tasks),
        target_(target),
        options_(options),
        store_(store),
        measurer_(measurer),
        started_(SteadySeconds()) {}

  Status Run() {
    double shares_left = static_cast<double>(tasks_.size());  // one per task, for all of its stages
    for (const Stage& stage : kStages) {
      for (const DrawnTask& task : tasks_) {
        if (stop_requested) return {};
        double slice = std::max(0.0, SecondsLeft(1 - kFinalShare)) * stage.share / shares_left;
        shares_left -= stage.share;
        if (slice > 0) TRY_NOTE(Search(stage, task, slice), "while recording " + task.task.label);
      }
    }
    for (size_t i = 0; i < tasks_.size(); ++i) {
      if (stop_requested) return {};
      double slice = std::max(0.0, SecondsLeft(1)) / static_cast<double>(tasks_.size() - i);
      TRY_NOTE(Finals(tasks_[i], SteadySeconds() + slice), "while measuring the best of " + tasks_[i].task.label);
    }
    return {};
  }

 private:
  double SecondsLeft(double part) const {
    if (options_.minutes == 0) return 1e9;
    return part * 60 * options_.minutes - (SteadySeconds() - started_);
  }

  Status Search(const Stage& stage, const DrawnTask& task, double seconds) {
    TuneOptions tune{.trials = std::max(1, static_cast<int>(stage.share * options_.candidates)),
                     .time_budget = seconds,
                     .seed = HashCombine(options_.settings.seed, Hash64(stage.name)),
                     .search = stage.kind,
                     .run = RunKey(std::vector<std::string>{"oracle", task.task.hash.Hex(), stage.name}),
                     .use_known = false,
                     .confirm = false};
    if (stage.descent) {
      tune.make_search = [known = TRY(KnownPoints(task))](const TaskSpace& space, const CostModel*, uint64_t seed) {
        std::unique_ptr<SearchStrategy> search = MakeDescent(space, seed);
        for (const auto& [point, seconds] : known) search->Observe(point, seconds);
        return search;
      };
    } else if (stage.kind == SearchKind::kEvolution) {
      tune.make_search = [&stage](const TaskSpace& space, const CostModel* model, uint64_t seed) {
        return MakeEvolutionarySearch(space, model, seed, stage.evolution);
      };
    }
    TuneReport report = TRY(Tune({task.task}, target_, tune, store_, measurer_, nullptr, &stop_requested));
    trials_ += report.trials - report.resumed_trials;
    Print(task, stage.name, report.trials, tune.trials, report.tasks[0].best_seconds);
    return {};
  }

  // Returns all measured points of a task, from any stage, with their times; infinity if a point failed.
  Result<std::vector<std::pair<Proposal, double>>> KnownPoints(const DrawnTask& task) {
    TaskSpace space = TRY(TaskSpace::Make(task.task, target_));
    std::vector<std::pair<Proposal, double>> points;
    for (const Candidate& candidate : TRY(CandidatesOf(store_, task.task, target_))) {
      std::optional<Proposal> point =
          Locate(space, candidate.record.alternative, TRY(ParseTrace(candidate.record.trace)));
      if (!point) continue;
      points.emplace_back(std::move(*point),
                          candidate.Ran() ? candidate.Seconds() : std::numeric_limits<double>::infinity());
    }
    return points;
  }

  // Measures the best candidates in turns. Repeats this until the fastest candidate is one that was measured in turns,
  // kMostFinals is reached, or `deadline` (of SteadySeconds) has passed.
  Status Finals(const DrawnTask& task, double deadline) {
    TaskSpace space = TRY(TaskSpace::Make(task.task, target_));
    for (int round = 0; round < kMostFinals && !stop_requested && (round == 0 || SteadySeconds() < deadline); ++round) {
      std::vector<Candidate> candidates = TRY(CandidatesOf(store_, task.task, target_));
      if (!candidates.empty() && !candidates[0].in_turns.empty()) break;  // the fastest one was measured in turns
      std::vector<const Candidate*> chosen;
      std::vector<Finalist> finalists;
      for (const Candidate& candidate : candidates) {
        if (!candidate.Ran() || finalists.size() == kFinalists) break;
        std::optional<Proposal> proposal =
            Locate(space, candidate.record.alternative, TRY(ParseTrace(candidate.record.trace)));
        if (!proposal) continue;
        chosen.push_back(&candidate);
        finalists.push_back({.proposal = std::move(*proposal), .verified = true});
      }
      if (finalists.empty()) break;
      Confirmation confirmation = TRY(Confirm(measurer_, space, finalists, {}));
      TRY(Store(chosen, confirmation.outcomes, round + 1));
    }
    std::vector<Candidate> candidates = TRY(CandidatesOf(store_, task.task, target_));
    double best = !candidates.empty() && candidates[0].Ran() ? candidates[0].Seconds() : 0;
    Print(task, "in turns", static_cast<int>(candidates.size()), static_cast<int>(candidates.size()), best);
    return {};
  }

  Status Store(const std::vector<const Candidate*>& finalists, const std::vector<Outcome>& outcomes, int number) {
    std::vector<Record> records;
    for (size_t i = 0; i < finalists.size(); ++i) {
      Record record = finalists[i]->record;
      record.id = NewRecordId();
      record.device = outcomes[i].device;
      record.times = outcomes[i].times;
      record.cost = outcomes[i].cost;
      record.status = outcomes[i].status;
      record.error = outcomes[i].error;
      record.verified = outcomes[i].status == TrialStatus::kOk;  // its trial has checked the output
      record.created_at = WallMillis();
      record.confirmation = number;
      record.facts = outcomes[i].facts;
      records.push_back(std::move(record));
    }
    return store_.Append(records);
  }

  void Print(const DrawnTask& task, const char* what, int trials, int wanted, double best) const {
    double spent = (SteadySeconds() - started_) / 60;
    double wanted_trials = static_cast<double>(options_.candidates) * static_cast<double>(tasks_.size());
    double left = options_.minutes > 0 ? options_.minutes - spent
                  : trials_ > 0        ? spent * std::max(0.0, wanted_trials / trials_ - 1)
                                       : 0;
    std::printf("%-28s %-12s %5d of %5d trials, best %9.2f us; %5.1f min spent, about %.0f left\n", task.kind.c_str(),
                what, trials, wanted, best * 1e6, spent, std::max(0.0, left));
    std::fflush(stdout);
  }

  const std::vector<DrawnTask>& tasks_;
  const Target& target_;
  const RecordOptions& options_;
  RecordStore& store_;
  Measurer& measurer_;
  double started_;
  int trials_ = 0;  // number of trials of this process
};

Status RecordTasks(const std::string& path, RecordOptions options, const Arguments& arguments) {
  std::unique_ptr<RecordStore> store = TRY(OpenStore(path));
  if (std::optional<OracleSettings> known = TRY(FindSettings(*store))) {
    if ((arguments.Has("seed") && known->seed != options.settings.seed) ||
        (arguments.Has("tasks") && known->tasks != options.settings.tasks))
      return Err(path, " holds ", known->tasks, " tasks of seed ", known->seed, ": take another database");
    options.settings = *known;
  }
  TRY(StoreSettings(*store, options.settings));
  std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
  Target target = TRY(Target::Parse("cpu"));
  std::vector<DrawnTask> tasks = TRY(DrawTasks(options.settings.seed, options.settings.tasks, target, *builder));
  std::unique_ptr<LocalFarm> farm = TRY(LocalFarm::Start());
  std::unique_ptr<Measurer> measurer =
      TRY(MakeFarmMeasurer(*builder, {.tracker = farm->tracker(), .key = farm->key(), .job = "oracle"}));
  return Recorder(tasks, target, options, *store, *measurer).Run();
}

Status ExportTasks(const std::string& path, const std::string& file) {
  std::unique_ptr<RecordStore> store = TRY(OpenStore(path, {.create = false}));
  std::optional<OracleSettings> settings = TRY(FindSettings(*store));
  if (!settings) return Err(path, " was not recorded by bench_oracle");
  std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
  Target target = TRY(Target::Parse("cpu"));
  std::vector<DrawnTask> tasks = TRY(DrawTasks(settings->seed, settings->tasks, target, *builder));
  int skipped = 0;
  Recording recording = TRY(MakeRecording(*store, *settings, tasks, target, skipped));
  TRY(WriteRecording(recording, file));
  size_t candidates = 0, in_turns = 0;
  for (const RecordedTask& task : recording.tasks) {
    candidates += task.candidates.size();
    for (const RecordedCandidate& candidate : task.candidates) in_turns += candidate.confirmed;
  }
  std::printf("%s: %zu tasks, %zu candidates, %zu of them measured in turns, %.1f MB\n", file.c_str(),
              recording.tasks.size(), candidates, in_turns,
              static_cast<double>(std::filesystem::file_size(file)) * 1e-6);
  if (skipped > 0) std::printf("%d candidates were left out: the present rules do not make them\n", skipped);
  return {};
}

Status Judge(const std::string& path, JudgeOptions options, const std::string& rivals) {
  std::unique_ptr<RecordStore> store = TRY(OpenStore(path, {.create = false}));
  std::optional<OracleSettings> settings = TRY(FindSettings(*store));
  if (!settings) return Err(path, " was not recorded by bench_oracle");
  std::unique_ptr<RecordStore> other;
  if (!rivals.empty()) other = TRY(OpenStore(rivals, {.create = false}));
  options.rivals = other.get();
  std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
  Target target = TRY(Target::Parse("cpu"));
  std::vector<DrawnTask> tasks = TRY(DrawTasks(settings->seed, settings->tasks, target, *builder));
  std::unique_ptr<LocalFarm> farm = TRY(LocalFarm::Start());
  std::unique_ptr<Measurer> measurer =
      TRY(MakeFarmMeasurer(*builder, {.tracker = farm->tracker(), .key = farm->key(), .job = "oracle"}));
  return JudgeTuner(tasks, target, options, *store, *measurer, stop_requested);
}

Result<int> Main(int argc, char** argv) {
  const std::set<std::string> numbers = {"seed", "tasks", "candidates", "minutes", "trials", "seeds"};
  std::set<std::string> names = numbers;
  names.insert("rivals");
  Arguments arguments = TRY(Arguments::Parse(argc, argv, names, numbers));
  const std::vector<std::string>& words = arguments.words;
  if (words.size() == 2 && words[0] == "record") {
    RecordOptions options{.settings = {.seed = static_cast<uint64_t>(arguments.Number("seed", 1)),
                                       .tasks = static_cast<int>(arguments.Number("tasks", 20))},
                          .candidates = static_cast<int>(arguments.Number("candidates", 2000)),
                          .minutes = arguments.Number("minutes", 0)};
    if (options.settings.tasks < 1 || options.candidates < 1 || options.minutes < 0)
      return Err("--tasks and --candidates must be at least 1, --minutes not negative");
    TRY(RecordTasks(words[1], options, arguments));
    return stop_requested ? 130 : 0;
  }
  if (words.size() == 3 && words[0] == "export") {
    TRY(ExportTasks(words[1], words[2]));
    return 0;
  }
  if (words.size() == 2 && words[0] == "judge") {
    JudgeOptions options{.trials = static_cast<int>(arguments.Number("trials", 64)),
                         .seeds = static_cast<int>(arguments.Number("seeds", 3))};
    if (options.trials < 1 || options.seeds < 1) return Err("--trials and --seeds must be at least 1");
    TRY(Judge(words[1], options, arguments.Text("rivals", "")));
    return stop_requested ? 130 : 0;
  }
  std::fprintf(stderr,
               "usage: bench_oracle record DB [--seed 1] [--tasks 20] [--candidates 2000] [--minutes M]\n"
               "       bench_oracle export DB FILE\n"
               "       bench_oracle judge DB [--trials 64] [--seeds 3] [--rivals OTHER.db]\n");
  return 2;
}

}  // namespace
}  // namespace autotune::bench

int main(int argc, char** argv) {
  autotune::bench::UseProgramsOfBuildTree();
  std::signal(SIGINT, [](int) { autotune::bench::stop_requested = true; });
  std::signal(SIGTERM, [](int) { autotune::bench::stop_requested = true; });
  return autotune::bench::ExitCode("bench_oracle", autotune::bench::Main(argc, argv));
}
