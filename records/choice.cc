#include "records/choice.h"

#include <algorithm>
#include <tuple>

#include "support/log.h"

namespace autotune {
namespace {

std::string ChoiceKey(const std::string& network, const std::string& target) {
  return RunKey(std::vector<std::string>{"network choice", network, target});
}

}  // namespace

const ChosenSchedule* NetworkChoice::Find(std::string_view task) const {
  auto place =
      std::find_if(schedules.begin(), schedules.end(), [&](const ChosenSchedule& s) { return s.task == task; });
  return place == schedules.end() ? nullptr : &*place;
}

Status StoreChoice(RecordStore& store, const NetworkChoice& choice) {
  return store.PutRun(
      {.key = ChoiceKey(choice.network, choice.target), .state = ToJson(choice), .updated_at = choice.created_at});
}

Result<std::optional<NetworkChoice>> FindChoice(RecordStore& store, const std::string& network,
                                                const std::string& target) {
  std::optional<RunState> state = TRY(store.GetRun(ChoiceKey(network, target)));
  if (!state) return std::optional<NetworkChoice>();
  Result<NetworkChoice> choice = FromJson<NetworkChoice>(state->state);
  if (choice.ok()) return std::optional<NetworkChoice>(std::move(*choice));
  Log(LogLevel::kWarning, "the schedules chosen for network ", network, " cannot be read: ", choice.error().Text());
  return std::optional<NetworkChoice>();
}

Result<std::vector<NetworkChoice>> ListChoices(RecordStore& store) {
  std::vector<NetworkChoice> choices;
  for (const RunState& run : TRY(store.Runs())) {
    Result<NetworkChoice> choice = FromJson<NetworkChoice>(run.state);
    // The store also holds the states of tuning runs, whose keys are made otherwise.
    if (choice.ok() && run.key == ChoiceKey(choice->network, choice->target)) choices.push_back(std::move(*choice));
  }
  std::sort(choices.begin(), choices.end(), [](const NetworkChoice& a, const NetworkChoice& b) {
    return std::tie(a.model, a.target, a.network) < std::tie(b.model, b.target, b.network);
  });
  return choices;
}

Result<bool> RemoveChoice(RecordStore& store, const std::string& network, const std::string& target) {
  return store.RemoveRun(ChoiceKey(network, target));
}

}  // namespace autotune
