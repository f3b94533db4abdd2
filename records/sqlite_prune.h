// Deleting all but the best records. Internal to records/.
#pragma once
#include <vector>

#include "records/sqlite.h"
#include "records/store.h"

namespace autotune {

// RecordStore::Prune in one transaction, which is left open if it fails.
Result<std::vector<PruneCount>> PruneTables(Connection& connection, int keep, bool dry_run);

}  // namespace autotune
