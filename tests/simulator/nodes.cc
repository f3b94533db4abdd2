#include "tests/simulator/nodes.h"

#include <variant>

#include "support/hash.h"

namespace autotune {

using rpc::Message;
using rpc::TrialResult;

namespace {

// Returns the seconds that a device reports for this artifact: a whole number, so that the wire transmits it exactly.
double TimeOf(const std::string& artifact) { return 1 + static_cast<double>(Hash64(artifact) % 1000000007); }

}  // namespace

Fate FateOf(const std::string& candidate) {
  switch (candidate.back()) {
    case 'x':
      return Fate::kCrashes;
    case 'h':
      return Fate::kHangs;
    case 'f':
      return Fate::kForges;
    default:
      return Fate::kFine;
  }
}

std::shared_ptr<const rpc::MeasureJob> MakeJob(const std::string& prefix, int most, Rng& rng) {
  auto job = std::make_shared<rpc::MeasureJob>();
  if (rng.Below(2)) {
    job->reference = std::make_shared<const std::string>("reference of " + prefix.substr(0, prefix.find('.')));
    job->task.reference_hash = HashBytes128(*job->reference).Hex();
    job->task.reference_seconds = 3600;
  }
  for (int64_t i = 0, n = 1 + rng.Below(most); i < n; ++i) {
    rpc::Candidate candidate;
    double luck = rng.Uniform();
    candidate.id = prefix + std::to_string(i) + (luck < 0.05 ? "x" : luck < 0.06 ? "h" : luck < 0.08 ? "f" : "");
    candidate.blob = static_cast<int>(i);
    candidate.check = job->reference != nullptr;
    // Only a candidate that hangs may exceed its deadline, and not one whose thread gets no processor for a while.
    candidate.load_seconds = candidate.run_seconds = FateOf(candidate.id) == Fate::kHangs ? 2 : 3600;
    job->artifacts.push_back(std::make_shared<const std::string>("artifact of " + candidate.id));
    job->candidates.push_back(std::move(candidate));
  }
  return job;
}

// --- Servers ---------------------------------------------------------------------------------------------------------

ServerNode::ServerNode(rpc::ServerSession::Options options, World world)
    : world_(std::move(world)),
      session_(std::move(options)),
      alarm_(world_.now, world_.after, [this] { Perform(session_.Wake(world_.now())); }) {
  RunnerReadyAfter(50);
  alarm_.Set(session_.NextWake());
}

void ServerNode::RunnerReadyAfter(int64_t delay_ms) {
  world_.after(delay_ms, [this, runner = ++runner_] {
    if (runner_ == runner) Perform(session_.OnRunnerReady(world_.now()));
  });
}

// Tells the world, before it tells the session, that the present run is over.
void ServerNode::End(std::string_view status) {
  if (std::exchange(running_, 0)) world_.on_end(status);
}

void ServerNode::KillRunner() {
  End("");
  Perform(session_.OnRunnerEnd({"was ended by signal 9 (Killed)", 9, false}, world_.now()));
  RunnerReadyAfter(20);
}

void ServerNode::LoseRunners(int64_t ms) {
  End("");
  RunnerReadyAfter(ms);
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
      world_.after(1, [this] { Perform(session_.OnHostAcquired(world_.now())); });
    } else if (auto* start = std::get_if<rpc::StartCandidate>(&action)) {
      Execute(start->request);
    } else if (std::get_if<rpc::KillRunner>(&action)) {
      End("killed");
      RunnerReadyAfter(20);
    } else if (auto* examine = std::get_if<rpc::ExamineRunner>(&action)) {
      world_.after(0, [this, run = examine->run] {
        const auto now = world_.now();  // a runner that hangs has run all the time
        Perform(session_.OnRunnerExamined(run, {.cpu_ms = static_cast<double>(now)}, now));
      });
    } else if (auto* event = std::get_if<rpc::FarmEvent>(&action)) {
      if (event->kind == rpc::FarmEvent::Kind::kLeased) lease_ = event->lease;
      world_.on_event(*event);
    }
  }
  alarm_.Set(session_.NextWake());
}

void ServerNode::Execute(const Message& message) {
  if (auto* probe = message.As<rpc::RunnerProbe>()) {
    world_.after(1, [this, run = probe->run] {
      Perform(session_.OnRunnerMessage({"", rpc::RunnerResult{run, {.status = TrialStatus::kOk}}, {}}, world_.now()));
    });
    return;
  }
  if (running_) world_.violation("two candidates at once");
  world_.on_start(message, lease_);
  const int64_t run = running_ = ++runs_;
  if (FateOf(message.As<rpc::RunnerRequest>()->candidate.id) == Fate::kHangs) return;
  world_.after(world_.run_ms(), [this, message, run] { Send(message, run); });
}

// Sends what the runner says of a run: the reference's outputs if it has made them, then the result.
void ServerNode::Send(const Message& message, int64_t run) {
  if (running_ != run) return;
  const auto& request = *message.As<rpc::RunnerRequest>();
  if (FateOf(request.candidate.id) == Fate::kCrashes) {
    End("crashed");
    Perform(session_.OnRunnerEnd({"was ended by signal 11", 11, false}, world_.now()));
    return RunnerReadyAfter(20);
  }
  const auto say = [&](rpc::Body body, std::vector<rpc::Blob> blobs = {}) {
    if (running_ == run) Perform(session_.OnRunnerMessage({"", std::move(body), std::move(blobs)}, world_.now()));
  };
  if (message.blobs.size() == 2) {
    say(rpc::RunnerProgress{request.run, rpc::RunnerPhase::kReference});
    say(rpc::RunnerReference{request.run}, {message.blobs[1]});
  }
  if (request.candidate.check) say(rpc::RunnerProgress{request.run, rpc::RunnerPhase::kRun});
  if (running_ != run) return;
  End("ok");
  rpc::RunnerResult result{request.run, {}};
  result.result.status = TrialStatus::kOk;
  result.result.times = {TimeOf(*message.blobs.at(0))};
  Perform(session_.OnRunnerMessage({"", result, {}}, world_.now()));
  if (FateOf(request.candidate.id) == Fate::kForges) Perform(session_.OnRunnerMessage({"", result, {}}, world_.now()));
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
  for (size_t i = 0; i < job->candidates.size(); ++i) places_[job->candidates[i].id] = i;
  Perform(session_.Start(std::move(job), world_.now()));
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

void ClientNode::Check(const TrialResult& result) {
  const std::string& id = result.candidate;
  if (!job_ || !places_.count(id)) return world_.violation("candidate " + id + " is of another job");
  if (!answered_.insert(id).second) world_.violation("candidate " + id + " answered twice");
  if (result.status == TrialStatus::kInfrastructure) return;
  if (result.status == TrialStatus::kCancelled && cancelled_) return;
  const bool fine = FateOf(id) == Fate::kFine || FateOf(id) == Fate::kForges;
  // The runners of these tests never report that they have loaded a candidate, so a crash counts as a failure to load.
  if (result.status != (fine ? TrialStatus::kOk : TrialStatus::kLoadFailed)) {
    world_.violation("candidate " + id + " was blamed: " + std::string(ToText(result.status)));
  } else if (fine && result.times != std::vector<double>{TimeOf(*job_->artifacts[places_[id]])}) {
    world_.violation("candidate " + id + " was given another's result");
  }
}

void ClientNode::Perform(rpc::ClientActions actions) {
  for (rpc::ClientAction& action : actions) {
    if (auto* ask = std::get_if<rpc::AskTracker>(&action)) {
      world_.to_tracker(ask->message);
    } else if (auto* connect = std::get_if<rpc::ConnectServer>(&action)) {
      lease_ = granted_;
      polite_ = false;
      world_.connect(connect->endpoint);
    } else if (auto* send = std::get_if<rpc::AskServer>(&action)) {
      polite_ |= send->message.As<rpc::LeaseEnd>() != nullptr;
      world_.to_server(send->message);
    } else if (std::get_if<rpc::DropServer>(&action)) {
      world_.drop_server();
      if (!polite_) world_.on_dropped(lease_);
    } else if (auto* result = std::get_if<rpc::Deliver>(&action)) {
      Check(result->result);
      world_.on_result(result->result);
    } else if (std::get_if<rpc::JobDone>(&action)) {
      if (answered_.size() != job_->candidates.size()) world_.violation("a job ended with unanswered candidates");
      job_.reset();
      world_.on_done();
    }
  }
  alarm_.Set(session_.NextWake());
}

}  // namespace autotune
