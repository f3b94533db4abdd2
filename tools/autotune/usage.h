// Explains wrong usage, for all three programs. CLI11's own messages suggest no spelling, and print ranges with
// hundreds of digits.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "support/result.h"

namespace autotune::tools {

// Validators of options. Their errors read "'-3' is not a whole number of 1 or more".
CLI::Validator AtLeastOne();
CLI::Validator AtLeastZero();
// A whole number of any size; one that exceeds `int` becomes the largest `int`, which no run reaches.
CLI::Validator AnyNumberOfTrials();
CLI::Validator Threads();      // 0 to MostThreads() (support/cpus.h); 0: one per CPU
CLI::Validator Port();         // 0 to 65535
CLI::Validator Seconds();      // 0 to 86400; refuses "nan" and "inf", which CLI::Range accepts
CLI::Validator PackageFile();  // a path of a package to write: M.tar or M.so

// Returns why the package `output` cannot be written, before the work begins: its folder is missing or read-only, it is
// no regular file, or it is the file `input`, which would be lost. An empty `output` is right.
Status CheckOutputFile(const std::string& output, const std::string& input);

// Makes the help of `app`, and of the commands that are added to it afterwards, fit the terminal, and 100 columns.
void WrapHelp(CLI::App& app);

// Explains why `app` refused the command line: "unknown option --trails of `autotune tune`", with the hint "did you
// mean
// --trials?" or the command that shows the help.
Error UsageError(const CLI::App& app, const CLI::ParseError& error);

// Prints the help or the version that the command line asks for, or why it is refused. Returns 0 or `usage_code`.
int EndParsing(const CLI::App& app, const CLI::ParseError& error, int usage_code);

}  // namespace autotune::tools
