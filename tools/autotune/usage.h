// Wrong usage, explained in one line: CLI11 names neither what was probably meant nor a range that people can read.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace autotune::tools {

// Checks for options; their errors are of the form "-3 is not a whole number of 1 or more".
CLI::Validator AtLeastOne();
CLI::Validator AtLeastZero();

// What is wrong with the command line that `app` refused: "unknown option --trails of `autotune tune`; did you mean
// --trials?".
std::string UsageText(const CLI::App& app, const CLI::ParseError& error);

}  // namespace autotune::tools
