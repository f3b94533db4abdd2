#include "tuner/poison.h"

#include "support/hash.h"

namespace autotune {

std::string PoisonName(std::string_view artifact) { return HashBytes128(artifact).Hex(); }

Result<std::set<std::string>> PoisonOf(RecordStore& store, const std::vector<TuneTask>& tasks) {
  constexpr int kPage = 500;
  std::set<std::string> names;
  for (const TuneTask& task : tasks) {
    const RecordFilter filter{.task = task.hash.Hex(), .status = TrialStatus::kDeviceError};
    for (int64_t cursor = 0;;) {
      const RecordPage page = TRY(store.Scan(filter, cursor, kPage));
      if (page.records.empty()) break;
      cursor = page.cursor;
      for (const Record& record : page.records) {
        if (const auto* name = record.facts[kPoisonFact].As<std::string>()) names.insert(*name);
      }
    }
  }
  return names;
}

}  // namespace autotune
