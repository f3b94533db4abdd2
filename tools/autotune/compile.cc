// `autotune compile` makes a package of a model, or an object for linkers.
#include "service/compile.h"

#include "service/machine_text.h"
#include "support/output_file.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/pass_options.h"
#include "tools/autotune/text.h"
#include "tools/autotune/usage.h"

namespace autotune::tools {
namespace {

struct CompileCommandOptions {
  ModelOptions model;
  PassOptions passes{CompilePassTables()};
  CompileRequest request;  // but `model` and `passes`
  bool verbose = false;
};
// Says what was compiled, unless quiet: the result is the file.
void ReportCompiled(const CompiledNetwork& made, bool verbose) {
  Console& console = Console::Get();
  if (console.json()) {
    Json line;
    line["package"] = made.package;
    line["model"] = made.model;
    line["target"] = made.target;
    line["kernels"] = made.kernels;
    line["tuned_kernels"] = made.tuned_kernels;
    line["seconds"] = made.seconds;
    console.Result(line);
  } else {
    console.Report("compiled " + made.model + " for " + MachineText(made.target) + ": " +
                   std::to_string(made.tuned_kernels) + " of " + CountText(made.kernels, "kernel") + " tuned, " +
                   Format("%.1f s; wrote ", made.seconds) + made.package + "\n" +
                   (verbose ? "target: " + made.target + "\n" : ""));
  }
}

Result<int> CompileModel(const CompileCommandOptions& options) {
  CompileRequest request = options.request;
  TRY(CheckOutputFile(request.output, options.model.model));
  request.model = options.model;
  request.passes = TRY(options.passes.Context());
  Console& console = Console::Get();
  request.on_note = [&](const std::string& note) { console.Note(note); };
  const CompiledNetwork made = TRY(CompileNetwork(request));
  for (const std::string& note : made.notes) console.Note(note);
  if (made.tuned_kernels == 0 && !made.followed_choice && request.UsesRecords()) {
    console.Note("the database has no schedule for this network and target; tune it first:",
                 "autotune" + ModelLine(options.model));
  }
  ReportCompiled(made, options.verbose);
  options.passes.PrintTimes(request.passes);
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
  app->add_option("-o,--output", options->request.output,
                  "what to write: a package M.tar, or M.so, one shared object with everything in it; with "
                  "--executor aot an archive NAME.a, an object NAME.o or a C source NAME.c, and NAME.h")
      ->required();
  app->add_option("--executor", options->request.executor,
                  "what will run the network: graph, autotune's runtime; aot, a C program that links it")
      ->check(CLI::IsMember({"graph", "aot"}))
      ->capture_default_str();
  CLI::Option* schedules =
      app->add_option("--schedules", options->request.schedules,
                      "chosen: those that tune chose for the whole network, else the best records; best: the best "
                      "record of each task; default: no records, for comparison")
          ->check(CLI::IsMember({"chosen", "best", "default"}))
          ->capture_default_str();
  app->add_flag_callback(
         "--no-records", [options] { options->request.schedules = "default"; }, "short for --schedules default")
      ->excludes(schedules);
  app->add_flag("--verbose", options->verbose, "also print the target in full");
  AddOutput(*app, "package, model, target, kernels, tuned_kernels, seconds");
  options->passes.Add(*app);
  return {app, [options] { return CompileModel(*options); },
          [options, app]() -> Status {
            TRY(options->model.CheckSource());
            TRY(CheckCompiledFile(options->request.output, options->request.executor));
            TRY(options->model.CheckDevice(/*runs=*/false));
            if (options->request.schedules == "default")
              TRY(RefuseGiven(*app, {"--db"}, "--schedules default uses no records"));
            return options->passes.Check();
          }};
}

}  // namespace autotune::tools
