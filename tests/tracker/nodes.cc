#include "tests/tracker/nodes.h"

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
  return candidate.back() == 'x' ? Fate::kCrashes : candidate.back() == 'h' ? Fate::kHangs : Fate::kFine;
}

std::shared_ptr<const rpc::MeasureJob> MakeJob(const std::string& prefix, int most, Rng& rng) {
  auto job = std::make_shared<rpc::MeasureJob>();
  for (int64_t i = 0, n = 1 + rng.Below(most); i < n; ++i) {
    rpc::Candidate candidate;
    double luck = rng.Uniform();
    candidate.id = prefix + std::to_string(i) + (luck < 0.05 ? "x" : luck < 0.06 ? "h" : "");
    candidate.blob = static_cast<int>(i);
    candidate.check = false;
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
  world_.after(delay_ms, [this] { Perform(session_.OnRunnerReady(world_.now())); });
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
      running_ = 0;
      RunnerReadyAfter(20);
    } else if (auto* examine = std::get_if<rpc::ExamineRunner>(&action)) {
      world_.after(0, [this, run = examine->run] {
        const auto now = world_.now();  // a runner that hangs has run all the time
        Perform(session_.OnRunnerExamined(run, {.cpu_ms = static_cast<double>(now)}, now));
      });
    }
  }
  alarm_.Set(session_.NextWake());
}

void ServerNode::Execute(const Message& message) {
  const auto& request = *message.As<rpc::RunnerRequest>();
  if (running_) world_.violation("two candidates at once");
  world_.on_start(message);
  int64_t run = running_ = ++runs_;
  Fate fate = FateOf(request.candidate.id);
  if (fate == Fate::kHangs) return;
  world_.after(world_.run_ms(), [this, run, number = request.run, fate, time = TimeOf(*message.blobs.at(0))] {
    if (running_ != run) return;
    running_ = 0;
    if (fate == Fate::kCrashes) {
      Perform(session_.OnRunnerEnd({"was ended by signal 11", 11, false}, world_.now()));
      RunnerReadyAfter(20);
      return;
    }
    rpc::RunnerResult result{number, {}};
    result.result.status = TrialStatus::kOk;
    result.result.times = {time};
    Perform(session_.OnRunnerMessage({"", result, {}}, world_.now()));
  });
}

// --- Clients ---------------------------------------------------------------------------------------------------------

ClientNode::ClientNode(rpc::ClientSession::Options options, World world)
    : world_(std::move(world)),
      session_(std::move(options)),
      alarm_(world_.now, world_.after, [this] { Perform(session_.Wake(world_.now())); }) {}

void ClientNode::Start(std::shared_ptr<const rpc::MeasureJob> job) {
  job_ = job;
  answered_.clear();
  places_.clear();
  for (size_t i = 0; i < job->candidates.size(); ++i) places_[job->candidates[i].id] = i;
  Perform(session_.Start(std::move(job), world_.now()));
}

void ClientNode::Check(const TrialResult& result) {
  const std::string& id = result.candidate;
  if (!job_ || !places_.count(id)) return world_.violation("candidate " + id + " is of another job");
  if (!answered_.insert(id).second) world_.violation("candidate " + id + " answered twice");
  if (result.status == TrialStatus::kInfrastructure) return;
  bool fine = FateOf(id) == Fate::kFine;
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
      world_.connect(connect->endpoint);
    } else if (auto* send = std::get_if<rpc::AskServer>(&action)) {
      world_.to_server(send->message);
    } else if (std::get_if<rpc::DropServer>(&action)) {
      world_.drop_server();
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
