// Implements `autotune records choice`: the choices for whole networks that `autotune compile` follows.
#include "records/choice.h"

#include <algorithm>
#include <set>

#include "compiler/compile.h"
#include "service/choice_report.h"
#include "support/hash.h"
#include "support/hint.h"
#include "support/task_id.h"
#include "support/terminal.h"
#include "tools/autotune/console.h"
#include "tools/autotune/records/records.h"
#include "tools/autotune/text.h"

namespace autotune::tools {
namespace {

// Returns the model's name. Older versions stored none.
std::string ModelNameOf(const NetworkChoice& choice) { return choice.model.empty() ? "network" : choice.model; }

// Returns the choices that the name or hash selects; all if it is empty.
Result<std::vector<NetworkChoice>> Select(RecordStore& store, const std::string& network) {
  std::vector<NetworkChoice> choices = TRY(ListChoices(store));
  if (choices.empty())
    return WithHint(Err("the database has no choice for a network"), "`autotune tune` makes one at its end");
  if (network.empty()) return choices;
  std::set<std::string> names;
  for (const NetworkChoice& choice : choices) names.insert(choice.model.empty() ? choice.network : choice.model);
  std::erase_if(choices, [&](const NetworkChoice& choice) {
    return choice.model != network && !choice.network.starts_with(network);
  });
  if (!choices.empty()) return choices;
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return Err("the database has no choice for '", network, "', but for ", all);
}

// Returns the record with the schedule of a choice, if the store still has it.
Result<std::optional<Record>> RecordOf(RecordStore& store, const std::string& target, const ChosenSchedule& schedule) {
  constexpr int kMost = 10'000;  // schedules of a task
  for (Record& record : TRY(store.Top(schedule.task, target, kMost))) {
    if (record.alternative == schedule.alternative && record.trace == schedule.trace &&
        HashBytes128(record.func).Hex() == schedule.func_hash)
      return std::optional<Record>(std::move(record));
  }
  return std::optional<Record>();
}

// A row of the table of a choice.
struct ChoiceRow {
  std::string task, time, record, label;
};

Result<ChoiceRow> RowOf(RecordStore& store, const std::string& target, const ChosenSchedule& schedule, bool verbose) {
  const std::optional<Record> best = TRY(store.Best(schedule.task, target));
  ChoiceRow row{verbose ? schedule.task : ShortTaskId(schedule.task), "-", "default schedule",
                best ? LabelOf(*best) : ""};
  if (schedule.seconds <= 0) return row;
  const std::optional<Record> record = TRY(RecordOf(store, target, schedule));
  row.time = TimeText(schedule.seconds);
  row.record = record ? record->id : "record deleted, schedule kept";
  return row;
}

Result<std::string> ChoiceTable(RecordStore& store, const NetworkChoice& choice, const std::string& target,
                                bool verbose) {
  const std::string hash = verbose ? choice.network : ShortTaskId(choice.network);
  std::string text = ModelNameOf(choice) + " (" + hash + ") for " + target + "\n";
  int64_t tuned = 0;
  for (const ChosenSchedule& schedule : choice.schedules) tuned += schedule.seconds > 0;
  text += "chosen " + DateText(choice.created_at) + ": " + std::to_string(tuned) + " of " +
          CountText(static_cast<int64_t>(choice.schedules.size()), "task") + " run tuned schedules" +
          (choice.measured_on.device.empty() ? "" : ", on the device `" + choice.measured_on.device + "`") +
          (IsCurrent(choice) ? "" : "; by another version of autotune, so `compile` ignores it") + "\n" +
          ComparisonsText(choice.comparisons);
  const int width = Console::Get().WidthOut();
  text = WrapLines(text, width);
  std::vector<ChoiceRow> rows = {{"task", "time", "record", "operators and shapes"}};
  for (const ChosenSchedule& schedule : choice.schedules)
    rows.push_back(TRY(RowOf(store, choice.target, schedule, verbose)));
  const auto task = std::ranges::max(rows, {}, [](const ChoiceRow& row) { return row.task.size(); }).task.size();
  const auto record = std::ranges::max(rows, {}, [](const ChoiceRow& row) { return row.record.size(); }).record.size();
  for (const ChoiceRow& row : rows) {
    text += Row(Format("  %-*s %10s  %-*s  ", static_cast<int>(task), row.task.c_str(), row.time.c_str(),
                       static_cast<int>(record), row.record.c_str()),
                row.label, verbose ? 0 : width);
  }
  return text;
}

}  // namespace

Result<int> ShowChoices(const RecordsOptions& options) {
  std::unique_ptr<RecordStore> store = TRY(OpenExistingStore(options.db));
  const std::vector<NetworkChoice> choices = TRY(Select(*store, options.network));
  std::set<std::string> targets;
  for (const NetworkChoice& choice : choices) targets.insert(choice.target);
  if (options.clear && options.network.empty() && choices.size() > 1) {
    return WithHint(Err("--clear: the database has ", choices.size(), " choices"),
                    "name the network, as `autotune records choice` shows it");
  }
  Console& console = Console::Get();
  for (size_t i = 0; i < choices.size(); ++i) {
    const NetworkChoice& choice = choices[i];
    const std::string target = TargetName(choice.target, targets, options.verbose);
    if (options.clear) TRY(RemoveChoice(*store, choice.network, choice.target));
    if (console.json()) {
      console.Result(ToJson(choice));
    } else if (options.clear) {
      console.Report("cleared the choice for " + ModelNameOf(choice) + " (" + ShortTaskId(choice.network) + ") for " +
                     target + "; `compile` takes the best records\n");
    } else {
      console.Result((i > 0 ? "\n" : "") + TRY(ChoiceTable(*store, choice, target, options.verbose)));
    }
  }
  return 0;
}

}  // namespace autotune::tools
