#include "service/tune_work.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "runtime/device.h"
#include "service/device_target.h"
#include "service/farm_networks.h"
#include "service/final_choice.h"
#include "service/machine_text.h"
#include "service/precision_choice.h"
#include "service/recorded_tune.h"
#include "service/select_tasks.h"
#include "service/text.h"
#include "service/time_budget.h"
#include "service/tune_events.h"
#include "support/check.h"
#include "support/clock.h"
#include "support/cpus.h"
#include "support/host_lock.h"
#include "support/output_file.h"
#include "support/shell.h"
#include "tuner/farm_measurer.h"
#include "tuner/poison.h"

namespace autotune {
namespace {

// [chosen] A call that begins within this time after Cancel is cancelled, too: the run may be about to wait.
constexpr double kCancelSeconds = 0.1;

// Returns true if this machine can run code for the target.
bool RunsHere(const Target& target) {
  const Result<Target> here = Target::Parse("cpu");
  return target.IsGpu() || (here.ok() && here->triple == target.triple);
}

}  // namespace

TuneWork::TuneWork(TuneRequest request, EventSink emit) : request_(std::move(request)), emit_(std::move(emit)) {}
TuneWork::~TuneWork() = default;

void TuneWork::Cancel() {
  if (stage_ == TuneStage::kWriting) return;
  stop_requested_ = true;
  stop_.request_stop();
  const std::lock_guard hold(client_mutex_);
  if (early_client_) early_client_->Cancel(kCancelSeconds);
}

void TuneWork::Abandon() {
  const std::lock_guard hold(client_mutex_);
  if (early_client_) early_client_->GiveBack();
}

std::string TuneWork::EndedAtOnceText() const {
  const TuneStage stage = stage_;
  if (stage == TuneStage::kOpening) return "interrupted before the search; nothing was measured";
  if (stage == TuneStage::kSearching) {
    if (IsInMemory()) return "ended at once; the trials are lost, since the database is in memory";
    return "ended at once: the results of the running batch are lost, those of all batches before it are saved. Go on "
           "with:\n  " +
           ResumeLine();
  }
  if (IsInMemory()) return "interrupted; the trials are lost, since the database is in memory";
  if (request_.output.empty()) return "interrupted; all results are saved";
  return "interrupted; all results are saved, but " + request_.output + " may not be written: repeat the command";
}

Result<TuneEnd> TuneWork::Run() {
  Result<TuneEnd> end = PrepareAndSearch();
  // What the run holds ends with it, not with the object.
  farm_ = {};
  plugins_ = {};
  search_ = {};  // its factories keep the plug-ins
  device_.reset();
  claimed_.reset();
  setup_ = {};
  network_ = {};
  return end;
}

Result<TuneEnd> TuneWork::PrepareAndSearch() {
  const HostWaitWatch host_waits([this](const HostWait& wait) {
    emit_(event::Waiting{event::kThisHost, wait.reason, static_cast<double>(BootMillis() - wait.since) / 1e3});
  });
  if (!RecordingOf(request_.model.device).empty()) return TuneRecording();
  const Status prepared = Prepare();
  // Whatever fails after a stop fails because of it.
  if (!prepared.ok() && stop_requested_) return Interrupted(0);
  TRY(prepared);
  return Search();
}

Result<TuneEnd> TuneWork::TuneRecording() {
  stage_ = TuneStage::kSearching;
  const Result<RecordedEnd> end = TuneRecorded(request_, emit_, stop_requested_);
  if (!end.ok() && !stop_requested_) return end.error();
  if (end.ok()) trials_ = end->planned;
  return !end.ok() || end->interrupted ? Interrupted(end.ok() ? end->trials : 0) : TuneEnd::kDone;
}

Status TuneWork::CheckStop() const {
  if (!stop_requested_) return {};
  return Error("the run was stopped before its search", ErrorKind::kStopped);
}

// Opens and checks everything that the search needs.
Status TuneWork::Prepare() {
  time_budget_ = TRY(ParseTimeBudget(request_.time_budget));
  TRY(CheckOutputFile(request_.output, request_.model.model));
  if (!here()) TRY(TakeDevice());
  TRY(CheckStop());
  TRY(OpenModel());
  trials_ = request_.TrialsFor(tasks_.size());
  is_stated_ = device_ && IsStated(device_->info);
  // The final choice compares whole networks. Servers that do not state their device do not run networks either.
  chooses_ = here() || is_stated_;
  plugins_ = TRY(Plugins::Start(request_, request_.seed, &stop_requested_, emit_));
  search_ = SearchOptions();
  search_.run = TRY(ChooseRun(*setup_.store, RunKeyOf(Identity()), request_.fresh));
  claimed_ = TRY(Claim());
  TRY(OpenFarm());
  TRY(Begin());
  return CheckStop();
}

// Finds errors that need no device, before a wait for one.
Status TuneWork::CheckBeforeWait() const {
  const ModelRequest& model = request_.model;
  TRY(model.ParseNetwork());
  if (model.op.empty() && model.bytes.empty() && !std::ifstream(model.model))
    return Err("cannot open ", model.model, ": ", std::strerror(errno));
  return {};
}

// Waits for a device of the farm.
Status TuneWork::TakeDevice() {
  TRY(CheckBeforeWait());
  device_.emplace();
  device_->farm = {.key = request_.key, .job = request_.model.op};
  if (device_->farm.job.empty()) device_->farm.job = std::filesystem::path(request_.model.model).stem().string();
  device_->farm.tracker = TRY(request_.tracker.Find());
  device_->client = TRY(rpc::FarmClient::Connect(device_->farm));
  {
    const std::lock_guard hold(client_mutex_);
    early_client_ = device_->client;
  }
  TRY(CheckStop());  // a later stop cancels the wait
  return AcquireDevice(*device_, emit_);
}

Status TuneWork::OpenModel() {
  const rpc::DeviceInfo* device = device_ ? &device_->info : nullptr;
  ModelRequest opened = request_.model;
  if (opened.precision == "auto") opened.precision = "model";  // until ModelToTune
  setup_ = TRY(opened.Open(&stop_requested_, ModelRequest::OpenAny, device));
  Target& target = setup_.target;
  if (!target.note.empty()) emit_(event::Note{target.note});
  if (!device) LimitCores(target, AvailableCpus(), emit_);
  if (device && !IsStated(*device)) {
    LimitCores(target, static_cast<int64_t>(device->cores.size()), emit_);
    emit_(event::Note{"nobody states what " + NameOf(*device) +
                      " is, since its server or the tracker is of an earlier version: this run compiles for " +
                      MachineText(target) + ", as --target or this machine has it"});
  }
  std::vector<std::string> notes;
  network_ = TRY(TRY(ModelToTune(notes)).Load(setup_.network, target, *setup_.builder));
  network_.notes.insert(network_.notes.begin(), notes.begin(), notes.end());
  tasks_ = TRY(SelectTasks(MakeTuneTasks(network_), request_.tasks, LeadersOf(network_)));
  return {};
}

// Returns the model of the request. Chooses the precisions of its products first, if the request asks for that, and
// adds the choice's notes for the user.
Result<ModelRequest> TuneWork::ModelToTune(std::vector<std::string>& notes) {
  if (request_.model.precision != "auto") return request_.model;
  ChosenModel chosen =
      TRY(ChoosePrecision(request_.model, {.target = setup_.target,
                                           .builder = *setup_.builder,
                                           .on_step =
                                               [this](const std::string& step, int64_t done, int64_t total) {
                                                 emit_(event::Step{step, done, total});
                                               },
                                           .stop = &stop_requested_}));
  notes = chosen.choice.notes;
  emit_(event::Precisions{std::move(chosen.choice), chosen.known});
  setup_.network = TRY(chosen.model.ParseNetwork());
  return std::move(chosen.model);
}

TuneOptions TuneWork::SearchOptions() const {
  const std::optional<SearchKind> search = EnumFromText<SearchKind>(request_.search);
  CHECK(search);  // TuneRequest::Check accepts only valid names
  // The final choice takes a part of the budget.
  const double budget = chooses_ ? SearchBudget(time_budget_) : time_budget_;
  TuneOptions options{.trials = trials_, .time_budget = budget, .seed = request_.seed, .search = *search};
  options.on_span = request_.on_span;
  plugins_.Use(options);
  if (request_.model.op.empty()) options.measure.cold_bytes = WorkingSetBytes(network_);
  return options;
}

RunIdentity TuneWork::Identity() const {
  RunIdentity run{.network = network_.digest.Hex(),
                  .target = setup_.target.Text(),
                  .device = request_.key.empty() ? request_.model.device : request_.key,
                  .seed = request_.seed,
                  .trials = trials_,
                  .search = request_.search,
                  .plugins = plugins_.Identities()};
  if (tasks_.size() < TasksToTune(network_).size()) {
    for (const TuneTask& task : tasks_) run.tasks.push_back(task.hash.Hex());
  }
  return run;
}

Result<std::unique_ptr<ClaimedRun>> TuneWork::Claim() {
  ClaimedRun::Options options{.stop = &stop_requested_};
  options.on_wait = [this](const std::string& owner, int64_t ms) {
    emit_(event::Note{owner + " has begun this run; waiting up to " + std::to_string((ms + 999) / 1000) +
                      " s to see whether it still works on it"});
  };
  return ClaimedRun::Take(*setup_.store, search_.run, std::move(options));
}

// Connects the farm of this machine, or makes a measurer of the device of a tracker's farm.
Status TuneWork::OpenFarm() {
  FarmMeasurerOptions measurer{.seed = request_.seed, .on_wait = EmitWaits(emit_), .stop = stop_.get_token()};
  measurer.on_span = request_.on_span;
  measurer.poison = TRY(PoisonOf(*setup_.store, tasks_));
  if (!device_) {
    farm_.farm = TRY(StartLocalFarm(request_.model, setup_.target));
    device_.emplace();
    device_->farm = {.tracker = farm_.farm->tracker(), .key = farm_.farm->key(), .job = network_.name};
    device_->client = TRY(rpc::FarmClient::Connect(device_->farm));
  }
  farm_.options = device_->farm;
  farm_.fits = device_->fits;
  farm_.client = device_->client.get();
  farm_.measurer = MakeFarmMeasurer(*setup_.builder, std::move(device_->client), measurer);
  return {};
}

Status TuneWork::Begin() {
  for (const std::string& note : WithoutRepeats(network_.notes)) emit_(event::Note{note});
  event::Begin begin = BeginOf(network_, tasks_, setup_.target, search_, chooses_);
  begin.key = request_.key;
  begin.tracker = here() ? "" : TRY(request_.tracker.Find()).Text();
  begin.time_budget = time_budget_;
  emit_(begin);
  if (here() && !setup_.target.IsGpu()) peak_ = TRY(PeakOfThisMachine(setup_.target, *setup_.builder, emit_));
  return {};
}

Result<TuneEnd> TuneWork::Search() {
  {
    const std::lock_guard hold(client_mutex_);
    early_client_.reset();  // from now on, the measurer hears of a stop
  }
  stage_ = TuneStage::kSearching;
  const Target& target = setup_.target;
  if (is_stated_ && !target.IsGpu())
    peak_ = PeakOfDevice(*farm_.client, target, *setup_.builder, stop_.get_token(), emit_);
  search_.peak_flops = peak_.value_or(0);
  Result<TuneReport> tuned = Tune(
      tasks_, target, search_, *setup_.store, *farm_.measurer,
      [&](const TuneReport& so_far, const TaskReport& task) { emit_(ProgressOf(so_far, task, search_)); },
      &stop_requested_);
  if (!tuned.ok()) return plugins_.Explain(tuned.error(), IsInMemory());
  TuneReport report = std::move(*tuned);
  plugins_.EmitLate(emit_);
  if (report.interrupted) return Interrupted(report.trials);
  farm_.measurer.reset();

  // Without a final choice, each task gets its best record.
  std::optional<ChosenNetwork> chosen;
  if (chooses_) {
    const auto networks = NetworkPlace();
    const ChoiceOf of{network_, target, *setup_.store, *setup_.builder};
    chosen = TRY(ChooseFinally(of, *networks, report, request_.seed, emit_, stop_requested_));
    if (chosen && chosen->stopped) return Interrupted(report.trials);
  }
  farm_.farm.reset();
  if (stop_requested_) return Interrupted(report.trials);
  stage_ = TuneStage::kWriting;
  TRY(Write(report, std::move(chosen)));
  return TuneEnd::kDone;
}

// Returns where the final choice runs networks: the processor of this machine, or a device of the farm. The farm's
// client has given its device back.
std::unique_ptr<NetworkHost> TuneWork::NetworkPlace() {
  if (here() && !setup_.target.IsGpu()) {
    farm_.farm.reset();
    return MakeLocalHost({.stop = &stop_requested_});
  }
  rpc::RemoteDevice::Options options{.farm = farm_.options, .fits = farm_.fits, .stop = stop_.get_token()};
  options.on_wait = [emit = EmitWaits(emit_)](const rpc::DeviceWait& wait) { emit(wait.text); };
  return std::make_unique<FarmNetworks>(std::move(options), farm_.farm ? "" : farm_.options.key);
}

Status TuneWork::Write(TuneReport& report, std::optional<ChosenNetwork> chosen) {
  event::End end = EndOf(report, search_, chosen ? &*chosen : nullptr, peak_);
  end.gpu = setup_.target.IsGpu();
  emit_(end);
  if (!request_.output.empty()) TRY(WritePackage(std::move(chosen)));
  EmitNotes(report);
  emit_(SavedEvent(end));
  return {};
}

// Writes the package of the tuned network, and emits the notes on its schedules. The schedules are those of `chosen`.
// Without `chosen`, they are the best records or, after a run on a farm, the schedules that `autotune compile` uses.
// `compile` follows an earlier choice for the network; a note says that the records of this run are newer.
Status TuneWork::WritePackage(std::optional<ChosenNetwork> chosen) {
  const Target& target = setup_.target;
  Builder& builder = *setup_.builder;
  RecordStore* store = setup_.store.get();
  // CompileFrom ignores the choice of an earlier run. That choice would hide the records of this run.
  Result<CompileResult> made = chosen   ? std::move(chosen->compiled)
                               : here() ? CompileFrom(network_, target, {.store = store}, builder)
                                        : Compile(network_, target, store, builder);
  const CompileResult compiled = TRY_NOTE(std::move(made), "while compiling the tuned network");
  TRY(WriteCompiled(compiled.package, request_.output, builder));
  for (const std::string& note : CompileNotes(compiled)) emit_(event::Note{note});
  return {};
}

void TuneWork::EmitNotes(const TuneReport& report) const {
  for (const std::string& note : report.notes) emit_(event::Note{note});
  int64_t unreached = 0;
  for (const TaskReport& task : report.tasks) {
    unreached += task.records == 0 && !task.exhausted;  // exhausted: the database has all schedules of the task
    if (task.best_seconds == 0 && task.records > 0)
      emit_(event::Note{"no candidate of " + task.task->label + " worked; it keeps its default schedule"});
  }
  if (unreached == 0) return;
  emit_(event::Note{"nothing was tried for " + std::to_string(unreached) + " of " +
                    CountText(static_cast<int64_t>(report.tasks.size()), "task") +
                    ": raise --trials or --time-budget"});
}

// Says what was gained, where it is, and how to go on.
event::Saved TuneWork::SavedEvent(const event::End& end) const {
  const Target& target = setup_.target;
  const std::string& output = request_.output;
  event::Saved saved = SavedOf(network_.name, MachineText(target), end);
  saved.package = output;
  if (!IsInMemory()) {
    const Result<std::string> path = DefaultStorePath();
    saved.database = !request_.model.db.empty() ? request_.model.db : path.ok() ? *path : "";
  }
  const std::string there = here() ? "" : request_.tracker.Words() + " --key " + ShellWord(request_.key);
  if (!output.empty() && !here()) {
    saved.next = {"run it:      autotune run " + ShellWord(output) + there,
                  "measure it:  autotune bench " + ShellWord(output) + there};
  } else if (!output.empty() && !RunsHere(target)) {
    saved.next = {"run it on a " + target.triple + " machine: autotune run " + ShellWord(output)};
  } else if (!output.empty()) {
    saved.next = {
        "run it:      autotune run " + ShellWord(output),
        "measure it:  autotune bench " + ShellWord(output) + " --threads " + std::to_string(target.num_cores)};
  } else if (saved.database.empty()) {
    saved.next = {"to keep the results, name a package with -o M.tar, or a database with --db FILE"};
  } else if (request_.model.bytes.empty()) {
    saved.next = {"compile it:  autotune compile" + ModelLine(request_.model) + " -o model.tar"};
  }
  return saved;
}

TuneEnd TuneWork::Interrupted(int trials) const {
  emit_(event::Interrupted{trials, PlannedTrials(trials_),
                           IsInMemory() || !request_.model.bytes.empty() ? "" : ResumeLine()});
  return TuneEnd::kInterrupted;
}

// Returns true if the run's results are lost when this process ends, unless it writes a package.
bool TuneWork::IsInMemory() const {
  if (!request_.model.db.empty()) return request_.model.db == kMemoryStore;
  if (!RecordingOf(request_.model.device).empty()) return true;
  const Result<std::string> path = DefaultStorePath();  // AUTOTUNE_DB may name it
  return path.ok() && *path == kMemoryStore;
}

std::string TuneWork::ResumeLine() const {
  std::string line = "autotune" + ModelLine(request_.model);
  if (trials_ != kUnlimitedTrials) line += " --trials " + std::to_string(trials_);
  if (!request_.tasks.empty()) line += " --tasks " + ShellWord(request_.tasks);
  if (request_.seed) line += " --seed " + std::to_string(request_.seed);
  if (request_.seeds > 1) line += " --seeds " + std::to_string(request_.seeds);
  line += PluginLine(request_);
  if (request_.search != "evolution") line += " --search " + request_.search;
  if (!request_.time_budget.empty()) line += " --time-budget " + request_.time_budget;
  if (!here()) line += request_.tracker.Words() + " --key " + ShellWord(request_.key);
  if (!request_.output.empty()) line += " -o " + ShellWord(request_.output);
  return line + request_.resume_words;
}

}  // namespace autotune
