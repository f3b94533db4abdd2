#include "records/record.h"

#include <chrono>
#include <cmath>
#include <random>

#include "support/hash.h"

namespace autotune {

bool IsRecordId(std::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    bool hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
    if (dash ? text[i] != '-' : !hex) return false;
  }
  return true;
}

bool operator==(const Record& a, const Record& b) { return ToJson(a) == ToJson(b); }

bool WasExecuted(TrialStatus status) {
  switch (status) {
    case TrialStatus::kOk:
    case TrialStatus::kIllegalInstruction:
    case TrialStatus::kRunCrashed:
    case TrialStatus::kRunTimedOut:
    case TrialStatus::kWrongAnswer:
    case TrialStatus::kCutOff:
      return true;
    case TrialStatus::kRejected:
    case TrialStatus::kBuildFailed:
    case TrialStatus::kBuildTimedOut:
    case TrialStatus::kUploadFailed:
    case TrialStatus::kLoadFailed:
    case TrialStatus::kOutOfMemory:
    case TrialStatus::kCancelled:
    case TrialStatus::kDeviceError:
    case TrialStatus::kInfrastructure:
      return false;
  }
  UNREACHABLE();
  return false;
}

Status ValidateRecord(const Record& record) {
  if (!IsRecordId(record.id)) return Err("a record's id must be a UUID in lower case, not '", record.id, "'");
  if (record.task.empty()) return Err("record ", record.id, " names no task");
  if (record.target.empty()) return Err("record ", record.id, " names no target");
  if (!std::isfinite(record.cost) || record.cost < 0) {
    return Err("record ", record.id, ": its cost ", record.cost, " is not a time");
  }
  if (record.status == TrialStatus::kOk && record.cost == 0) {
    return Err("record ", record.id, " is ok but has no cost: a measured time is greater than zero");
  }
  if (record.confirmation < 0)
    return Err("record ", record.id, ": its confirmation number ", record.confirmation, " is negative");
  for (double time : record.times) {
    if (!std::isfinite(time)) return Err("record ", record.id, ": one of its times is not a number");
  }
  return {};
}

std::string NewRecordId(int64_t now_ms, Rng& rng) {
  uint64_t high = (static_cast<uint64_t>(now_ms) << 16) | 0x7000 | (rng.Next() & 0x0fff);
  uint64_t low = 0x8000000000000000ULL | (rng.Next() >> 2);
  std::string hex = Hash128{high, low}.Hex();
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" +
         hex.substr(20);
}

std::string NewRecordId() {
  thread_local Rng rng([] {
    std::random_device entropy;
    return (static_cast<uint64_t>(entropy()) << 32) | entropy();
  }());
  using namespace std::chrono;
  return NewRecordId(duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count(), rng);
}

std::string RunKey(std::span<const std::string> parts) {
  std::string bytes;
  for (const std::string& part : parts) bytes += std::to_string(part.size()) + ":" + part;
  return HashBytes128(bytes).Hex();
}

}  // namespace autotune
