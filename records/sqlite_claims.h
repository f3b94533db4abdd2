// The claims of runs in an SQLite store. Internal to records/. Not thread-safe.
#pragma once
#include <span>

#include "records/run_claim.h"
#include "records/sqlite.h"
#include "records/store.h"

namespace autotune {

class SqliteClaims {
 public:
  explicit SqliteClaims(Connection& connection) : connection_(connection) {}

  // Call all of these in a transaction. They implement RecordStore's functions of these names.
  Result<RunClaim> Claim(std::string_view run, const RunOwner& owner, int64_t ttl_ms);
  Status Release(std::string_view run, const RunOwner& owner);
  // Fails if a run of the batch was granted by this store and then lost.
  Status MayAppend(std::span<const Record> batch, const RunState* run);

 private:
  Result<std::optional<StoredClaim>> Find(std::string_view run);
  Status MayAppend(std::string_view run);

  Connection& connection_;
  ClaimRules rules_;
};

}  // namespace autotune
