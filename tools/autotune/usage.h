// Explains wrong usage, for all three programs. CLI11's own messages suggest no spelling, and print ranges with
// hundreds of digits.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "support/output_file.h"
#include "support/result.h"

namespace autotune::tools {

// Validators of options. Their errors read "'-3' is not a whole number of 1 or more".
CLI::Validator AtLeastOne();
CLI::Validator AtLeastZero();
// A whole number of any size; one that exceeds `int` becomes the largest `int`, which no run reaches.
CLI::Validator AnyNumberOfTrials();
CLI::Validator Threads();  // 0 to MostThreads() (support/cpus.h); 0: one per CPU
CLI::Validator Seconds();  // 0 to 86400; refuses "nan" and "inf", which CLI::Range accepts
// A finite number above 0, up to `most`; refuses "nan", which CLI::PositiveNumber accepts.
CLI::Validator PositiveNumber(double most = std::numeric_limits<double>::max());
CLI::Validator PackageFile();  // a path of a package to write: M.tar or M.so

// Returns an error if the command line gives one of these options, which would have no effect: "WHY, so it excludes
// --shape". An option that only an environment variable sets is not given.
Status RefuseGiven(const std::vector<const CLI::Option*>& options, const std::string& why);
// The same for the options of `app` with these names.
Status RefuseGiven(const CLI::App& app, const std::vector<std::string>& names, const std::string& why);

// Makes the help of `app`, and of the commands that are added to it afterwards, fit the terminal and 100 columns, or 80
// columns of a file. Adds --help-json (tools/option_tree.h), too.
void WrapHelp(CLI::App& app);

// Prints the help or the version that the command line asks for. Else calls `fail` with the reason why it is refused,
// "unknown option --trails of `autotune tune`", and the hint "did you mean --trials?" or the command that shows the
// help. Returns 0 or the result of `fail`.
int EndParsing(const CLI::App& app, const CLI::ParseError& error, const std::function<int(const Error&)>& fail);

}  // namespace autotune::tools
