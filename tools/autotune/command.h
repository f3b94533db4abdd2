// The subcommands of `autotune`: each declares its options and returns its work. main.cc has the list.
#pragma once
#include <CLI/CLI.hpp>
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

namespace autotune::tools {

// Exit codes, as `autotune --help` documents them.
enum ExitCode { kExitOk = 0, kExitFailed = 1, kExitUsage = 2, kExitWrong = 3, kExitInterrupted = 130 };

// What a command does once its options are parsed; returns the exit code.
using Action = std::function<Result<int>()>;

struct Command {
  CLI::App* app;
  Action action;
  // Options that do not go together: an error is wrong usage. Null: all do.
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

// What the options of a network stand for, ready to load it.
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
  std::string db;
  bool no_winograd = false;
  bool allow_tf32 = false;
  void Add(CLI::App& app, bool model_required = true);
  // Adds only the options that say what the model's inputs are.
  void AddInputs(CLI::App& app);
  // Adds --op as well. CheckSource then makes sure that either --model or --op is given.
  void AddWithOperator(CLI::App& app);
  Status CheckSource() const;
  // Of --target and --allow-tf32; an error also if LLVM does not know it.
  Result<Target> ParseTarget(Builder& builder) const;
  // Of --shape, --dim, --bind and --no-winograd.
  Result<NetworkOptions> ParseNetwork() const;
  Result<Network> Load(const NetworkOptions& options, const Target& target, Builder& builder,
                       const PassContext& passes = {}) const;
  // Starts build workers, parses the target and the network's options and opens the database, with `open_store`.
  using OpenDatabase = std::function<Result<std::unique_ptr<RecordStore>>(const std::string& db)>;
  Result<Session> Open(const OpenDatabase& open_store = [](const std::string& db) { return OpenStore(db); }) const;
};
// The options that identify this network, target and database, as a user types them.
std::string ModelLine(const ModelOptions& options);
// The end of the help text of a command with --op: an example and the list of operators.
std::string OperatorFooter(const std::string& example);

}  // namespace autotune::tools
