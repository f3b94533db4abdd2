// Builder: compiles texts (PrimFunc, trace, target) to artifacts. Tuning, `compile` and constant folding all generate
// machine code through it. MakeBuildWorkers makes a Builder that runs builds in child processes, the build workers.
// LLVM may crash, hang or leak memory in a worker without harm. The builder holds the host's lock
// (support/host_lock.h) in shared mode while workers build, so that no build disturbs a measurement. A caller that
// holds the lock in exclusive mode must not build, since it would wait for itself forever. Use by one thread at a time;
// the workers end with the thread that made them.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codegen/codegen.h"
#include "support/sanitized.h"
#include "support/trial.h"

namespace autotune {

struct BuildRequest {
  int64_t id = 0;      // chosen by the caller; the result repeats it
  std::string func;    // PrimFunc text (ir/text.h), unscheduled
  std::string trace;   // schedule/trace.h; may be empty
  std::string kernel;  // name of the function in the artifact; empty: the name of the PrimFunc
  std::string target;  // target/target.h
  CodegenOptions options;
  PassConfig passes;  // of lowering
  bool wants_cpu_features = false;
  AUTOTUNE_FIELDS(id, func, trace, kernel, target, options, passes, wants_cpu_features)
};

struct BuildResult {
  int64_t id = 0;
  TrialStatus status = TrialStatus::kOk;  // ok, rejected, build failed, build timed out, infrastructure, cancelled
  std::string text;                       // cause, if not ok
  Json::Bytes artifact;                   // a shared object; empty if not ok
  KernelMetadata metadata;
  // times_ms also has "parse", "replay" and "lower". A candidate that code generation rejects has the facts of the
  // stages that it reached, one that lowering rejects only `passes`.
  BuildFacts facts;
  std::string assembly;
  std::vector<std::string> cpu_features;  // that the code may use, if the request wants them; none for a GPU
  AUTOTUNE_FIELDS(id, status, text, artifact, metadata, facts, assembly, cpu_features)
};

// A compiled kernel that is not linked yet.
struct CompiledKernel {
  TrialStatus status = TrialStatus::kOk;  // as in BuildResult
  std::string text;                       // cause, if not ok
  KernelObject object;
  AUTOTUNE_FIELDS(status, text, object)
};

// Selects the limits of a build: its time, and the number of workers that may die while they run it. The limits of a
// candidate are low, since another candidate can take its place. The limits of a needed kernel are high, since nothing
// can replace it.
enum class Patience { kCandidate, kNeeded };

struct BuiltLibrary {
  Json::Bytes artifact;              // one shared object with all kernels
  std::vector<Json::Bytes> support;  // relocatable objects of the library without those of kernels (LinkedKernels)
  std::string support_source;        // C source of `support`; only for targets of kind c
  Json::Bytes device_blob;           // modules with the code for a GPU (LinkedKernels)
  std::vector<KernelMetadata> kernels;
  BuildFacts facts;  // sums over all kernels
  AUTOTUNE_FIELDS(artifact, support, support_source, device_blob, kernels, facts)
};

class Builder {
 public:
  virtual ~Builder() = default;
  // Returns one result per request, in the order of the requests. Calls `on_result` for each result as soon as it is
  // known, in any order, on this thread. `on_result` must not call the builder.
  virtual std::vector<BuildResult> Build(const std::vector<BuildRequest>& requests,
                                         const std::function<void(const BuildResult&)>& on_result = nullptr) = 0;
  // Compiles the kernels without linking them. Returns one result per request, in the order of the requests.
  virtual std::vector<CompiledKernel> Compile(const std::vector<BuildRequest>& requests, Patience patience) = 0;
  // Links kernels of distinct names, compiled for `target`, into one library.
  virtual Result<BuiltLibrary> Link(const std::vector<const KernelObject*>& objects, const std::string& target) = 0;
  // Links the relocatable objects of a library (kernels and support code) again, together with the object file `data`,
  // which may be large. Writes the shared object to `output`, an existing empty file.
  virtual Status LinkWithData(const std::vector<Json::Bytes>& objects, const std::string& data,
                              const std::string& output) = 0;

  // Compiles all kernels with Patience::kNeeded and links them. An error names the first kernel that cannot be built.
  Result<BuiltLibrary> BuildLibrary(const std::vector<BuildRequest>& requests);
};

struct BuildWorkersOptions {
  int workers = 0;                                 // 0: one per core of this host
  double timeout_seconds = kSanitized ? 200 : 20;  // limit for one candidate, of its worker's CPU time
  int64_t jobs_per_worker = 500;                   // jobs after which a worker is replaced, since LLVM leaks memory
  int64_t max_rss_bytes = int64_t{1} << 30;        // resident memory beyond which a worker is replaced
  // The command that runs BuildWorkerMain on descriptor 3. If it is empty, it becomes `autotune --build-worker`, with
  // the path of our own executable.
  std::vector<std::string> command;
  // When it becomes true, a wait for the host's lock ends, and the jobs that waited are cancelled. Jobs that run are
  // finished. Must outlive the builder.
  const std::atomic<bool>* stop = nullptr;
};

// Starts the workers. Returns an error if the executable is missing or does not start.
Result<std::unique_ptr<Builder>> MakeBuildWorkers(const BuildWorkersOptions& options = {});

// Builds a tiny kernel for the target, to find out whether anything can be built for it. Returns the CPU features that
// code for the target may use (names in support/cpu_features.h); none for a GPU. An error says why nothing can be
// built: LLVM does not know the target's triple, CPU or one of its features, or there is no C compiler for it.
Result<std::vector<std::string>> CheckTarget(const Target& target, Builder& builder);

// The main function of a worker process. Reads jobs from `fd`, runs them and writes the answers to `fd`, until the
// client closes its end. Returns the exit code.
int BuildWorkerMain(int fd);
inline constexpr int kBuildWorkerFd = 3;

// Builds in this process. Only worker processes call it, in RunJob (codegen/job.h).
BuildResult BuildHere(const BuildRequest& request);

}  // namespace autotune
