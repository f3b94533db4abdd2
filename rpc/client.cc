#include "rpc/client.h"

#include <pwd.h>
#include <unistd.h>

#include <condition_variable>
#include <future>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "rpc/event_file.h"
#include "rpc/reach.h"
#include "rpc/transport.h"
#include "rpc/wake_timer.h"
#include "support/clock.h"
#include "support/hash.h"
#include "support/loop.h"

namespace autotune::rpc {

std::string ClientName() {
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  passwd* user = getpwuid(geteuid());
  return std::string(user ? user->pw_name : "user") + "@" + host + ":" + std::to_string(getpid());
}

// Only the loop's thread uses the fields, with two exceptions: any thread may call the loop's Post, and any thread may
// read `options` and `client`, which never change.
struct FarmClient::Impl {
  // One call of Measure: its candidates and the results so far.
  struct Job {
    std::shared_ptr<const MeasureJob> work;
    MeasureCallbacks callbacks;
    std::map<std::string, size_t> places;
    std::vector<TrialResult> results;
    std::function<void(const DeviceInfo&)> on_device = nullptr;  // called when the job is done and has a device
    std::promise<Result<std::vector<TrialResult>>> done;
  };
  struct OpenCall {
    std::function<void(const DeviceWait&)> on_wait;
    std::function<void(const RemoteAnswer&)> on_reply;
    RemoteAnswer latest;
    std::promise<Result<RemoteAnswer>> done;
  };
  // A ClientSession with its sockets. It holds one device or none.
  struct Seat {
    Seat(Impl& impl, ClientSession::Options options)
        : impl(impl),
          session(WithTrouble(std::move(options))),
          timer(impl.loop, [this] { Perform(session.Wake(BootMillis())); }) {}

    autotune::Status Open(const Address& address) {
      tracker =
          TRY(DealerSocket::Connect(impl.loop, address,
                                    {.on_message = [this](Message m) { Hear(Role::kTracker, m); },
                                     .on_connected = [this] { Perform(session.OnTrackerConnected(BootMillis())); }},
                                    DealerSocket::Peers::kTracker));
      return {};
    }
    ClientSession::Options WithTrouble(ClientSession::Options given) const {
      given.server_trouble = [this] { return reach ? reach->Text() : ""; };
      return given;
    }
    void Hear(Role sender, const Message& message) {
      Perform(session.On({.peer = {}, .identity = {}, .roles = {sender}}, message, BootMillis()));
    }
    void Perform(ClientActions actions) {
      for (ClientAction& action : actions) std::visit([this](auto& a) { Do(a); }, action);
      timer.Set(session.NextWake());
    }
    void Do(AskTracker& a) { tracker->Send(a.message); }
    // If the address is invalid, there is no socket, and the session treats the server as a silent one.
    std::unique_ptr<DealerSocket> Connect(const std::vector<std::string>& endpoints, const std::string& public_key,
                                          std::function<void()> on_connected, std::function<void()> on_disconnected,
                                          DealerSocket::Peers peers = DealerSocket::Peers::kMember) {
      auto socket = DealerSocket::Connect(impl.loop, Address(endpoints, public_key, impl.options.tracker.own),
                                          {.on_message = [this](Message m) { Hear(Role::kServer, m); },
                                           .on_connected = std::move(on_connected),
                                           .on_disconnected = std::move(on_disconnected)},
                                          peers);
      return socket ? std::move(*socket) : nullptr;
    }
    void Do(ConnectServer& a) {
      // A server that can be reached answers within this time. [chosen]
      constexpr int64_t kUsualMs = 1000;
      reach.reset();
      look = impl.loop.After(kUsualMs, [this, endpoints = a.endpoints] { reach = Reach::Begin(endpoints); });
      server = Connect(
          a.endpoints, a.public_key,
          [this] {
            look.reset();
            Perform(session.OnServerConnected(BootMillis()));
          },
          [this] { Perform(session.OnServerDisconnected(BootMillis())); });
    }
    void Do(ConnectUploads& a) {
      uploads = Connect(
          a.endpoints, a.public_key, [this] { Perform(session.OnUploadsConnected(BootMillis())); }, {},
          DealerSocket::Peers::kUploads);
    }
    void Do(AskUploads& a) {
      if (uploads) uploads->Send(a.message);
    }
    void Do(AskServer& a) {
      if (server) server->Send(a.message);
    }
    void Do(DropServer&) {
      server.reset();
      uploads.reset();
    }
    void Do(FarmEvent& a) { impl.events.Write(a); }
    void Do(Deliver& a) {
      impl.Book(CandidateEvent::Kind::kAnswered, a.result.candidate, ToText(a.result.status));
      if (!job) return;
      if (job->callbacks.on_result) job->callbacks.on_result(a.result);
      job->results[job->places.at(a.result.candidate)] = std::move(a.result);
    }
    void Do(CallReplied& a) {
      call->latest = {std::move(a.reply), std::move(a.body)};
      if (call->on_reply) call->on_reply(call->latest);
    }
    void Do(CallDone& a) {
      auto finished = std::move(call);
      if (a.error) {
        finished->done.set_value(std::move(*a.error));
      } else {
        finished->done.set_value(std::move(finished->latest));
      }
    }
    void Do(JobWaits& a) {
      if (call && call->on_wait) call->on_wait(a.wait);
      if (job && job->callbacks.on_wait) job->callbacks.on_wait(a.wait);
    }
    void Do(JobDone& a) {
      if (impl.ending) return;
      auto finished = std::move(job);
      if (finished->on_device && session.HasLease()) finished->on_device(session.Device());
      if (a.error) {
        finished->done.set_value(std::move(*a.error));
      } else {
        finished->done.set_value(std::move(finished->results));
      }
      impl.loop.Post([this] { impl.HandOver(*this); });
    }

    Impl& impl;
    ClientSession session;
    std::unique_ptr<DealerSocket> tracker, server, uploads;
    std::unique_ptr<Job> job;
    std::unique_ptr<OpenCall> call;
    Loop::Watch look;
    std::unique_ptr<Reach> reach;  // set while the server does not answer
    WakeTimer timer;
  };

  explicit Impl(FarmOptions o) : options(std::move(o)) {}

  void Book(CandidateEvent::Kind kind, const std::string& candidate, std::string_view status = "") {
    events.Write({.kind = kind, .client = client, .candidate = candidate, .status = std::string(status)});
  }

  // Returns a seat without a job or call, one that holds a device if possible. Opens a new seat if all have jobs.
  // Returns null if the tracker's endpoint is invalid.
  Seat* FreeSeat() {
    Seat* free = nullptr;
    for (auto& seat : seats) {
      if (seat->job || seat->call) continue;
      if (seat->session.HasLease()) return seat.get();
      free = seat.get();
    }
    if (free) return free;
    ClientSession::Options session;
    session.client = client;
    session.client_name = ClientName();
    session.key = options.key;
    session.tenant = options.tenant;
    session.job = options.job;
    session.wait_ms = static_cast<int64_t>(options.wait_seconds * 1000);
    session.idle_lease_ms = static_cast<int64_t>(options.idle_lease_seconds * 1000);
    session.fits = [this](const LeaseGranted& granted) { return !fits || fits(granted); };
    if (IsTcp(options.tracker.endpoints[0])) session.server_silence_ms = session.reconnect_ms = kLongestBreakMs;
    auto seat = std::make_unique<Seat>(*this, std::move(session));
    if (autotune::Status opened = seat->Open(options.tracker); !opened) return nullptr;
    seats.push_back(std::move(seat));
    return seats.back().get();
  }

  // Starts a job, and waits until it is done. For all threads but the loop's.
  Result<std::vector<TrialResult>> Await(std::unique_ptr<Job> job) {
    auto done = job->done.get_future();
    loop.Post([this, shared = std::make_shared<std::unique_ptr<Job>>(std::move(job))] { Start(std::move(*shared)); });
    return done.get();
  }

  void Start(std::unique_ptr<Job> job) {
    Seat* seat = FreeSeat();
    if (!seat) return job->done.set_value(Err("cannot open a connection to ", options.tracker.Text()));
    seat->job = std::move(job);
    for (const Candidate& candidate : seat->job->work->candidates) Book(CandidateEvent::Kind::kIssued, candidate.id);
    seat->Perform(seat->session.Start(seat->job->work, BootMillis()));
  }

  // Gives the device of `idle` back if another job of this client waits for a device.
  void HandOver(Seat& idle) {
    bool waiting = false;
    for (auto& seat : seats) waiting |= seat->job && !seat->session.HasLease();
    if (waiting && !idle.job && !idle.call) idle.Perform(idle.session.Close(BootMillis()));
  }

  void CancelSeats() {
    cancelled = BootMillis();
    for (auto& seat : seats) seat->Perform(seat->session.Cancel(BootMillis()));
  }
  void CloseSeats() {
    for (auto& seat : seats) seat->Perform(seat->session.Close(BootMillis()));
  }

  // Closes the seats and calls `then` a little later, so that the sockets can send the releases. Without a release, a
  // device stays leased until the lease expires.
  Loop::Watch AfterClosing(std::function<void()> then) {
    bool sends = BootMillis() - cancelled < 1000;  // devices may just have been given back
    for (auto& seat : seats) sends |= seat->session.HasLease() || seat->session.HasJob();
    CloseSeats();
    constexpr int64_t kSendMs = 50;
    return loop.After(sends ? kSendMs : 0, std::move(then));
  }

  FarmOptions options;
  const Id client = RandomId();
  EventFile events{"client", client};
  Loop loop;
  std::list<std::unique_ptr<Seat>> seats;
  std::function<bool(const LeaseGranted&)> fits;
  Loop::Watch stop, cancel, closed;
  int64_t cancelled = -1000;  // time of the latest Cancel
  bool ending = false;        // the process ends, so nobody hears that jobs are done
  std::thread thread;
};

FarmClient::FarmClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<FarmClient>> FarmClient::Connect(const FarmOptions& options) {
  FarmOptions normal = options;
  normal.tracker = TRY(NormalizeAddress(options.tracker));
  if (options.key.empty()) return Err("--key is missing: the key of the devices to measure on");
  TRY(QueryStatus(normal.tracker, options.key, options.connect_seconds));
  auto impl = std::make_unique<Impl>(std::move(normal));
  Impl* raw = impl.get();
  impl->thread = std::thread([raw] { raw->loop.Run(); });
  return std::unique_ptr<FarmClient>(new FarmClient(std::move(impl)));
}

FarmClient::~FarmClient() {
  Impl* impl = impl_.get();
  impl->loop.Post([impl] { impl->stop = impl->AfterClosing([impl] { impl->loop.Stop(); }); });
  impl->thread.join();
  impl->seats.clear();
}

void FarmClient::GiveBack() {
  std::promise<void> done;
  impl_->loop.Post([impl = impl_.get(), &done] {
    impl->ending = true;
    impl->closed = impl->AfterClosing([&done] { done.set_value(); });
  });
  done.get_future().wait();
}

Result<std::vector<TrialResult>> FarmClient::Measure(MeasureJob work, MeasureCallbacks callbacks) {
  if (work.candidates.empty()) return std::vector<TrialResult>();
  auto job = std::make_unique<Impl::Job>();
  for (size_t i = 0; i < work.candidates.size(); ++i) {
    if (!job->places.emplace(work.candidates[i].id, i).second) {
      return Err("candidate '", work.candidates[i].id, "' occurs twice in one job");
    }
  }
  job->results.resize(work.candidates.size());
  if (work.reference) work.task.reference_hash = HashBytes128(*work.reference).Hex();
  if (!work.reference) work.task.reference_hash.clear();
  job->work = std::make_shared<const MeasureJob>(std::move(work));
  job->callbacks = std::move(callbacks);
  return impl_->Await(std::move(job));
}

Result<DeviceInfo> FarmClient::Acquire(std::function<void(const DeviceWait&)> on_wait) {
  std::optional<DeviceInfo> device;
  auto job = std::make_unique<Impl::Job>();
  job->work = std::make_shared<const MeasureJob>();
  job->callbacks.on_wait = std::move(on_wait);
  job->on_device = [&](const DeviceInfo& its) { device = its; };
  TRY(impl_->Await(std::move(job)));
  if (!device) return Err("the wait for a device was cancelled");
  return std::move(*device);
}

void FarmClient::UseOnly(std::function<bool(const LeaseGranted&)> fits) {
  impl_->loop.Post([impl = impl_.get(), fits = std::move(fits)]() mutable { impl->fits = std::move(fits); });
}

Result<RemoteAnswer> FarmClient::Call(CallWork work, std::function<void(const DeviceWait&)> on_wait,
                                      std::function<void(const RemoteAnswer&)> on_reply) {
  auto call = std::make_unique<Impl::OpenCall>();
  call->on_wait = std::move(on_wait);
  call->on_reply = std::move(on_reply);
  auto done = call->done.get_future();
  impl_->loop.Post([impl = impl_.get(), work, shared = std::make_shared<decltype(call)>(std::move(call))] {
    if (work.cancelled && *work.cancelled) return (*shared)->done.set_value(Error("cancelled", ErrorKind::kStopped));
    Impl::Seat* seat = impl->FreeSeat();
    if (!seat) return (*shared)->done.set_value(Err("cannot open a connection to ", impl->options.tracker.Text()));
    seat->call = std::move(*shared);
    seat->Perform(seat->session.StartCall(work, BootMillis()));
  });
  return done.get();
}

void FarmClient::Cancel(double after_seconds) {
  impl_->loop.Post([impl = impl_.get(), after_seconds] {
    if (after_seconds <= 0) return impl->CancelSeats();
    impl->cancel = impl->loop.After(static_cast<int64_t>(after_seconds * 1000), [impl] { impl->CancelSeats(); });
  });
}

Result<StatusReply> FarmClient::Status(double timeout_seconds) {
  return QueryStatus(impl_->options.tracker, "", timeout_seconds);
}

}  // namespace autotune::rpc
