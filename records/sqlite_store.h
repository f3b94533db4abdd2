// The record store on disk: one SQLite file, shared by any number of processes of one machine (docs/records.md).
// Thread-safe. On network file systems and those without shared memory, the store is slower, and readers and writers
// wait for each other.
#pragma once
#include <memory>
#include <string>

#include "records/open.h"
#include "records/store.h"

namespace autotune {

Result<std::unique_ptr<RecordStore>> OpenSqliteStore(const std::string& path, const StoreOptions& options);

}  // namespace autotune
