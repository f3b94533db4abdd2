// Opens record stores by name, the one list of their kinds. Thread-safe.
#pragma once
#include <memory>
#include <string>

#include "records/store.h"
#include "support/result.h"

namespace autotune {

struct StoreOptions {
  // How long to wait for another process that holds the database's lock, before the call fails.
  int lock_timeout_ms = 20000;
  // Use a write-ahead log, with which readers never wait for writers. Otherwise, and always on network file systems and
  // those without shared memory, use a rollback journal.
  bool wal = true;
  bool create = true;  // false: an error if there is no such file
};

// AUTOTUNE_DB if set, else autotune/records.db in the user's data directory (XDG_DATA_HOME or ~/.local/share).
Result<std::string> DefaultStorePath();

// Opens or creates the database at `path` (its directory must exist); "" is the default path (whose directory is
// created), ":memory:" a store that lives as long as this process. Errors are one line for the user.
Result<std::unique_ptr<RecordStore>> OpenStore(const std::string& path, const StoreOptions& options = {});

// The database format that OpenStore writes. It reads this format and all older ones.
int StoreVersion();

}  // namespace autotune
