// The farm's state machines, which take messages from strangers. An input is a program of up to 500 steps: messages of
// any kind to the tracker, the server's session or the client's session, whose fields have likely and unlikely values;
// messages whose bytes are changed on the way; events of the drivers; time that passes. Whatever happens, the machines
// keep their contracts with their drivers, and answer each candidate at most once.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "rpc/client_session.h"
#include "rpc/server_session.h"
#include "support/check.h"
#include "support/hash.h"
#include "tests/fuzz/target.h"
#include "tracker/tracker_state.h"

namespace autotune {
namespace {

using rpc::Body;
using rpc::From;
using rpc::Id;
using rpc::Message;
using rpc::Role;
using rpc::Roles;

constexpr int kMostSteps = 500;

// Reads numbers from the input; zeros follow its end.
class StepBytes {
 public:
  explicit StepBytes(std::string_view input) : input_(input) {}
  bool empty() const { return input_.empty(); }
  uint8_t Next() {
    if (input_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(input_.front());
    input_.remove_prefix(1);
    return byte;
  }
  int Below(int n) { return Next() % n; }

 private:
  std::string_view input_;
};

// Texts that mean something to the machines, and others.
std::string SomeWord(StepBytes& in) {
  static const std::string kTexts[] = {"id1",      "id2", "id3", "id4",        "id5",         "id6",
                                       "s1",       "i1",  "k",   "c1",         "0",           "1",
                                       "2",        "b1",  "b2",  "",           "k2",          "ipc:///s1",
                                       "s2",       "i2",  "ok",  "lease_lost", "stale_lease", "need_reference",
                                       "timed_out"};
  const int which = in.Next();
  if (which == 255) return std::string(5000, 'x');
  if (which == 254) return "\xff\n";
  return kTexts[static_cast<size_t>(which) % std::size(kTexts)];
}
int64_t SomeNumber(StepBytes& in) {
  static constexpr int64_t kNumbers[] = {0, 1, 2, 3, 4, 100, 1000, 10000, 600000, -1, INT64_MAX, INT64_MIN, 1LL << 53};
  return kNumbers[static_cast<size_t>(in.Below(std::size(kNumbers)))];
}

template <class T>
void FillFrom(T& value, StepBytes& in) {
  if constexpr (HasEnumNames<T>) {
    value = static_cast<T>(in.Below(static_cast<int>(std::size(EnumNames<T>::kNames))));
  } else if constexpr (std::is_same_v<T, bool>) {
    value = in.Below(2) == 1;
  } else if constexpr (std::is_arithmetic_v<T>) {
    value = static_cast<T>(std::is_same_v<T, int> ? SomeNumber(in) % 1000 : SomeNumber(in));
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = SomeWord(in);
  } else if constexpr (HasFields<T>) {
    ForEachField(value, [&](std::string_view, auto& field) { FillFrom(field, in); });
  } else if constexpr (requires { typename T::mapped_type; }) {
    if (in.Below(2)) FillFrom(value[SomeWord(in)], in);
  } else {
    for (int n = in.Below(4); n > 0; --n) FillFrom(value.emplace_back(), in);
  }
}

template <size_t I = 0>
Body SomeBody(size_t kind, StepBytes& in) {
  if constexpr (I + 1 < std::variant_size_v<Body>) {
    if (kind != I) return SomeBody<I + 1>(kind, in);
  }
  std::variant_alternative_t<I, Body> body;
  FillFrom(body, in);
  return body;
}

class FuzzedFarm {
 public:
  explicit FuzzedFarm(StepBytes& in)
      : in_(in), tracker_(TrackerOptions(in), now_), server_(ServerOptions()), client_(ClientOptions(in)) {}

  void Step() {
    switch (in_.Below(16)) {
      case 0:
        return Pass(SomeNumber(in_));
      case 1:
        return Pass(int64_t{100} * in_.Next());
      case 2:
        return ToTracker(SomeMessage());
      case 3:
        return ToServer(SomeMessage());
      case 4:
        return ToClient(SomeMessage());
      case 5:
        return Changed();
      case 6:
      case 7:
        return Runner();
      case 8:
        return Client();
      default:
        return Honest();
    }
  }

 private:
  static std::function<Id()> Ids() {
    return [n = 0]() mutable { return "id" + std::to_string(++n); };
  }
  static TrackerState::Options TrackerOptions(StepBytes& in) {
    TrackerState::Options options;
    options.recovering = in.Below(2) == 1;
    options.new_id = Ids();
    return options;
  }
  static rpc::ServerSession::Options ServerOptions() {
    rpc::ServerSession::Options options{.server = "s1", .incarnation = "i1"};
    options.device.key = "k";
    options.device.endpoint = "ipc:///s1";
    options.new_run = [n = int64_t{0}]() mutable { return ++n; };
    return options;
  }
  static rpc::ClientSession::Options ClientOptions(StepBytes& in) {
    rpc::ClientSession::Options options;
    options.client = options.client_name = "c1";
    options.key = "k";
    options.max_losses = 1 + in.Below(5);
    options.new_id = Ids();
    return options;
  }

  Message SomeMessage() {
    Message message{SomeWord(in_), SomeBody(in_.Next() % std::variant_size_v<Body>, in_), {}};
    for (int n = in_.Below(4); n > 0; --n) message.blobs.push_back(std::make_shared<const std::string>(SomeWord(in_)));
    return OnTheWire(message).value_or(Message{});
  }
  // What arrives: each message that is sent can be decoded, unless its numbers cannot be encoded.
  static std::optional<Message> OnTheWire(const Message& message) {
    auto decoded = rpc::Decode(rpc::Encode(message));
    if (auto* arrived = std::get_if<Message>(&decoded)) return *arrived;
    return std::nullopt;
  }
  From Peer() {
    static const Roles kRoles[] = {rpc::kUnauthenticated, {Role::kServer}, {Role::kClient}, {Role::kTracker}, {}};
    return {.peer = "p" + std::to_string(in_.Below(3)), .roles = kRoles[in_.Below(std::size(kRoles))]};
  }

  void ToTracker(const Message& message) { Take(tracker_.On(Peer(), message, now_)); }
  void ToServer(const Message& message) { Take(server_.On(Peer(), message, now_)); }
  void ToClient(const Message& message) {
    Take(client_.On({.roles = {in_.Below(2) ? Role::kTracker : Role::kServer}}, message, now_));
  }

  // Delivers what the machines have said to each other, in order or not.
  void Honest() {
    if (post_.empty()) return;
    const size_t at = in_.Below(2) ? 0 : static_cast<size_t>(in_.Next()) % post_.size();
    const Letter letter = post_[at];
    if (in_.Below(8) > 0) post_.erase(post_.begin() + static_cast<std::ptrdiff_t>(at));
    const Roles from{letter.from};
    switch (letter.to) {
      case Role::kTracker:
        return Take(tracker_.On({.peer = letter.from == Role::kServer ? "server" : "client", .roles = from},
                                letter.message, now_));
      case Role::kServer:
        return Take(server_.On({.peer = "client", .roles = from}, letter.message, now_));
      default:
        return Take(client_.On({.roles = from}, letter.message, now_));
    }
  }
  // Delivers a message with changed bytes to whoever takes it.
  void Changed() {
    if (post_.empty()) return;
    rpc::Frames frames = rpc::Encode(post_[static_cast<size_t>(in_.Next()) % post_.size()].message);
    for (size_t f = 0; f < 2; ++f) {
      std::string bytes = *frames[f];
      for (int n = in_.Below(3); n > 0; --n) bytes[in_.Next() % bytes.size()] = static_cast<char>(in_.Next());
      frames[f] = std::make_shared<const std::string>(std::move(bytes));
    }
    auto decoded = rpc::Decode(frames);
    if (auto* message = std::get_if<Message>(&decoded)) {
      in_.Below(2) ? ToTracker(*message) : ToServer(*message);
    } else {
      tracker_.OnMalformed();
    }
  }

  void Runner() {
    switch (in_.Below(7)) {
      case 0:
        runner_ready_ = true;
        return Take(server_.OnRunnerReady(now_));
      case 1:
        running_ = runner_ready_ = false;
        return Take(server_.OnRunnerEnd({"was ended", in_.Below(12), in_.Below(2) == 1}, now_));
      case 2:
        running_ = runner_ready_ = false;
        return Take(server_.OnRunnersUnavailable("no runner", now_));
      case 3:
        if (!wants_host_) return;
        wants_host_ = false;
        return Take(server_.OnHostAcquired(now_));
      case 4:
        Take(server_.OnTrackerConnected(now_));
        return Take(client_.OnTrackerConnected(now_));
      case 5:
        in_.Below(2) ? Take(client_.OnServerConnected(now_)) : Take(client_.OnServerDisconnected(now_));
        return;
      default: {
        Message message = SomeMessage();
        if (auto* result = std::get_if<rpc::RunnerResult>(&message.body); result && in_.Below(2)) {
          result->run = run_;
          result->result.status = TrialStatus::kOk;
        }
        if (auto* progress = std::get_if<rpc::RunnerProgress>(&message.body)) progress->run = run_;
        if (auto* outputs = std::get_if<rpc::RunnerReference>(&message.body)) outputs->run = run_;
        if (auto* done = std::get_if<rpc::RunnerResult>(&message.body); done && done->run == run_) running_ = false;
        return Take(server_.OnRunnerMessage(message, now_));
      }
    }
  }

  void Client() {
    switch (in_.Below(4)) {
      case 0:
        return Take(client_.Cancel(now_));
      case 1:
        return in_.Below(4) ? void() : Take(client_.Close(now_));
      default:
        if (client_.HasJob()) return;
        answered_.clear();
        auto job = std::make_shared<rpc::MeasureJob>();
        if (in_.Below(2)) {
          job->reference = std::make_shared<const std::string>("reference");
          job->task.reference_hash = HashBytes128(*job->reference).Hex();
        }
        candidates_ = 1 + in_.Below(4);
        for (int i = 0; i < candidates_; ++i) {
          rpc::Candidate candidate;
          candidate.id = std::to_string(i);
          candidate.blob = in_.Below(8) ? i : in_.Next();
          candidate.check = in_.Below(2) == 1;
          job->candidates.push_back(candidate);
          job->artifacts.push_back(std::make_shared<const std::string>("artifact"));
        }
        return Take(client_.Start(std::move(job), now_));
    }
  }

  // Lets time pass. Each machine is called at the times that it names, or late, as after a stop.
  void Pass(int64_t ms) {
    const int64_t end = now_ + std::clamp<int64_t>(ms, 0, 100000);
    const bool stopped = in_.Below(4) == 0;
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

  void Post(Role from, Role to, const Message& message) {
    const std::optional<Message> arrived = OnTheWire(message);
    CHECK(arrived) << "a machine has sent a message that cannot be decoded: " << std::string(KindOf(message.body));
    CHECK(SendersOf(message.body).Has(from)) << std::string(KindOf(message.body));
    if (post_.size() < 64) post_.push_back({from, to, *arrived});
  }
  void Take(const TrackerState::Output& output) {
    for (const auto& [peer, message] : output) {
      if (peer == "server" || peer == "client")
        Post(Role::kTracker, peer == "server" ? Role::kServer : Role::kClient, message);
    }
    CHECK(tracker_.NextWake() >= 0);
  }
  void Take(const rpc::ServerActions& actions) {
    for (const rpc::ServerAction& action : actions) {
      if (auto* send = std::get_if<rpc::ToPeer>(&action)) {
        Post(Role::kServer, Role::kClient, send->message);
      } else if (auto* report = std::get_if<rpc::ToTracker>(&action)) {
        Post(Role::kServer, Role::kTracker, report->message);
      } else if (std::get_if<rpc::AcquireHost>(&action)) {
        wants_host_ = true;
      } else if (std::get_if<rpc::ReleaseHost>(&action)) {
        wants_host_ = false;
      } else if (auto* start = std::get_if<rpc::StartCandidate>(&action)) {
        CHECK(runner_ready_ && !running_) << "a candidate is started, and no runner is free";
        auto* probe = start->request.As<rpc::RunnerProbe>();
        run_ = probe ? probe->run : start->request.As<rpc::RunnerRequest>()->run;
        running_ = true;
      } else if (std::get_if<rpc::KillRunner>(&action)) {
        running_ = runner_ready_ = false;
      } else if (auto* examine = std::get_if<rpc::ExamineRunner>(&action)) {
        examined_.push_back(examine->run);
      }
    }
    for (const int64_t run : std::exchange(examined_, {}))
      Take(server_.OnRunnerExamined(run, {.cpu_ms = static_cast<double>(in_.Next()) * 100}, now_));
  }
  void Take(const rpc::ClientActions& actions) {
    for (const rpc::ClientAction& action : actions) {
      if (auto* ask = std::get_if<rpc::AskTracker>(&action)) {
        Post(Role::kClient, Role::kTracker, ask->message);
      } else if (auto* send = std::get_if<rpc::AskServer>(&action)) {
        Post(Role::kClient, Role::kServer, send->message);
      } else if (auto* result = std::get_if<rpc::Deliver>(&action)) {
        CHECK(answered_.insert(result->result.candidate).second) << "a candidate is answered twice";
      } else if (std::get_if<rpc::JobDone>(&action)) {
        CHECK(static_cast<int>(answered_.size()) == candidates_) << "a job ends with unanswered candidates";
      }
    }
  }

  struct Letter {
    Role from, to;
    Message message;
  };
  StepBytes& in_;
  int64_t now_ = 1000;
  TrackerState tracker_;
  rpc::ServerSession server_;
  rpc::ClientSession client_;
  std::vector<Letter> post_;  // what the machines have said to each other
  bool runner_ready_ = false, running_ = false, wants_host_ = false;
  int64_t run_ = 0;
  std::vector<int64_t> examined_;
  std::set<std::string> answered_;
  int candidates_ = 0;
};

}  // namespace

FUZZ_TARGET(farm_states) {
  StepBytes in(input);
  FuzzedFarm farm(in);
  for (int step = 0; step < kMostSteps && !in.empty(); ++step) farm.Step();
}

}  // namespace autotune
