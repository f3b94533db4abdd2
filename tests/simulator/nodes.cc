#include "tests/simulator/nodes.h"

#include <variant>

#include "support/hash.h"

namespace autotune {

using rpc::Message;
using rpc::TrialResult;

namespace {

// Draws the letter of a candidate's fate.
std::string DrawFate(const JobPlan& plan, Rng& rng) {
  struct Chance {
    double chance;
    const char* letter;
  };
  double luck = rng.Uniform();
  for (const auto& [chance, letter] : {Chance{0.04, "x"},
                                       {0.01, "h"},
                                       {0.002, "s"},
                                       {0.02, "f"},
                                       {0.01, "w"},
                                       {0.004, "d"},
                                       {plan.breaks_device, "b"}}) {
    if ((luck -= chance) < 0) return letter;
  }
  return "";
}

// Returns the verdict that a candidate deserves. The runners of these tests never report that they have loaded a
// candidate that does not end well, so that counts as a failure to load.
TrialStatus VerdictOf(Fate fate) {
  switch (fate) {
    case Fate::kFine:
    case Fate::kForges:
    case Fate::kDamages:
      return TrialStatus::kOk;
    case Fate::kCrashes:
    case Fate::kHangs:
    case Fate::kSleeps:
      return TrialStatus::kLoadFailed;
    case Fate::kWrong:
      return TrialStatus::kWrongAnswer;
    case Fate::kBreaksDevice:
      return TrialStatus::kDeviceError;
  }
  return TrialStatus::kOk;
}

bool Ends(Fate fate) { return fate != Fate::kHangs && fate != Fate::kSleeps; }

// Returns the seconds that a device reports for this artifact: a whole number, so that the wire transmits it exactly.
double TimeOf(std::string_view artifact) { return 1 + static_cast<double>(Hash64(artifact) % 1000000007); }

}  // namespace

Fate FateOf(std::string_view candidate) {
  switch (candidate.back()) {
    case 'x':
      return Fate::kCrashes;
    case 'h':
      return Fate::kHangs;
    case 's':
      return Fate::kSleeps;
    case 'f':
      return Fate::kForges;
    case 'w':
      return Fate::kWrong;
    case 'd':
      return Fate::kDamages;
    case 'b':
      return Fate::kBreaksDevice;
    default:
      return Fate::kFine;
  }
}

std::shared_ptr<const rpc::MeasureJob> MakeJob(const std::string& prefix, const JobPlan& plan, Rng& rng) {
  auto job = std::make_shared<rpc::MeasureJob>();
  if (rng.Below(2)) {
    job->reference = rpc::MakeBlob("reference of " + prefix.substr(0, prefix.find('.')));
    job->task.reference_hash = HashBytes128(*job->reference).Hex();
    job->task.reference_seconds = 3600;
  }
  for (int64_t i = 0, n = 1 + rng.Below(plan.most); i < n; ++i) {
    rpc::Candidate candidate;
    candidate.id = prefix + std::to_string(i) + DrawFate(plan, rng);
    candidate.blob = static_cast<int>(i);
    candidate.check = job->reference != nullptr;
    candidate.load_seconds = candidate.run_seconds = Ends(FateOf(candidate.id)) ? plan.deadline_seconds : 2;
    job->artifacts.push_back(rpc::MakeBlob("artifact of " + candidate.id));
    job->candidates.push_back(std::move(candidate));
  }
  return job;
}

CallPlan MakeCalls(const std::string& name, Rng& rng) {
  CallPlan plan{.name = name, .closes = rng.Below(2) == 0};
  const int64_t count = 3 + rng.Below(40);
  for (int64_t i = 0; i < count; ++i) {
    const double luck = rng.Uniform();
    plan.fates.push_back(luck < 0.005 ? "x" : luck < 0.007 ? "h" : "");
  }
  return plan;
}

// --- Servers ---------------------------------------------------------------------------------------------------------

ServerNode::ServerNode(rpc::ServerSession::Options options, World world)
    : world_(std::move(world)),
      session_(std::move(options)),
      alarm_(world_.now, world_.after, [this] { Perform(session_.Wake(world_.now())); }) {
  NewRunnerAfter(50);
  alarm_.Set(session_.NextWake());
}

// Starts a runner in place of the present one. A signal stops one runner; a host without processors halts all.
void ServerNode::NewRunnerAfter(int64_t delay_ms) {
  runner_ = {.number = runner_.number + 1};
  if (halt_.by_signal) halt_.until = std::min(halt_.until, world_.now());
  world_.after(delay_ms, [this, number = runner_.number] {
    if (runner_.number == number) Perform(session_.OnRunnerReady(world_.now()));
  });
}

// Says what the operating system would say of the runner. Of the times, only differences within one run count.
rpc::RunnerFacts ServerNode::Examine() {
  const int64_t now = world_.now();
  rpc::RunnerFacts facts;
  facts.stopped = halt_.by_signal && now < halt_.until;
  facts.cpu_ms = fate_ == Fate::kSleeps ? 0 : static_cast<double>(now - Halted());
  facts.waited_ms = static_cast<double>(starved_ms_ + (halt_.by_signal ? 0 : halt_.Lasted(now)));
  facts.stopped_ms = static_cast<double>(Halted()) - facts.waited_ms;
  return facts;
}

void ServerNode::HaltRunner(int64_t ms, bool by_signal) {
  const int64_t now = world_.now();
  if (now < halt_.until) return;
  halted_ms_ = Halted();
  if (!halt_.by_signal) starved_ms_ += halt_.Lasted(now);
  halt_ = {now, now + ms, by_signal};
}

// Returns how the present run ends, which its server kills for its deadline.
std::string_view ServerNode::FateAtDeadline() const {
  constexpr int64_t kBlurMs = 100;  // of a server's count of the time in which its runner could run
  const int64_t now = world_.now();
  const bool stopped = halt_.by_signal && now < halt_.until;
  if (stopped || now - run_began_ - (Halted() - run_halted_) < run_ms_ - kBlurMs) return "";
  return fate_ == Fate::kHangs ? "computed" : fate_ == Fate::kSleeps ? "slept" : "";
}

// Tells the world, before it tells the session, that the present run is over.
void ServerNode::End(std::string_view status) {
  if (std::exchange(running_, 0)) world_.on_end(status);
}

void ServerNode::EndRunner(std::string_view status, const rpc::RunnerEnd& end) {
  End(status);
  Perform(session_.OnRunnerEnd(end, world_.now()));
  NewRunnerAfter(20);
}

void ServerNode::KillRunner() { EndRunner("", {"was ended by signal 9 (Killed)", 9, false}); }

void ServerNode::LoseRunners(int64_t ms) {
  End("");
  NewRunnerAfter(ms);
  Perform(session_.OnRunnerEnd({"was ended by signal 9 (Killed)", 9, false}, world_.now()));
  Perform(session_.OnRunnersUnavailable("no runner can be started", world_.now()));
}

void ServerNode::Perform(rpc::ServerActions actions) {
  for (rpc::ServerAction& action : actions) {
    if (auto* send = std::get_if<rpc::ToPeer>(&action)) {
      world_.to_peer(send->peer, send->message);
    } else if (auto* report = std::get_if<rpc::ToTracker>(&action)) {
      world_.to_tracker(report->message);
    } else if (std::get_if<rpc::AcquireHost>(&action)) {
      world_.after(1, [this] { Perform(session_.OnHostAcquired("", world_.now())); });
    } else if (auto* start = std::get_if<rpc::StartCandidate>(&action)) {
      Execute(start->request);
    } else if (auto* kill = std::get_if<rpc::KillRunner>(&action)) {
      End(kill->reason == "deadline" ? FateAtDeadline() : "");
      NewRunnerAfter(20);
    } else if (auto* examine = std::get_if<rpc::ExamineRunner>(&action)) {
      world_.after(0, [this, run = examine->run] { Perform(session_.OnRunnerExamined(run, Examine(), world_.now())); });
    } else if (auto* event = std::get_if<rpc::FarmEvent>(&action)) {
      if (event->kind == rpc::FarmEvent::Kind::kLeased) lease_ = event->lease;
      world_.on_event(*event);
    }
  }
  alarm_.Set(session_.NextWake());
}

void ServerNode::Execute(const Message& message) {
  if (auto* probe = message.As<rpc::RunnerProbe>()) {
    world_.after(1, [this, run = probe->run, runner = runner_.number] { Probe(run, runner); });
    return;
  }
  if (running_) world_.violation("one-at-a-time", "two candidates at once");
  world_.on_start({message, lease_, runner_.number, runner_.ran++});
  const int64_t run = running_ = ++runs_;
  run_began_ = world_.now();
  run_halted_ = Halted();
  if (message.As<rpc::RunnerCall>()) {
    fate_ = FateOf(*message.blobs.at(0));
    if (Ends(fate_)) world_.after(1 + world_.run_ms() / 10, [this, message, run] { AnswerCall(message, run); });
    return;
  }
  const rpc::Candidate& candidate = message.As<rpc::RunnerRequest>()->candidate;
  fate_ = FateOf(candidate.id);
  run_ms_ = static_cast<int64_t>(1000 * candidate.load_seconds);
  if (Ends(fate_)) world_.after(world_.run_ms(), [this, message, run] { Send(message, run); });
}

void ServerNode::Probe(int64_t run, int64_t runner) {
  if (runner_.number != runner) return;
  if (const int64_t wait = halt_.until - world_.now(); wait > 0)
    return world_.after(wait, [this, run, runner] { Probe(run, runner); });
  rpc::RunnerResult result{run, {.status = TrialStatus::kOk}};
  if (Broken()) {
    result.result = {.status = TrialStatus::kDeviceError, .error = "it is still broken"};
  } else {
    world_.on_probed();
    result.result.times = {1e-3};  // of a calibration
  }
  Perform(session_.OnRunnerMessage({"", result, {}}, world_.now()));
}

// Sends what the runner says of a run: the reference's outputs if it has made them, then the result.
void ServerNode::Send(const Message& message, int64_t run) {
  if (running_ != run) return;
  if (const int64_t wait = halt_.until - world_.now(); wait > 0)
    return world_.after(wait, [this, message, run] { Send(message, run); });
  const auto& request = *message.As<rpc::RunnerRequest>();
  if (fate_ == Fate::kCrashes) return EndRunner("crashed", {"was ended by signal 11", 11, false});
  const auto say = [&](rpc::Body body, std::vector<rpc::Blob> blobs = {}) {
    if (running_ == run) Perform(session_.OnRunnerMessage({"", std::move(body), std::move(blobs)}, world_.now()));
  };
  if (message.blobs.size() == 2) {
    say(rpc::RunnerProgress{request.run, rpc::RunnerPhase::kReference});
    say(rpc::RunnerReference{request.run}, {message.blobs[1]});
  }
  if (request.candidate.check) say(rpc::RunnerProgress{request.run, rpc::RunnerPhase::kRun});
  if (running_ == run) SendResult(request, *message.blobs.at(0));
}

void ServerNode::AnswerCall(const Message& message, int64_t run) {
  if (running_ != run) return;
  if (const int64_t wait = halt_.until - world_.now(); wait > 0)
    return world_.after(wait, [this, message, run] { AnswerCall(message, run); });
  if (fate_ == Fate::kCrashes) return EndRunner("crashed", {"was ended by signal 11", 11, false});
  rpc::RunnerResult result{message.As<rpc::RunnerCall>()->run, {.status = TrialStatus::kOk}};
  std::vector<rpc::Blob> reply;
  if (Broken()) {
    result.result = {.status = TrialStatus::kDeviceError, .error = "the device does not answer"};
    End("device error");
  } else {
    reply = {rpc::MakeBlob("reply to " + std::string(*message.blobs.at(0)))};
    End("ok");
  }
  Perform(session_.OnRunnerMessage({"", result, std::move(reply)}, world_.now()));
}

void ServerNode::SendResult(const rpc::RunnerRequest& request, std::string_view artifact) {
  const bool forges = fate_ == Fate::kForges, is_wrong = fate_ == Fate::kWrong || runner_.damaged;
  if (fate_ == Fate::kBreaksDevice) FailDevice(kBrokenMs);
  if (fate_ == Fate::kDamages) runner_.damaged = true;
  rpc::RunnerResult result{request.run, {}};
  if (Broken()) {
    End("device error");
    result.result.status = TrialStatus::kDeviceError;
    result.result.error = "the device does not answer";
    result.last = request.run % 2 == 0;  // some errors end the runner, too
  } else if (is_wrong) {
    End("wrong answer");
    result.result.status = TrialStatus::kWrongAnswer;
  } else {
    End("ok");
    result.result.status = TrialStatus::kOk;
    result.result.times = {TimeOf(artifact)};
  }
  Perform(session_.OnRunnerMessage({"", result, {}}, world_.now()));
  if (forges) Perform(session_.OnRunnerMessage({"", result, {}}, world_.now()));
}

// --- Clients ---------------------------------------------------------------------------------------------------------

ClientNode::ClientNode(rpc::ClientSession::Options options, World world)
    : world_(std::move(world)),
      session_(std::move(options)),
      alarm_(world_.now, world_.after, [this] { Perform(session_.Wake(world_.now())); }) {}

void ClientNode::Start(std::shared_ptr<const rpc::MeasureJob> job) {
  job_ = job;
  cancelled_ = false;
  answered_.clear();
  places_.clear();
  device_errors_.clear();
  for (size_t i = 0; i < job->candidates.size(); ++i) places_[job->candidates[i].id] = i;
  Perform(session_.Start(std::move(job), world_.now()));
}

void ClientNode::StartCalls(CallPlan plan) {
  calls_ = std::move(plan);
  replies_ = 0;
  calls_failed_ = false;
  NextCalls();
}

// Makes the next calls of the session, or ends it.
void ClientNode::NextCalls() {
  const auto count = static_cast<int64_t>(calls_->fates.size());
  if (calls_failed_ || replies_ == count) {
    const bool closes = calls_->closes;
    calls_.reset();
    if (closes) Close();
    return world_.on_done();
  }
  rpc::CallWork work{.session = calls_->name, .number = replies_ + 1, .seconds = 2};
  // The first one, those between, and the last one.
  if (replies_ == 1) work.count = count - 2;
  work.exclusive = replies_ == count - 1;
  work.body = [calls = *calls_, first = work.number](int64_t index) {
    const int64_t number = first + index;
    return rpc::MakeBlob(calls.name + "/" + std::to_string(number) + calls.fates[static_cast<size_t>(number - 1)]);
  };
  Perform(session_.StartCall(std::move(work), world_.now()));
}

void ClientNode::CheckReply(const rpc::CallReplied& replied) {
  const rpc::CallReply& reply = replied.reply;
  if (!calls_ || reply.session != calls_->name || reply.number != replies_ + 1)
    return world_.violation("answered-once",
                            "a reply to call " + std::to_string(reply.number) + " of " + reply.session);
  ++replies_;
  world_.on_reply(reply.session, reply.number, reply.status);
  const std::string& fate = calls_->fates[static_cast<size_t>(reply.number - 1)];
  const std::string call = reply.session + "/" + std::to_string(reply.number) + fate;
  if (reply.status != TrialStatus::kOk) {
    calls_failed_ = true;
  } else if (!fate.empty() || *replied.body != "reply to " + call) {
    world_.violation("honest-results", call + " got another call's reply");
  }
}

void ClientNode::Cancel() {
  cancelled_ = job_ != nullptr;
  Perform(session_.Cancel(world_.now()));
}

std::vector<std::string> ClientNode::Unanswered() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : places_)
    if (job_ && !answered_.contains(name)) names.push_back(name);
  return names;
}

void ClientNode::OnServer(const Message& message) {
  const auto* report = message.As<rpc::ResultReport>();
  if (report && report->result.status == TrialStatus::kDeviceError && report->result.started > 0 &&
      device_errors_[report->result.candidate].insert(message.request).second) {
    world_.on_device_error(report->result.candidate);
  }
  Perform(session_.On({.roles = {rpc::Role::kServer}}, message, world_.now()));
}

void ClientNode::Check(const TrialResult& result) {
  const std::string& id = result.candidate;
  if (!job_ || !places_.count(id)) return world_.violation("answered-once", id + " is of another job");
  if (!answered_.insert(id).second) world_.violation("answered-once", id + " was answered twice");
  if (result.status == TrialStatus::kInfrastructure) return;
  if (result.status == TrialStatus::kCancelled && cancelled_) return;
  // Two devices that fail while they run a candidate are its fault, whatever else it does.
  if (result.status == TrialStatus::kDeviceError && device_errors_[id].size() >= 2) return;
  const TrialStatus deserved = VerdictOf(FateOf(id));
  if (result.status != deserved) {
    world_.violation("fair-verdicts", id + " deserves " + std::string(ToText(deserved)) + ", not " +
                                          std::string(ToText(result.status)) + " (" + result.error + ")");
  } else if (deserved == TrialStatus::kOk &&
             result.times != std::vector<double>{TimeOf(*job_->artifacts[places_[id]])}) {
    world_.violation("honest-results", id + " was given another's result");
  }
}

void ClientNode::Perform(rpc::ClientActions actions) {
  for (rpc::ClientAction& action : actions) {
    if (auto* ask = std::get_if<rpc::AskTracker>(&action)) {
      world_.to_tracker(ask->message);
    } else if (auto* connect = std::get_if<rpc::ConnectServer>(&action)) {
      world_.connect(connect->endpoints.front());
    } else if (auto* send = std::get_if<rpc::AskServer>(&action)) {
      world_.to_server(send->message);
    } else if (std::get_if<rpc::ConnectUploads>(&action)) {
      world_.connect_uploads();
    } else if (auto* chunk = std::get_if<rpc::AskUploads>(&action)) {
      world_.to_uploads(chunk->message);
    } else if (std::get_if<rpc::DropServer>(&action)) {
      world_.drop_server();
    } else if (auto* event = std::get_if<rpc::FarmEvent>(&action)) {
      world_.on_event(*event);
    } else if (auto* result = std::get_if<rpc::Deliver>(&action)) {
      Check(result->result);
      world_.on_result(result->result);
    } else if (auto* replied = std::get_if<rpc::CallReplied>(&action)) {
      CheckReply(*replied);
    } else if (auto* done = std::get_if<rpc::CallDone>(&action)) {
      calls_failed_ |= done->error.has_value();
      world_.after(1, [this] { NextCalls(); });
    } else if (std::get_if<rpc::JobDone>(&action)) {
      if (answered_.size() != job_->candidates.size())
        world_.violation("progress", "a job ended with unanswered candidates");
      job_.reset();
      world_.on_done();
    }
  }
  alarm_.Set(session_.NextWake());
}

}  // namespace autotune
