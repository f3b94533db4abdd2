#include "service/recorded_tune.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "records/open.h"
#include "service/claimed_run.h"
#include "service/machine_text.h"
#include "service/plugins.h"
#include "service/run_key.h"
#include "service/select_tasks.h"
#include "service/text.h"
#include "service/time_budget.h"
#include "service/tune_events.h"
#include "support/file.h"
#include "support/printf_text.h"
#include "tuner/recorded_measurer.h"

namespace autotune {
namespace {

constexpr std::string_view kRecorded = "recorded:";
constexpr int kPage = 1000;  // records read at a time

class RecordedTune {
 public:
  RecordedTune(const TuneRequest& request, const EventSink& emit, const std::atomic<bool>& stop)
      : request_(request), emit_(emit), stop_(stop) {}

  Result<RecordedEnd> Run() {
    TRY(Open());
    RecordedEnd end{.planned = request_.TrialsFor(tasks_.size())};
    TuneOptions options{.trials = end.planned};
    options.time_budget = TRY(ParseTimeBudget(request_.time_budget));
    options.search = *EnumFromText<SearchKind>(request_.search);
    options.use_known = false;  // a run must not begin with what another one has found
    options.confirm = false;    // the recorded times have no noise
    options.lock_host = false;
    options.on_span = request_.on_span;
    EmitBegin(options);
    for (int i = 0; i < request_.seeds; ++i) {
      options.seed = request_.seed + static_cast<uint64_t>(i);
      const TuneReport report = TRY(RunSeed(options));
      if (report.interrupted) {
        end.interrupted = true;
        end.trials = report.trials;
        return end;
      }
    }
    EmitSaved();
    return end;
  }

 private:
  Status Open() {
    path_ = RecordingOf(request_.model.device);
    Recording recording = TRY(ReadRecording(path_));
    digest_ = HashBytes128(TRY(ReadFile(path_))).Hex();
    const Target target = TRY(Target::Parse(recording.header.target));
    // A task whose schedules the present rules no longer make cannot be judged.
    std::erase_if(recording.tasks, [&](const RecordedTask& task) {
      const bool replays = HasSchedules(task, target);
      if (!replays) emit_(event::Note{"left out: no recorded schedule of " + task.label + " is one of today's rules"});
      return !replays;
    });
    if (recording.tasks.empty()) return Err(path_, " has no task that can be replayed");
    device_ = TRY_NOTE(RecordedDevice::Make(std::move(recording)), "in " + path_);
    tasks_ = TRY(SelectTasks(device_->tasks(), request_.tasks));
    for (const TuneTask& task : tasks_) {
      for (size_t i = 0; i < device_->tasks().size(); ++i) {
        if (device_->tasks()[i].hash == task.hash)
          best_known_[task.hash.Hex()] = device_->recording().tasks[i].BestSeconds();
      }
    }
    store_ = TRY(OpenStore(request_.model.db.empty() ? kMemoryStore : request_.model.db));
    return {};
  }

  static bool HasSchedules(const RecordedTask& task, const Target& target) {
    const Result<TuneTask> tune = MakeTuneTask(task);
    if (!tune.ok()) return false;
    const Result<TaskSpace> space = TaskSpace::Make(*tune, target);
    if (!space.ok()) return false;
    return std::ranges::any_of(task.candidates, [&](const RecordedCandidate& candidate) {
      const Result<Trace> trace = ParseTrace(candidate.trace);
      return candidate.status == TrialStatus::kOk && trace.ok() && Locate(*space, candidate.alternative, *trace);
    });
  }

  void EmitBegin(const TuneOptions& options) {
    network_.name = std::filesystem::path(path_).filename().string();
    network_.name = network_.name.substr(0, network_.name.find('.'));
    event::Begin begin = BeginOf(network_, tasks_, device_->target(), options, /*chooses=*/false);
    begin.machine = "recorded " + device_->recording().header.machine;
    begin.network_tasks = static_cast<int64_t>(device_->tasks().size());
    begin.time_budget = options.time_budget;
    begin.seeds = request_.seeds;
    emit_(begin);
  }

  Result<TuneReport> RunSeed(TuneOptions options) {
    const Plugins plugins = TRY(Plugins::Start(request_, options.seed, &stop_, emit_));
    plugins.Use(options);
    RunIdentity identity{.network = digest_,
                         .target = device_->target().Text(),
                         .device = "recorded",
                         .seed = options.seed,
                         .trials = options.trials,
                         .search = request_.search,
                         .plugins = plugins.Identities()};
    if (tasks_.size() < device_->tasks().size()) {
      for (const TuneTask& task : tasks_) identity.tasks.push_back(task.hash.Hex());
    }
    options.run = TRY(ChooseRun(*store_, RunKeyOf(identity), request_.fresh));
    const auto claim = TRY(ClaimedRun::Take(*store_, options.run, {.stop = &stop_}));
    const std::unique_ptr<Measurer> measurer = MakeRecordedMeasurer(device_);
    Result<TuneReport> report = Tune(
        tasks_, device_->target(), options, *store_, *measurer,
        [&](const TuneReport& so_far, const TaskReport& task) { emit_(ProgressOf(so_far, task, options)); }, &stop_);
    if (!report.ok()) return plugins.Explain(report.error(), InMemory());
    if (report->interrupted) return report;
    TRY(KeepBestOfRun(options.run, *report));
    plugins.EmitLate(emit_);
    EmitEnd(*report, options);
    return report;
  }

  // Gives each task its best candidate of this run. The tuner's report has the best one of the database, which other
  // runs may have found.
  Status KeepBestOfRun(const std::string& run, TuneReport& report) {
    std::map<std::string, TaskReport*> reports;
    for (TaskReport& task : report.tasks) {
      task.best_seconds = 0;
      reports[task.task->hash.Hex()] = &task;
    }
    for (int64_t cursor = 0;;) {
      const RecordPage page = TRY(store_->Scan({.run = run}, cursor, kPage));
      if (page.records.empty()) return {};
      cursor = page.cursor;
      for (const Record& record : page.records) {
        TaskReport& task = *reports.at(record.task);
        if (!IsRanked(record) || (task.best_seconds > 0 && record.cost >= task.best_seconds)) continue;
        task.best_seconds = record.cost;
        task.best_trace = record.trace;
        task.best_alternative = record.alternative;
      }
    }
  }

  bool InMemory() const { return request_.model.db.empty() || request_.model.db == kMemoryStore; }

  void EmitEnd(const TuneReport& report, const TuneOptions& options) {
    event::End end = EndOf(report, options, nullptr, std::nullopt);
    end.seed = static_cast<int64_t>(options.seed);
    double sum = 0;
    bool all = true;
    for (event::Task& task : end.tasks) {
      task.best_known_ms = 1e3 * best_known_.at(task.hash);
      all &= task.tuned_ms.has_value();
      if (task.tuned_ms) sum += std::log(*task.best_known_ms / *task.tuned_ms);
    }
    end.reached = all ? std::exp(sum / static_cast<double>(end.tasks.size())) : 0;
    reached_.push_back(*end.reached);
    emit_(end);
  }

  void EmitSaved() {
    double sum = 0;
    for (double reached : reached_) sum += std::log(reached);
    const double mean = std::exp(sum / static_cast<double>(reached_.size()));
    event::Saved saved{.gain = CountText(static_cast<int64_t>(tasks_.size()), "task") + " of " + network_.name +
                               Format(" reached %.1f %% of the speed of their best recorded schedules", 100 * mean)};
    if (reached_.size() > 1) {
      saved.gain += Format(" (geometric mean of %zu seeds; the worst: %.1f %%)", reached_.size(),
                           100 * *std::ranges::min_element(reached_));
    }
    if (!InMemory()) saved.database = request_.model.db;
    emit_(saved);
  }

  const TuneRequest& request_;
  const EventSink& emit_;
  const std::atomic<bool>& stop_;
  std::string path_, digest_;
  std::shared_ptr<const RecordedDevice> device_;
  std::vector<TuneTask> tasks_;
  std::map<std::string, double> best_known_;  // seconds, by the hash of a task
  std::unique_ptr<RecordStore> store_;
  Network network_;              // has only a name
  std::vector<double> reached_;  // event::End::reached of each seed
};

}  // namespace

std::string RecordingOf(const std::string& device) {
  return device.starts_with(kRecorded) ? device.substr(kRecorded.size()) : "";
}

Status CheckRecordedRequest(const TuneRequest& request) {
  const ModelRequest& model = request.model;
  const std::string device = "--device " + model.device;
  if (!model.model.empty() || !model.op.empty() || !model.bytes.empty())
    return Err(device, " has tasks of its own; leave --model and --op out");
  if (model.target != "cpu") return Err(device, " has a target of its own; leave --target out");
  if (request.OnFarm()) return Err(device, " needs no farm; leave --key and --tracker out");
  if (!request.output.empty()) return Err(device, " makes no package; leave -o out");
  return {};
}

Result<RecordedEnd> TuneRecorded(const TuneRequest& request, const EventSink& emit, const std::atomic<bool>& stop) {
  return RecordedTune(request, emit, stop).Run();
}

}  // namespace autotune
