#include "tools/autotune/pass_options.h"

#include <algorithm>

#include "compiler/network.h"
#include "graph/pipeline.h"
#include "ir/instruments.h"
#include "lower/lower.h"
#include "tools/autotune/console.h"
#include "tools/autotune/text.h"

namespace autotune::tools {
namespace {

std::string_view HelpOf(const PassOption& option) {
  return std::visit([](const auto* o) { return o->help; }, option);
}

}  // namespace

const std::vector<PassTable>& CompilePassTables() {
  static const std::vector<PassTable> tables = {graph::GraphPassTable(), NetworkPassTable(), LoweringPassTable(),
                                                GpuPassTable()};
  return tables;
}

const std::vector<PassTable>& LoweringPassTables() {
  static const std::vector<PassTable> tables = {LoweringPassTable(), GpuPassTable()};
  return tables;
}

void PassOptions::AddChoices(CLI::App& app) {
  // expected(1): each option takes one value, so that the next argument is not read as a second value.
  app.add_option("--pass-option", options, "NAME=VALUE, an option of the passes below; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--disable-pass", disabled, "leave out a pass, one of those below; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void PassOptions::Add(CLI::App& app) {
  AddChoices(app);
  app.add_flag("--time-passes", config.time, "print how long each pass took");
  app.add_flag("--verify-passes", config.verify, "check the program after every pass");
  app.add_option("--dump-ir", config.dump, "a folder: write the program there before the first pass and after each")
      ->type_name("DIR");
}

Status PassOptions::Check() {
  for (const std::string& option : options) TRY_NOTE(config.SetOption(option, tables), "in --pass-option");
  for (const std::string& pass : disabled) TRY_NOTE(config.Disable(pass, tables), "in --disable-pass");
  return {};
}

bool PassOptions::IsGiven() const {
  return !options.empty() || !disabled.empty() || config.time || config.verify || !config.dump.empty();
}

Result<PassContext> PassOptions::Context() const {
  if (!config.dump.empty()) TRY_NOTE(BeginDump(config.dump), "in --dump-ir");
  return PassContext(config);
}

void PassOptions::PrintTimes(const PassContext& passes) const {
  if (!config.time) return;
  const PassTimes times = passes.Times();
  double sum = 0;
  for (const auto& [pass, time] : times) sum += time.ms;
  Console& console = Console::Get();
  if (!console.json()) console.Result(Format("%-28s %6s %10s %7s\n", "pass", "runs", "ms", "share"));
  for (const PassTable& table : tables) {
    for (const PassRow& row : table.passes) {
      auto time = times.find(std::string(row.name));
      if (time == times.end()) continue;
      if (console.json()) {
        Json line;
        line["pass"] = time->first, line["runs"] = time->second.runs, line["ms"] = time->second.ms;
        console.Result(line);
        continue;
      }
      console.Result(Format("%-28s %6lld %10.3f %5.1f %%\n", time->first.c_str(),
                            static_cast<long long>(time->second.runs), time->second.ms,
                            sum > 0 ? 100 * time->second.ms / sum : 0));
    }
  }
}

std::string PassFooter(const std::vector<PassTable>& tables) {
  std::string text = "Passes for --disable-pass:\n";
  for (const PassTable& table : tables) {
    for (const PassRow& row : table.passes) {
      if (row.needed.empty()) text += "  " + std::string(row.name) + " (" + std::string(table.pipeline) + ")\n";
    }
  }
  text += "\nOptions for --pass-option, with their defaults:\n";
  for (const PassTable& table : tables) {
    for (const PassOption& option : table.options) {
      text += "  " + DefaultText(option) + "  " + std::string(HelpOf(option)) + " (" + ValuesText(option) + ")\n";
    }
  }
  return text;
}

}  // namespace autotune::tools
