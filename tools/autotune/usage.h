// Explains wrong usage in one line. CLI11's own messages suggest no spelling, and print ranges with hundreds of digits.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace autotune::tools {

// Validators of options. Their errors read "'-3' is not a whole number of 1 or more".
CLI::Validator AtLeastOne();
CLI::Validator AtLeastZero();

// Explains in one line why `app` refused the command line: "unknown option --trails of `autotune tune`; did you mean
// --trials?".
std::string UsageText(const CLI::App& app, const CLI::ParseError& error);

}  // namespace autotune::tools
