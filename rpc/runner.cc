#include "rpc/runner.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <new>
#include <thread>

#include "rpc/calibration.h"
#include "rpc/call_table.h"
#include "rpc/channel.h"
#include "rpc/device_probe.h"
#include "rpc/library_files.h"
#include "rpc/load_ahead.h"
#include "rpc/measured_kernel.h"
#include "rpc/runner_device.h"
#include "rpc/runner_hello.h"
#include "rpc/runner_limits.h"
#include "rpc/sandbox.h"
#include "rpc/sealed_memory.h"
#include "runtime/artifact.h"
#include "runtime/compare.h"
#include "runtime/fill.h"
#include "runtime/kernel_context.h"
#include "runtime/time_evaluator.h"
#include "support/cpus.h"
#include "support/json.h"

namespace autotune::rpc {
namespace {

// Inputs of a task and the reference's outputs for them.
struct Draw {
  std::vector<Tensor> tensors;    // one per parameter; undefined for outputs
  std::vector<Tensor> reference;  // in the order of the parameters
  std::vector<Tensor> bounds;     // the rounding errors that are allowed, for each output; empty if they are unknown
};

// The draws of a task, made once and shared by all its candidates.
struct TaskState {
  std::string reference_key;  // ReferenceKey; empty: there is no reference
  int64_t seed = 0;
  bool integers = false;
  std::vector<int64_t> full_range;
  std::vector<TensorSpec> params;
  Draw tame;
  Draw wild;  // the same constants; inputs with AddWildNumbers. Without tensors if the bounds are unknown.
};

struct Failure {
  TrialStatus status;
  std::string text;
};

// Returns true if more than half of all numbers are finite.
bool MostAreFinite(const std::vector<Tensor>& tensors) {
  int64_t finite = 0, all = 0;
  auto count = [&](const auto* numbers, int64_t size) {
    all += size;
    for (int64_t i = 0; i < size; ++i) finite += std::isfinite(numbers[i]) ? 1 : 0;
  };
  for (const Tensor& t : tensors) {
    t.dtype().bits == 32 ? count(t.Data<float>(), t.num_elements()) : count(t.Data<double>(), t.num_elements());
  }
  return 2 * finite > all;
}

class Runner {
 public:
  // `device` is a device that the runner offers beside the CPU, or null.
  Runner(BlockingChannel& channel, const RunnerOptions& options, const DevicePtr& device, CallSupplies supplies)
      : channel_(channel), options_(options), device_(device), ahead_(device), supplies_(std::move(supplies)) {}

  // Returns true if the device has failed for good, so that this process can measure no further candidate.
  bool IsBroken() const { return device_ && !device_->LastError().ok(); }

  // Keeps the artifacts that the next Run loads ahead.
  void KeepAhead(const Message& message) { next_ = message.blobs; }

  TrialResult Run(const Message& message, const RunnerRequest& request) {
    phase_ = RunnerPhase::kLoad;
    supplies_.files.Close();
    TrialResult result = WithDevice([&](TrialResult& made) { return Measure(message, request, made); });
    (void)WaitForAhead(request);  // if the candidate has failed before; an error: the parent is gone
    next_.clear();
    result.candidate = request.candidate.id;
    return result;
  }

  // Runs a call of a client's session. The reply is added to `blobs`.
  TrialResult Answer(const Message& message, std::vector<Blob>& blobs) {
    phase_ = RunnerPhase::kRun;
    return WithDevice([&](TrialResult&) -> Status {
      if (message.blobs.size() != 1) return Err("a call without its blob");
      if (!calls_) calls_.emplace(device_, std::move(supplies_));
      blobs.push_back(MakeBlob(TRY(calls_->Answer(*message.blobs[0]))));
      return {};
    });
  }

  // Tests whether the device works, or how fast it is.
  TrialResult Probe(bool calibrate) {
    TrialResult result;
    Status status = StartDevice();
    if (status.ok()) status = calibrate ? RunCalibration(device_.get(), result.times) : ProbeDevice(device_.get());
    result.status = status.ok() ? TrialStatus::kOk : TrialStatus::kDeviceError;
    if (!status.ok()) result.error = status.error().Text();
    return result;
  }

 private:
  // Starts the device and does the work. Returns its result, or why it failed.
  template <class Work>
  TrialResult WithDevice(Work work) {
    TrialResult result;
    result.status = TrialStatus::kOk;
    try {
      if (Status status = StartDevice(); !status) {
        result.status = TrialStatus::kDeviceError;
        result.error = status.error().Text();
      } else if (status = work(result); !status) {
        Fail(result, status.error());
      }
    } catch (const std::bad_alloc&) {
      Fail(result, Error("out of memory", ErrorKind::kOutOfMemory));
    } catch (const InternalError& error) {
      result.status = TrialStatus::kInfrastructure;
      result.error = error.what();
    }
    return result;
  }

  void Fail(TrialResult& result, const Error& error) {
    result.error = error.Text();
    if (result.status != TrialStatus::kOk) return;  // already set where the error occurred
    result.status = device_ && device_->IsLost()            ? TrialStatus::kDeviceError
                    : error.kind == ErrorKind::kOutOfMemory ? TrialStatus::kOutOfMemory
                    : phase_ == RunnerPhase::kLoad          ? TrialStatus::kLoadFailed
                                                            : TrialStatus::kRunCrashed;
  }

  // Makes the device's context when the first request arrives. Until then this runner is the warm spare, and the
  // device's memory belongs to the active runner.
  Status StartDevice() {
    if (!device_ || started_) return {};
    TRY(ConfinedWithDevice(options_, *device_));
    started_ = true;
    return {};
  }

  Status Enter(const RunnerRequest& request, RunnerPhase phase) {
    phase_ = phase;
    return channel_.Send({"", RunnerProgress{request.run, phase}, {}});
  }

  // Waits until the artifacts of later candidates are loaded: the driver sends them to the GPU and translates them on
  // cores of this host, which would disturb a measurement.
  Status WaitForAhead(const RunnerRequest& request) {
    if (!ahead_.Works()) return {};
    TRY(Enter(request, RunnerPhase::kAhead));
    ahead_.Wait();
    return Enter(request, RunnerPhase::kTime);
  }

  KernelContext& ContextFor(int threads) {
    if (context_ && asked_threads_ == threads) return *context_;
    context_.reset();
    asked_threads_ = threads;
    if (threads <= 0) threads = AvailableCpus();
    threads = std::min(threads, MostThreads());  // the client may ask for the cores of another machine
    context_ = std::make_unique<KernelContext>(ThreadPoolOptions{.num_threads = threads});
    return *context_;
  }

  Status MakeInputs(const MeasureTask& task, const KernelMetadata& kernel) {
    task_ = {};  // frees the old inputs first; stays empty if the new ones cannot be made
    TaskState made{"", task.seed, task.integers, task.full_range, kernel.params, {}, {}};
    std::vector<Tensor>& tensors = made.tame.tensors;
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      const TensorSpec& spec = kernel.params[i];
      tensors.emplace_back();
      if (spec.kind == ParamKind::kOutput) continue;
      DLDataType type = TRY(DataTypeFromText(spec.dtype));
      auto memory = SealedMemory::Allocate(TRY(ShapeBytes(spec.shape, type)));
      if (!memory) return OutOfMemory("cannot allocate parameter ", spec.name);
      tensors.back() = TRY(Tensor::View(memory->data(), spec.shape, type, memory));
      const uint64_t seed = static_cast<uint64_t>(task.seed) + 0x9e3779b97f4a7c15ULL * (i + 1);
      const bool whole = type.code <= kDLUInt && type.bits >= 8 && std::ranges::count(task.full_range, i) > 0;
      if (whole) {
        FillWholeRange(tensors.back(), seed);
      } else {
        FillRandom(tensors.back(), seed, task.integers ? FillKind::kSmallInteger : FillKind::kNormal);
      }
      memory->Seal();
    }
    task_ = std::move(made);
    return {};
  }

  // Returns an error if the parameters of a candidate differ from those of its task.
  Status CheckSignature(const KernelMetadata& kernel) const {
    auto text = [](const TensorSpec& spec) {
      return std::string(ToText(spec.kind)) + " " + spec.dtype + ShapeText(spec.shape);
    };
    if (kernel.params.size() != task_.params.size()) {
      return Err("kernel ", kernel.name, " has ", kernel.params.size(), " parameters, its task ", task_.params.size());
    }
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      std::string have = text(kernel.params[i]), want = text(task_.params[i]);
      bool output = kernel.params[i].kind == ParamKind::kOutput && task_.params[i].kind == ParamKind::kOutput;
      bool same = output ? kernel.params[i].shape == task_.params[i].shape : have == want;
      if (!same) return Err("parameter ", i, " of kernel ", kernel.name, " is ", have, ", in its task ", want);
    }
    return {};
  }

  // Makes the inputs of the wild draw from those of the tame one.
  Status MakeWildInputs(bool infinite) {
    task_.wild = {task_.tame.tensors, {}, {}};
    for (size_t i = 0; i < task_.params.size(); ++i) {
      if (task_.params[i].kind != ParamKind::kInput) continue;
      const Tensor& tame = task_.tame.tensors[i];
      auto memory = SealedMemory::Allocate(tame.num_bytes());
      if (!memory) return OutOfMemory("cannot allocate parameter ", task_.params[i].name);
      std::memcpy(memory->data(), tame.data(), static_cast<size_t>(tame.num_bytes()));
      task_.wild.tensors[i] = TRY(Tensor::View(memory->data(), tame.shape(), tame.dtype(), memory));
      AddWildNumbers(task_.wild.tensors[i], static_cast<uint64_t>(task_.seed) + i, infinite);
      memory->Seal();
    }
    return {};
  }

  // Runs the reference on the inputs of `draw`. A bounded reference has its bounds as further outputs.
  Status RunReference(const std::shared_ptr<const Artifact>& artifact, const Kernel& kernel, int threads, bool bounded,
                      Draw& draw) {
    auto placed = TRY(Place({artifact, nullptr}, kernel, draw.tensors, threads));
    TRY(placed->Call());
    const size_t outputs = placed->outputs().size() / (bounded ? 2 : 1);
    for (size_t i = 0; i < placed->outputs().size(); ++i) {
      (i < outputs ? draw.reference : draw.bounds).push_back(TRY(placed->outputs()[i].tensor().Copy()));
    }
    return {};
  }

  // Makes the inputs and the reference's outputs. Infinities and NaN may spread to most outputs, as they do in a sum
  // over everything. Then these outputs would show nothing, so the wild draw does without them. Whether it has them is
  // the text of the last kept blob.
  Status MakeReference(const Message& message, const RunnerRequest& request) {
    TRY(Enter(request, RunnerPhase::kReference));
    if (message.blobs.size() < 2) return Err("the reference artifact is missing");
    auto artifact = TRY(Artifact::FromStranger(*message.blobs[1]));
    const Kernel* kernel = TRY(artifact->Find(request.task.reference_kernel));
    TRY(MakeInputs(request.task, kernel->metadata));
    const Result<const Kernel*> with_bounds = artifact->Find(request.task.reference_kernel + kBoundedSuffix);
    const bool bounded = with_bounds.ok();
    if (bounded) kernel = *with_bounds;
    if (message.blobs.size() > 2) {
      TRY(TakeKept({message.blobs.begin() + 2, message.blobs.end()}, kernel->metadata, bounded));
    } else {
      const int threads = request.candidate.threads;
      TRY(RunReference(artifact, *kernel, threads, bounded, task_.tame));
      bool infinite = true;
      for (; bounded; infinite = false) {
        TRY(MakeWildInputs(infinite));
        TRY(RunReference(artifact, *kernel, threads, bounded, task_.wild));
        if (!infinite || MostAreFinite(task_.wild.reference)) break;
      }
      Message kept{"", RunnerReference{request.run}, KeptOf(bounded, infinite)};
      if (OutputsFit(kept.blobs)) TRY(channel_.Send(kept));
    }
    task_.reference_key = ReferenceKey(request.task);
    return {};
  }

  std::vector<Blob> KeptOf(bool bounded, bool infinite) const {
    std::vector<Blob> blobs;
    for (const Draw* draw : {&task_.tame, &task_.wild}) {
      for (const std::vector<Tensor>* tensors : {&draw->reference, &draw->bounds}) {
        for (const Tensor& t : *tensors) blobs.push_back(MakeBlob(std::string(t.bytes())));
      }
    }
    if (bounded) blobs.push_back(MakeBlob(infinite ? "infinite" : "finite"));
    return blobs;
  }
  // Takes the outputs that KeptOf returned in an earlier runner. `reference` has the outputs of one draw.
  Status TakeKept(const std::vector<Blob>& blobs, const KernelMetadata& reference, bool bounded) {
    const std::vector<int64_t> outputs = reference.ParamsOfKind(ParamKind::kOutput);
    const size_t expected = bounded ? 2 * outputs.size() + 1 : outputs.size();
    if (blobs.size() != expected) return Err("expected ", expected, " reference outputs");
    if (bounded) TRY(MakeWildInputs(*blobs.back() == "infinite"));
    for (size_t i = 0; i < blobs.size() - (bounded ? 1 : 0); ++i) {
      const size_t at = i % outputs.size();
      const TensorSpec& spec = reference.params[static_cast<size_t>(outputs[at])];
      Draw& draw = i < outputs.size() ? task_.tame : task_.wild;
      (bounded && at >= outputs.size() / 2 ? draw.bounds : draw.reference)
          .push_back(TRY(Tensor::FromBytes(spec.shape, TRY(DataTypeFromText(spec.dtype)), *blobs[i])));
    }
    return {};
  }

  // Returns the kernel, placed on the device that its code is for.
  Result<std::unique_ptr<MeasuredKernel>> Place(const LoadedArtifact& loaded, const Kernel& kernel,
                                                const std::vector<Tensor>& inputs, int threads) {
    const std::string& kind = kernel.metadata.device;
    if (kind.empty()) return OnCpu(kernel, inputs, ContextFor(threads), arena_);
    if (!device_ || DeviceTypeName(device_->dl().device_type) != kind)
      return Err("kernel ", kernel.metadata.name, " is for devices of kind ", kind, ", and this server offers ",
                 device_ ? DeviceText(device_->dl()) : "the CPU", "; start it with rpc_server --device ", kind);
    return OnDevice(loaded, kernel, inputs, device_);
  }

  std::optional<Failure> CheckOutputs(const std::vector<GuardedTensor>& outputs, const Draw& draw,
                                      const RunnerRequest& request, TrialResult& result) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::string which = outputs.size() > 1 ? "output " + std::to_string(i) + ": " : "";
      if (Status bands = outputs[i].Check(); !bands) {
        return Failure{TrialStatus::kWrongAnswer, which + bands.error().Text()};
      }
      if (!Checks(request)) continue;
      auto compared = CompareTensors(outputs[i].tensor(), draw.reference[i],
                                     {.rtol = request.task.rtol, .atol = request.task.floor},
                                     draw.bounds.empty() ? nullptr : &draw.bounds[i]);
      if (!compared) return Failure{TrialStatus::kWrongAnswer, which + compared.error().Text()};
      // worst_ratio is infinite for a NaN, and the messages carry only finite numbers.
      result.worst_error = std::max(result.worst_error, std::min(compared->worst_ratio, 1e300));
      result.checked = true;
      if (!compared->ok) return Failure{TrialStatus::kWrongAnswer, which + compared->Text()};
    }
    return std::nullopt;
  }

  static bool Checks(const RunnerRequest& request) {
    return request.candidate.check && !request.task.reference_hash.empty();
  }

  Status Measure(const Message& message, const RunnerRequest& request, TrialResult& result) {
    const Candidate& candidate = request.candidate;
    if (message.blobs.empty()) return Err("the candidate's artifact is missing");
    LoadedArtifact loaded = ahead_.Take(*message.blobs[0]);
    if (!next_.empty()) ahead_.Begin(next_);
    if (!loaded.artifact) loaded.artifact = TRY(Artifact::FromStranger(*message.blobs[0]));
    const Kernel* kernel = TRY(loaded.artifact->Find(candidate.kernel));
    if (Checks(request) && task_.reference_key != ReferenceKey(request.task)) {
      if (Status made = MakeReference(message, request); !made) {
        task_ = {};
        result.status = TrialStatus::kInfrastructure;
        return made;
      }
    } else if (!Checks(request) && (task_.seed != request.task.seed || task_.integers != request.task.integers ||
                                    task_.full_range != request.task.full_range || !CheckSignature(kernel->metadata))) {
      TRY(MakeInputs(request.task, kernel->metadata));
    }
    TRY(Enter(request, RunnerPhase::kRun));
    if (Status same = CheckSignature(kernel->metadata); !same) {
      result.status = TrialStatus::kWrongAnswer;
      return same;
    }
    auto placed = TRY(Place(loaded, *kernel, task_.tame.tensors, candidate.threads));
    if (Checks(request) && !task_.wild.tensors.empty()) {
      TRY(placed->SetInputs(task_.wild.tensors));
      TRY(placed->Call());
      if (auto failure = CheckOutputs(placed->outputs(), task_.wild, request, result)) {
        result.status = failure->status;
        return Err(failure->text, " (masks, outliers, infinities or NaN among the inputs)");
      }
      TRY(placed->SetInputs(task_.tame.tensors));
      TRY(placed->Refill());
    }
    // Check the first call separately. A kernel that reads an output before writing to it is wrong only in its first
    // call: later calls find the right values of the previous call.
    TRY(placed->Call());
    if (auto failure = CheckOutputs(placed->outputs(), task_.tame, request, result)) {
      result.status = failure->status;
      return Err(failure->text);
    }
    // Overwrite the outputs, so that the check after the timed calls sees only results of those calls.
    TRY(placed->Refill());
    TRY(WaitForAhead(request));
    KernelTimeOptions options;
    options.time.repeats = candidate.repeats;
    options.time.max_repeats = candidate.max_repeats;
    options.time.min_repeat_seconds = candidate.min_repeat_ms / 1000;
    options.time.cutoff_seconds = candidate.cutoff_seconds;
    // Half of the deadline leaves room for the last repeat, so that a slow kernel is not killed.
    options.time.max_seconds = candidate.run_seconds / 2;
    options.cold_bytes = candidate.cold_weights ? candidate.cold_bytes : 0;
    Timing timing = TRY(placed->Time(options));
    // Check again: a data race may give wrong outputs only after many calls.
    if (auto failure = CheckOutputs(placed->outputs(), task_.tame, request, result)) {
      result.status = failure->status;
      return Err(failure->text, " (after ", timing.calls, " calls)");
    }
    result.times = timing.seconds;
    if (timing.disturbed) result.disturbed = "other processes took the processor in each of its repeats";
    result.state = placed->state();
    result.cut_off = timing.cut_off;
    return {};
  }

  BlockingChannel& channel_;
  const RunnerOptions& options_;
  const DevicePtr device_;
  bool started_ = false;  // the device has a context
  RunnerPhase phase_ = RunnerPhase::kLoad;
  std::unique_ptr<KernelContext> context_;
  int asked_threads_ = 0;  // of the candidate for which context_ was made
  CopyArena arena_;
  LoadAhead ahead_;
  std::vector<Blob> next_;  // artifacts for ahead_
  TaskState task_;
  CallSupplies supplies_;  // until the first call or candidate
  std::optional<CallTable> calls_;
};

}  // namespace

int RunRunner(const RunnerOptions& options) {
  // A service manager may send these to all processes of a server that is to end. The server still wants the result.
  for (int request : {SIGINT, SIGTERM}) signal(request, SIG_IGN);
  CallSupplies supplies = CallSupplies::Make();
  ApplyLimits(options);
  LeaveCrashesToTheParent();
  Result<PreparedRunner> prepared = PrepareRunner(options);
  if (!prepared.ok()) {
    fprintf(stderr, "%s\n", prepared.error().Text().c_str());
    return 1;
  }
  if (options.shows_sandbox) {
    const std::string text = ToJson(prepared->layers).Dump();
    return fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0 : 1;
  }
  // Ends the process when the parent is gone. The main thread cannot notice that while a candidate loops forever.
  std::thread([] {
    pollfd p{kRunnerDescriptor, 0, 0};
    while (poll(&p, 1, -1) < 0 && errno == EINTR) {
    }
    _exit(0);
  }).detach();
  BlockingChannel channel(kRunnerDescriptor);
  const DevicePtr& device = prepared->device;
  Runner runner(channel, options, device, std::move(supplies));
  const RunnerHello hello = HelloOf(device);
  while (true) {
    // Announces the runner at first, and asks for the next candidate later.
    if (!channel.Send({"", hello, {}})) return 1;
    std::optional<RunnerResult> result;
    std::vector<Blob> blobs;
    while (!result) {
      auto message = channel.Receive();
      if (!message) {
        fprintf(stderr, "%s\n", message.error().Text().c_str());
        return 1;
      }
      if (!*message) return 0;
      if (const auto* request = (*message)->As<RunnerRequest>()) {
        result = {request->run, runner.Run(**message, *request)};
      } else if (const auto* probe = (*message)->As<RunnerProbe>()) {
        result = {probe->run, runner.Probe(probe->calibrate)};
      } else if (const auto* call = (*message)->As<RunnerCall>()) {
        result = {call->run, runner.Answer(**message, blobs)};
      } else if ((*message)->As<RunnerAhead>()) {
        runner.KeepAhead(**message);
      }
    }
    result->last = runner.IsBroken();  // then this process ends, and a fresh one opens the device again
    if (!channel.Send({"", *result, std::move(blobs)}) || result->last) return 1;
  }
}

}  // namespace autotune::rpc
