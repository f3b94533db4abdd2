#include "records/run_claim.h"

#include <unistd.h>

#include <filesystem>

#include "records/record.h"
#include "support/hint.h"
#include "support/process_stat.h"

namespace autotune {
namespace {

// Returns "" if the system does not say. A container has its own numbers of processes, so the boot alone is not enough.
std::string ProcessesHere() {
  const std::string boot = BootId();
  std::error_code error;
  const std::string processes = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
  if (boot.empty() || error) return "";
  return boot + " " + processes;
}

}  // namespace

std::string RunOwner::Text() const { return "process " + std::to_string(pid) + " on host " + host; }

RunOwner NewRunOwner() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const std::optional<ProcessStat> self = StatOfProcess(getpid());
  return {.id = NewRecordId(),
          .host = host,
          .processes = self ? ProcessesHere() : "",
          .pid = getpid(),
          .started = self ? self->started : 0};
}

OwnerState StateOf(const RunOwner& owner) {
  if (owner.processes.empty() || owner.processes != ProcessesHere()) return OwnerState::kUnknown;
  const std::optional<ProcessStat> stat = StatOfProcess(static_cast<pid_t>(owner.pid));
  return stat && stat->started == owner.started && !stat->HasEnded() ? OwnerState::kAlive : OwnerState::kDead;
}

RunClaim ClaimRules::Judge(std::string_view run, const RunOwner& owner, int64_t ttl_ms,
                           const std::optional<StoredClaim>& stored, int64_t now_ms, StoredClaim* next) {
  const std::string key(run);
  const auto granted = granted_.find(key);
  const bool had_it = granted != granted_.end() && granted->second == owner.id;
  auto grant = [&](int64_t renewals) {
    *next = {owner, renewals, ttl_ms};
    granted_[key] = owner.id;
    seen_.erase(key);
    return RunClaim{.granted = true, .owner = owner};
  };
  if (stored && stored->owner.id == owner.id) return grant(stored->renewals + 1);
  if (had_it) return {.owner = stored ? stored->owner : RunOwner{}};
  if (!stored) return grant(0);
  const OwnerState state = StateOf(stored->owner);
  if (state == OwnerState::kDead) return grant(0);
  if (state == OwnerState::kAlive) return {.owner = stored->owner};
  Seen& seen = seen_[key];
  if (seen.owner != stored->owner.id || seen.renewals != stored->renewals)
    seen = {stored->owner.id, stored->renewals, now_ms};
  const int64_t left = seen.since_ms + stored->ttl_ms - now_ms;
  if (left <= 0) return grant(0);
  return {.owner = stored->owner, .wait_ms = left};
}

void ClaimRules::Release(std::string_view run, const RunOwner& owner) {
  const auto granted = granted_.find(std::string(run));
  if (granted != granted_.end() && granted->second == owner.id) granted_.erase(granted);
}

Status ClaimRules::MayAppend(std::string_view run, const std::optional<StoredClaim>& stored) const {
  const auto granted = granted_.find(std::string(run));
  if (granted == granted_.end() || (stored && stored->owner.id == granted->second)) return {};
  const std::string owner = stored ? stored->owner.Text() : "another process";
  return WithHint(Err(owner, " has taken this run over, so nothing of this batch was stored"),
                  "repeat the command when that process has ended");
}

}  // namespace autotune
