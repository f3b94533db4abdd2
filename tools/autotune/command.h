// The subcommands of `autotune`. Each function ...Command declares one subcommand with its options, and returns the
// action that runs it. main.cc has the list.
#pragma once
#include <CLI/CLI.hpp>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/builder.h"
#include "compiler/network.h"
#include "records/open.h"
#include "records/store.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune::rpc {
struct DeviceInfo;  // rpc/device_info.h
}

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

// Everything that is needed to load the network: the parsed values of ModelOptions, build workers, and the database.
struct Session {
  std::unique_ptr<Builder> builder;
  Target target;
  NetworkOptions network;
  std::unique_ptr<RecordStore> store;
};

// The options that name a network (a model or one operator), its target and the database.
struct ModelOptions {
  std::string model, op;
  std::vector<std::string> shapes, dims, bind;
  std::string target = "cpu";
  std::string device;  // number, UUID or name of the GPU; empty: the first one
  std::string db;
  bool no_winograd = false;
  std::string precision = "model";  // or "bf16"
  bool allow_tf32 = false;
  bool lenient = false;
  void Add(CLI::App& app, bool model_required = true);
  // Adds only the options that describe the model's inputs.
  void AddInputs(CLI::App& app);
  // Adds all options and --op. CheckSource then makes sure that --model or --op is given.
  void AddWithOperator(CLI::App& app);
  // Adds --device, for commands that use a GPU of this machine.
  void AddDevice(CLI::App& app);
  // Returns the options that were added, except --model, --op and --db. They have no effect on a compiled package.
  const std::vector<const CLI::Option*>& OfCompilation() const { return of_compilation_; }
  Status CheckSource() const;
  // Returns an error if --device has no effect. `runs`: the command also runs code on a device of this machine.
  Status CheckDevice(bool runs) const;
  // Parses --target, --device and --allow-tf32. Returns an error also if LLVM does not know the target, or if code for
  // it cannot run on `farm_device`, the device of a farm that it is for; null: on this machine.
  Result<Target> ParseTarget(Builder& builder, const rpc::DeviceInfo* farm_device = nullptr) const;
  // Parses --shape, --dim, --bind, --lenient, --no-winograd and --precision.
  Result<NetworkOptions> ParseNetwork() const;
  Result<Network> Load(const NetworkOptions& options, const Target& target, Builder& builder,
                       const PassContext& passes = {}) const;
  // Starts build workers with BuildWorkersOptions::stop, parses the options, and opens the database by `open_store`.
  using OpenDatabase = std::function<Result<std::unique_ptr<RecordStore>>(const std::string& db)>;
  static Result<std::unique_ptr<RecordStore>> OpenAny(const std::string& db) { return OpenStore(db); }
  Result<Session> Open(const std::atomic<bool>* stop = nullptr, const OpenDatabase& open_store = OpenAny,
                       const rpc::DeviceInfo* farm_device = nullptr) const;

 private:
  std::vector<const CLI::Option*> of_compilation_;
};
// Adds --json and --quiet, which set up the console (console.h). `fields` says what --json prints.
void AddOutput(CLI::App& app, const std::string& fields);
// Returns the options that identify this network, target and database, as on a command line, with a leading space.
std::string ModelLine(const ModelOptions& options);
// Returns the end of the help text of a command with --op: an example and the list of operators.
std::string OperatorFooter(const std::string& example);

}  // namespace autotune::tools
