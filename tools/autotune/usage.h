// Explains wrong usage in one line. CLI11's own messages suggest no spelling, and print ranges with hundreds of digits.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace autotune::tools {

// Validators of options. Their errors read "'-3' is not a whole number of 1 or more".
CLI::Validator AtLeastOne();
CLI::Validator AtLeastZero();
CLI::Validator Seconds();      // 0 to 86400; refuses "nan" and "inf", which CLI::Range accepts
CLI::Validator PackageFile();  // a path of a package to write: M.tar or M.so

// Explains in one line why `app` refused the command line: "unknown option --trails of `autotune tune`; did you mean
// --trials?".
std::string UsageText(const CLI::App& app, const CLI::ParseError& error);

}  // namespace autotune::tools
