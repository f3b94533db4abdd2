// `autotune records verify` checks that the best records of the database still replay, compile and compute right
// results.
#include <map>

#include "codegen/builder.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "rpc/client.h"
#include "schedule/trace.h"
#include "support/hash.h"
#include "support/task_id.h"
#include "te/error_bound.h"
#include "te/reference.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/host.h"
#include "tools/autotune/records/records.h"
#include "tools/autotune/text.h"
#include "tracker/local_farm.h"
#include "tuner/measurer.h"

namespace autotune::tools {
namespace {

enum class Verdict { kRight, kWrong, kBroken, kNotRun };

struct Item {
  Record record;
  std::string reference;            // text of the PrimFunc that computes the task in fp64
  std::string bounded;              // text of te::ToBoundedReference; empty: no bounds are known
  bool takes_steps = false;         // te::TakesSteps of the task: true if its results are rounded in steps
  std::vector<int64_t> full_range;  // te::FullRangeInputs of the task
  BuildResult candidate;
  Verdict verdict = Verdict::kNotRun;
  std::string text;

  void Is(Verdict v, std::string why) {
    verdict = v;
    text = std::move(why);
  }
};

// Returns the program that defines the results of the record's task: the alternative `direct`. If the database has no
// record of that alternative, returns the record's own program.
Result<std::string> DefinitionOf(RecordStore& store, const Record& record) {
  for (int64_t cursor = 0; record.alternative != "direct";) {
    RecordPage page = TRY(store.Scan({.task = record.task}, cursor, 500));
    if (page.records.empty()) break;
    cursor = page.cursor;
    for (const Record& other : page.records) {
      if (other.alternative == "direct" && other.versions.ir == record.versions.ir) return other.func;
    }
  }
  return record.func;
}

Status MakeReference(const std::string& definition, Item& item) {
  PrimFunc func = TRY(ParsePrimFunc(definition));
  TRY(autotune::Verify(func, Dialect::kSchedulable));
  item.reference = ToText(te::ToReference(func));
  if (const auto bounded = te::ToBoundedReference(func)) item.bounded = ToText(*bounded);
  item.takes_steps = te::TakesSteps(func);
  item.full_range = te::FullRangeInputs(func);
  return {};
}

class Verifier {
 public:
  Verifier(Builder& builder, Target host, bool measure)
      : builder_(builder), host_(std::move(host)), measure_(measure) {}

  Status Run(std::vector<Item>& items) {
    std::vector<BuildRequest> requests;
    std::vector<Item*> built;
    for (Item& item : items) {
      if (item.verdict == Verdict::kBroken) continue;
      if (item.record.versions.step_language != kStepLanguageVersion) {
        item.Is(Verdict::kNotRun, "made with another version of the step language: compile ignores it");
        continue;
      }
      BuildRequest request;
      request.func = item.record.func;
      request.trace = item.record.trace;
      request.kernel = "kernel";
      request.target = item.record.target;
      requests.push_back(request);
      built.push_back(&item);
    }
    std::vector<BuildResult> results = builder_.Build(requests);
    for (size_t i = 0; i < built.size(); ++i) {
      built[i]->candidate = std::move(results[i]);
      TRY(Judge(*built[i]));
    }
    return {};
  }

 private:
  Result<BuiltLibrary> BuildReference(const Item& item, const Target& target) {
    BuildRequest request;
    request.func = item.reference;
    request.kernel = "reference";
    request.target = item.record.target;
    std::vector<BuildRequest> requests = {request};
    if (!item.bounded.empty() && target.ProductRounding() == 0) {
      request.func = item.bounded;
      request.kernel += rpc::kBoundedSuffix;
      requests.push_back(request);
    }
    return builder_.BuildLibrary(requests);
  }
  Status Judge(Item& item) {
    if (item.candidate.status != TrialStatus::kOk) {
      item.Is(Verdict::kBroken, std::string(ToText(item.candidate.status)) + ": " + item.candidate.text);
      return {};
    }
    Target target = TRY(Target::Parse(item.record.target)), here = host_;
    here.num_cores = target.num_cores;
    // Compare without the code generator, since this machine runs the code of each one.
    here.kind = target.kind, here.vector_types = target.vector_types;
    if (!(here == target)) {
      item.Is(Verdict::kNotRun, "builds; not run, since it is for " + MachineText(target));
      return {};
    }
    const Result<BuiltLibrary> reference = BuildReference(item, target);
    if (!reference.ok()) {
      item.Is(Verdict::kBroken, "its reference: " + reference.error().Text());
      return {};
    }
    if (!client_) TRY(StartFarm());
    rpc::MeasureJob job;
    job.task.id = item.record.task;
    job.reference = rpc::MakeBlob(reference->artifact.data);
    job.artifacts = {rpc::MakeBlob(item.candidate.artifact.data)};
    job.task.reference_hash = HashBytes128(*job.reference).Hex();
    job.task.reference_kernel = "reference";
    job.task.reference_seconds = 600;
    job.task.integers = item.takes_steps;
    job.task.full_range = item.full_range;
    rpc::Candidate candidate;
    candidate.id = item.record.id;
    candidate.kernel = "kernel";
    candidate.threads = std::min(target.num_cores, host_.num_cores);
    const MeasureOptions timing;  // as in a tuning run
    candidate.repeats = measure_ ? timing.repeats : 1;
    candidate.max_repeats = measure_ ? timing.max_repeats : 1;
    candidate.min_repeat_ms = measure_ ? timing.min_repeat_ms : 0;
    candidate.cold_weights = measure_;
    candidate.run_seconds = 120;
    job.candidates.push_back(std::move(candidate));
    rpc::TrialResult result = TRY(client_->Measure(std::move(job)))[0];
    if (result.status == TrialStatus::kInfrastructure) return Err("cannot run a candidate: ", result.error);
    if (result.status != TrialStatus::kOk || !result.checked) {
      bool wrong = result.status == TrialStatus::kWrongAnswer;
      item.Is(wrong ? Verdict::kWrong : Verdict::kBroken, std::string(ToText(result.status)) + ": " + result.error);
      return {};
    }
    const double now = *std::min_element(result.times.begin(), result.times.end());
    item.Is(Verdict::kRight, "recorded " + TimeText(item.record.cost) + (measure_ ? ", now " + TimeText(now) : ""));
    return {};
  }

  Status StartFarm() {
    farm_ = TRY_NOTE(LocalFarm::Start(), "while starting the local device server");
    client_ =
        TRY(rpc::FarmClient::Connect({.tracker = farm_->tracker(), .key = farm_->key(), .job = "records verify"}));
    return {};
  }

  Builder& builder_;
  const Target host_;
  const bool measure_;
  std::unique_ptr<LocalFarm> farm_;
  std::unique_ptr<rpc::FarmClient> client_;  // destroyed before the farm
};

}  // namespace

Result<int> VerifyRecords(const RecordsOptions& options) {
  std::unique_ptr<RecordStore> store = TRY(OpenExistingStore(options.db));
  TRY(store->Check());
  std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
  std::vector<Item> items;
  for (const TaskSummary& task : TRY(store->Tasks())) {
    if (!task.task.starts_with(options.task) || task.ranked == 0) continue;
    Item& item = items.emplace_back();
    item.record = *TRY(store->Best(task.task, task.target));
    if (Status made = MakeReference(TRY(DefinitionOf(*store, item.record)), item); !made.ok())
      item.Is(Verdict::kBroken, "its program: " + made.error().Text());
  }
  if (items.empty())
    return Err("there is no record that ran and is right", options.task.empty() ? "" : " of this task");
  TRY(Verifier(*builder, TRY(Target::Parse("cpu")), options.measure).Run(items));
  std::map<Verdict, int> counts;
  Console& console = Console::Get();
  constexpr const char* kWords[] = {"right", "WRONG", "BROKEN", "not run"};
  for (const Item& item : items) {
    ++counts[item.verdict];
    if (console.json()) {
      Json line;
      line["verdict"] = kWords[static_cast<int>(item.verdict)];
      line["task"] = LabelOf(item.record), line["hash"] = item.record.task, line["record"] = item.record.id;
      line["text"] = item.text;
      console.Result(line);
      continue;
    }
    if (console.quiet() && item.verdict == Verdict::kRight) continue;
    console.Result(Format("%-8s ", kWords[static_cast<int>(item.verdict)]) + ShortTaskId(item.record.task) + " " +
                   item.record.id + " " + LabelOf(item.record) + ": " + item.text + "\n");
  }
  if (console.json()) {
    Json line;
    line["right"] = counts[Verdict::kRight], line["wrong"] = counts[Verdict::kWrong];
    line["broken"] = counts[Verdict::kBroken], line["not_run"] = counts[Verdict::kNotRun];
    console.Result(line);
    return counts[Verdict::kWrong] + counts[Verdict::kBroken] > 0 ? kExitWrong : kExitOk;
  }
  console.Report(Format("the file is undamaged; best records: %d right, %d wrong, %d broken, %d not run\n",
                        counts[Verdict::kRight], counts[Verdict::kWrong], counts[Verdict::kBroken],
                        counts[Verdict::kNotRun]));
  return counts[Verdict::kWrong] + counts[Verdict::kBroken] > 0 ? kExitWrong : kExitOk;
}

}  // namespace autotune::tools
