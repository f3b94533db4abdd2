// The options and commands of a program as JSON, from which the build makes man pages and completions
// (scripts/help_files.py). Hidden options and commands are left out.
#pragma once
#include <CLI/CLI.hpp>

#include "support/json.h"

namespace autotune::tools {

// A command is {"name", "help", "footer", "options", "commands"}. An option is {"names": ["-o", "--output"], or
// ["NAME"] of a positional one, "help", "type": the text of its value, such as "INT", or "" for a flag, "default",
// "required", "positional", "many": may be repeated, "needs", "excludes": names of options}.
Json OptionTree(const CLI::App& app);

// Adds the hidden option --help-json, which prints the tree of `app` and ends the program.
void AddHelpJson(CLI::App& app);

}  // namespace autotune::tools
