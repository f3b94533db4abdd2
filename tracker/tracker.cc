#include "tracker/tracker.h"

#include <filesystem>
#include <map>
#include <memory>

#include "rpc/event_file.h"
#include "rpc/transport.h"
#include "rpc/wake_timer.h"
#include "support/clock.h"
#include "support/clock_text.h"
#include "support/file.h"
#include "support/hint.h"
#include "support/json.h"
#include "support/log.h"
#include "support/state_folder.h"
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
  AUTOTUNE_FIELDS(epoch, keys, holds)
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
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  Status written = ReplaceFileDurably(path, ToJson(state).Dump() + "\n");
  if (written.ok()) return {};
  return WithHint(Err("cannot store the tracker's state: ", written.error().Text()), "name another file with --state");
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

}  // namespace

struct Tracker::Impl {
  Impl(Loop& loop, const TrackerOptions& options, TrackerState::Options state)
      : loop(loop),
        options(options),
        state(std::move(state), BootMillis()),
        timer(loop, [this] { Perform(this->state.Wake(BootMillis())); }) {}

  void Perform(TrackerState::Output output) {
    if (output.save && !options.state_file.empty()) Save();
    // Sends the messages. If a peer turns out to be gone, the state may answer with further messages.
    while (!output.messages.empty() || !output.dials.empty()) {
      TrackerState::Output more;
      const auto add = [&](TrackerState::Output next) {
        more.messages.insert(more.messages.end(), next.messages.begin(), next.messages.end());
        more.dials.insert(more.dials.end(), next.dials.begin(), next.dials.end());
      };
      for (const auto& [peer, message] : output.messages) {
        // A peer whose queue is full is alive, and asks again for what it does not get.
        if (socket->Send(peer, message) == rpc::Sent::kGone) add(state.OnUnreachable(peer, BootMillis()));
      }
      for (const TrackerState::Dial& dial : output.dials) Do(dial);
      output = std::move(more);
    }
    // Waits a little, so that many changes in a short time are one write. A lost epoch is learned again from a server.
    constexpr int64_t kDelay = 200;  // milliseconds
    if (state.changes() != saved_changes && !options.state_file.empty() && !save)
      save = loop.After(kDelay, [this] { Save(); });
    timer.Set(state.NextWake());
  }

  void Do(const TrackerState::Dial& dial) {
    dials.erase(dial.server);
    if (dial.endpoint.empty()) return;
    rpc::DealerSocket::Handlers handlers;
    handlers.on_connected = [this, server = dial.server] { dials.at(server)->Send({"", rpc::Ping{}, {}}); };
    handlers.on_message = [this, dial](const rpc::Message& answer) {
      // The answer ends the connection, which must not end inside its own call.
      loop.Post([this, alive = std::weak_ptr(alive), dial, answer] {
        if (alive.expired()) return;
        Perform(state.OnDialAnswer(dial, answer, BootMillis()));
        if (options.on_message) options.on_message();
      });
    };
    // An address to which this host cannot connect gets no answer, which the state notices.
    if (auto connected =
            rpc::DealerSocket::Connect(loop, dial.endpoint, std::move(handlers), rpc::DealerSocket::Peers::kStranger);
        connected.ok())
      dials[dial.server] = std::move(*connected);
  }

  void Save() {
    save.reset();
    if (Status written = Write(); !written) Log(LogLevel::kError, written.error().Text());
  }

  Status Write() {
    saved_changes = state.changes();
    SavedState saved{.epoch = state.epoch(), .keys = state.KeyAges(BootMillis())};
    for (auto& [key, time] : saved.keys) time = WallMillis() - time;
    for (const rpc::DeviceHold& hold : state.CurrentHolds(BootMillis())) {
      const int64_t until = hold.for_ms == 0 ? 0 : WallMillis() + hold.for_ms;
      saved.holds.push_back({hold.pattern, hold.how, hold.note, hold.who, until});
    }
    return WriteState(options.state_file, saved);
  }

  Loop& loop;
  TrackerOptions options;
  TrackerState state;
  int64_t saved_changes = 0;  // TrackerState::changes as of the latest write
  Loop::Watch save;
  std::unique_ptr<rpc::RouterSocket> socket;
  std::map<rpc::Id, std::unique_ptr<rpc::DealerSocket>> dials;  // connections to servers that have not answered yet
  rpc::WakeTimer timer;
  std::shared_ptr<bool> alive = std::make_shared<bool>(true);  // for calls that are under way at the end
};

Tracker::Tracker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tracker::~Tracker() {
  if (impl_->save) impl_->Save();
}
const std::string& Tracker::endpoint() const { return impl_->socket->endpoint(); }

void Tracker::FailKey(const std::string& key, const std::string& why) {
  impl_->Perform(impl_->state.FailKey(key, why, BootMillis()));
}

bool Tracker::Offers(const std::string& key, std::string* why) const {
  for (const rpc::DeviceStatus& device : impl_->state.Status(key, BootMillis()).devices) {
    if (device.state == rpc::device_state::kFree || device.state == rpc::device_state::kBusy) return true;
    if (why) *why = device.why.empty() ? device.last_error : device.why;
  }
  return false;
}

Result<std::unique_ptr<Tracker>> Tracker::Start(Loop& loop, const TrackerOptions& options) {
  TrackerState::Options state;
  const auto events = std::make_shared<std::optional<rpc::EventFile>>();
  state.on_event = [events, tell = options.on_event](const rpc::FarmEvent& event) {
    (*events)->Write(event);
    if (tell) tell(event);
  };
  if (!options.state_file.empty()) {
    SavedState saved = TRY(ReadState(options.state_file));
    state.recovering = saved.epoch > 0;
    state.epoch = saved.epoch + 1;
    for (const auto& [key, seen] : saved.keys)
      if (rpc::IsKey(key)) state.keys[key] = std::max<int64_t>(0, WallMillis() - seen);
    state.holds = HoldsOf(saved);
  }
  state.until_text = [](int64_t ms) { return "until " + MomentText(WallMillis() + ms, WallMillis()); };
  auto impl = std::make_unique<Impl>(loop, options, std::move(state));
  Impl* raw = impl.get();
  rpc::RouterSocket::Handlers handlers = {
      .on_message =
          [raw](const rpc::From& from, rpc::Message message) {
            raw->Perform(raw->state.On(from, message, BootMillis()));
            if (raw->options.on_message) raw->options.on_message();
          },
      .on_malformed = [raw](const rpc::Peer&, const rpc::Refusal&) { raw->state.OnMalformed(); }};
  // The tracker of a farm of one shares its process with a search. No stranger reaches it.
  if (!options.state_file.empty()) handlers.kept_bytes = [] { return 0; };
  handlers.close_others = [raw] {
    std::optional<TrackerState::Output> output = raw->state.EndDials(BootMillis());
    if (output) raw->Perform(std::move(*output));
    return output.has_value();
  };
  impl->socket = TRY(rpc::RouterSocket::Bind(loop, options.endpoint, std::move(handlers)));
  events->emplace("tracker", options.endpoint);
  // Writes the file only after the bind, so that a second tracker on this port does not change the first one's file.
  if (!options.state_file.empty()) TRY(impl->Write());
  impl->timer.Set(impl->state.NextWake());
  return std::unique_ptr<Tracker>(new Tracker(std::move(impl)));
}

std::string DefaultTrackerState(const std::string& endpoint) {
  std::string name = endpoint;
  for (char& c : name) {
    if (!isalnum(static_cast<unsigned char>(c)) && c != '.') c = '-';
  }
  return StateFolder() + "/tracker-" + name + ".json";
}

}  // namespace autotune
