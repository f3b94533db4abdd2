// Record: one candidate that was sent to a builder, with everything needed to understand, repeat and rank it.
// Plain values, as thread-safe as their members. Not the storage format: that is docs/records.md and the stores.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/fields.h"
#include "support/json.h"
#include "support/result.h"
#include "support/rng.h"
#include "support/trial.h"

namespace autotune {

// Versions of the program that made the record. Tuning does not start from records of another code generator, since
// their times may no longer hold. Traces of another step language are not replayed. Features of another schema are
// computed again.
struct RecordVersions {
  int ir = 0;
  int step_language = 0;
  int feature_schema = 0;
  int code_generator = 0;
  AUTOTUNE_FIELDS(ir, step_language, feature_schema, code_generator)
};

struct Record {
  std::string id;           // UUIDv7 text, made by the tuner; a store keeps one record per id
  std::string task;         // task hash, 32 lower-case hex digits
  std::string alternative;  // name of the compute alternative
  std::string func;         // text of the unscheduled PrimFunc
  std::string trace;        // text of the trace to replay on it
  std::string target;       // full text of the target
  std::string device;       // device key or host that measured the record; empty: not measured
  // The first 16 digits of the id of the device server that measured the record. A server keeps its id over restarts.
  // (Who knows all 32 digits can speak for the server.) Empty: not measured, or made by version 0.2 or earlier.
  std::string server;
  std::vector<double> times;  // seconds per call, in the order measured
  double cost = 0;            // seconds; ranks the record; > 0 if status is ok
  TrialStatus status = TrialStatus::kOk;
  std::string error;      // one line; empty if status is ok
  bool verified = false;  // true: the output was compared with the reference and is correct
  // Why other processes may have changed the times, such as foreign load; empty: they did not, as far as the device
  // server knows. A disturbed record ranks behind every undisturbed one of its task and target.
  std::string disturbed;
  std::string tenant;
  std::string run;    // key of the tuning run, see RunKey
  uint64_t seed = 0;  // seed of the run
  RecordVersions versions;
  int64_t created_at = 0;  // Unix time in milliseconds
  // 0: a trial. Otherwise the record belongs to a confirmation (tuner/confirm.h), which measured the task's best
  // schedules again in turns. A confirmation chooses a number n that is greater than those of all earlier
  // confirmations. The winner gets n + 1, all others n. The greatest number ranks first.
  int64_t confirmation = 0;
  Json facts;  // about build and run: spills, code size, load, stage times
  AUTOTUNE_FIELDS(id, task, alternative, func, trace, target, device, server, times, cost, status, error, verified,
                  disturbed, tenant, run, seed, versions, created_at, confirmation, facts)
};

bool operator==(const Record& a, const Record& b);

// True if a candidate with this status was executed at least once.
bool WasExecuted(TrialStatus status);

// True if the record counts as a trial. A record of a confirmation does not, since its schedule had its trial before.
inline bool IsTrial(const Record& record) { return record.confirmation == 0 && WasExecuted(record.status); }

// True if the record can be the best of its task: the candidate ran, and its output agreed with the reference.
inline bool IsRanked(const Record& record) { return record.status == TrialStatus::kOk && record.verified; }

// True if `text` is a UUID in lower case.
bool IsRecordId(std::string_view text);

// Returns an error for a record that no store accepts: its id is no UUID in lower case, it names no task or target, its
// cost or one of its times is not finite, its cost is negative, its status is ok but its cost is 0, or its confirmation
// is negative.
Status ValidateRecord(const Record& record);

// Returns a new UUIDv7 in its usual text form. Seed `rng` from the machine's entropy, never from the run's seed: two
// runs with one seed would make the same ids, and a store skips a record whose id it already has.
std::string NewRecordId(int64_t now_ms, Rng& rng);
// Makes an id from the current time and a random generator that each thread seeds from entropy. Thread-safe.
std::string NewRecordId();

// The saved progress of a run. Each write replaces all of it. The caller defines `state`: a few kilobytes for a tuning
// run.
struct RunState {
  std::string key;
  Json state;
  int64_t updated_at = 0;  // Unix time in milliseconds
  AUTOTUNE_FIELDS(key, state, updated_at)
};

// Returns the key of a run: a hash of the parts that identify it (model, target, seed, trials, options). Their order
// matters.
std::string RunKey(std::span<const std::string> parts);

}  // namespace autotune
