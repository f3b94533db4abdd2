#include "tools/autotune/usage.h"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <sstream>
#include <vector>

#include "support/cpus.h"
#include "support/edit_distance.h"
#include "support/file.h"
#include "support/printf_text.h"
#include "support/terminal.h"
#include "tools/error_lines.h"
#include "tools/option_tree.h"

namespace autotune::tools {
namespace {

CLI::Validator AtLeast(int64_t least) {
  return CLI::Validator(
      [least](std::string& text) -> std::string {
        int64_t value = 0;
        auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc() && end == text.data() + text.size() && value >= least) return "";
        return "'" + text + "' is not a whole number of " + std::to_string(least) + " or more";
      },
      "");
}

// Returns the command that the arguments selected, and its full name: "autotune records show".
std::pair<const CLI::App*, std::string> ChosenCommand(const CLI::App& app) {
  const CLI::App* command = &app;
  std::string words = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    words += " " + command->get_name();
  }
  return {command, words};
}

std::vector<std::string> OptionsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> CommandsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

// An error text, and the word that the user probably meant; that word is empty if no known word is similar.
struct Complaint {
  std::string text;
  std::string meant;
};

std::string Nearest(const std::string& word, const std::vector<std::string>& known) {
  std::vector<std::string> near = NearWords(word, known);
  return near.empty() ? "" : near[0];
}

// Describes the first of the `words` that no option and no command takes. Everything after an unknown command is
// unknown too, so only the first word can be the unknown command.
Complaint ComplaintAbout(const std::vector<std::string>& words, const CLI::App& command, const std::string& name) {
  std::vector<std::string> commands = CommandsOf(command);
  if (!commands.empty() && !words[0].starts_with("-"))
    return {"unknown command '" + words[0] + "' of `" + name + "`", Nearest(words[0], commands)};
  for (const std::string& word : words) {
    if (!word.starts_with("-")) continue;
    std::string option = word.substr(0, word.find('='));
    return {"unknown option " + option + " of `" + name + "`", Nearest(option, OptionsOf(command))};
  }
  return {"unexpected argument '" + words[0] + "' of `" + name + "`", ""};
}

// The layout of CLI11's help, with lines that fit the terminal.
class WrappingFormatter : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override {
    return InColumn(CLI::Formatter::make_option_desc(option));
  }
  // Leaves out a positional argument that is an option too, since the options list it.
  std::string make_positionals(const CLI::App* app) const override {
    const auto only_positional = [](const CLI::Option* option) {
      return option->get_positional() && !option->nonpositional() && !option->get_group().empty();
    };
    const std::vector<const CLI::Option*> options = app->get_options(only_positional);
    return options.empty() ? "" : make_group(get_label("Positionals"), true, options);
  }
  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream out;
    CLI::detail::format_help(out, command->get_display_name(true), InColumn(command->get_description()),
                             get_column_width());
    return out.str();
  }
  std::string make_description(const CLI::App* app) const override {
    return WrapLines(CLI::Formatter::make_description(app), Columns());
  }
  std::string make_footer(const CLI::App* app) const override {
    return WrapLines(CLI::Formatter::make_footer(app), Columns());
  }

 private:
  static int Columns() {
    // Columns: of a help text that goes to a file; the most; the indent of a command within a command in --help-all.
    constexpr int kFile = 80, kMost = 100, kNested = 4;
    const int width = TerminalWidth(1);
    return (width == 0 ? kFile : std::min(kMost, width)) - kNested;
  }
  // A text of the right column.
  std::string InColumn(const std::string& text) const {
    constexpr int kLeast = 20;  // columns
    return WrapWords(text, std::max(kLeast, Columns() - static_cast<int>(get_column_width())), 0);
  }
};

// Explains why `app` refused the command line.
Error UsageError(const CLI::App& app, const CLI::ParseError& error) {
  auto [command, name] = ChosenCommand(app);
  std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  Complaint complaint = unknown.empty() ? Complaint{error.what(), ""} : ComplaintAbout(unknown, *command, name);
  return WithHint(Error(complaint.text),
                  complaint.meant.empty() ? "see `" + name + " --help`" : "did you mean " + complaint.meant + "?");
}

}  // namespace

CLI::Validator AtLeastOne() { return AtLeast(1); }
CLI::Validator AtLeastZero() { return AtLeast(0); }

CLI::Validator Threads() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (const std::string wrong = AtLeastZero()(text); !wrong.empty()) return wrong;
        const Status status = CheckThreads(std::strtoll(text.c_str(), nullptr, 10));
        return status.ok() ? "" : status.error().Text();
      },
      "");
}

CLI::Validator AnyNumberOfTrials() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const std::string largest = std::to_string(std::numeric_limits<int>::max());
        const size_t first = text.find_first_not_of('0');
        if (first == std::string::npos || text.find_first_not_of("0123456789") != std::string::npos)
          return "'" + text + "' is not a whole number of 1 or more";
        text.erase(0, first);
        if (text.size() > largest.size() || (text.size() == largest.size() && text > largest)) text = largest;
        return "";
      },
      "");
}

CLI::Validator Seconds() {
  constexpr double kMostSeconds = 86400;  // a day
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        double value = 0;
        auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool is_number = error == std::errc() && end == text.data() + text.size();
        if (is_number && value >= 0 && value <= kMostSeconds) return "";  // a NaN is refused
        return "'" + text + "' is not a number of seconds from 0 to 86400";
      },
      "");
}

CLI::Validator PositiveNumber(double most) {
  return CLI::Validator(
      [most](const std::string& text) -> std::string {
        double value = 0;
        auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool is_number = error == std::errc() && end == text.data() + text.size();
        if (is_number && value > 0 && value <= most) return "";
        const bool bounded = most < std::numeric_limits<double>::max();
        return "'" + text + "' is not a number above 0" + (bounded ? Format(" and up to %g", most) : "");
      },
      "");
}

CLI::Validator PackageFile() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        const Status right = CheckCompiledFile(text, "graph");
        return right.ok() ? "" : right.error().Text();
      },
      "");
}

Status RefuseGiven(const std::vector<const CLI::Option*>& options, const std::string& why) {
  for (const CLI::Option* option : options) {
    const char* set = option->get_envname().empty() ? nullptr : std::getenv(option->get_envname().c_str());
    const bool of_environment = set && option->results() == std::vector<std::string>{set};
    if (option->count() > 0 && !of_environment) return Err(why, ", so it excludes ", option->get_name());
  }
  return {};
}

Status RefuseGiven(const CLI::App& app, const std::vector<std::string>& names, const std::string& why) {
  std::vector<const CLI::Option*> options;
  for (const std::string& name : names) options.push_back(app.get_option(name));
  return RefuseGiven(options, why);
}

void WrapHelp(CLI::App& app) {
  app.formatter(std::make_shared<WrappingFormatter>());
  AddHelpJson(app);
}

int EndParsing(const CLI::App& app, const CLI::ParseError& error, const std::function<int(const Error&)>& fail) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);
  return fail(UsageError(app, error));
}

}  // namespace autotune::tools
