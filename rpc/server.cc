#include "rpc/server.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>

#include "rpc/calibration.h"
#include "rpc/capability.h"
#include "rpc/content_store.h"
#include "rpc/event_file.h"
#include "rpc/host_load.h"
#include "rpc/host_turn.h"
#include "rpc/peer_text.h"
#include "rpc/query_tracker.h"
#include "rpc/runner_pool.h"
#include "rpc/server_identity.h"
#include "rpc/server_listener.h"
#include "rpc/server_session.h"
#include "rpc/wake_timer.h"
#include "support/clock.h"
#include "support/clock_text.h"
#include "support/cpus.h"
#include "support/hint.h"
#include "support/join.h"
#include "support/log.h"
#include "support/loop.h"
#include "support/machine_description.h"

namespace autotune::rpc {
namespace {

constexpr int64_t kSilentTrackerWaitMs = 1000;  // duration of a wait for the tracker that is not told
// Artifacts that a GPU's runner loads beside a candidate, on a core each [chosen]. On a single core nothing is gained.
constexpr int kMostAhead = 8;
constexpr size_t kMostText = 400;  // bytes of a refusal that are shown

class Server {
 public:
  Server(Loop& loop, const ServerOptions& options) : loop_(loop), options_(options) {}

  Status Start() {
    ServerSession::Options session;
    Result<ServerIdentity> server = ServerIdentity::Take(options_.state, options_.key);
    if (!server.ok()) return WithHint(server.error(), "name another folder with --state");
    server_ = std::move(*server);
    session.server = server_->id();
    session.incarnation = RandomId();
    if (!server_->path().empty() && !options_.wrapped_runner) {  // an emulator is too slow for the kernels
      calibrations_path_ = server_->path() + ".calibrations";
      calibrations_ = CalibrationHistory::Read(calibrations_path_);
      session.judge_calibration = [this](const std::vector<double>& seconds) { return Judge(seconds); };
    }
    KeepPackages(session);
    options_.tracker = TRY_NOTE(NormalizeAddress(options_.tracker), "--tracker");
    const std::string port_file = server_->path().empty() ? "" : server_->path() + ".port";
    session.idle_exit_ms = options_.idle_exit_ms;
    if (options_.device.starts_with("cuda")) session.ahead = std::clamp(AvailableCpus() - 1, 1, kMostAhead);
    listener_ = TRY(ListenForClients(loop_, options_, session.server, port_file,
                                     {.on_message =
                                          [this](const From& from, Message message) {
                                            if (message.As<ClientBeat>()) session_->OnHostWait(turn_.WaitsFor());
                                            Perform(session_->On(from, message, BootMillis()));
                                          },
                                      .kept_bytes = [this] { return KeptBytes(); }}));
    if (IsTcp(listener_.endpoints.front())) session.grant_key = NewGrantKey();
    const DeviceInfo& device = session.device = Describe();
    cores_ = device.cores;
    identity_ = "`" + device.key + "` (server " + session.server.substr(0, 8) + "), for clients at " +
                Joined(listener_.endpoints);
    events_.emplace("server", session.server);
    session_ = std::make_unique<ServerSession>(std::move(session));
    pool_ = std::make_unique<RunnerPool>(loop_,
                                         RunnerPool::Options{.argv = options_.runner_command,
                                                             .wrapped = options_.wrapped_runner,
                                                             .adopt_orphans = true,
                                                             .quiet_start = EndsWithoutDevice(),
                                                             .memory_bytes = options_.memory_bytes},
                                         PoolHandlers());
    tracker_ =
        TRY(DealerSocket::Connect(loop_, options_.tracker,
                                  {.on_message =
                                       [this](Message message) {
                                         if (message.As<ReportReply>()) OnRegistered();
                                         if (auto* refusal = message.As<Refusal>()) OnRefused(*refusal);
                                         Perform(session_->On({.roles = {Role::kTracker}}, message, BootMillis()));
                                       },
                                   .on_connected = [this] { Perform(session_->OnTrackerConnected(BootMillis())); },
                                   .on_disconnected = [this] { BeginTrackerWait(); },
                                   .on_refused = [this] { Tell(WhyRefused(*tracker_)); }},
                                  DealerSocket::Peers::kTracker));
    BeginTrackerWait();
    timer_.Set(session_->NextWake());
    signals_ = loop_.OnSignals({SIGINT, SIGTERM}, [this](int) { OnSignal(); });
    if (options_.end_with_stdin) {
      stdin_ = loop_.OnReadable(0, [this] {
        char bytes[256];
        if (read(0, bytes, sizeof bytes) <= 0) StopNow();
      });
    }
    return {};
  }

  void KeepPackages(ServerSession::Options& session) {
    if (server_->path().empty() || options_.package_bytes <= 0) return;
    contents_.emplace(ContentStore::Options{.folder = server_->path() + ".packages",
                                            .most_bytes = options_.package_bytes,
                                            .on_trouble = [this](const std::string& line) { Tell(line); }});
    session.find_content = [this](const std::string& owner, const std::string& hash) {
      return contents_->Find(owner, hash);
    };
    session.keep_content = [this](const std::string& owner, const std::string& hash, std::string_view bytes) {
      contents_->Keep(owner, hash, bytes);
    };
  }

  DeviceInfo Describe() const {
    DeviceInfo device;
    device.description = options_.machine.empty() ? DescribeHost(options_.cores) : DescribeMachine(options_.machine);
    device.key = options_.key;
    device.endpoint = listener_.endpoints.front();
    device.endpoints = listener_.endpoints;
    device.public_key = options_.tracker.own.public_key;
    const std::string& model = device.description.model;
    device.model = (options_.device.empty() ? "" : options_.device + " of ") + (model.empty() ? "unknown" : model);
    device.machine = device.description.architecture;
    device.cores = options_.cores;
    if (device.cores.empty()) device.cores = AllowedCpus();
    device.memory_bytes = device.description.memory_bytes;
    device.pid = getpid();
    device.uploads = device.chunk_hashes = IsTcp(listener_.endpoints.front());
    return device;
  }

  // Returns the error with which the server has ended.
  const Status& status() const { return status_; }

 private:
  RunnerPool::Handlers PoolHandlers() {
    return {.on_ready =
                [this] {
                  turn_.SetPath(HostLock::PathOf(pool_->ActiveHello().device));
                  session_->SetGpu(pool_->ActiveHello().gpu);
                  bool first = !std::exchange(ever_ready_, true);
                  Perform(session_->OnRunnerReady(BootMillis()));
                  if (first) Perform(session_->OnTrackerConnected(BootMillis()));  // report to the tracker at once
                },
            .on_message =
                [this](const Message& m) {
                  if (m.As<RunnerResult>() && load_.Watches()) WatchLoad();
                  Perform(session_->OnRunnerMessage(m, BootMillis()));
                },
            .on_end = [this](const RunnerEnd& end) { Perform(session_->OnRunnerEnd(end, BootMillis())); },
            .on_unavailable =
                [this](const std::string& why) {
                  if (!ever_ready_ && EndsWithoutDevice()) return Fail(why);
                  Perform(session_->OnRunnersUnavailable(why, BootMillis()));
                  UnlockHost();
                },
            .on_all_dead = [this] { UnlockHost(); }};
  }

  // Returns true if a missing device ends the server. The server of a local search goes on without it, so that the
  // tracker of the search learns the cause.
  bool EndsWithoutDevice() const { return !options_.device.empty() && !options_.end_with_stdin; }
  void Fail(const std::string& why) {
    status_ = Err("--device ", options_.device, ": ", why);
    loop_.Stop();
  }
  void OnSignal() {
    if (std::exchange(signalled_, true) || options_.end_with_stdin) return StopNow();
    Perform(session_->OnShutdown(BootMillis()));
    if (!session_->HasEnded()) Tell("ending after what runs now; another signal ends this server at once");
  }
  void StopNow() {
    stdin_.reset();
    Perform(session_->EndNow(BootMillis()));
  }
  void StopIfEnded() {
    if (!session_->HasEnded() || last_words_) return;
    if (!signalled_ && !session_->WhyLeaving().empty()) Tell("ending: " + session_->WhyLeaving());
    last_words_ = loop_.After(50, [this] { loop_.Stop(); });  // leaves time to send the goodbye
  }

  int64_t KeptBytes() const { return (session_ ? session_->KeptBytes() : 0) + (pool_ ? pool_->BufferedBytes() : 0); }

  // The tracker's first answer to a report registers the server. The end of the connection ends this.
  void BeginTrackerWait() {
    if (tracker_wait_) return;
    const int64_t since = WallMillis();
    tracker_wait_ = loop_.After(kSilentTrackerWaitMs, [this, since] {
      Tell("waiting for the tracker at " + options_.tracker.Text() + " since " + ClockText(since));
    });
  }
  void OnRegistered() {
    if (!tracker_wait_) return;
    tracker_wait_.reset();
    Tell("registered at the tracker at " + options_.tracker.Text() + " as " + identity_);
  }
  void OnRefused(const Refusal& refusal) {
    if (std::exchange(refused_, refusal.text) == refusal.text) return;
    Tell("the tracker at " + options_.tracker.Text() + " refuses this server: " + Shown(refusal.text, kMostText));
  }
  void Tell(const std::string& line) {
    if (options_.on_event) options_.on_event(line);
  }

  void Perform(ServerActions actions) {
    for (ServerAction& action : actions) {
      std::visit([this](auto& a) { Do(a); }, action);
    }
    timer_.Set(session_->NextWake());
    StopIfEnded();
  }
  void Do(ToPeer& a) { listener_.socket->Send(a.peer, a.message); }
  void Do(ToTracker& a) {
    if (tracker_) tracker_->Send(a.message);
  }
  void Do(FarmEvent& a) {
    events_->Write(a);
    Tell(Text(a));
  }
  void Do(CandidateEvent& a) { events_->Write(a); }
  void Do(StartCandidate& a) {
    if (!a.ahead.blobs.empty()) pool_->Send(a.ahead);
    pool_->Send(a.request);
  }
  void Do(KillRunner&) { pool_->Replace(); }
  void Do(ExamineRunner& a) {
    // The answer comes after the other actions.
    loop_.Post([this, run = a.run] { Perform(session_->OnRunnerExamined(run, pool_->Examine(), BootMillis())); });
  }
  void Do(AcquireHost& a) { turn_.Want(a.patient); }
  void Do(ReleaseHost&) {
    if (load_.Watches()) SeeLoad(BootMillis());
    load_.End();
    turn_.End();
    UnlockHost();
  }
  // Unlocks the host if the session has released it and every killed runner is dead or unkillable, so that no kernel
  // disturbs the next measurement.
  void UnlockHost() {
    if (!turn_.Wanted() && !pool_->KillPending()) turn_.Unlock();
  }
  void OnTurn(const std::string& unlocked) {
    if (unlocked.empty()) WatchLoad();
    Perform(session_->OnHostAcquired(unlocked, BootMillis()));
  }
  // Looks at the load of other processes, if it is time. Times of a device other than the CPU do not depend on it.
  void WatchLoad() {
    const int64_t now = BootMillis();
    if (options_.device.empty() && load_.IsDue(now)) SeeLoad(now);
  }
  void SeeLoad(int64_t now) {
    const std::optional<CpuTimes> times = Times();
    if (!times) return;
    load_.See(*times, now);
    session_->OnHostLoad(load_.Text());
  }
  std::optional<CpuTimes> Times() const {
    const std::optional<double> all = BusyMillis("/proc/stat", cores_);
    if (!all) return std::nullopt;
    return CpuTimes{.all = *all, .ours = OwnMillis() + pool_->Examine().cpu_ms};
  }
  // Judges the times of a calibration and keeps the good ones. Times beside foreign load say nothing.
  std::optional<std::string> Judge(const std::vector<double>& seconds) {
    if (const auto times = Times(); times && !load_.WasQuiet(*times, BootMillis())) return std::nullopt;
    const int64_t now = WallMillis();
    const std::string what =
        pool_->ActiveHello().device + ", cores " + Joined(cores_, ",") + ", " + CalibrationKernels();
    const std::string why = calibrations_.Judge(what, seconds, now);
    if (!why.empty()) return why;
    calibrations_.Add(what, seconds, now);
    if (Status written = calibrations_.Write(calibrations_path_); !written)
      Log(LogLevel::kWarning, "cannot keep the calibration: ", written.error().Text());
    return "";
  }
  HostTurn::Options TurnOptions() const {
    HostTurn::Options turn{.locks = options_.host_lock};
    if (!options_.device.empty()) turn.name = options_.device;
    // The server of a local search shares the terminal with the search, which takes turns with others every second.
    if (options_.end_with_stdin) turn.wait_level = LogLevel::kInfo;
    return turn;
  }

  Loop& loop_;
  ServerOptions options_;
  std::optional<ServerIdentity> server_;
  std::optional<ContentStore> contents_;
  std::string identity_;  // key, id and address, for the log
  std::string refused_;   // text of the tracker's latest refusal
  Status status_;
  std::optional<EventFile> events_;
  std::unique_ptr<ServerSession> session_;
  ServerListener listener_;
  std::unique_ptr<RunnerPool> pool_;
  std::unique_ptr<DealerSocket> tracker_;
  bool ever_ready_ = false;
  bool signalled_ = false;  // SIGINT or SIGTERM has arrived
  // Its path is that of the device on which the active runner measures.
  HostTurn turn_{loop_, TurnOptions(), [this](const std::string& unlocked) { OnTurn(unlocked); }};
  std::vector<int> cores_;  // of the device
  HostLoad load_;
  CalibrationHistory calibrations_;
  std::string calibrations_path_;  // file that keeps them over restarts
  WakeTimer timer_{loop_, [this] { Perform(session_->Wake(BootMillis())); }};
  Loop::Watch signals_, stdin_, last_words_;
  Loop::Watch tracker_wait_;  // set while the server is not registered
};

}  // namespace

Status RunServer(const ServerOptions& options) {
  Loop loop;
  Server server(loop, options);
  TRY(server.Start());
  loop.Run();
  return server.status();
}

Result<std::vector<int>> ParseCores(const std::string& text) {
  std::vector<int> cores;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    int first = -1, last = -1, used = 0;
    bool range = part.find('-') != std::string::npos;
    int fields =
        range ? sscanf(part.c_str(), "%d-%d%n", &first, &last, &used) : sscanf(part.c_str(), "%d%n", &first, &used);
    if (!range) last = first;
    if (fields != (range ? 2 : 1) || used != static_cast<int>(part.size()) || first < 0 || last < first ||
        last > 1023) {
      return Err("bad list of cores '", text, "': expected for example 0-3 or 0,2,5-7");
    }
    for (int core = first; core <= last; ++core) cores.push_back(core);
  }
  if (cores.empty()) return Err("an empty list of cores");
  return cores;
}

}  // namespace autotune::rpc
