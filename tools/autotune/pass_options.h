// The options of commands that run passes: --pass-option, --disable-pass, --time-passes, --verify-passes, --dump-ir.
// What they take comes from the tables of the pipelines (ir/pass_context.h).
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "ir/pass_context.h"
#include "support/result.h"

namespace autotune::tools {

// The tables of the pipelines that make a package of a model, in the order in which they run, and those of a kernel.
const std::vector<PassTable>& CompilePassTables();
const std::vector<PassTable>& LoweringPassTables();

struct PassOptions {
  const std::vector<PassTable>& tables;
  std::vector<std::string> options, disabled;
  PassConfig config;  // what Check has made of them

  // Adds all options to a command.
  void Add(CLI::App& app);
  // Adds --pass-option and --disable-pass alone.
  void AddChoices(CLI::App& app);
  // Fills `config`. Errors are wrong usage: a name or a value that no table has.
  Status Check();
  // Returns whether the command line has any of these options.
  bool IsGiven() const;
  // After Check. Errors: the folder of --dump-ir cannot be written to.
  Result<PassContext> Context() const;
  // Prints the table of --time-passes, if asked for.
  void PrintTimes(const PassContext& passes) const;
};

// The end of the help text of a command with these options: the passes, and the options with defaults and meaning.
std::string PassFooter(const std::vector<PassTable>& tables);

}  // namespace autotune::tools
