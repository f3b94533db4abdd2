// Opens record stores of all kinds by path. Thread-safe.
#pragma once
#include <memory>
#include <string>

#include "records/store.h"
#include "support/result.h"

namespace autotune {

struct StoreOptions {
  // Longest wait for another process that holds the database's lock. Then the call fails.
  int lock_timeout_ms = 20000;
  // true: use a write-ahead log, with which readers never wait for writers. false: use a rollback journal. Network file
  // systems and those without shared memory always get a rollback journal.
  bool wal = true;
  bool create = true;  // false: an error if there is no such file
};

// The path of a store in memory, which is lost when the process ends.
inline constexpr char kMemoryStore[] = ":memory:";

// Returns $AUTOTUNE_DB if set, else autotune/records.db in the user's data directory (XDG_DATA_HOME or ~/.local/share).
Result<std::string> DefaultStorePath();

// Opens or creates the database at `path`, whose directory must exist. "" means DefaultStorePath(), whose directory is
// created. kMemoryStore means a new store in memory. Errors are one line for the user.
Result<std::unique_ptr<RecordStore>> OpenStore(const std::string& path, const StoreOptions& options = {});

// The database format that OpenStore writes. It reads this format and all older ones.
int StoreVersion();

}  // namespace autotune
