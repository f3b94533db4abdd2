// `autotune tune`: the whole service in one command: load, tune, show, compile.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <numeric>

#include "compiler/compile.h"
#include "frontend/onnx/import.h"
#include "frontend/onnx/tensor_pb.h"
#include "package/load.h"
#include "records/open.h"
#include "runtime/fill.h"
#include "support/check.h"
#include "support/clock.h"
#include "support/host_lock.h"
#include "tools/autotune/command.h"
#include "tools/autotune/peak.h"
#include "tools/autotune/progress.h"
#include "tracker/local_farm.h"
#include "tuner/farm_measurer.h"
#include "tuner/tune.h"

namespace autotune::tools {
namespace {

std::atomic<bool> stop_requested{false};

// The first Ctrl-C finishes the batch and saves; the second ends at once.
void OnInterrupt(int) {
  if (stop_requested.exchange(true)) _exit(kExitInterrupted);
}

struct TuneCommandOptions {
  ModelOptions model;
  int trials = 400;
  int trials_per_task = 0;  // 0: `trials` in all
  std::string time_budget;
  std::string tracker, key;
  uint64_t seed = 0;
  std::string output;
  std::string search = "evolution";
  bool fresh = false, json = false;
};

// "90", "90s", "10m", "2h" -> seconds.
Result<double> ParseDuration(const std::string& text) {
  if (text.empty()) return 0.0;
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  std::string unit = end;
  double scale = unit == "" || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (end == text.c_str() || scale == 0 || !(value > 0)) return Err("--time-budget ", text, ": say 90s, 10m or 2h");
  return value * scale;
}

struct Latencies {
  double before_ms = 0, after_ms = 0;  // the least of all runs
};

// Of two packages in alternation: a machine's speed drifts with its neighbours.
Result<Latencies> CompareLatency(const Package& before, const Package& after, int threads) {
  LoadedModel first = TRY(LoadModel(before, threads)), second = TRY(LoadModel(after, threads));
  std::optional<HostLock> alone = TRY(HostLock::AcquireWithin(HostLock::Mode::kExclusive, kHostPatienceMs));
  LoadedModel* models[] = {&first, &second};
  double best[] = {1e30, 1e30};
  for (LoadedModel* model : models) {
    for (int64_t i = 0; i < model->executor->num_inputs(); ++i) FillRandom(model->executor->Input(i), 0);
    TRY(model->executor->Run());
  }
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  for (int n = 0; n < 5 || std::chrono::steady_clock::now() < end; ++n) {
    for (int k = 0; k < 2; ++k) {
      auto begin = std::chrono::steady_clock::now();
      TRY(models[k]->executor->Run());
      std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
      best[k] = std::min(best[k], spent.count());
    }
  }
  return Latencies{best[0], best[1]};
}

std::string RunKeyOf(const TuneCommandOptions& options, const Network& network, const Target& target) {
  std::vector<std::string> parts = {network.digest.Hex(), target.Text(), std::to_string(options.seed),
                                    std::to_string(options.trials), options.search};
  return RunKey(parts);
}

// The run to begin or to go on with. The first of a command has the command's own key; --fresh begins one with a new
// key, and notes it under the command's, so that the command without --fresh goes on with the latest.
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

// The options that tell one network and database from others, as one would type them.
std::string ModelLine(const ModelOptions& options) {
  std::string line = " --model " + options.model;
  for (const std::string& shape : options.shapes) line += " --shape " + shape;
  if (options.target != "cpu") line += " --target '" + options.target + "'";
  if (!options.db.empty()) line += " --db " + options.db;
  if (options.no_winograd) line += " --no-winograd";
  return line;
}

std::string ResumeLine(const TuneCommandOptions& options) {
  std::string line = "autotune" + ModelLine(options.model) + " --trials " + std::to_string(options.trials);
  if (options.seed) line += " --seed " + std::to_string(options.seed);
  if (options.search != "evolution") line += " --search " + options.search;
  if (!options.tracker.empty()) line += " --tracker " + options.tracker + " --key " + options.key;
  if (!options.output.empty()) line += " -o " + options.output;
  return line;
}

Status CheckUsage(const TuneCommandOptions& options) {
  if (!options.tracker.empty() && options.key.empty()) {
    return Err("--tracker (or AUTOTUNE_TRACKER) needs --key, the device key to tune on; `rpc_tracker status --tracker ",
               options.tracker, "` lists them");
  }
  if (options.tracker.empty() && !options.key.empty())
    return Err("--key ", options.key, " needs --tracker HOST:PORT: it is a key of that tracker's devices");
  return {};
}

Result<int> TuneModel(TuneCommandOptions options) {
  double time_budget = TRY(ParseDuration(options.time_budget));
  std::optional<SearchKind> search = EnumFromText<SearchKind>(options.search);
  CHECK(search);  // the option's own check has seen it
  std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
  Target target = TRY(options.model.ParseTarget(*builder));
  NetworkOptions network_options = TRY(options.model.ParseNetwork());
  std::unique_ptr<RecordStore> store = TRY(OpenStore(options.model.db));
  Network network = TRY(LoadNetwork(options.model.model, network_options, target, *builder));
  if (options.trials_per_task > 0) {
    options.trials = options.trials_per_task * std::max(1, static_cast<int>(network.tasks.size()));
  }

  std::unique_ptr<LocalFarm> farm;
  rpc::FarmOptions farm_options{.tracker = options.tracker, .key = options.key, .job = network.name};
  if (options.tracker.empty()) {
    farm = TRY_NOTE(LocalFarm::Start(), "while starting the local device server");
    farm_options.tracker = farm->tracker();
    farm_options.key = farm->key();
  }
  std::unique_ptr<Measurer> measurer = TRY(MakeFarmMeasurer(*builder, farm_options, {.seed = options.seed}));

  std::string run = TRY(ChooseRun(options, RunKeyOf(options, network, target), *store));
  TuneOptions tune{
      .trials = options.trials, .time_budget = time_budget, .seed = options.seed, .search = *search, .run = run};
  Progress progress(network, target, tune, options.json);
  progress.Begin(options.tracker.empty() ? "this machine" : options.key + " at " + options.tracker);

  struct sigaction action {};
  action.sa_handler = OnInterrupt;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  TuneReport report = TRY(Tune(
      network.tasks, target, tune, *store, *measurer,
      [&](const TuneReport& so_far, const TaskReport& task) { progress.Update(so_far, task); }, &stop_requested));
  progress.End(report);
  if (report.interrupted) {
    std::fprintf(stderr, "interrupted; %d of %d trials are saved. Go on with:\n  %s\n", report.trials, options.trials,
                 ResumeLine(options).c_str());
    return kExitInterrupted;
  }
  measurer.reset();
  farm.reset();

  CompileResult before = TRY_NOTE(Compile(network, target, nullptr, *builder, {.use_records = false}),
                                  "while compiling the untuned network");
  CompileResult after = TRY_NOTE(Compile(network, target, store.get(), *builder), "while compiling the tuned network");
  std::optional<double> before_ms, after_ms, peak;
  if (options.tracker.empty()) {
    peak = TRY(MeasurePeakFlops(target, *builder));
    Latencies latency = TRY(CompareLatency(before.package, after.package, target.num_cores));
    before_ms = latency.before_ms;
    after_ms = latency.after_ms;
  }
  if (!options.output.empty()) TRY(WritePackage(after.package, options.output));
  progress.Summary(report, before_ms, after_ms, peak);
  progress.NextSteps(options.output, "autotune compile" + ModelLine(options.model) + " -o model.tar");
  int unreached = 0;
  for (const TaskReport& task : report.tasks) {
    unreached += task.records == 0 && !task.exhausted;  // exhausted: the database knows all its schedules
    if (task.best_seconds == 0 && task.records > 0) {
      std::fprintf(stderr, "autotune: no candidate of %s worked; it keeps its default schedule\n",
                   task.task->label.c_str());
    }
  }
  if (unreached > 0) {
    std::fprintf(stderr,
                 "autotune: the budget ended before %d of %zu tasks had a round; they keep their default schedules\n",
                 unreached, report.tasks.size());
  }
  return kExitOk;
}

}  // namespace

void ModelOptions::Add(CLI::App& app, bool model_required) {
  auto* option = app.add_option("--model", model, "the ONNX model");
  if (model_required) option->required();
  app.add_option("--shape", shapes, "NAME:1,3,224,224, the shape of an input that the model leaves open");
  app.add_option(
      "--bind", bind,
      "NAME=FILE.pb, an input that is this tensor always: shapes, axes, pads that the model takes as inputs");
  app.add_option("--target", target, "cpu (this machine), or 'llvm -mtriple=... -mcpu=... -num-cores=...'")
      ->capture_default_str();
  app.add_option("--db", db,
                 "the tuning database; default AUTOTUNE_DB, else autotune/records.db in your data directory");
  app.add_flag("--no-winograd", no_winograd,
               "no Winograd convolutions, whose rounding errors are a few times those of the direct sum");
}

Result<Target> ModelOptions::ParseTarget(Builder& builder) const {
  Target parsed = TRY(Target::Parse(target));
  TRY(CheckTarget(parsed, builder));
  return parsed;
}

Result<NetworkOptions> ModelOptions::ParseNetwork() const {
  NetworkOptions options{.winograd = !no_winograd};
  for (const std::string& shape : shapes) {
    auto [name, dims] = TRY(ParseShapeOption(shape));
    options.shapes[name] = dims;
  }
  for (const std::string& text : bind) {
    size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
      return Err("--bind ", text, ": write it as NAME=FILE.pb");
    }
    NamedTensor tensor = TRY(ReadTensorPb(text.substr(equals + 1)));
    options.fixed.insert_or_assign(text.substr(0, equals), std::move(tensor.value));
  }
  return options;
}

Command TuneCommand(CLI::App& root) {
  auto options = std::make_shared<TuneCommandOptions>();
  CLI::App* app =
      root.add_subcommand("tune", "Searches fast schedules for every operator of a model by measuring candidates.");
  options->model.Add(*app);
  auto* trials = app->add_option("--trials", options->trials, "candidates measured, over all tasks")
                     ->check(CLI::PositiveNumber)
                     ->capture_default_str();
  app->add_option("--trials-per-task", options->trials_per_task, "so many for each task of the model, instead")
      ->check(CLI::PositiveNumber)
      ->excludes(trials);
  app->add_option("--time-budget", options->time_budget, "stop after this long: 90s, 10m, 2h");
  app->add_option("--tracker", options->tracker,
                  "HOST:PORT of an rpc_tracker; default AUTOTUNE_TRACKER, else this machine")
      ->envname("AUTOTUNE_TRACKER");
  app->add_option("--key", options->key, "the device key to tune on, with --tracker");
  app->add_option("--seed", options->seed, "of all random choices")->capture_default_str();
  app->add_option("-o,--output", options->output, "write the compiled package here");
  app->add_option("--search", options->search, "evolution, or random (a yardstick)")
      ->check(CLI::IsMember({"evolution", "random"}))
      ->capture_default_str();
  app->add_flag("--fresh", options->fresh,
                "begin a new run, even if one of the same model, target, seed and trials can be resumed");
  app->add_flag("--json", options->json, "progress as JSON lines on standard output");
  return {app, [options] { return TuneModel(*options); }, [options] { return CheckUsage(*options); }};
}

}  // namespace autotune::tools
