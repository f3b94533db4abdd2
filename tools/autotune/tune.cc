// `autotune tune` loads a network, tunes it, shows the result and compiles the network.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <stop_token>

#include "compiler/choose.h"
#include "records/open.h"
#include "runtime/device.h"
#include "support/check.h"
#include "support/clock.h"
#include "support/cpus.h"
#include "support/hint.h"
#include "support/host_lock.h"
#include "support/shell.h"
#include "support/stop_on_signals.h"
#include "tools/autotune/claimed_run.h"
#include "tools/autotune/command.h"
#include "tools/autotune/device_target.h"
#include "tools/autotune/farm_networks.h"
#include "tools/autotune/final_choice.h"
#include "tools/autotune/host.h"
#include "tools/autotune/printer.h"
#include "tools/autotune/run_events.h"
#include "tools/autotune/run_key.h"
#include "tools/autotune/tasks.h"
#include "tools/autotune/text.h"
#include "tools/autotune/tune_events.h"
#include "tools/autotune/tune_farm.h"
#include "tools/autotune/tune_trace.h"
#include "tools/autotune/usage.h"
#include "tools/autotune/waits.h"
#include "tools/error_lines.h"
#include "tools/tracker_choice.h"
#include "tracker/local_farm.h"
#include "tuner/farm_measurer.h"
#include "tuner/poison.h"
#include "tuner/tune.h"

namespace autotune::tools {
namespace {

struct TuneCommandOptions {
  ModelOptions model;
  int trials = 400;
  bool trials_given = false;  // the user has given --trials
  int trials_per_task = 0;    // 0: `trials` is the number for all tasks together
  std::string time_budget;
  TrackerChoice tracker;
  std::string key;
  uint64_t seed = 0;
  std::string output, trace;
  std::string search = "evolution";
  bool fresh = false, verbose = false, wide = false;
  std::string tasks;  // patterns of --tasks; empty: all tasks
  std::string http;   // address of the live page; empty: none

  bool OnFarm() const { return tracker.Given() || !key.empty(); }
};

// Parses a duration into seconds: "90", "90s", "10m", "2h". An empty text is 0.
Result<double> ParseDuration(const std::string& text) {
  if (text.empty()) return 0.0;
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  std::string unit = end;
  double scale = unit == "" || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  constexpr double kLongest = 1e7;  // seconds; 115 days, far beyond any tuning run
  if (end == text.c_str() || scale == 0 || !(value > 0 && value * scale <= kLongest))
    return WithHint(Err("--time-budget ", text, " is no duration"), "say 90s, 10m or 2h");
  return value * scale;
}

RunIdentity RunIdentityOf(const TuneCommandOptions& options, const Network& network, const std::vector<TuneTask>& tasks,
                          const Target& target) {
  RunIdentity run{.network = network.digest.Hex(),
                  .target = target.Text(),
                  .device = options.key.empty() ? options.model.device : options.key,
                  .seed = options.seed,
                  .trials = options.trials,
                  .search = options.search};
  if (tasks.size() < TasksToTune(network).size()) {
    for (const TuneTask& task : tasks) run.tasks.push_back(task.hash.Hex());
  }
  return run;
}

// Returns the key of the run to begin or to continue. The first run of a command has the key of the command. --fresh
// begins a run with a new key and stores that key under the command's, so that the same command without --fresh
// continues the latest run.
Result<std::string> ChooseRun(const TuneCommandOptions& options, const std::string& command_key, RecordStore& store) {
  if (options.fresh) {
    std::string fresh = RunKey(std::vector<std::string>{command_key, NewRecordId()});
    RunState state{.key = command_key, .updated_at = WallMillis()};
    state.state["latest"] = fresh;
    TRY(store.PutRun(state));
    return fresh;
  }
  std::optional<RunState> known = TRY(store.GetRun(command_key));
  const std::string* latest = known ? known->state["latest"].As<std::string>() : nullptr;
  return latest ? *latest : command_key;
}

// Returns true if only --time-budget ends the search.
bool IsUnlimited(const TuneCommandOptions& options) { return options.trials == kUnlimitedTrials; }

std::string ResumeLine(const TuneCommandOptions& options) {
  std::string line = "autotune" + ModelLine(options.model);
  if (!IsUnlimited(options)) line += " --trials " + std::to_string(options.trials);
  if (!options.tasks.empty()) line += " --tasks " + ShellWord(options.tasks);
  if (options.seed) line += " --seed " + std::to_string(options.seed);
  if (options.search != "evolution") line += " --search " + options.search;
  if (!options.time_budget.empty()) line += " --time-budget " + options.time_budget;
  if (options.OnFarm()) line += options.tracker.Words() + " --key " + ShellWord(options.key);
  if (!options.output.empty()) line += " -o " + ShellWord(options.output);
  if (!options.http.empty()) line += " --http " + ShellWord(options.http);
  return line;
}

Status CheckUsage(const TuneCommandOptions& options, const CLI::App& app) {
  TRY(options.model.CheckSource());
  TRY(options.model.CheckDevice(/*runs=*/!options.OnFarm() && options.tasks != "list"));
  if (options.tasks == "list") {
    return RefuseGiven(app,
                       {"--trials", "--trials-per-task", "--time-budget", "--tracker", "--join", "--key", "--seed",
                        "--output", "--trace", "--search", "--fresh", "--verbose", "--http"},
                       "--tasks list tunes nothing");
  }
  TRY(ParseDuration(options.time_budget));
  if (options.OnFarm() && options.key.empty()) {
    return WithHint(Err("a farm needs --key, the key of the devices to tune on"),
                    "rpc_tracker status" + options.tracker.Words() + " lists them");
  }
  return {};
}

// Opens the database for `--tasks list`. Returns null if there is no database, since listing must not make one.
Result<std::unique_ptr<RecordStore>> StoreIfThere(const std::string& db) {
  std::string path = db.empty() ? TRY(DefaultStorePath()) : db;
  if (!std::filesystem::exists(path)) return std::unique_ptr<RecordStore>();
  return OpenStore(path);
}

Result<int> ListTasksOfNetwork(const TuneCommandOptions& options) {
  const auto [builder, target, network_options, store] = TRY(options.model.Open(nullptr, StoreIfThere));
  Network network = TRY(options.model.Load(network_options, target, *builder));
  for (const std::string& note : WithoutRepeats(network.notes)) Console::Get().Note(note);
  TRY(PrintTasks(network, target, store.get(), options.wide ? 0 : Console::Get().WidthOut()));
  return kExitOk;
}

// Returns true if the run's results are lost when this process ends, unless -o writes a package.
bool IsInMemory(const TuneCommandOptions& options) {
  if (!options.model.db.empty()) return options.model.db == kMemoryStore;
  const Result<std::string> path = DefaultStorePath();  // AUTOTUNE_DB may name it
  return path.ok() && *path == kMemoryStore;
}

event::Interrupted InterruptedOf(const TuneReport& report, const TuneCommandOptions& options) {
  return {report.trials, PlannedTrials(options.trials), IsInMemory(options) ? "" : ResumeLine(options)};
}

constexpr char kInterruptedEarly[] = "interrupted before the search; nothing was measured";

// What a signal ends at once, for StopOnSignals: it erases the live line, and says what is lost and what is kept.
std::function<void()> EndedAtOnce(std::string line) {
  return [line = std::move(line)] { Console::Get().Alert(line); };  // erases the live line first
}

// The same for the second signal, which does not wait for the running batch.
std::string EndedInBatchText(const TuneCommandOptions& options) {
  if (IsInMemory(options)) return "ended at once; the trials are lost, since the database is in memory";
  return "ended at once: the results of the running batch are lost, those of all batches before it are saved. Go on "
         "with:\n  " +
         ResumeLine(options);
}

// The same for a signal after the choice, when only the package is unfinished.
std::string AfterSearchText(const TuneCommandOptions& options) {
  if (IsInMemory(options)) return "interrupted; the trials are lost, since the database is in memory";
  if (options.output.empty()) return "interrupted; all results are saved";
  return "interrupted; all results are saved, but " + options.output + " may not be written: repeat the command";
}

// Finds errors that need no device, before a wait for one.
Status CheckBeforeWait(const ModelOptions& model) {
  TRY(model.ParseNetwork());
  if (model.op.empty() && !std::ifstream(model.model))
    return Err("cannot open ", model.model, ": ", std::strerror(errno));
  return {};
}

// The network, tasks, target and database of one tuning run.
struct TuneSession {
  std::unique_ptr<Builder> builder;
  Target target;
  std::unique_ptr<RecordStore> store;
  Network network;
  std::vector<TuneTask> tasks;  // the tasks that --tasks selects
};

// `device`: the device of a farm; null: this machine.
Result<TuneSession> OpenSession(const TuneCommandOptions& options, const rpc::DeviceInfo* device,
                                const std::atomic<bool>& stop, EventPrinter& events) {
  Session session = TRY(options.model.Open(&stop, ModelOptions::OpenAny, device));
  if (!device) LimitCores(session.target, AvailableCpus(), events);
  if (device && !IsStated(*device)) {
    LimitCores(session.target, static_cast<int64_t>(device->cores.size()), events);
    events.Print(event::Note{"nobody states what " + NameOf(*device) +
                             " is, since its server or the tracker is of an earlier version: this run compiles for " +
                             MachineText(session.target) + ", as --target or this machine has it"});
  }
  Network network = TRY(options.model.Load(session.network, session.target, *session.builder));
  std::vector<TuneTask> tasks = TRY(SelectTasks(MakeTuneTasks(network), options.tasks));
  return TuneSession{std::move(session.builder), std::move(session.target), std::move(session.store),
                     std::move(network), std::move(tasks)};
}

// Sets the number of trials from --trials-per-task, if that option was given. --time-budget alone means until then.
void ApplyTrialsPerTask(TuneCommandOptions& options, size_t tasks) {
  if (!options.trials_given && options.trials_per_task == 0 && !options.time_budget.empty())
    options.trials = kUnlimitedTrials;
  if (options.trials_per_task == 0) return;
  int64_t trials = int64_t{options.trials_per_task} * std::max<int64_t>(1, static_cast<int64_t>(tasks));
  options.trials = static_cast<int>(std::min<int64_t>(trials, std::numeric_limits<int>::max()));
}

TuneOptions SearchOptions(const TuneCommandOptions& options, const Network& network, bool chooses, double time_budget) {
  std::optional<SearchKind> search = EnumFromText<SearchKind>(options.search);
  CHECK(search);  // the command line's check accepts only valid names
  // The final choice takes a part of the budget.
  const double search_budget = chooses ? SearchBudget(time_budget) : time_budget;
  TuneOptions tune{.trials = options.trials, .time_budget = search_budget, .seed = options.seed, .search = *search};
  if (options.model.op.empty()) tune.measure.cold_bytes = WorkingSetBytes(network);
  return tune;
}

// Writes the package of the tuned network, and emits the notes on its schedules. The schedules are those of `chosen`.
// Without `chosen`, they are the best records or, after a run on a farm, the schedules that `autotune compile` uses.
// `compile` follows an earlier choice for the network; a note says that the records of this run are
// newer.
Status WriteTuned(const TuneSession& session, const TuneCommandOptions& options, std::optional<ChosenNetwork> chosen,
                  EventPrinter& events) {
  // CompileFrom ignores the choice of an earlier run. That choice would hide the records of this run.
  Result<CompileResult> made =
      chosen ? std::move(chosen->compiled)
      : options.OnFarm()
          ? Compile(session.network, session.target, session.store.get(), *session.builder)
          : CompileFrom(session.network, session.target, {.store = session.store.get()}, *session.builder);
  const CompileResult compiled = TRY_NOTE(std::move(made), "while compiling the tuned network");
  TRY(WriteCompiled(compiled.package, options.output, *session.builder));
  for (const std::string& note : CompileNotes(compiled)) events.Print(event::Note{note});
  return {};
}

void EmitNotes(const TuneReport& report, EventPrinter& events) {
  for (const std::string& note : report.notes) events.Print(event::Note{note});
  int64_t unreached = 0;
  for (const TaskReport& task : report.tasks) {
    unreached += task.records == 0 && !task.exhausted;  // exhausted: the database has all schedules of the task
    if (task.best_seconds == 0 && task.records > 0)
      events.Print(event::Note{"no candidate of " + task.task->label + " worked; it keeps its default schedule"});
  }
  if (unreached > 0) {
    events.Print(event::Note{"nothing was tried for " + std::to_string(unreached) + " of " +
                             Counted(static_cast<int64_t>(report.tasks.size()), "task") +
                             ": raise --trials or --time-budget"});
  }
}

// Returns true if this machine can run code for the target.
bool RunsHere(const Target& target) {
  const Result<Target> here = Target::Parse("cpu");
  return target.IsGpu() || (here.ok() && here->triple == target.triple);
}

// Says what was gained, where it is, and how to go on.
event::Saved Saved(const TuneSession& session, const TuneCommandOptions& options, const event::End& end) {
  event::Saved saved = SavedOf(session.network.name, MachineText(session.target), end);
  saved.package = options.output;
  if (!IsInMemory(options)) {
    const Result<std::string> path = DefaultStorePath();
    saved.database = !options.model.db.empty() ? options.model.db : path.ok() ? *path : "";
  }
  const std::string there = options.OnFarm() ? options.tracker.Words() + " --key " + ShellWord(options.key) : "";
  if (!options.output.empty() && options.OnFarm()) {
    saved.next = {"run it:      autotune run " + ShellWord(options.output) + there,
                  "measure it:  autotune bench " + ShellWord(options.output) + there};
  } else if (!options.output.empty() && !RunsHere(session.target)) {
    saved.next = {"run it on a " + session.target.triple + " machine: autotune run " + ShellWord(options.output)};
  } else if (!options.output.empty()) {
    saved.next = {"run it:      autotune run " + ShellWord(options.output),
                  "measure it:  autotune bench " + ShellWord(options.output) + " --threads " +
                      std::to_string(session.target.num_cores)};
  } else if (saved.database.empty()) {
    saved.next = {"to keep the results, name a package with -o M.tar, or a database with --db FILE"};
  } else {
    saved.next = {"compile it:  autotune compile" + ModelLine(options.model) + " -o model.tar"};
  }
  return saved;
}

// Connects the farm of this machine, or makes a measurer of the device of a tracker's farm.
struct FarmSession {
  std::unique_ptr<LocalFarm> farm;
  rpc::FarmOptions options;                            // how its devices are reached
  std::function<bool(const rpc::LeaseGranted&)> fits;  // those that the run uses; null: all
  std::unique_ptr<Measurer> measurer;                  // destroyed before the farm
  rpc::FarmClient* client = nullptr;                   // the measurer's
};
Result<FarmSession> OpenFarm(const TuneSession& session, const TuneCommandOptions& options,
                             std::optional<FarmDevice> device, const SpanObserver& on_span, std::stop_token stop,
                             EventPrinter& events) {
  FarmSession opened;
  FarmMeasurerOptions measurer{.seed = options.seed, .on_wait = EmitWaits(events), .stop = std::move(stop)};
  measurer.on_span = on_span;
  measurer.poison = TRY(PoisonOf(*session.store, session.tasks));
  if (!device) {
    opened.farm = TRY(StartLocalFarm(options.model, session.target));
    device.emplace();
    device->farm = {.tracker = opened.farm->tracker(), .key = opened.farm->key(), .job = session.network.name};
    device->client = TRY(rpc::FarmClient::Connect(device->farm));
  }
  opened.options = device->farm;
  opened.fits = device->fits;
  opened.client = device->client.get();
  opened.measurer = MakeFarmMeasurer(*session.builder, std::move(device->client), measurer);
  return opened;
}

// Waits for a device of the farm. From then on, a signal gives it back.
Result<FarmDevice> TakeDevice(const TuneCommandOptions& options, std::optional<StopOnSignals>& signals,
                              EventPrinter& events) {
  TRY(CheckBeforeWait(options.model));
  FarmDevice device{.farm = {.key = options.key, .job = options.model.op}};
  if (device.farm.job.empty()) device.farm.job = std::filesystem::path(options.model.model).stem().string();
  device.farm.tracker = TRY(options.tracker.Find());
  device.client = TRY(rpc::FarmClient::Connect(device.farm));
  signals.emplace(kExitInterrupted, [client = device.client] {
    Console::Get().Alert(kInterruptedEarly);
    client->GiveBack();
  });
  TRY(AcquireDevice(device, events));
  return device;
}

// Returns where the final choice runs networks: the processor of this machine, or a device of the farm. The farm's
// client has given its device back.
std::unique_ptr<NetworkHost> NetworksOf(FarmSession& farm, bool on_farm, std::stop_token stop,
                                        const std::atomic<bool>& stop_requested, EventPrinter& events) {
  if (!on_farm) {
    farm.farm.reset();
    return MakeLocalHost({.stop = &stop_requested});
  }
  rpc::RemoteDevice::Options options{.farm = farm.options, .fits = farm.fits, .stop = std::move(stop)};
  options.on_wait = [emit = EmitWaits(events)](const rpc::DeviceWait& wait) { emit(wait.text); };
  return std::make_unique<FarmNetworks>(std::move(options), farm.farm ? "" : farm.options.key);
}

Result<int> TuneModel(TuneCommandOptions options, TuneTrace* trace) {
  const bool here = !options.OnFarm();  // tunes on this machine
  double time_budget = TRY(ParseDuration(options.time_budget));
  TRY(CheckOutputFile(options.output, options.model.model));
  // Before the search and after the choice, a signal ends the process at once. In between it only requests a stop: the
  // results of complete batches are kept, and the command that resumes the run is printed.
  std::optional<StopOnSignals> signals(std::in_place, kExitInterrupted, EndedAtOnce(kInterruptedEarly));
  std::stop_source stop;
  std::atomic<bool> stop_requested = false;
  std::stop_callback note_stop(stop.get_token(), [&] { stop_requested = true; });
  std::unique_ptr<EventPrinter> printer =
      MakeEventPrinter(Console::Get(), {.verbose = options.verbose, .wide = options.wide});
  if (trace) printer = MakeTracingPrinter(std::move(printer), *trace);
  const auto events = TRY(RunEvents::Start(std::move(printer), options.http));
  if (!here) TRY(events->TellTracker(TRY(options.tracker.Find())));
  std::optional<FarmDevice> device;
  if (!here) device = TRY(TakeDevice(options, signals, *events));
  const TuneSession session = TRY(OpenSession(options, device ? &device->info : nullptr, stop_requested, *events));
  const auto& [builder, target, store, network, tasks] = session;
  ApplyTrialsPerTask(options, tasks.size());
  const bool is_stated = device && IsStated(device->info);
  // The final choice compares whole networks. Servers that do not state their device do not run networks either.
  const bool chooses = here || is_stated;
  TuneOptions tune = SearchOptions(options, network, chooses, time_budget);
  if (trace) tune.on_span = [trace](const Span& span) { trace->Add(span); };
  HostWaitWatch host_waits([&](const HostWait& wait) {
    events->Print(event::Waiting{kThisHost, wait.reason, static_cast<double>(BootMillis() - wait.since) / 1e3});
  });
  tune.run = TRY(ChooseRun(options, RunKeyOf(RunIdentityOf(options, network, tasks, target)), *store));
  auto waits_for_owner = [&](const std::string& owner, int64_t ms) {
    events->Print(event::Note{owner + " has begun this run; waiting up to " + std::to_string((ms + 999) / 1000) +
                              " s to see whether it still works on it"});
  };
  const auto claimed = TRY(ClaimedRun::Take(*store, tune.run, {.on_wait = waits_for_owner}));
  FarmSession farm = TRY(OpenFarm(session, options, std::move(device), tune.on_span, stop.get_token(), *events));
  for (const std::string& note : WithoutRepeats(network.notes)) events->Print(event::Note{note});
  event::Begin begin = BeginOf(network, tasks, target, tune, chooses);
  begin.key = options.key, begin.tracker = here ? "" : TRY(options.tracker.Find()).Text(),
  begin.time_budget = time_budget;
  events->Print(begin);
  std::optional<double> peak;  // FLOPS; unknown for GPUs
  if (here && !target.IsGpu()) peak = TRY(PeakOfThisMachine(target, *builder, *events));

  signals.emplace(stop, kExitInterrupted, EndedAtOnce(EndedInBatchText(options)));
  if (is_stated && !target.IsGpu()) peak = PeakOfDevice(*farm.client, target, *builder, stop.get_token(), *events);
  tune.peak_flops = peak.value_or(0);
  TuneReport report = TRY(Tune(
      tasks, target, tune, *store, *farm.measurer,
      [&](const TuneReport& so_far, const TaskReport& task) { events->Print(ProgressOf(so_far, task, tune)); },
      &stop_requested));
  auto interrupted = [&] {
    events->Print(InterruptedOf(report, options));
    return kExitInterrupted;
  };
  if (report.interrupted) return interrupted();
  farm.measurer.reset();

  // Without a final choice, each task gets its best record.
  std::optional<ChosenNetwork> chosen;
  if (chooses) {
    const auto networks = NetworksOf(farm, !here || target.IsGpu(), stop.get_token(), stop_requested, *events);
    chosen = TRY(
        ChooseFinally({network, target, *store, *builder}, *networks, report, options.seed, *events, stop_requested));
    if (chosen && chosen->stopped) return interrupted();
  }
  farm.farm.reset();
  if (stop_requested) return interrupted();
  signals.emplace(kExitInterrupted, EndedAtOnce(AfterSearchText(options)));
  event::End end = EndOf(report, tune, chosen ? &*chosen : nullptr, peak);
  end.gpu = session.target.IsGpu();
  events->Print(end);
  if (!options.output.empty()) TRY(WriteTuned(session, options, std::move(chosen), *events));
  EmitNotes(report, *events);
  events->Print(Saved(session, options, end));
  return kExitOk;
}

// Tunes the model, and writes the file of --trace also if the run ends early.
Result<int> TuneAndTrace(const TuneCommandOptions& options) {
  if (options.tasks == "list") return ListTasksOfNetwork(options);
  if (options.trace.empty()) return TuneModel(options, nullptr);
  TRY(CheckOutputFile(options.trace, options.model.model, "--trace"));
  TuneTrace trace;
  Result<int> code = TuneModel(options, &trace);
  TRY(trace.Write(options.trace));
  Console::Get().Report("wrote " + options.trace + ", which https://ui.perfetto.dev and https://speedscope.app open\n");
  return code;
}

}  // namespace

Command TuneCommand(CLI::App& root) {
  auto options = std::make_shared<TuneCommandOptions>();
  CLI::App* app = root.add_subcommand(
      "tune",
      "Searches fast schedules for every operator of a model by measuring candidates. Ctrl-C ends it; the same "
      "command resumes it. -o writes the compiled network at the end.");
  app->footer(OperatorFooter("autotune tune --op 'conv2d:1,56,56,64;3,3,64,64;pad=1' --trials 64 -o conv.tar"));
  options->model.AddWithOperator(*app);
  options->model.AddDevice(*app);
  auto* trials = app->add_option("--trials", options->trials, "candidates to measure, over all tasks")
                     ->transform(AnyNumberOfTrials())
                     ->capture_default_str();
  app->add_option("--trials-per-task", options->trials_per_task, "trials for each task (replaces --trials)")
      ->transform(AnyNumberOfTrials())
      ->excludes(trials);
  app->add_option("--tasks", options->tasks,
                  "'list' shows the tasks and tunes nothing. Otherwise tune only the tasks that these patterns select, "
                  "separated by commas: parts of labels, globs, or ids")
      ->type_name("PATTERN");
  app->add_option("--time-budget", options->time_budget,
                  "stop after this long: 90s, 10m, 2h; without --trials, go on until then");
  app->add_option("--key", options->key, "tune on devices of this key of a farm, instead of this machine");
  AddTrackerOptions(*app, options->tracker);
  app->add_option("--seed", options->seed, "seed of all random choices")->capture_default_str();
  app->add_option("-o,--output", options->output,
                  "write the compiled network here: M.tar, a package, or M.so, one shared object")
      ->check(PackageFile());
  app->add_option("--trace", options->trace,
                  "write when the run searched, built, measured and waited to this file, as Chrome's trace events, "
                  "which Perfetto and speedscope open");
  app->add_option("--search", options->search, "evolution, or random (for comparison)")
      ->check(CLI::IsMember({"evolution", "random"}))
      ->capture_default_str();
  app->add_flag("--fresh", options->fresh,
                "begin a new run, even if one of the same model, target, device key, seed and trials can be resumed");
  app->add_flag("--verbose", options->verbose, "also print the target in full and why the first candidate was skipped");
  app->add_flag("--wide", options->wide, "print the whole table, even if it is wider than the terminal");
  app->add_option("--http", options->http,
                  "serve a live page of the run at this address of this host, such as 127.0.0.1:0, and print its URL")
      ->type_name("IP:PORT");
  AddOutput(*app, "an object for each event of the run");
  return {app, [options] { return TuneAndTrace(*options); },
          [options, app, trials] {
            options->trials_given = trials->count() > 0;
            return CheckUsage(*options, *app);
          }};
}

}  // namespace autotune::tools
