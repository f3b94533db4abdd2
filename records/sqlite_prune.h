// Deletes all but the best records. Internal to records/.
#pragma once
#include <vector>

#include "records/sqlite.h"
#include "records/store.h"

namespace autotune {

// Implements RecordStore::Prune in one transaction. After an error the transaction is still open; the caller rolls it
// back.
Result<std::vector<PruneCount>> PruneTables(Connection& connection, int keep, bool dry_run);

}  // namespace autotune
