#include "records/sqlite_claims.h"

#include <set>

#include "support/clock.h"
#include "support/json.h"

namespace autotune {

Result<std::optional<StoredClaim>> SqliteClaims::Find(std::string_view run) {
  Query query = TRY(Query::Make(connection_, "SELECT owner, renewals, ttl_ms FROM claim WHERE run = ?"));
  if (!TRY(query.Text(run).Step())) return std::optional<StoredClaim>();
  const Json owner = TRY_NOTE(Json::Parse(query.TextAt(0)), "while reading the owner of run " + std::string(run));
  StoredClaim claim;
  claim.owner = TRY(FromJson<RunOwner>(owner));
  claim.renewals = query.IntAt(1);
  claim.ttl_ms = query.IntAt(2);
  return std::optional(std::move(claim));
}

Result<RunClaim> SqliteClaims::Claim(std::string_view run, const RunOwner& owner, int64_t ttl_ms) {
  StoredClaim next;
  RunClaim claim = rules_.Judge(run, owner, ttl_ms, TRY(Find(run)), BootMillis(), &next);
  if (!claim.granted) return claim;
  const std::string text = ToJson(next.owner).Dump();
  Query insert =
      TRY(Query::Make(connection_, "INSERT OR REPLACE INTO claim(run, owner, renewals, ttl_ms) VALUES(?, ?, ?, ?)"));
  TRY(insert.Text(run).Text(text).Int(next.renewals).Int(next.ttl_ms).Do());
  return claim;
}

Status SqliteClaims::Release(std::string_view run, const RunOwner& owner) {
  rules_.Release(run, owner);
  const std::optional<StoredClaim> stored = TRY(Find(run));
  if (!stored || stored->owner.id != owner.id) return {};
  Query remove = TRY(Query::Make(connection_, "DELETE FROM claim WHERE run = ?"));
  return remove.Text(run).Do();
}

Status SqliteClaims::MayAppend(std::span<const Record> batch, const RunState* run) {
  std::set<std::string_view> runs;
  for (const Record& record : batch) runs.insert(record.run);
  if (run) runs.insert(run->key);
  for (std::string_view each : runs) TRY(MayAppend(each));
  return {};
}

Status SqliteClaims::MayAppend(std::string_view run) {
  if (!rules_.Watches(run)) return {};
  return rules_.MayAppend(run, TRY(Find(run)));
}

}  // namespace autotune
