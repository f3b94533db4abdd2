// `autotune tune` tunes a network by the library (service/tune.h), and shows its events.
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>

#include "records/open.h"
#include "rpc/job_report.h"
#include "service/tune.h"
#include "support/output_file.h"
#include "support/shell.h"
#include "support/stop_on_signals.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/printer.h"
#include "tools/autotune/run_events.h"
#include "tools/autotune/tasks.h"
#include "tools/autotune/text.h"
#include "tools/autotune/tune_trace.h"
#include "tools/autotune/usage.h"
#include "tools/tracker_choice.h"

namespace autotune::tools {
namespace {

struct TuneCommandOptions {
  ModelOptions model;
  TuneRequest request;  // with `model` and `trials` once the command line is parsed
  int trials = TuneRequest::kTrials;
  std::string trace, http;  // the file of the trace; the address of the live page; empty: none
  std::string report_url;   // where the report will be published, for the page of the farm; empty: unknown
  bool verbose = false, wide = false;

  bool ListsTasks() const { return request.tasks == "list"; }
};

Status CheckUsage(const TuneCommandOptions& options, const CLI::App& app) {
  if (!options.report_url.empty() && !rpc::IsWebUrl(options.report_url))
    return Err("--report-url takes an address like https://lab.example/report.html, not '", options.report_url, "'");
  if (!options.ListsTasks()) {
    if (!options.request.OnFarm()) TRY(RefuseGiven(app, {"--report-url"}, "only a farm's tracker shows it"));
    return options.request.Check();
  }
  if (options.model.precision == "auto")
    return Err("--tasks list measures nothing, so it excludes --precision auto: list the tasks of model or bf16");
  TRY(options.model.CheckSource());
  TRY(options.model.CheckDevice(/*runs=*/false));
  return RefuseGiven(app,
                     {"--trials", "--trials-per-task", "--time-budget", "--tracker", "--join", "--key", "--seed",
                      "--seeds", "--output", "--trace", "--search", "--strategy", "--cost-model", "--plugin-deadline",
                      "--fresh", "--verbose", "--http", "--report-url"},
                     "--tasks list tunes nothing");
}

// Opens the database for `--tasks list`. Returns null if there is no database, since listing must not make one.
Result<std::unique_ptr<RecordStore>> StoreIfThere(const std::string& db) {
  std::string path = db.empty() ? TRY(DefaultStorePath()) : db;
  if (!std::filesystem::exists(path)) return std::unique_ptr<RecordStore>();
  return OpenStore(path);
}

Result<int> ListTasksOfNetwork(const TuneCommandOptions& options) {
  const auto [builder, target, network_options, store] = TRY(options.model.Open(StoreIfThere));
  Network network = TRY(options.model.Load(network_options, target, *builder));
  for (const std::string& note : WithoutRepeats(network.notes)) Console::Get().Note(note);
  TRY(PrintTasks(network, target, store.get(), options.wide ? 0 : Console::Get().WidthOut()));
  return kExitOk;
}

// A signal during the search requests a stop: the results of complete batches are kept, and the command that resumes
// the run is printed. The second one, and any signal before the search or after the choice, ends the process at once.
class Signals {
 public:
  void Watch(TuneRun& run) { run_ = &run; }

 private:
  bool Ends() {
    TuneRun* run = run_;
    if (run && run->stage() == TuneStage::kSearching && !stopping_) {
      stopping_ = true;
      run->Cancel();
      return false;
    }
    Console::Get().Ended(run ? run->EndedAtOnceText() : "interrupted before the search; nothing was measured",
                         kExitInterrupted);
    if (run) run->Abandon();
    return true;
  }

  std::atomic<TuneRun*> run_ = nullptr;
  bool stopping_ = false;  // used by the thread of `signals_` only
  StopOnSignals signals_{[this] { return Ends(); }, kExitInterrupted};
};

Result<int> TuneModel(const TuneCommandOptions& options, TuneTrace* trace) {
  TuneRequest request = options.request;
  if (trace) request.on_span = [trace](const Span& span) { trace->Add(span); };
  if (!options.http.empty()) request.resume_words = " --http " + ShellWord(options.http);
  if (!options.report_url.empty()) request.resume_words += " --report-url " + ShellWord(options.report_url);
  std::unique_ptr<TuneRun> run;
  Signals signals;  // before the threads of the run, which inherit that they get no signals; ends before the run
  std::unique_ptr<EventPrinter> printer =
      MakeEventPrinter(Console::Get(), {.verbose = options.verbose, .wide = options.wide});
  if (trace) printer = MakeTracingPrinter(std::move(printer), *trace);
  const std::string database = request.model.db.empty() ? TRY(DefaultStorePath()) : request.model.db;
  const auto events = TRY(RunEvents::Start(
      std::move(printer),
      {.http = options.http, .report_url = options.report_url, .database = database == kMemoryStore ? "" : database}));
  if (request.OnFarm()) TRY(events->TellTracker(TRY(request.tracker.Find())));
  run = TRY(TuneRun::Start(std::move(request)));
  signals.Watch(*run);
  while (const std::optional<event::Any> event = run->NextEvent()) events->Print(*event);
  return TRY(run->Finish()) == TuneEnd::kDone ? kExitOk : kExitInterrupted;
}

// Tunes the model, and writes the file of --trace also if the run ends early.
Result<int> TuneAndTrace(const TuneCommandOptions& options) {
  if (options.ListsTasks()) return ListTasksOfNetwork(options);
  if (options.trace.empty()) return TuneModel(options, nullptr);
  TRY(CheckOutputFile(options.trace, options.model.model, "--trace"));
  TuneTrace trace;
  Result<int> code = TuneModel(options, &trace);
  TRY(trace.Write(options.trace));
  MakeEventPrinter(Console::Get(), {})->Print(event::Trace{options.trace});
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
  app->add_option("--device", options->model.device,
                  std::string(kDeviceHelp) +
                      "; or recorded:FILE, which replays a recording instead of measuring (docs/recordings.md)");
  options->model.AddPrecisionChoice(*app);
  TuneRequest& request = options->request;
  auto* trials = app->add_option("--trials", options->trials, "candidates to measure, over all tasks")
                     ->transform(AnyNumberOfTrials())
                     ->capture_default_str();
  app->add_option("--trials-per-task", request.trials_per_task, "trials for each task (replaces --trials)")
      ->transform(AnyNumberOfTrials())
      ->excludes(trials);
  app->add_option("--tasks", request.tasks,
                  "'list' shows the tasks and tunes nothing. Otherwise tune only the tasks that these patterns select, "
                  "separated by commas: parts of labels, globs, or ids")
      ->type_name("PATTERN");
  app->add_option("--time-budget", request.time_budget,
                  "stop after this long: 90s, 10m, 2h; without --trials, go on until then");
  app->add_option("--key", request.key, "tune on devices of this key of a farm, instead of this machine");
  AddTrackerOptions(*app, request.tracker);
  app->add_option("--seed", request.seed, "seed of all random choices")->capture_default_str();
  app->add_option("--seeds", request.seeds,
                  "with --device recorded:FILE, tune so many times, with the seeds from --seed on")
      ->check(AtLeastOne())
      ->capture_default_str();
  app->add_option("-o,--output", request.output,
                  "write the compiled network here: M.tar, a package, or M.so, one shared object")
      ->check(PackageFile());
  app->add_option("--trace", options->trace,
                  "write when the run searched, built, measured and waited to this file, as Chrome's trace events, "
                  "which Perfetto and speedscope open");
  app->add_option("--search", request.search, "evolution, or random (for comparison)")
      ->check(CLI::IsMember({"evolution", "random"}))
      ->capture_default_str();
  app->add_option("--strategy", request.strategy,
                  "a shell command that chooses the candidates, such as 'python3 mine.py' (docs/plugins.md)")
      ->type_name("COMMAND");
  app->add_option("--cost-model", request.cost_model,
                  "a shell command that scores the candidates of autotune's own search (docs/plugins.md)")
      ->type_name("COMMAND")
      ->excludes("--strategy");
  app->add_option("--plugin-deadline", request.plugin_deadline,
                  "time for each answer of --strategy or --cost-model; later, autotune's own goes on: 500s, 2m")
      ->capture_default_str();
  app->add_flag("--fresh", request.fresh,
                "begin a new run, even if one of the same model, target, device key, seed and trials can be resumed");
  app->add_flag("--verbose", options->verbose, "also print the target in full and why the first candidate was skipped");
  app->add_flag("--wide", options->wide, "print the whole table, even if it is wider than the terminal");
  app->add_option("--http", options->http,
                  "serve a live page of the run at this address of this host, such as 127.0.0.1:0, and print its URL")
      ->type_name("IP:PORT");
  app->add_option("--report-url", options->report_url,
                  "where you will publish the report of this run (autotune report --db F): the page of the farm's "
                  "tracker links it once the run has ended")
      ->type_name("URL");
  AddOutput(*app, "an object for each event of the run");
  return {app, [options] { return TuneAndTrace(*options); },
          [options, app, trials] {
            if (trials->count() > 0) options->request.trials = options->trials;
            options->request.model = options->model;
            return CheckUsage(*options, *app);
          }};
}

}  // namespace autotune::tools
