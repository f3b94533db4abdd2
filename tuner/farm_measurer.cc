#include "tuner/farm_measurer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/text.h"
#include "schedule/trace.h"

namespace autotune {
namespace {

constexpr double kReferenceFlops = 3e8;  // a second, at the least, of an unscheduled kernel
constexpr double kRunFlops = 2e8;        // of a candidate that is worth waiting for

class FarmMeasurer : public Measurer {
 public:
  FarmMeasurer(Builder& builder, std::unique_ptr<rpc::FarmClient> farm, const FarmMeasurerOptions& options)
      : builder_(builder), farm_(std::move(farm)), options_(options) {}

  Result<std::vector<Outcome>> Measure(const TaskSpace& space, const std::vector<Proposal>& proposals,
                                       const MeasureOptions& options) override {
    const TuneTask& task = *space.task;
    rpc::MeasureJob job;
    job.reference = TRY(Reference(space));
    std::vector<BuildRequest> requests;
    for (const Proposal& proposal : proposals) {
      BuildRequest request;
      request.func = ToText(space.FuncOf(space.sketches[proposal.sketch]));
      request.trace = ToText(proposal.trace);
      request.kernel = "kernel";
      request.target = space.target.Text();
      requests.push_back(std::move(request));
    }
    std::vector<BuildResult> builds = Build(requests);
    std::vector<Outcome> outcomes(proposals.size());
    std::vector<size_t> sent;
    for (size_t i = 0; i < builds.size(); ++i) {
      outcomes[i].facts["build"] = ToJson(builds[i].facts);
      if (builds[i].status != TrialStatus::kOk) {
        outcomes[i].status = builds[i].status;
        outcomes[i].error = builds[i].text;
        continue;
      }
      rpc::Candidate candidate;
      candidate.id = std::to_string(next_id_++);
      candidate.kernel = "kernel";
      candidate.blob = static_cast<int>(job.artifacts.size());
      candidate.repeats = options.repeats;
      candidate.max_repeats = options.max_repeats;
      candidate.min_repeat_ms = options.min_repeat_ms;
      candidate.cutoff_seconds = options.cutoff_seconds;
      candidate.threads = space.target.num_cores;
      candidate.run_seconds = 10 + task.flops / kRunFlops;
      job.candidates.push_back(std::move(candidate));
      job.artifacts.push_back(std::make_shared<const std::string>(builds[i].artifact.data));
      sent.push_back(i);
    }
    if (sent.empty()) return outcomes;
    job.task.id = task.hash.Hex();
    job.task.reference_hash = HashBytes128(*job.reference).Hex();
    job.task.reference_kernel = "reference";
    job.task.reference_seconds = 30 + task.flops / kReferenceFlops;
    job.task.seed = static_cast<int64_t>(options_.seed);
    job.task.rtol = options_.rtol;
    job.task.atol = options_.atol;
    std::vector<rpc::TrialResult> results = TRY(farm_->Measure(std::move(job)));
    for (size_t k = 0; k < sent.size(); ++k) {
      Outcome& outcome = outcomes[sent[k]];
      const rpc::TrialResult& result = results[k];
      outcome.status = result.status;
      outcome.error = result.error;
      outcome.times = result.times;
      outcome.verified = result.checked && result.status == TrialStatus::kOk;
      outcome.device = result.device;
      outcome.facts["worst_error"] = result.worst_error;
      outcome.facts["elapsed"] = result.elapsed;
      if (!result.times.empty()) outcome.cost = *std::min_element(result.times.begin(), result.times.end());
      if (outcome.status == TrialStatus::kOk && outcome.cost <= 0) {
        outcome.status = TrialStatus::kDeviceError;
        outcome.error = "the device returned no time";
      }
    }
    return outcomes;
  }

 private:
  // What the last call built is not built again: a confirmation measures the same candidates turn after turn.
  std::vector<BuildResult> Build(const std::vector<BuildRequest>& requests) {
    std::map<std::string, BuildResult> known = std::exchange(last_built_, {});
    auto key = [](const BuildRequest& r) { return r.target + '\n' + r.trace + '\n' + r.func; };
    std::vector<BuildRequest> missing;
    for (const BuildRequest& request : requests) {
      if (!known.contains(key(request))) missing.push_back(request);
    }
    std::vector<BuildResult> built;
    if (!missing.empty()) built = builder_.Build(missing);  // which waits for others' measurements
    for (size_t i = 0; i < missing.size(); ++i) known[key(missing[i])] = std::move(built[i]);
    std::vector<BuildResult> results;
    for (const BuildRequest& request : requests) {
      results.push_back(known.at(key(request)));
      if (results.back().status == TrialStatus::kOk) last_built_[key(request)] = results.back();
    }
    return results;
  }
  // Built once per task; as a library, since no other candidate could take its place if workers are killed.
  Result<rpc::Blob> Reference(const TaskSpace& space) {
    rpc::Blob& blob = references_[space.task->hash.Hex()];
    if (blob) return blob;
    BuildRequest request;
    request.func = ToText(space.task->reference);
    request.kernel = "reference";
    request.target = space.target.Text();
    BuiltLibrary built =
        TRY_NOTE(builder_.BuildLibrary({request}), "while building what the candidates are compared with");
    blob = std::make_shared<const std::string>(std::move(built.artifact.data));
    return blob;
  }

  Builder& builder_;
  std::unique_ptr<rpc::FarmClient> farm_;
  FarmMeasurerOptions options_;
  std::map<std::string, rpc::Blob> references_;
  std::map<std::string, BuildResult> last_built_;
  int64_t next_id_ = 0;
};

}  // namespace

Result<std::unique_ptr<Measurer>> MakeFarmMeasurer(Builder& builder, const rpc::FarmOptions& farm,
                                                   const FarmMeasurerOptions& options) {
  std::unique_ptr<rpc::FarmClient> client = TRY(rpc::FarmClient::Connect(farm));
  return std::unique_ptr<Measurer>(std::make_unique<FarmMeasurer>(builder, std::move(client), options));
}

}  // namespace autotune
