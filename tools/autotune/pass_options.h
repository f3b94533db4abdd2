// The options of commands that run passes: --pass-option, --disable-pass, --time-passes, --verify-passes, --dump-ir.
// Their possible values come from the tables of the pipelines (ir/pass_context.h).
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "ir/pass_context.h"
#include "support/result.h"

namespace autotune::tools {

// Return the tables of the pipelines that run, in the order of their execution: CompilePassTables when a whole model is
// compiled, LoweringPassTables when one kernel is lowered.
const std::vector<PassTable>& CompilePassTables();
const std::vector<PassTable>& LoweringPassTables();

struct PassOptions {
  const std::vector<PassTable>& tables;
  std::vector<std::string> options, disabled;
  PassConfig config;  // the parsed options; Check fills it

  // Adds all options to a command.
  void Add(CLI::App& app);
  // Adds only --pass-option and --disable-pass.
  void AddChoices(CLI::App& app);
  // Fills `config`. Returns an error for a name or a value that no table has; it is reported as wrong usage.
  Status Check();
  // Returns whether the command line has any of these options.
  bool IsGiven() const;
  // Makes the context of the passes; call Check first. Returns an error if the folder of --dump-ir cannot be written
  // to.
  Result<PassContext> Context() const;
  // Prints the table of --time-passes if that option was given.
  void PrintTimes(const PassContext& passes) const;
};

// Returns the end of the help text of a command with these options: the passes that may be disabled, and the options of
// all passes with defaults and meaning.
std::string PassFooter(const std::vector<PassTable>& tables);

}  // namespace autotune::tools
