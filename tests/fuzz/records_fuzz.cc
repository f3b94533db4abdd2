// Lines of input for `autotune records import`. A record that parses is stored and printed as the export prints it, and
// reads back equal.
#include <utility>

#include "records/memory_store.h"
#include "records/record.h"
#include "support/check.h"
#include "support/json.h"
#include "tests/fuzz/target.h"

namespace autotune {

FUZZ_TARGET(records) {
  auto json = Json::Parse(input);
  if (!json.ok() || !json->As<Json::Object>()) return;
  if (auto run = FromJson<RunState>((std::as_const(*json))["run_state"]); run.ok()) {
    auto again = FromJson<RunState>(Json::Parse(ToJson(*run).Dump()).value());
    CHECK(again.ok() && ToJson(*again) == ToJson(*run)) << input;
  }
  auto record = FromJson<Record>(*json);
  if (!record.ok() || !ValidateRecord(*record).ok()) return;
  auto again = FromJson<Record>(Json::Parse(ToJson(*record).Dump()).value());
  CHECK(again.ok()) << again.error().Text();
  CHECK(*again == *record) << input;
  auto store = NewMemoryStore();
  CHECK(store->Append({&*record, 1}).ok());
  auto found = store->Get(record->id);
  CHECK(found.ok() && *found && **found == *record) << input;
}

}  // namespace autotune
