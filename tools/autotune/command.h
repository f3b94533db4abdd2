// The subcommands of `autotune`. Each function ...Command declares one subcommand with its options, and returns the
// action that runs it. main.cc has the list.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "service/model.h"
#include "support/result.h"

namespace autotune::tools {

// Exit codes, as `autotune --help` documents them.
enum ExitCode { kExitOk = 0, kExitFailed = 1, kExitUsage = 2, kExitWrong = 3, kExitInterrupted = 130 };

// Runs a command after its options were parsed. Returns the exit code.
using Action = std::function<Result<int>()>;

struct Command {
  CLI::App* app;
  Action action;
  // Checks that the options go together; an error is reported as wrong usage. Null: there is nothing to check.
  std::function<Status()> check = nullptr;
};

Command TuneCommand(CLI::App& root);
Command CompileCommand(CLI::App& root);
Command RunCommand(CLI::App& root);
Command BenchCommand(CLI::App& root);
Command VerifyCommand(CLI::App& root);
Command RecordsCommand(CLI::App& root);
Command ReplayCommand(CLI::App& root);
Command DevicesCommand(CLI::App& root);
Command DoctorCommand(CLI::App& root);
Command InspectCommand(CLI::App& root);
Command ExplainCommand(CLI::App& root);
Command ReportCommand(CLI::App& root);
Command CompareCommand(CLI::App& root);
Command QuantizeCommand(CLI::App& root);

// The options that name a network (a model or one operator), its target and the database.
struct ModelOptions : ModelRequest {
  void Add(CLI::App& app, bool model_required = true);
  // Adds only the options that describe the model's inputs.
  void AddInputs(CLI::App& app);
  // Adds all options and --op. CheckSource then makes sure that --model or --op is given.
  void AddWithOperator(CLI::App& app);
  // Adds --device, for commands that use a GPU of this machine.
  void AddDevice(CLI::App& app);
  // Adds the options that go with --precision auto.
  void AddPrecisionChoice(CLI::App& app);
  // Returns the options that were added, except --model, --op and --db. They have no effect on a compiled package.
  const std::vector<const CLI::Option*>& OfCompilation() const { return of_compilation_; }
  // As ModelRequest::Open. Prints the target's remark.
  Result<ModelSetup> Open(const OpenDatabase& open_store = OpenAny, const rpc::DeviceInfo* farm_device = nullptr) const;

 private:
  std::vector<const CLI::Option*> of_compilation_;
};
// The help of --device.
inline constexpr char kDeviceHelp[] =
    "which GPU of this machine: its number, or its UUID (OpenCL: its name) or the beginning of it, as `autotune "
    "devices` lists them; default the first one";

// Adds --json and --quiet, which set up the console (console.h). `fields` says what --json prints.
void AddOutput(CLI::App& app, const std::string& fields);
// Returns the end of the help text of a command with --op: an example and the list of operators.
std::string OperatorFooter(const std::string& example);

}  // namespace autotune::tools
