#include "tracker/tracker.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "rpc/event_file.h"
#include "rpc/reach.h"
#include "rpc/transport.h"
#include "rpc/wake_timer.h"
#include "support/clock.h"
#include "support/clock_text.h"
#include "support/file.h"
#include "support/file_watch.h"
#include "support/hint.h"
#include "support/join.h"
#include "support/json.h"
#include "support/log.h"
#include "support/state_folder.h"
#include "support/unique_fd.h"
#include "tracker/members.h"
#include "tracker/status_answers.h"
#include "tracker/tracker_state.h"

namespace autotune {
namespace {

struct SavedHold {
  std::string pattern, how, note, who;
  int64_t until = 0;  // ms since 1970; 0: until it is ended
  AUTOTUNE_FIELDS(pattern, how, note, who, until)
};
struct SavedState {
  int64_t epoch = 0;                    // epoch of the latest start
  std::map<std::string, int64_t> keys;  // keys that servers offered -> time of the latest report, ms since 1970
  std::vector<SavedHold> holds;
  std::vector<KnownBoard> boards;
  AUTOTUNE_FIELDS(epoch, keys, holds, boards)
};

Result<SavedState> ReadState(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return SavedState{};
  Json json = TRY_NOTE(Json::Parse(TRY(ReadFile(path))), "in the tracker's state file " + path);
  const SavedState state = TRY_NOTE(FromJson<SavedState>(json), "in the tracker's state file " + path);
  if (state.epoch < 0 || state.epoch >= INT64_MAX / 2)
    return Err("the tracker's state file ", path, " holds the impossible epoch ", state.epoch, "; delete the file");
  return state;
}

// Stores the state on the disk, so that the next start takes a later epoch even after a crash of the machine.
Status WriteState(const std::string& path, const SavedState& state) {
  Status written = ReplaceFileDurably(path, ToJson(state).Dump() + "\n");
  if (written.ok()) return {};
  return WithHint(Err("cannot store the tracker's state: ", written.error().Text()),
                  "name another folder with --state");
}

std::string StateFile(const std::string& folder) { return folder + "/state.json"; }

// Makes the folder and locks it, since two trackers with one epoch would grant the same tokens.
Result<UniqueFd> LockFolder(const std::string& folder) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(folder, ignored))
    return WithHint(Err("the state of a tracker is a folder, but ", folder, " is a file"),
                    "name a folder with --state");
  TRY(MakePrivateFolder(folder));
  const std::string path = folder + "/lock";
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return Err("cannot write ", path, ": ", strerror(errno));
  if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  return WithHint(Err("another tracker uses the state folder ", folder), "name another one with --state");
}

// Returns the addresses of this host at which others reach a tracker that listens at these.
std::vector<std::string> Advertised(const std::vector<std::string>& bound) {
  std::vector<std::string> endpoints;
  for (const std::string& endpoint : bound) {
    const std::vector<std::string> reachable = rpc::ReachableEndpoints(endpoint);
    endpoints.insert(endpoints.end(), reachable.begin(), reachable.end());
  }
  return endpoints;
}

// Returns the holds that are not over yet.
std::vector<rpc::DeviceHold> HoldsOf(const SavedState& saved) {
  std::vector<rpc::DeviceHold> holds;
  for (const SavedHold& hold : saved.holds) {
    const bool is_hold = hold.how == rpc::hold::kDrain || hold.how == rpc::hold::kLock;
    const int64_t left = hold.until == 0 ? 0 : hold.until - WallMillis();
    if (!rpc::IsPattern(hold.pattern) || !is_hold || left < 0 || holds.size() >= rpc::kMostHolds) continue;
    holds.push_back({hold.pattern, hold.how, hold.until == 0 ? 0 : std::max<int64_t>(1, left), hold.note, hold.who});
  }
  return holds;
}

// Says for the log how the list of members has changed, and `by` whom.
std::vector<std::string> ChangesOf(const Members& before, const Members& now, const std::string& by) {
  std::vector<std::string> lines;
  for (const rpc::Member& member : now.members) {
    const auto old = std::ranges::find(before.members, member.name, &rpc::Member::name);
    const std::string who = member.name + " (" + member.role + ")";
    if (old == before.members.end()) {
      lines.push_back("member " + who + " was invited " + by);
    } else if (old->public_key != member.public_key) {
      lines.push_back("member " + who + " was invited again " + by + "; the earlier join file or token is void");
    }
  }
  for (const rpc::Member& member : before.members) {
    if (std::ranges::find(now.members, member.name, &rpc::Member::name) == now.members.end())
      lines.push_back("member " + member.name + " (" + member.role + ") was revoked " + by);
  }
  if (now.next_at != 0 && before.next_at != now.next_at) {
    lines.push_back("a next key of the tracker replaces the present one at " + MomentText(now.next_at, WallMillis()) +
                    "; members that connect until then learn it");
  }
  if (before.keys.public_key != now.keys.public_key)
    lines.push_back("the tracker has another key now; a member that has not learned it needs a new join file");
  return lines;
}

}  // namespace

struct Tracker::Impl {
  Impl(Loop& loop, const TrackerOptions& options, TrackerState::Options state)
      : loop(loop),
        options(options),
        state(WithCalls(std::move(state)), BootMillis()),
        timer(loop, [this] { Perform(this->state.Wake(Now())); }),
        answers(loop, {.look = [this] { return this->state.WholeStatus(BootMillis()); },
                       .send = [this](const StatusQuestion& question,
                                      const rpc::Frames& answer) { SendStatus(question, answer); }}) {}

  TrackerState::Options WithCalls(TrackerState::Options given) {
    given.send = [this](const rpc::Peer& peer, const rpc::Message& message) { Emit(peer, message); };
    given.save = [this] {
      if (!options.state_folder.empty()) Save();
    };
    given.dial_trouble = [this](const rpc::Id& server) { return TroubleOf(server); };
    given.on_event = [this](rpc::FarmEvent event) {
      event_file->Write(event, input_at);
      if (options.on_event) untold.push_back(std::move(event));
    };
    return given;
  }
  // Begins an input of the state, and returns its time. Events have happened then, before the messages that they cause.
  int64_t Now() {
    input_at = WallMillis();
    return BootMillis();
  }
  // Sends a message of the state.
  void Emit(const rpc::Peer& peer, const rpc::Message& message) {
    if (held) {
      held->emplace_back(peer, message);
      return;
    }
    if (Send(peer, message) == rpc::Sent::kGone) gone.push_back(peer);  // one whose queue is full is alive, asks again
    // ZeroMQ's thread, which sends the grant, often waits for this thread's processor. It then runs before the books.
    if (message.As<rpc::LeaseGranted>()) std::this_thread::yield();
  }
  // Ends an input of the state: does what has come of it and has not been done yet.
  void Perform(const TrackerState::Dials& dialled) {
    for (const TrackerState::Dial& dial : dialled) Do(dial);
    // The state may send further messages, to peers that have left as well.
    while (!gone.empty()) {
      for (const rpc::Peer& peer : std::exchange(gone, {}))
        for (const TrackerState::Dial& dial : state.OnUnreachable(peer, Now())) Do(dial);
    }
    // Waits a little, so that many changes in a short time are one write. A lost epoch is learned again from a server.
    constexpr int64_t kDelay = 200;  // milliseconds
    if (state.changes() != saved_changes && !options.state_folder.empty() && !save)
      save = loop.After(kDelay, [this] { Save(); });
    timer.Set(state.NextWake());
    // The log waits until this thread has slept. Before, it would keep the processor from ZeroMQ's thread, which sends
    // the answers.
    constexpr int64_t kLogDelay = 1;  // milliseconds
    if (!untold.empty() && !tell) tell = loop.After(kLogDelay, [this] { Tell(); });
  }
  void Tell() {
    tell.reset();
    for (rpc::FarmEvent& event : std::exchange(untold, {})) options.on_event(std::move(event));
  }

  void Do(const TrackerState::Dial& dial) {
    dials.erase(dial.server);
    if (dial.endpoints.empty()) return;
    rpc::DealerSocket::Handlers handlers;
    handlers.on_connected = [this, server = dial.server] { dials.at(server).socket->Send({"", rpc::Ping{}, {}}); };
    handlers.on_message = [this, dial](const rpc::Message& answer) {
      // The answer ends the connection, which must not end inside its own call.
      loop.Post([this, alive = std::weak_ptr(alive), dial, answer] {
        if (alive.expired()) return;
        Perform(state.OnDialAnswer(dial, answer, Now()));
        if (options.on_message) options.on_message();
      });
    };
    // An address to which this host cannot connect gets no answer, which the state notices.
    if (auto connected = rpc::DealerSocket::Connect(loop, rpc::Address(dial.endpoints, dial.public_key, members.keys),
                                                    std::move(handlers), rpc::DealerSocket::Peers::kStranger);
        connected.ok())
      dials[dial.server].socket = std::move(*connected);
    // A server that can be reached answers within this time. [chosen]
    constexpr int64_t kUsualMs = 1000;
    dials[dial.server].look =
        loop.After(kUsualMs, [this, dial] { dials.at(dial.server).reach = rpc::Reach::Begin(dial.endpoints); });
  }
  // Says what has come of a dial so far, for the operators.
  std::string TroubleOf(const rpc::Id& server) const {
    const auto dial = dials.find(server);
    return dial == dials.end() || !dial->second.reach ? "" : dial->second.reach->Text();
  }

  void Save() {
    save.reset();
    if (Status written = Write(); !written) Log(LogLevel::kError, written.error().Text());
  }

  Status Write() {
    saved_changes = state.changes();
    SavedState saved{
        .epoch = state.epoch(), .keys = state.KeyAges(BootMillis()), .holds = {}, .boards = state.Boards()};
    for (auto& [key, time] : saved.keys) time = WallMillis() - time;
    for (const rpc::DeviceHold& hold : state.CurrentHolds(BootMillis())) {
      const int64_t until = hold.for_ms == 0 ? 0 : WallMillis() + hold.for_ms;
      saved.holds.push_back({hold.pattern, hold.how, hold.note, hold.who, until});
    }
    return WriteState(StateFile(options.state_folder), saved);
  }

  // --- Sockets: one for ipc, one for TCP. The first byte of a peer says over which of them it is connected. ---
  template <class T>
  rpc::Sent Send(const rpc::Peer& peer, const T& message) {
    return sockets.at(static_cast<size_t>(peer.front()))->Send(peer.substr(1), message);
  }
  void SendStatus(const StatusQuestion& question, const rpc::Frames& answer) {
    if (!question.identity.empty() && !allowed->Find(question.identity)) return;  // revoked meanwhile
    if (Send(question.peer, answer) == rpc::Sent::kGone) Perform(state.OnUnreachable(question.peer, Now()));
  }
  rpc::RouterSocket::Handlers HandlersOf(size_t socket) {
    rpc::RouterSocket::Handlers handlers;
    handlers.on_message = [this, socket](rpc::From&& from, const rpc::Message& message) {
      from.peer.insert(from.peer.begin(), static_cast<char>(socket));
      if (const auto* wish = message.As<rpc::StatusRequest>(); wish && !rpc::RefusalOf(from, message))
        return answers.Ask({from.peer, from.identity, message.request, wish->key});
      const bool about_members =
          message.As<rpc::MemberInvite>() || message.As<rpc::MemberRevoke>() || message.As<rpc::KeyRotate>();
      if (about_members && from.roles.Has(rpc::Role::kAdmin)) {
        ChangeMembers(from, message);
      } else {
        Perform(state.On(from, message, Now()));
      }
      if (options.on_message) options.on_message();
    };
    handlers.on_malformed = [this](const rpc::Peer&, const rpc::Refusal&) { state.OnMalformed(); };
    // The tracker of a farm of one shares its process with a search. No stranger reaches it.
    if (!options.state_folder.empty())
      handlers.kept_bytes = [this] { return options.other_bytes() + answers.Memory(); };
    handlers.close_others = [this] {
      const std::optional<TrackerState::Dials> ended = state.EndDials(Now());
      if (ended) Perform(*ended);
      return ended.has_value();
    };
    return handlers;
  }
  Status Listen() {
    rpc::Listener local, remote;
    for (const std::string& endpoint : options.endpoints) {
      const std::string complete = TRY(rpc::NormalizeEndpoint(endpoint));
      (rpc::IsTcp(complete) ? remote : local).endpoints.push_back(complete);
    }
    if (!remote.endpoints.empty()) {
      remote.keys = members.keys;
      if (!members.members.empty()) remote.allowed = allowed;
      if (members.members.empty()) {
        return WithHint(Err("refusing to listen on ", Joined(remote.endpoints), ": this farm has no members"),
                        "make some first: rpc_tracker invite NAME --role server|client > NAME.join");
      }
    }
    for (rpc::Listener* listener : {&local, &remote}) {
      if (listener->endpoints.empty()) continue;
      sockets.push_back(TRY(rpc::RouterSocket::Bind(loop, *listener, HandlersOf(sockets.size()))));
      const std::vector<std::string>& bound = sockets.back()->endpoints();
      endpoints.insert(endpoints.end(), bound.begin(), bound.end());
      if (listener == &local) continue;
      remote_socket = sockets.back().get();
      TRY(KeepEndpoints(options.state_folder, options.advertise.empty() ? Advertised(bound) : options.advertise,
                        !options.advertise.empty()));
      members_watch = TRY(FileWatch::Start(loop, MembersFile(options.state_folder), [this] { ReadMembersAgain(); }));
      ReadMembersAgain();  // they may have changed meanwhile
    }
    return {};
  }
  // Who gets the answer can rely on it: a new member gets in, and a revoked one has nothing left.
  void ChangeMembers(const rpc::From& from, const rpc::Message& message) {
    held.emplace();
    const TrackerState::Dials dialled = state.On(from, message, Now());
    const Messages sent = std::exchange(held, std::nullopt).value();
    ReadMembersAgain(from.name.empty() ? "on this host" : "by " + from.name);
    for (const auto& [peer, answer] : sent) Emit(peer, answer);
    Perform(dialled);
  }
  // Takes over a change of the list of members. What those have who are no members any more ends.
  void ReadMembersAgain(const std::string& by = "on this host") {
    const Result<Members> read = ReadFarmMembers(options.state_folder);
    if (!read.ok()) return Log(LogLevel::kError, read.error().Text(), "; the members stay as they were");
    const rpc::AllowList::Entries before = members.Allowed(), now = read->Allowed();
    const bool has_new_key = read->keys.public_key != members.keys.public_key;
    const bool waits_anew = read->next_at != members.next_at;
    Tell();  // what has happened before
    for (const std::string& line : ChangesOf(members, *read, by))
      if (options.on_note) options.on_note(line);
    members = *read;
    allowed->Set(now);
    for (const auto& [key, member] : before)
      if (!now.contains(key)) Perform(state.RevokeMember(key, Now()));
    if (remote_socket) remote_socket->CloseRevoked();
    if (waits_anew) AwaitNextKey(members.next_at - WallMillis());
    if (has_new_key && remote_socket) remote_socket->ChangeKeys(members.keys);
  }
  // Tells members the tracker's next key, if there is one, and takes it after this time.
  void AwaitNextKey(int64_t milliseconds) {
    constexpr int64_t kAgainMs = 60000;
    state.SetNextKey(members.next_keys.public_key);
    if (members.next_at == 0) return rotation.reset();
    rotation = loop.After(std::max<int64_t>(0, milliseconds), [this] {
      if (Status done = FinishRotation(options.state_folder); !done) {
        Log(LogLevel::kError, "cannot replace the tracker's key: ", done.error().Text(), "; trying again in 1 min");
        return AwaitNextKey(kAgainMs);
      }
      ReadMembersAgain();
    });
  }

  Loop& loop;
  TrackerOptions options;
  std::optional<rpc::EventFile> event_file;  // null before the endpoints are known
  int64_t input_at = 0;                      // ms since 1970
  std::vector<rpc::FarmEvent> untold;        // for options.on_event
  using Messages = std::vector<std::pair<rpc::Peer, rpc::Message>>;
  std::optional<Messages> held;  // if there is one: gets the state's messages, and nothing is sent
  std::vector<rpc::Peer> gone;   // peers that have left, as the present input has shown
  TrackerState state;
  int64_t saved_changes = 0;  // TrackerState::changes as of the latest write
  Loop::Watch save, tell;
  UniqueFd folder_lock;
  Members members;  // none, if the tracker listens at ipc sockets only
  std::shared_ptr<rpc::AllowList> allowed = std::make_shared<rpc::AllowList>(rpc::AllowList::Entries());
  std::unique_ptr<FileWatch> members_watch;
  std::vector<std::unique_ptr<rpc::RouterSocket>> sockets;
  rpc::RouterSocket* remote_socket = nullptr;  // the one for TCP
  Loop::Watch rotation;                        // until the next key replaces the present one
  std::vector<std::string> endpoints;          // of all sockets
  struct DialUnderWay {
    std::unique_ptr<rpc::DealerSocket> socket;
    std::unique_ptr<rpc::Reach> reach;
    Loop::Watch look;
  };
  std::map<rpc::Id, DialUnderWay> dials;  // to servers that have not answered yet
  rpc::WakeTimer timer;
  StatusAnswers answers;
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);  // for calls that are under way at the end
};

Tracker::Tracker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tracker::~Tracker() {
  impl_->Tell();
  if (impl_->save) impl_->Save();
}
const std::vector<std::string>& Tracker::endpoints() const { return impl_->endpoints; }

void Tracker::FailKey(const std::string& key, const std::string& why) {
  impl_->Perform(impl_->state.FailKey(key, why, impl_->Now()));
}

bool Tracker::Offers(const std::string& key, std::string* why) const {
  for (const rpc::DeviceStatus& device : impl_->state.Status(key, BootMillis()).devices) {
    if (device.state == rpc::device_state::kFree || device.state == rpc::device_state::kBusy) return true;
    if (why) *why = device.why.empty() ? device.last_error : device.why;
  }
  return false;
}

std::vector<ServerSilence> Tracker::Silences() const { return impl_->state.Silences(BootMillis()); }

FarmSnapshot Tracker::Snapshot() const {
  FarmSnapshot snapshot = impl_->state.Snapshot(BootMillis());
  snapshot.at = WallMillis();
  return snapshot;
}

rpc::Body Tracker::Administer(rpc::Body question, const std::string& who) {
  const rpc::From from{.peer = "no socket", .identity = {}, .name = who, .roles = {rpc::Role::kAdmin}};
  impl_->held.emplace();
  const TrackerState::Dials dialled = impl_->state.On(from, {rpc::RandomId(), std::move(question), {}}, impl_->Now());
  rpc::Body answer = rpc::Refusal{rpc::code::kUnexpected, "the tracker does not answer this"};
  Impl::Messages sent = std::exchange(impl_->held, std::nullopt).value();
  for (auto& [peer, message] : sent)
    peer == from.peer ? void(answer = std::move(message.body)) : impl_->Emit(peer, message);
  impl_->Perform(dialled);
  return answer;
}

Result<std::unique_ptr<Tracker>> Tracker::Start(Loop& loop, const TrackerOptions& options) {
  TrackerState::Options state;
  UniqueFd lock;
  Members members;
  const auto allowed = std::make_shared<rpc::AllowList>(rpc::AllowList::Entries());
  if (!options.state_folder.empty()) {
    lock = TRY(LockFolder(options.state_folder));
    SavedState saved = TRY(ReadState(StateFile(options.state_folder)));
    state.recovering = saved.epoch > 0;
    state.epoch = saved.epoch + 1;
    for (const auto& [key, seen] : saved.keys)
      if (rpc::IsKey(key)) state.keys[key] = std::max<int64_t>(0, WallMillis() - seen);
    state.holds = HoldsOf(saved);
    state.boards = saved.boards;
    members = TRY(ReadFarmMembers(options.state_folder));
    if (members.next_at != 0 && members.next_at <= WallMillis()) {
      TRY(FinishRotation(options.state_folder));
      members = TRY(ReadFarmMembers(options.state_folder));
    }
    allowed->Set(members.Allowed());
    if (!members.endpoints.empty()) state.host = rpc::HostOf(members.endpoints.front());
    state.about_members = [folder = options.state_folder](const rpc::Body& question) {
      return AnswerAboutMembers(folder, question);
    };
    state.name_of = [allowed](const std::string& key) {
      const auto member = allowed->Find(key);
      return member ? std::optional(member->name) : std::nullopt;
    };
  }
  state.until_text = [](int64_t ms) { return "until " + MomentText(WallMillis() + ms, WallMillis()); };
  auto impl = std::make_unique<Impl>(loop, options, std::move(state));
  impl->folder_lock = std::move(lock);
  impl->members = std::move(members);
  impl->allowed = allowed;
  TRY(impl->Listen());
  if (impl->members.next_at != 0) impl->AwaitNextKey(impl->members.next_at - WallMillis());
  impl->event_file.emplace("tracker", Joined(impl->endpoints));
  if (!options.state_folder.empty()) TRY(impl->Write());
  impl->timer.Set(impl->state.NextWake());
  return std::unique_ptr<Tracker>(new Tracker(std::move(impl)));
}

}  // namespace autotune
