// Implements `autotune records choice`: the choices for whole networks that `autotune compile` follows.
#include "records/choice.h"

#include <cstdio>
#include <set>

#include "compiler/compile.h"
#include "support/hash.h"
#include "support/task_id.h"
#include "tools/autotune/choice_report.h"
#include "tools/autotune/console.h"
#include "tools/autotune/records/records.h"
#include "tools/autotune/text.h"

namespace autotune::tools {
namespace {

// Returns the model's name. Older versions stored none.
std::string NameOf(const NetworkChoice& choice) { return choice.model.empty() ? "network" : choice.model; }

// Returns the choices that the name or hash selects; all if it is empty.
Result<std::vector<NetworkChoice>> Select(RecordStore& store, const std::string& network) {
  std::vector<NetworkChoice> choices = TRY(ListChoices(store));
  if (choices.empty()) return Err("the database has no choice for a network; `autotune tune` makes one at its end");
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

Status PrintSchedule(RecordStore& store, const std::string& target, const ChosenSchedule& schedule, bool verbose) {
  const std::optional<Record> best = TRY(store.Best(schedule.task, target));
  const std::string task = verbose ? schedule.task : ShortTaskId(schedule.task);
  const std::string label = best ? LabelOf(*best) : "";
  if (schedule.seconds <= 0) {
    std::printf("  %s %10s  %-36s %s\n", task.c_str(), "-", "default schedule", label.c_str());
    return {};
  }
  const std::optional<Record> record = TRY(RecordOf(store, target, schedule));
  std::printf("  %s %10.4f  %-36s %s\n", task.c_str(), schedule.seconds * 1e3,
              record ? record->id.c_str() : "record deleted, schedule kept", label.c_str());
  return {};
}

Status PrintChoice(RecordStore& store, const NetworkChoice& choice, const std::string& target, bool verbose) {
  const std::string hash = verbose ? choice.network : ShortTaskId(choice.network);
  std::printf("%s (%s) for %s\n", NameOf(choice).c_str(), hash.c_str(), target.c_str());
  int64_t tuned = 0;
  for (const ChosenSchedule& schedule : choice.schedules) tuned += schedule.seconds > 0;
  std::printf("chosen %s: %lld of %s run tuned schedules%s\n", DateText(choice.created_at).c_str(),
              static_cast<long long>(tuned), Counted(static_cast<int64_t>(choice.schedules.size()), "task").c_str(),
              IsCurrent(choice) ? "" : "; by another version of autotune, so `compile` ignores it");
  std::printf("%s", ComparisonsText(choice.comparisons).c_str());
  std::printf("  %-*s %10s  %-36s %s\n", verbose ? 32 : static_cast<int>(kTaskIdDigits), "task", "record ms", "record",
              "operators and shapes");
  for (const ChosenSchedule& schedule : choice.schedules) {
    TRY(PrintSchedule(store, choice.target, schedule, verbose));
  }
  return {};
}

}  // namespace

Result<int> ShowChoices(const RecordsOptions& options) {
  std::unique_ptr<RecordStore> store = TRY(OpenExistingStore(options.db));
  const std::vector<NetworkChoice> choices = TRY(Select(*store, options.network));
  std::set<std::string> targets;
  for (const NetworkChoice& choice : choices) targets.insert(choice.target);
  if (options.clear && options.network.empty() && choices.size() > 1) {
    return Err("--clear: the database has ", choices.size(), " choices; name the network, as `autotune records choice`",
               " shows it");
  }
  Console& console = Console::Get();
  for (size_t i = 0; i < choices.size(); ++i) {
    const NetworkChoice& choice = choices[i];
    const std::string target = TargetName(choice.target, targets, options.verbose);
    if (options.clear) TRY(RemoveChoice(*store, choice.network, choice.target));
    if (console.json()) {
      console.Result(ToJson(choice));
    } else if (options.clear) {
      console.Report("cleared the choice for " + NameOf(choice) + " (" + ShortTaskId(choice.network) + ") for " +
                     target + "; `compile` takes the best records\n");
    } else {
      if (i > 0) std::printf("\n");
      TRY(PrintChoice(*store, choice, target, options.verbose));
    }
  }
  return 0;
}

}  // namespace autotune::tools
