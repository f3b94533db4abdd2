#include "tuner/farm_measurer.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <unordered_map>
#include <utility>

#include "ir/text.h"
#include "schedule/trace.h"
#include "support/clock.h"
#include "tuner/poison.h"

namespace autotune {
namespace {

constexpr double kReferenceFlops = 3e8;  // operations per second of the slowest reference program that we expect
constexpr double kBoundedRuns = 9;       // cost of a bounded reference, in runs of the other: three draws of three each
constexpr double kRunFlops = 2e8;        // operations per second below which the deadline ends a candidate
constexpr double kLongestDeadline = 3600;  // seconds; the longest deadline that a device server accepts
// Size of the cache of builds. An artifact takes about ten kilobytes, so the cache holds all good candidates of a run
// of a thousand trials. A confirmation then builds none of them again.
constexpr size_t kKeptBytes = size_t{128} << 20;

constexpr char kReference[] = "reference";  // the kernel's name

// Returns true if the reference has bounds of rounding errors. They are bounds for exact products.
bool IsBounded(const TaskSpace& space) { return space.task->bounded && space.target.ProductRounding() == 0; }

// An LRU cache of successful builds, limited to kKeptBytes.
class KeptBuilds {
 public:
  const BuildResult* Find(const std::string& key) {
    auto found = places_.find(key);
    if (found == places_.end()) return nullptr;
    builds_.splice(builds_.begin(), builds_, found->second);
    return &found->second->second;
  }
  void Add(const std::string& key, const BuildResult& build) {
    if (places_.contains(key)) return;
    builds_.emplace_front(key, build);
    places_[key] = builds_.begin();
    bytes_ += build.artifact.data.size();
    while (bytes_ > kKeptBytes && builds_.size() > 1) {
      bytes_ -= builds_.back().second.artifact.data.size();
      places_.erase(builds_.back().first);
      builds_.pop_back();
    }
  }

 private:
  std::list<std::pair<std::string, BuildResult>> builds_;  // most recently used first
  std::unordered_map<std::string, std::list<std::pair<std::string, BuildResult>>::iterator> places_;
  size_t bytes_ = 0;
};

BuildRequest RequestOf(const MeasureItem& item) {
  const TaskSpace& space = *item.space;
  BuildRequest request;
  request.func = ToText(space.FuncOf(space.sketches[item.proposal.sketch]));
  request.trace = ToText(item.proposal.trace);
  request.kernel = "kernel";
  request.target = space.target.Text();
  return request;
}

std::string KeyOf(const BuildRequest& r) { return r.target + '\n' + r.trace + '\n' + r.func; }

double Deadline(double seconds) { return std::min(seconds, kLongestDeadline); }

void Fill(Outcome& outcome, const rpc::TrialResult& result, double cutoff_seconds) {
  outcome.status = result.status;
  outcome.error = result.error;
  outcome.times = result.times;
  outcome.verified = result.checked && result.status == TrialStatus::kOk;
  outcome.disturbed = result.disturbed;
  outcome.device = result.device;
  outcome.server = result.server;
  outcome.facts["worst_error"] = result.worst_error;
  outcome.facts["elapsed"] = result.elapsed;
  if (result.state.IsKnown()) outcome.facts["gpu"] = ToJson(result.state);
  if (!result.times.empty()) outcome.cost = *std::min_element(result.times.begin(), result.times.end());
  if (outcome.status == TrialStatus::kOk && outcome.cost <= 0) {
    outcome.status = TrialStatus::kDeviceError;
    outcome.error = "the device returned no time";
  }
  if (outcome.status == TrialStatus::kOk && result.cut_off) {
    outcome.status = TrialStatus::kCutOff;
    outcome.error = "slower than " + std::to_string(cutoff_seconds * 1e3) + " ms: cut off early";
  }
}

class FarmMeasurer : public Measurer {
 public:
  FarmMeasurer(Builder& builder, std::shared_ptr<rpc::FarmClient> farm, const FarmMeasurerOptions& options)
      : builder_(builder), farm_(std::move(farm)), options_(options) {}

  Result<std::vector<Outcome>> Measure(const std::vector<MeasureItem>& items, const MeasureOptions& options) override {
    std::vector<BuildResult> builds = Build(items);
    std::vector<Outcome> outcomes(items.size());
    std::vector<Group> groups;
    for (size_t i = 0; i < items.size(); ++i) {
      outcomes[i].facts["build"] = ToJson(builds[i].facts);
      outcomes[i].status = builds[i].status;
      outcomes[i].error = builds[i].text;
      if (builds[i].status != TrialStatus::kOk) continue;
      if (options_.poison.contains(PoisonName(builds[i].artifact.data))) {
        outcomes[i].status = TrialStatus::kRejected;
        outcomes[i].error = "its code has broken two devices before";
        continue;
      }
      if (groups.empty() || groups.back().space != items[i].space) groups.push_back({items[i].space, {}});
      groups.back().items.push_back(i);
    }
    BuildReferences(groups);
    bool any_measured = false;
    std::optional<Error> gone;  // the error with which the device was lost after some tasks were measured
    for (const auto& [space, sent] : groups) {
      const Reference& reference = references_.at(space->task->hash.Hex());
      if (!reference.blob) {  // only the items of this task fail
        for (size_t i : sent) {
          // A stop may have ended the builder's wait for the host's lock.
          outcomes[i].status = options_.stop.stop_requested() ? TrialStatus::kCancelled : TrialStatus::kInfrastructure;
          outcomes[i].error = reference.error;
        }
        continue;
      }
      Result<std::vector<rpc::TrialResult>> results =
          gone ? Result<std::vector<rpc::TrialResult>>(*gone)
               : MeasureTask(*space, reference.blob, items, sent, builds, options);
      // An error means that the tracker or the devices are gone. A job that no server takes has results, which say why.
      if (!results.ok() && !any_measured) return results.error();
      for (size_t k = 0; k < sent.size(); ++k) {
        size_t i = sent[k];
        if (results.ok()) {
          Fill(outcomes[i], (*results)[k], items[i].cutoff_seconds);
          if ((*results)[k].status == TrialStatus::kDeviceError) {
            const std::string name = PoisonName(builds[i].artifact.data);
            options_.poison.insert(name);
            outcomes[i].facts[kPoisonFact] = name;
          }
        } else {
          outcomes[i].status = TrialStatus::kInfrastructure;
          outcomes[i].error = results.error().Text();
        }
      }
      if (!results.ok()) gone = results.error();
      any_measured = true;
    }
    return outcomes;
  }

 private:
  // Consecutive items of one task whose builds succeeded. They are measured in one job.
  struct Group {
    const TaskSpace* space;
    std::vector<size_t> items;  // indices
  };
  // The built fp64 program of a task.
  struct Reference {
    rpc::Blob blob;     // null if the program cannot be built
    std::string error;  // cause of the failed build
  };

  // Measures the built items of one task in one job. Items with equal builds share an artifact.
  Result<std::vector<rpc::TrialResult>> MeasureTask(const TaskSpace& space, const rpc::Blob& reference,
                                                    const std::vector<MeasureItem>& items,
                                                    const std::vector<size_t>& sent,
                                                    const std::vector<BuildResult>& builds,
                                                    const MeasureOptions& options) {
    const TuneTask& task = *space.task;
    rpc::MeasureJob job;
    job.reference = reference;
    std::map<std::string, int> artifacts;
    for (size_t i : sent) {
      auto [artifact, first] = artifacts.emplace(builds[i].artifact.data, static_cast<int>(job.artifacts.size()));
      if (first) job.artifacts.push_back(rpc::MakeBlob(builds[i].artifact.data));
      rpc::Candidate candidate;
      candidate.id = std::to_string(next_id_++);
      candidate.kernel = "kernel";
      candidate.blob = artifact->second;
      candidate.check = items[i].check;
      candidate.repeats = options.repeats;
      candidate.max_repeats = options.max_repeats;
      candidate.min_repeat_ms = options.min_repeat_ms;
      candidate.cutoff_seconds = items[i].cutoff_seconds;
      candidate.cold_bytes = options.cold_bytes;
      candidate.threads = space.target.num_cores;
      candidate.run_seconds = Deadline(10 + task.flops / kRunFlops);
      job.candidates.push_back(std::move(candidate));
    }
    job.task.id = task.hash.Hex();
    job.task.reference_hash = HashBytes128(*job.reference).Hex();
    job.task.reference_kernel = kReference;
    job.task.reference_seconds = Deadline(30 + task.flops * (IsBounded(space) ? kBoundedRuns : 1) / kReferenceFlops);
    job.task.seed = static_cast<int64_t>(options_.seed);
    job.task.integers = task.takes_steps;
    job.task.full_range = task.full_range;
    const Tolerance tolerance = Widened(options_.tolerance, space.target.ProductRounding());
    job.task.rtol = tolerance.rtol;
    job.task.floor = tolerance.atol;
    return MeasureUnlessStopped(task, std::move(job));
  }

  Result<std::vector<rpc::TrialResult>> MeasureUnlessStopped(const TuneTask& task, rpc::MeasureJob job) {
    const std::stop_token& stop = options_.stop;
    if (stop.stop_requested()) {
      return std::vector<rpc::TrialResult>(job.candidates.size(),
                                           {.status = TrialStatus::kCancelled, .error = "stopped before it began"});
    }
    std::atomic<bool> waited = false, answered = false;
    rpc::MeasureCallbacks callbacks;
    callbacks.on_wait = [&](const rpc::DeviceWait& wait) {
      waited = true;
      // Cancel here if the stop came before the job began, or while results were arriving.
      if (stop.stop_requested()) farm_->Cancel();
      if (options_.on_wait) options_.on_wait(wait.text);
    };
    callbacks.on_result = [&](const rpc::TrialResult& result) {
      answered = true;
      TellResult(task, result);
      if (waited.exchange(false) && options_.on_wait) options_.on_wait("");
    };
    // A batch that has results ends soon, as a rule, and is then kept as a whole.
    constexpr double kFinishSeconds = 5;  // [chosen]
    std::stop_callback cancel(stop, [&] { farm_->Cancel(answered ? kFinishSeconds : 0); });
    return farm_->Measure(std::move(job), std::move(callbacks));
  }

  void TellBuild(size_t number, const std::string& what, double begin) const {
    if (!options_.on_span || number == 0) return;
    const std::string name = "build " + std::to_string(number) + " " + what + (number == 1 ? "" : "s");
    options_.on_span({.lane = "build", .name = name, .begin = begin, .end = SteadySeconds()});
  }

  // Tells when a device measured a candidate. The result has just arrived. Several may arrive at once, and then the
  // measurement has begun at the end of the one before it or later.
  void TellResult(const TuneTask& task, const rpc::TrialResult& result) {
    if (!options_.on_span || result.device.empty()) return;
    const double now = SteadySeconds();
    double& last = last_result_[result.device];
    options_.on_span({.lane = result.device,
                      .name = task.label,
                      .begin = std::min(now, std::max(last, now - result.elapsed)),
                      .end = now,
                      .task = task.hash.Hex(),
                      .status = std::string(ToText(result.status))});
    last = now;
  }

  // Builds the items of all tasks in one call, so that the build workers are busy all the time. Builds equal candidates
  // once, and takes known builds from the cache.
  std::vector<BuildResult> Build(const std::vector<MeasureItem>& items) {
    std::vector<BuildRequest> missing;
    std::vector<std::string> keys;
    std::map<std::string, BuildResult> results;
    for (const MeasureItem& item : items) {
      BuildRequest request = RequestOf(item);
      keys.push_back(KeyOf(request));
      auto [result, first] = results.try_emplace(keys.back());
      if (!first) continue;
      if (const BuildResult* known = kept_.Find(keys.back())) {
        result->second = *known;
      } else {
        missing.push_back(std::move(request));
      }
    }
    std::vector<BuildResult> built;
    const double begin = SteadySeconds();
    if (!missing.empty()) built = builder_.Build(missing);  // waits for measurements of other processes
    TellBuild(missing.size(), "candidate", begin);
    for (size_t i = 0; i < missing.size(); ++i) {
      std::string key = KeyOf(missing[i]);
      if (built[i].status == TrialStatus::kOk) kept_.Add(key, built[i]);
      results[key] = std::move(built[i]);
    }
    std::vector<BuildResult> in_order;
    for (const std::string& key : keys) in_order.push_back(results.at(key));
    return in_order;
  }

  // Builds the references of these tasks, each once per measurer. A task cannot be measured without its reference, so
  // references are built with Patience::kNeeded.
  void BuildReferences(const std::vector<Group>& groups) {
    std::vector<std::string> tasks;
    std::vector<BuildRequest> requests;
    for (const auto& [space, items] : groups) {
      const std::string task = space->task->hash.Hex();
      if (references_[task].blob) continue;  // a failed build is tried again
      if (std::find(tasks.begin(), tasks.end(), task) != tasks.end()) continue;
      tasks.push_back(task);
      BuildRequest& request = requests.emplace_back();
      request.func = ToText(space->task->reference);
      request.kernel = kReference;
      request.target = space->target.Text();
      if (IsBounded(*space)) {
        BuildRequest bounded = request;
        bounded.func = ToText(*space->task->bounded);
        bounded.kernel += rpc::kBoundedSuffix;
        requests.push_back(std::move(bounded));
      }
    }
    if (requests.empty()) return;
    const double begin = SteadySeconds();
    std::vector<CompiledKernel> kernels = builder_.Compile(requests, Patience::kNeeded);
    TellBuild(requests.size(), "reference", begin);
    for (size_t i = 0, task = 0; i < requests.size(); ++task) {
      Reference& reference = references_[tasks[task]];
      const size_t first = i;
      std::vector<const KernelObject*> objects;
      std::string failed;
      for (; i < requests.size() && (i == first || requests[i].kernel != kReference); ++i) {
        if (kernels[i].status != TrialStatus::kOk) failed = kernels[i].text;
        objects.push_back(&kernels[i].object);
      }
      Result<BuiltLibrary> built =
          failed.empty() ? builder_.Link(objects, requests[first].target) : Result<BuiltLibrary>(Err(failed));
      if (built.ok()) {
        reference.blob = rpc::MakeBlob(std::move(built->artifact.data));
      } else {
        reference.error = "the program that the candidates are compared with cannot be built: " + built.error().Text();
      }
    }
  }

  Builder& builder_;
  std::shared_ptr<rpc::FarmClient> farm_;
  FarmMeasurerOptions options_;
  std::map<std::string, Reference> references_;  // by hash of the task
  KeptBuilds kept_;
  int64_t next_id_ = 0;
  std::map<std::string, double> last_result_;  // SteadySeconds, by device; used on the farm's thread
};

}  // namespace

Result<std::unique_ptr<Measurer>> MakeFarmMeasurer(Builder& builder, const rpc::FarmOptions& farm,
                                                   const FarmMeasurerOptions& options) {
  return MakeFarmMeasurer(builder, TRY(rpc::FarmClient::Connect(farm)), options);
}

std::unique_ptr<Measurer> MakeFarmMeasurer(Builder& builder, std::shared_ptr<rpc::FarmClient> farm,
                                           const FarmMeasurerOptions& options) {
  return std::make_unique<FarmMeasurer>(builder, std::move(farm), options);
}

}  // namespace autotune
