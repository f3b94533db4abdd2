// `autotune compile` makes a package of a model, or an object for linkers.
#include "compiler/compile.h"

#include "compiler/aot.h"
#include "records/open.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/host.h"
#include "tools/autotune/pass_options.h"
#include "tools/autotune/text.h"
#include "tools/autotune/usage.h"

namespace autotune::tools {
namespace {

struct CompileCommandOptions {
  ModelOptions model;
  PassOptions passes{CompilePassTables()};
  std::string output;
  std::string executor = "graph";    // what runs the network: graph, or aot
  std::string schedules = "chosen";  // the source of the schedules: chosen, best or default
  bool verbose = false;
};

// Compiles with the schedules that --schedules names.
Result<CompileResult> CompileWith(const CompileCommandOptions& options, const Network& network, const Target& target,
                                  RecordStore* store, Builder& builder, const PassContext& passes) {
  if (options.schedules == "chosen") return Compile(network, target, store, builder, passes);
  const ScheduleSources sources{.store = options.schedules == "best" ? store : nullptr};
  return CompileFrom(network, target, sources, builder, passes);
}

// Says what was compiled, unless quiet: the result is the file.
void ReportCompiled(const CompileCommandOptions& options, const Network& network, const Target& target,
                    const CompileResult& result) {
  Console& console = Console::Get();
  const PackageInfo& info = result.package.info;
  if (console.json()) {
    Json line;
    line["package"] = options.output;
    line["model"] = network.name;
    line["target"] = target.Text();
    line["kernels"] = info.tasks;
    line["tuned_kernels"] = info.tuned_tasks;
    line["seconds"] = result.seconds;
    console.Result(line);
  } else {
    console.Report("compiled " + network.name + " for " + MachineText(target) + ": " +
                   std::to_string(info.tuned_tasks) + " of " + Counted(info.tasks, "kernel") + " tuned, " +
                   Format("%.1f s; wrote ", result.seconds) + options.output + "\n" +
                   (options.verbose ? "target: " + target.Text() + "\n" : ""));
  }
}

// Writes the result in the form that --executor names. Notes what the program must do for it.
Status WriteResult(const CompileCommandOptions& options, const CompileResult& result, const Target& target,
                   Builder& builder) {
  if (options.executor != "aot") return WriteCompiled(result.package, options.output, builder);
  const std::string not_here = TRY(WriteAot(result, target, options.output));
  if (!not_here.empty()) {
    Console::Get().Note("the constants cannot be prepared on this machine (" + not_here +
                        "), so the program must do it: see " + AotHeaderOf(options.output));
  }
  return {};
}

Result<std::unique_ptr<RecordStore>> NoStore() { return std::unique_ptr<RecordStore>(); }

Result<int> CompileModel(const CompileCommandOptions& options) {
  TRY(CheckOutputFile(options.output, options.model.model));
  const PassContext passes = TRY(options.passes.Context());
  const bool uses_records = options.schedules != "default";
  const auto [builder, target, network_options, store] = TRY(
      uses_records ? options.model.Open() : options.model.Open(nullptr, [](const std::string&) { return NoStore(); }));
  if (options.executor == "aot") TRY(CheckAotOutput(options.output, target));
  Network network = TRY(options.model.Load(network_options, target, *builder, passes));
  Console& console = Console::Get();
  for (const std::string& note : WithoutRepeats(network.notes)) console.Note(note);
  CompileResult result = TRY(CompileWith(options, network, target, store.get(), *builder, passes));
  TRY(WriteResult(options, result, target, *builder));
  ReportCompiled(options, network, target, result);
  for (const std::string& note : CompileNotes(result)) console.Note(note);
  if (result.package.info.tuned_tasks == 0 && !result.followed_choice && uses_records) {
    console.Note("the database has no schedule for this network and target; tune it first:",
                 "autotune" + ModelLine(options.model));
  }
  options.passes.PrintTimes(passes);
  return kExitOk;
}

}  // namespace

Command CompileCommand(CLI::App& root) {
  auto options = std::make_shared<CompileCommandOptions>();
  CLI::App* app =
      root.add_subcommand("compile", "Compiles a model with the best schedules in the database; searches nothing.");
  app->footer(OperatorFooter("autotune compile --model m.onnx -o m.tar") + "\n" + PassFooter(CompilePassTables()));
  options->model.AddWithOperator(*app);
  options->model.AddDevice(*app);
  app->add_option("-o,--output", options->output,
                  "what to write: a package M.tar, or M.so, one shared object with everything in it; with "
                  "--executor aot an archive NAME.a, an object NAME.o or a C source NAME.c, and NAME.h")
      ->required();
  app->add_option("--executor", options->executor,
                  "what will run the network: graph, autotune's runtime; aot, a C program that links it")
      ->check(CLI::IsMember({"graph", "aot"}))
      ->capture_default_str();
  CLI::Option* schedules =
      app->add_option("--schedules", options->schedules,
                      "chosen: those that tune chose for the whole network, else the best records; best: the best "
                      "record of each task; default: no records, for comparison")
          ->check(CLI::IsMember({"chosen", "best", "default"}))
          ->capture_default_str();
  app->add_flag_callback(
         "--no-records", [options] { options->schedules = "default"; }, "short for --schedules default")
      ->excludes(schedules);
  app->add_flag("--verbose", options->verbose, "also print the target in full");
  AddOutput(*app, "package, model, target, kernels, tuned_kernels, seconds");
  options->passes.Add(*app);
  return {app, [options] { return CompileModel(*options); },
          [options, app]() -> Status {
            TRY(options->model.CheckSource());
            TRY(CheckCompiledFile(options->output, options->executor));
            TRY(options->model.CheckDevice(/*runs=*/false));
            if (options->schedules == "default")
              TRY(RefuseGiven(*app, {"--db"}, "--schedules default uses no records"));
            return options->passes.Check();
          }};
}

}  // namespace autotune::tools
