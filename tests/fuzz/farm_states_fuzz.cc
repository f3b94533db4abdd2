// The farm's state machines, which take messages from strangers. An input is a program of up to 500 messages to the
// tracker, the server's session and the client's session: those that the machines send to each other, delivered in any
// order, altered or broken, and those of strangers (farm_messages.h). Between them, the drivers' events happen and time
// passes. Whatever happens, the machines keep their contracts with their drivers, and answer each candidate at most
// once.
// Covers at least 95 % of the lines of rpc/message.h rpc/message.cc rpc/from.h rpc/from.cc rpc/limits.h
// rpc/check_measure.cc rpc/client_batch.cc rpc/client_calls.cc rpc/client_session.cc rpc/client_timers.cc
// rpc/server_batch.cc rpc/server_calibration.cc rpc/server_calls.cc rpc/server_quarantine.cc rpc/server_session.cc
// rpc/server_upload.cc rpc/upload.cc
// tracker/tracker_dials.cc tracker/tracker_holds.cc tracker/tracker_members.cc tracker/tracker_state.cc
// tracker/tracker_status.cc tracker/tracker_timers.cc
#include <csignal>
#include <deque>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "rpc/client_session.h"
#include "rpc/server_session.h"
#include "support/check.h"
#include "tests/fuzz/farm_messages.h"
#include "tests/fuzz/farm_options.h"
#include "tests/fuzz/message_count.h"
#include "tests/fuzz/target.h"
#include "tracker/tracker_state.h"

namespace autotune {
namespace {

using fuzz::kOfClient;
using fuzz::kOfRunner;
using fuzz::kOfServer;
using fuzz::kOfTracker;
using fuzz::MessageMaker;
using fuzz::StepBytes;
using rpc::From;
using rpc::Message;
using rpc::Role;
using rpc::Roles;

constexpr int kMostMessages = 500;
// One of this many messages of the machines is encoded and decoded [chosen]: that would take most of the time.
constexpr int kPerEncoded = 16;

class FuzzedFarm {
 public:
  explicit FuzzedFarm(StepBytes& in)
      : in_(in),
        maker_(in),
        tracker_(TrackerOptions(in.OneIn(2), {}, {}), now_),
        server_(fuzz::ServerOptions(in_)),
        client_(fuzz::ClientOptions(in_)) {}

  int messages() const { return messages_; }
  void Step() {
    switch (in_.Below(16)) {
      case 0:
        return Pass(in_.OneIn(4) ? maker_.SomeNumber() : int64_t{100} * in_.Next());
      case 1:
        return Pass(int64_t{10} * in_.Next());
      case 2:
        return ToTracker(Stranger(), SomeMessage(kOfTracker));
      case 3:
        return ToServer(Stranger(), SomeMessage(kOfServer));
      case 4:
        return ToClient(SomeMessage(kOfClient));
      case 5:
        return Receive(maker_.Broken(SomeLetter()));
      case 6:
        return Altered();
      case 7:
        return Runner();
      case 8:
        return Client();
      case 9:
        return Drivers();
      case 10:
        return Deliver(post_.empty() ? 0 : in_.Next() % post_.size(), in_.OneIn(2));
      case 11:
        return running_ ? Hang() : GoWell();
      default:
        return GoWell();
    }
  }

 private:
  TrackerState::Options TrackerOptions(bool recovering, std::map<std::string, int64_t> keys,
                                       std::vector<rpc::DeviceHold> holds) {
    TrackerState::Options options;
    options.epoch = ++starts_;
    options.recovering = recovering;
    options.keys = std::move(keys);
    options.holds = std::move(holds);
    options.forget_ms = 60000;  // these times are shorter than those of a tracker, so that more happens
    options.quantum_ms = 2000;
    options.yield_ms = 1000;
    options.new_id = fuzz::Ids("lease" + std::to_string(starts_) + "-");
    options.on_event = [](const rpc::FarmEvent& event) { CHECK(!Text(event).empty()); };
    options.send = [this](const rpc::Peer& peer, const Message& message) { FromTracker(peer, message); };
    return options;
  }
  // --- Messages ---

  struct Letter {
    Role from, to;
    Message message;
    bool uploads = false;  // over the client's second connection
  };
  // What arrives: each message that is sent can be decoded.
  static std::optional<Message> OnTheWire(const rpc::Frames& frames) {
    auto decoded = rpc::Decode(frames);
    if (auto* arrived = std::get_if<Message>(&decoded)) return std::move(*arrived);
    return std::nullopt;
  }
  // What arrives of a message that a machine or a runner has sent.
  Message Arrived(Message message) {
    if (sent_++ % kPerEncoded != 0) return message;
    const std::optional<Message> arrived = OnTheWire(rpc::Encode(message));
    CHECK(arrived) << "a machine has sent what cannot be decoded: " << std::string(KindOf(message.body));
    return *arrived;
  }
  // A message of one of these kinds, or of any kind.
  Message SomeMessage(std::span<const size_t> kinds = {}) {
    const size_t kind = in_.Next();
    const Message message = maker_.Plausible(kinds.empty() || kind >= 224 ? kind : kinds[kind % kinds.size()]);
    return OnTheWire(rpc::Encode(in_.OneIn(2) ? message : maker_.Altered(message, 32))).value_or(Message{});
  }
  // A message that was sent, or another one.
  Message SomeLetter() { return post_.empty() ? SomeMessage() : post_[in_.Next() % post_.size()].message; }
  From Stranger() {
    static const Roles kRoles[] = {rpc::kUnauthenticated, {Role::kServer}, {Role::kClient}, {Role::kTracker}, {}};
    const size_t which = in_.Next();
    From from{.peer = which % 8 == 7 ? "client" : "p" + std::to_string(which % 8),
              .roles = kRoles[which < 192 ? 0 : which % std::size(kRoles)]};
    if (which % 4 == 2) from.identity = from.name = which % 8 == 2 ? "ann" : "bob";
    return from;
  }

  void ToTracker(const From& from, const Message& message) {
    ++messages_;
    Take(tracker_.On(from, message, now_));
  }
  void ToServer(const From& from, const Message& message) {
    ++messages_;
    Take(server_.On(from, message, now_));
  }
  void ToClient(const Message& message) {
    ++messages_;
    const bool of_tracker = SendersOf(message.body).Has(Role::kTracker) && in_.Below(8) > 0;
    Take(client_.On({.roles = {of_tracker ? Role::kTracker : Role::kServer}}, message, now_));
  }
  void Receive(const rpc::Frames& frames) {
    if (const std::optional<Message> message = OnTheWire(frames)) return ToAnyone(*message);
    ++messages_;
    tracker_.OnMalformed();
  }
  void ToAnyone(const Message& message) {
    switch (in_.Below(3)) {
      case 0:
        return ToTracker(Stranger(), message);
      case 1:
        return ToServer(Stranger(), message);
      default:
        return ToClient(message);
    }
  }
  // A letter that somebody has changed, to the one for whom it was or to another one.
  void Altered() {
    if (post_.empty()) return;
    const Letter letter = post_[in_.Next() % post_.size()];
    const std::optional<Message> message = OnTheWire(rpc::Encode(maker_.Altered(letter.message, 64)));
    if (!message) return;
    in_.OneIn(4) ? ToAnyone(*message) : Arrive(letter, *message);
  }
  // A message like that of the letter arrives.
  void Arrive(const Letter& letter, const Message& message) {
    const Roles from{letter.from};
    switch (letter.to) {
      case Role::kTracker:
        return ToTracker({.peer = letter.from == Role::kServer ? "server" : "client", .roles = from}, message);
      case Role::kServer:
        return ToServer({.peer = letter.uploads ? "uploads" : "client", .roles = from}, message);
      default:
        ++messages_;
        return Take(client_.On({.roles = from}, message, now_));
    }
  }
  void Deliver(size_t at, bool again) {
    if (post_.empty()) return;
    Letter letter = again ? post_[at] : std::move(post_[at]);
    if (!again) post_.erase(post_.begin() + static_cast<std::ptrdiff_t>(at));
    Arrive(letter, Arrived(std::move(letter.message)));
  }
  // Nothing goes wrong for a while.
  void GoWell() {
    const size_t steps = in_.Below(16);
    for (size_t n = 0; n < steps; ++n) {
      if (IsIdle() && n % 4 == 1) next_calls_ ? StartCalls() : StartJob();
      Deliver(0, false);
      if (!runner_ready_ && !running_) RunnerReady();
      if (wants_host_) HostAcquired();
      if (running_ && n % 2 == 1 && n + 2 < steps) Measure();
    }
    Pass(100);
  }

  // --- Events of the drivers ---

  void RunnerReady() {
    runner_ready_ = true;
    Take(server_.OnRunnerReady(now_));
  }
  void RunnerGone() { running_ = runner_ready_ = false; }
  void HostAcquired() {
    wants_host_ = false;
    Take(server_.OnHostAcquired("", now_));
  }
  void FromRunner(rpc::Body body, std::vector<rpc::Blob> blobs = {}) {
    ++messages_;
    Take(server_.OnRunnerMessage(Arrived({"", std::move(body), std::move(blobs)}), now_));
  }
  // The runner does what it was asked to do.
  void Measure() {
    constexpr size_t kStatuses = std::size(EnumNames<TrialStatus>::kNames);
    const int64_t run = run_;
    const size_t how = in_.Next();
    const auto status = how < 192 ? TrialStatus::kOk : static_cast<TrialStatus>(how % kStatuses);
    if (in_.OneIn(2)) FromRunner(rpc::RunnerProgress{run, rpc::RunnerPhase::kReference});
    if (in_.OneIn(4)) FromRunner(rpc::RunnerReference{run}, {fuzz::SomeBlob(in_)});
    if (in_.OneIn(2)) FromRunner(rpc::RunnerProgress{run, rpc::RunnerPhase::kRun});
    if (run != run_ || !running_) return;
    running_ = false;
    std::vector<rpc::Blob> reply;
    if (std::exchange(calls_, false) && status == TrialStatus::kOk) reply.push_back(fuzz::SomeBlob(in_));
    rpc::RunnerResult result{run};
    result.result.status = status;
    result.result.times = {1e-3};
    if (status != TrialStatus::kOk) result.result.error = in_.OneIn(2) ? "it failed" : "";
    result.last = status == TrialStatus::kDeviceError && in_.OneIn(2);
    FromRunner(result, std::move(reply));
  }
  // The runner works on, perhaps until its deadline.
  void Hang() {
    if (in_.OneIn(2)) FromRunner(rpc::RunnerProgress{run_, static_cast<rpc::RunnerPhase>(in_.Below(3))});
    Pass(int64_t{200} * in_.Next());
  }
  void Runner() {
    switch (in_.Below(8)) {
      case 0:
        return runner_ready_ ? void() : RunnerReady();
      case 1: {
        static constexpr int kSignals[] = {0, SIGSEGV, SIGILL, SIGKILL};
        RunnerGone();
        return Take(server_.OnRunnerEnd({"was ended", kSignals[in_.Below(4)], in_.OneIn(4)}, now_));
      }
      case 2:
        RunnerGone();
        return Take(server_.OnRunnersUnavailable("no runner", now_));
      case 3:
      case 4: {
        const Message message = SomeMessage(kOfRunner);
        if (auto* done = message.As<rpc::RunnerResult>(); done && done->run == run_) running_ = false;
        ++messages_;
        return Take(server_.OnRunnerMessage(message, now_));
      }
      default:
        if (running_) Measure();
    }
  }
  void Drivers() {
    switch (in_.Below(12)) {
      case 10:
        return Take(client_.OnUploadsConnected(now_));
      case 11:
        return Take(tracker_.RevokeMember(in_.OneIn(2) ? "ann" : "bob", now_));
      case 0:
        return wants_host_ ? HostAcquired() : void();
      case 1:
        return Take(server_.OnTrackerConnected(now_));
      case 2:
        return Take(client_.OnTrackerConnected(now_));
      case 3:
        return Take(client_.OnServerConnected(now_));
      case 4:
        return Take(client_.OnServerDisconnected(now_));
      case 5:
        return Take(tracker_.OnUnreachable(in_.OneIn(2) ? "server" : Stranger().peer, now_));
      case 6:
        return Take(tracker_.FailKey("k", "it is given up", now_));
      case 7:  // the tracker is restarted
        tracker_ =
            TrackerState(TrackerOptions(in_.Below(4) > 0, tracker_.KeyAges(now_), tracker_.CurrentHolds(now_)), now_);
        return;
      case 8:  // the server ends, perhaps after what it runs, and is restarted
        Take(in_.OneIn(2) ? server_.OnShutdown(now_) : server_.EndNow(now_));
        if (!server_.HasEnded()) return;
        RunnerGone();
        wants_host_ = false;
        server_ = rpc::ServerSession(fuzz::ServerOptions(in_));
        return;
      default:
        (void)tracker_.Status(in_.OneIn(2) ? "k" : "", now_);
        CHECK(server_.KeptBytes() <= 2 * rpc::kMostPackedBytes) << "a server keeps more than a batch";
    }
  }

  void Client() {
    switch (in_.Below(8)) {
      case 0:
        return Take(client_.Cancel(now_));
      case 1:
        return Take(client_.Close(now_));
      case 2:
        return ToServer(in_.OneIn(2) ? From{.peer = "client", .roles = {Role::kClient}} : Stranger(),
                        maker_.Plausible(fuzz::KindIndex<rpc::Call>()));
      case 3:
        return ToClient(maker_.Plausible(fuzz::KindIndex<rpc::CallReply>()));
      case 4:
      case 5:
        return IsIdle() ? StartCalls() : void();
      default:
        if (IsIdle()) StartJob();
    }
  }
  bool IsIdle() const { return !client_.HasJob() && !calling_; }
  // Begins a session of calls, or makes the next ones of it.
  void StartCalls() {
    if (next_calls_ == 0) next_calls_ = 1, ++sessions_;
    calling_ = true;
    rpc::CallWork work{.session = "session" + std::to_string(sessions_), .number = next_calls_};
    work.count = next_calls_ == 1 ? 1 : 1 + static_cast<int64_t>(in_.Below(24));
    work.seconds = static_cast<double>(1 + in_.Below(8));
    work.exclusive = in_.OneIn(4);
    work.body = [](int64_t) { return rpc::MakeBlob("call"); };
    Take(client_.StartCall(std::move(work), now_));
  }
  void StartJob() {
    answered_.clear();
    auto job = std::make_shared<rpc::MeasureJob>();
    if (in_.Below(4) > 0) {
      job->reference = in_.Below(4) > 0 ? rpc::MakeBlob("reference") : fuzz::SomeBlob(in_);
      job->task.reference_hash = HashBytes128(*job->reference).Hex();
      job->task.reference_seconds = in_.OneIn(8) ? 1e9 : 5;
    }
    job->task.integers = in_.OneIn(4);
    candidates_ = in_.OneIn(16) ? 1 + in_.Next() : 1 + in_.Below(4);
    for (size_t i = 0; i < candidates_; ++i) {
      rpc::Candidate candidate;
      candidate.id = std::to_string(i);
      if (in_.OneIn(32)) candidate.id += std::string(300, 'x');
      candidate.blob = static_cast<int>(in_.OneIn(32) ? in_.Next() : i);
      candidate.check = in_.Below(4) > 0;
      candidate.load_seconds = candidate.run_seconds = static_cast<double>(1 + in_.Below(8));
      job->candidates.push_back(candidate);
      job->artifacts.push_back(fuzz::SomeBlob(in_));
    }
    Take(client_.Start(std::move(job), now_));
  }

  // Lets time pass. Each machine is called at the times that it names, or late, as after a stop.
  void Pass(int64_t ms) {
    const int64_t end = now_ + std::clamp<int64_t>(ms, 0, 100000);
    const bool stopped = in_.OneIn(8);
    while (true) {
      const int64_t at = std::min({tracker_.NextWake(), server_.NextWake(), client_.NextWake()});
      if (at > end) break;
      now_ = std::max(now_, stopped ? end : at);
      if (tracker_.NextWake() <= now_) Take(tracker_.Wake(now_));
      if (server_.NextWake() <= now_) Take(server_.Wake(now_));
      if (client_.NextWake() <= now_) Take(client_.Wake(now_));
    }
    now_ = end;
  }

  // --- What the machines do ---

  void Post(Role from, Role to, const Message& message, bool uploads = false) {
    constexpr size_t kMost = 64;
    CHECK(SendersOf(message.body).Has(from)) << std::string(KindOf(message.body));
    if (post_.size() >= kMost) return;  // lost
    maker_.Remember(message);
    post_.push_back({from, to, message, uploads});
  }
  void FromTracker(const rpc::Peer& peer, const Message& message) {
    if (peer == "server" || peer == "client") {
      Post(Role::kTracker, peer == "server" ? Role::kServer : Role::kClient, message);
    } else {
      maker_.Remember(message);
    }
  }
  void Take(const TrackerState::Dials& dials) {
    for (const TrackerState::Dial& dial : dials) {
      if (dial.endpoints.empty() || in_.Below(4) == 0) continue;
      const rpc::Id who = in_.Below(4) ? rpc::PublicId(dial.server) : "another";
      Take(tracker_.OnDialAnswer(dial, {"", rpc::Pong{"", who}, {}}, now_));
    }
    CHECK(tracker_.NextWake() >= 0);
  }
  void Take(const rpc::ServerActions& actions) {
    for (const rpc::ServerAction& action : actions) {
      if (auto* send = std::get_if<rpc::ToPeer>(&action)) {
        if (send->peer == "client" || send->peer == "uploads") Post(Role::kServer, Role::kClient, send->message);
      } else if (auto* report = std::get_if<rpc::ToTracker>(&action)) {
        Post(Role::kServer, Role::kTracker, report->message);
      } else if (std::get_if<rpc::AcquireHost>(&action)) {
        wants_host_ = true;
      } else if (std::get_if<rpc::ReleaseHost>(&action)) {
        wants_host_ = false;
      } else if (auto* start = std::get_if<rpc::StartCandidate>(&action)) {
        CHECK(runner_ready_ && !running_) << "a candidate is started, and no runner is free";
        auto* probe = start->request.As<rpc::RunnerProbe>();
        auto* call = start->request.As<rpc::RunnerCall>();
        calls_ = call != nullptr;
        run_ = probe ? probe->run : call ? call->run : start->request.As<rpc::RunnerRequest>()->run;
        maker_.Remember(start->request);
        running_ = true;
      } else if (std::get_if<rpc::KillRunner>(&action)) {
        RunnerGone();
      } else if (auto* examine = std::get_if<rpc::ExamineRunner>(&action)) {
        examined_.push_back(examine->run);
      } else if (auto* event = std::get_if<rpc::FarmEvent>(&action)) {
        CHECK(!Text(*event).empty());
      }
    }
    for (const int64_t run : std::exchange(examined_, {})) {
      // The processor time and the wait for a processor since the runner's start, which never shrink.
      cpu_ms_ += static_cast<double>(in_.Next()) * 20;
      waited_ms_ += static_cast<double>(in_.Next()) * 20;
      stopped_ms_ += in_.OneIn(4) ? static_cast<double>(in_.Next()) * 20 : 0;
      Take(server_.OnRunnerExamined(run, {in_.OneIn(8), cpu_ms_, waited_ms_, stopped_ms_}, now_));
    }
  }
  void Take(const rpc::ClientActions& actions) {
    bool connects = false;
    for (const rpc::ClientAction& action : actions) {
      if (auto* ask = std::get_if<rpc::AskTracker>(&action)) {
        Post(Role::kClient, Role::kTracker, ask->message);
      } else if (auto* send = std::get_if<rpc::AskServer>(&action)) {
        Post(Role::kClient, Role::kServer, send->message);
      } else if (std::get_if<rpc::ConnectUploads>(&action)) {
        connects = true;
      } else if (auto* chunk = std::get_if<rpc::AskUploads>(&action)) {
        Post(Role::kClient, Role::kServer, chunk->message, true);
      } else if (auto* result = std::get_if<rpc::Deliver>(&action)) {
        CHECK(answered_.insert(result->result.candidate).second) << "a candidate is answered twice";
      } else if (auto* replied = std::get_if<rpc::CallReplied>(&action)) {
        CHECK(calling_ && replied->reply.number == next_calls_) << "replies come out of order";
        next_calls_ = replied->reply.status == TrialStatus::kOk ? next_calls_ + 1 : 0;
      } else if (auto* done = std::get_if<rpc::CallDone>(&action)) {
        calling_ = false;
        if (done->error) next_calls_ = 0;
      } else if (std::get_if<rpc::JobDone>(&action)) {
        CHECK(answered_.size() == candidates_) << "a job ends with unanswered candidates";
      }
    }
    if (connects) Take(client_.OnUploadsConnected(now_));
  }

  StepBytes& in_;
  MessageMaker maker_;
  int64_t now_ = 1000, starts_ = 0;
  TrackerState tracker_;
  rpc::ServerSession server_;
  rpc::ClientSession client_;
  std::deque<Letter> post_;  // what the machines have said to each other
  bool runner_ready_ = false, running_ = false, wants_host_ = false;
  int64_t run_ = 0;
  double cpu_ms_ = 0, waited_ms_ = 0, stopped_ms_ = 0;
  std::vector<int64_t> examined_;
  std::set<std::string> answered_;
  size_t candidates_ = 0;
  bool calls_ = false;                     // what runs is a call
  bool calling_ = false;                   // the client waits for replies
  int64_t next_calls_ = 0, sessions_ = 0;  // number of the client's next call; 0: it has no session
  int messages_ = 0, sent_ = 0;
};

}  // namespace

FUZZ_TARGET(farm_states) {
  StepBytes in(input);
  FuzzedFarm farm(in);
  while (farm.messages() < kMostMessages && !in.empty()) farm.Step();
  fuzz::CountMessages(farm.messages());
}

}  // namespace autotune
