// The measuring job: a tuner sends a MeasureTask and Candidates to a device server, and gets one TrialResult per
// Candidate. Plain values; the protocol is in rpc/message.h.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/blob.h"
#include "rpc/limits.h"
#include "runtime/device_state.h"
#include "support/fields.h"
#include "support/trial.h"

namespace autotune::rpc {

// Limits of one artifact and of all blobs of one batch, the reference included, of batches that are sent as one message
// and of those that are uploaded (rpc/upload.h).
inline constexpr int64_t kMaxBlobBytes = 4 << 20, kMaxBatchBytes = 8 << 20;
inline constexpr int64_t kMaxUploadedBlobBytes = 8 << 20, kMaxUploadBytes = 64 << 20;
inline constexpr int kMaxBatchArtifacts = 64;
inline constexpr int kMaxBatchCandidates = 4 * kMaxBatchArtifacts;  // candidates may share an artifact
inline constexpr int kMostRepeats = 1000;                           // of the timing of a candidate
inline constexpr double kMaxDeadlineSeconds = 3600;  // limit of every deadline; clients clamp longer ones

// The reference artifact may have a second kernel, whose name is that of the reference with this suffix: a reference
// with one more output for each output, the rounding errors that are allowed there (te/error_bound.h). Then candidates
// are also checked on wild inputs (AddWildNumbers).
inline constexpr char kBoundedSuffix[] = "_bounded";

// The common part of all candidates of a batch. The device makes the inputs and constants from the seed; their shapes
// are in the artifacts' metadata. The reference is a kernel of the same formula that is known to be right
// (te/reference.h). It runs once; the server keeps its outputs for later runners.
struct MeasureTask {
  std::string id;
  std::string reference_hash;     // HashBytes128(artifact).Hex(); empty: no candidate can be checked
  std::string reference_kernel;   // name of the kernel in the reference artifact
  double reference_seconds = 60;  // deadline of the one run of the reference; the client scales it by the work
  int64_t seed = 0;
  bool integers = false;            // inputs and constants are small integers, whose sums are exact
  std::vector<int64_t> full_range;  // parameters of integers that take all values
  double rtol = 1e-3;               // Tolerance::rtol (runtime/compare.h)
  double floor = 1e-3;              // Tolerance::atol
  AUTOTUNE_FIELDS(id, reference_hash, reference_kernel, reference_seconds, seed, integers, full_range, rtol, floor)
  AUTOTUNE_LIMITS({"id", kNameBytes}, {"reference_hash", kIdBytes}, {"reference_kernel", kTextBytes},
                  {"full_range", 0, 1024})
};

// Identifies the outputs of a reference. The key omits the task's id, since clients of other versions may use it for
// another task, and the thread count, which does not change the outputs.
inline std::string ReferenceKey(const MeasureTask& task) {
  std::string key = task.reference_hash + "/" + task.reference_kernel + "/" + std::to_string(task.seed) +
                    (task.integers ? "/integers" : "");
  for (const int64_t parameter : task.full_range) key += "/" + std::to_string(parameter);
  return key;
}

struct Candidate {
  std::string id;  // unique in its job
  std::string kernel;
  int blob = 0;               // index of the artifact
  bool check = true;          // compare the outputs with the reference's
  int repeats = 3;            // least number of repeats
  int max_repeats = 0;        // largest number of repeats; more than `repeats` only until the two fastest agree
  double min_repeat_ms = 20;  // least duration of a repeat, which calls the kernel as often as needed
  // Time per call above which a kernel is not worth measuring (TimeOptions in runtime/time_evaluator.h). 0: no cutoff.
  double cutoff_seconds = 0;
  int threads = 0;           // number of threads; 0: one per core of the device
  bool cold_weights = true;  // true: calls rotate among copies of the constants, as cold_bytes says
  // Bytes that the whole network touches between two calls of this kernel: its constants and activations.
  // Calls rotate among enough copies of the kernel's constants that the copies and the kernel's activations take about
  // as many bytes. 0: one copy, as without cold_weights. -1: twice the last-level cache, for a network that does not
  // fit it.
  int64_t cold_bytes = -1;
  double load_seconds = 30, run_seconds = 10;  // deadlines, enforced from outside by SIGKILL
  AUTOTUNE_FIELDS(id, kernel, blob, check, repeats, max_repeats, min_repeat_ms, cutoff_seconds, threads, cold_weights,
                  cold_bytes, load_seconds, run_seconds)
  AUTOTUNE_LIMITS({"id", kNameBytes}, {"kernel", kTextBytes})
};

struct TrialResult {
  std::string candidate;
  TrialStatus status = TrialStatus::kInfrastructure;
  std::string error;          // one line; empty when ok
  std::vector<double> times;  // seconds per call, one for each repeat made
  bool cut_off = false;       // true: slower than cutoff_seconds; `times` holds only the fastest burst's time
  bool checked = false;       // true: the outputs were compared with the reference's
  double worst_error = 0;     // |a - b| / allowed of the worst element (runtime/compare.h); above 1 is wrong
  int64_t started = 0;        // wall clock of the device, milliseconds since 1970; for display. 0: it did not run
  double elapsed = 0;         // seconds this candidate kept the device
  std::string device;         // device that measured the candidate: key and server id
  DeviceState state;          // state of a device other than the CPU during the measurement
  // Since 2.2: why other processes may have changed the times, such as foreign load or a missing lock; empty: they did
  // not, as far as the server knows.
  std::string disturbed;
  std::string server;  // since 2.2: the first 16 digits of the id of the server that measured the candidate
  AUTOTUNE_FIELDS(candidate, status, error, times, cut_off, checked, worst_error, started, elapsed, device, state,
                  disturbed, server)
  AUTOTUNE_LIMITS({"candidate", kNameBytes}, {"error", kTextBytes}, {"times", 0, kMostRepeats}, {"device", kTextBytes},
                  {"disturbed", kTextBytes}, {"server", kIdBytes})
};

// A client that holds a device for which another job waits.
struct LeaseHolder {
  std::string client_name;  // "user@host:pid"
  std::string tenant, job;  // named by the holder
  int64_t held_ms = 0;      // time since the grant
  AUTOTUNE_FIELDS(client_name, tenant, job, held_ms)
  AUTOTUNE_LIMITS({"client_name", kNameBytes}, {"tenant", kNameBytes}, {"job", kNameBytes})
};

// The reason why a job still waits for a device.
struct DeviceWait {
  std::string text;                  // the whole report as one readable line, with the place and the holders
  int64_t position = 0;              // place in the queue, from 1; 0: unknown, since the tracker has not answered
  int64_t waited_ms = 0;             // time since the job requested a device
  std::vector<LeaseHolder> holders;  // holders of devices with the wanted key, the longest holder first; at most 8
  bool has_device = false;           // a call has a device, and waits until it may measure there
};

// One call of FarmClient::Measure, of any size: the client cuts it into batches.
struct MeasureJob {
  MeasureTask task;
  Blob reference;  // reference artifact; null: no candidate is checked
  std::vector<Candidate> candidates;
  std::vector<Blob> artifacts;
};

}  // namespace autotune::rpc
