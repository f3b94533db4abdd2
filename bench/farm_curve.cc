// Measures how soon a tracker grants a device over TCP while 1,000 other clients are connected and send 2,000 messages
// per second, and how soon a bare ROUTER of ZeroMQ with CURVE sends a message back under the same load. A turn measures
// each of the two for S seconds. They change every half second, and the clients of the other one are connected and
// silent meanwhile. On a host that is not idle, `nice -n -15` keeps the processors for the programs of this bench.
//   bench_farm_curve [--turns N] [--seconds S]
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "bench/arguments.h"
#include "bench/main.h"
#include "support/file.h"
#include "support/subprocess.h"
#include "tracker/members.h"

namespace autotune {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kClients = 1000;
constexpr auto kBetweenMessages = 500us;
constexpr int kPatienceMs = 5000;

// A listener that everybody may connect to who has its key.
struct Peer {
  std::string endpoint, key;
};

class Socket {
 public:
  Socket(void* context, int type) : socket_(zmq_socket(context, type)) {
    const int no_linger = 0, patience = kPatienceMs;
    zmq_setsockopt(socket_, ZMQ_LINGER, &no_linger, sizeof no_linger);
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &patience, sizeof patience);
  }
  ~Socket() { zmq_close(socket_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void SetKey(int option, const std::string& key) { zmq_setsockopt(socket_, option, key.c_str(), key.size() + 1); }
  Status Connect(const Peer& peer, const rpc::CurveKeys& own) {
    SetKey(ZMQ_CURVE_SERVERKEY, peer.key);
    SetKey(ZMQ_CURVE_PUBLICKEY, own.public_key);
    SetKey(ZMQ_CURVE_SECRETKEY, own.secret_key);
    if (zmq_connect(socket_, peer.endpoint.c_str())) return Err("cannot connect to ", peer.endpoint);
    return {};
  }
  void Send(const rpc::Frames& frames) {
    for (size_t i = 0; i < frames.size(); ++i)
      zmq_send(socket_, frames[i]->data(), frames[i]->size(), i + 1 < frames.size() ? ZMQ_SNDMORE : 0);
  }
  // Returns no frames if none come in time.
  rpc::Frames Receive(int flags = 0) {
    rpc::Frames frames;
    for (int more = 1; more;) {
      zmq_msg_t part;
      zmq_msg_init(&part);
      if (zmq_msg_recv(&part, socket_, flags) < 0) return {};
      frames.push_back(rpc::MakeBlob(std::string(static_cast<char*>(zmq_msg_data(&part)), zmq_msg_size(&part))));
      more = zmq_msg_more(&part);
      zmq_msg_close(&part);
    }
    return frames;
  }
  void* get() const { return socket_; }

 private:
  void* socket_;
};

// The echo: sends every message back to its sender, until its input ends.
Status Echo() {
  Socket socket(zmq_ctx_new(), ZMQ_ROUTER);
  const int yes = 1, forever = -1, backlog = 4096;
  const rpc::CurveKeys keys = rpc::NewCurveKeys();
  zmq_setsockopt(socket.get(), ZMQ_CURVE_SERVER, &yes, sizeof yes);
  zmq_setsockopt(socket.get(), ZMQ_RCVTIMEO, &forever, sizeof forever);
  zmq_setsockopt(socket.get(), ZMQ_BACKLOG, &backlog, sizeof backlog);
  socket.SetKey(ZMQ_CURVE_SECRETKEY, keys.secret_key);
  if (zmq_bind(socket.get(), "tcp://127.0.0.1:*")) return Err("cannot listen on 127.0.0.1");
  char endpoint[256];
  size_t size = sizeof endpoint;
  zmq_getsockopt(socket.get(), ZMQ_LAST_ENDPOINT, endpoint, &size);
  std::printf("%s %s\n", endpoint, keys.public_key.c_str());
  std::fflush(stdout);
  while (true) socket.Send(socket.Receive());
}

// 1,000 connected clients of one listener, of which each in turn sends a message, between Resume and Pause.
class Load {
 public:
  static Result<std::unique_ptr<Load>> Start(const Peer& peer, const rpc::CurveKeys& own) {
    auto load = std::unique_ptr<Load>(new Load);
    for (int i = 0; i < kClients; ++i) {
      load->sockets_.push_back(std::make_unique<Socket>(load->context_, ZMQ_DEALER));
      TRY(load->sockets_.back()->Connect(peer, own));
      // The answer shows that the connection is made. A refusal to a lease that has ended is what servers see, too.
      load->sockets_.back()->Send(Renewal());
      if (load->sockets_.back()->Receive().empty()) return Err("no answer from ", peer.endpoint);
    }
    load->thread_ = std::thread([raw = load.get()] { raw->Run(); });
    return load;
  }
  void Resume() {
    sends_ = true;
    sends_.notify_one();
  }
  void Pause() { sends_ = false; }
  ~Load() {
    ends_ = true;
    Resume();
    if (thread_.joinable()) thread_.join();
    sockets_.clear();
    zmq_ctx_term(context_);
  }

 private:
  Load() { zmq_ctx_set(context_, ZMQ_MAX_SOCKETS, kClients + 16); }
  static rpc::Frames Renewal() { return rpc::Encode({rpc::RandomId(), rpc::LeaseRenew{rpc::RandomId()}, {}}); }
  void Run() {
    Clock::time_point next;
    for (size_t i = 0; !ends_; i = (i + 1) % sockets_.size()) {
      if (!sends_) {
        sends_.wait(false);
        next = Clock::now();
      }
      while (!sockets_[i]->Receive(ZMQ_DONTWAIT).empty()) {
      }
      sockets_[i]->Send(Renewal());
      std::this_thread::sleep_until(next += kBetweenMessages);
    }
  }

  void* context_ = zmq_ctx_new();
  std::vector<std::unique_ptr<Socket>> sockets_;
  std::atomic<bool> ends_ = false, sends_ = false;
  std::thread thread_;
};

struct Times {
  double p50 = 0, p99 = 0;  // milliseconds
};
Times Summary(std::vector<double> ms) {
  std::ranges::sort(ms);
  return {ms[ms.size() / 2], ms[ms.size() * 99 / 100]};
}

double MillisSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// `ms`: gets the time in which the bytes of the question went and those of the answer came.
template <class Answer>
Result<Answer> Ask(Socket& socket, rpc::Body question, double& ms) {
  const rpc::Id id = rpc::RandomId();
  const rpc::Frames asked = rpc::Encode({id, std::move(question), {}});
  const Clock::time_point begin = Clock::now();
  for (socket.Send(asked);;) {
    const rpc::Frames frames = socket.Receive();
    ms = MillisSince(begin);
    if (frames.empty()) return Err("the tracker does not answer");
    auto decoded = rpc::Decode(frames);
    const auto* message = std::get_if<rpc::Message>(&decoded);
    if (!message || message->request != id) continue;
    if (const auto* answer = message->As<Answer>()) return *answer;
    if (const auto* refusal = message->As<rpc::Refusal>()) return Err(refusal->text);
  }
}

// One of the two that are compared: a listener with its load, and a client whose questions are timed.
class Side {
 public:
  using Question = std::function<Result<double>(Socket&)>;  // returns the milliseconds until the answer

  static Result<std::unique_ptr<Side>> Start(const Peer& peer, const rpc::CurveKeys& own, Question question) {
    auto side = std::unique_ptr<Side>(new Side(std::move(question)));
    TRY(side->socket_.Connect(peer, own));
    side->load_ = TRY(Load::Start(peer, own));
    return side;
  }
  // Asks one question after the other under load, 10 ms apart. Appends the times of the answers.
  Status Measure(double seconds, std::vector<double>& ms) {
    load_->Resume();
    std::this_thread::sleep_for(kWarmUp);
    for (const auto end = Clock::now() + std::chrono::duration<double>(seconds); Clock::now() < end;) {
      ms.push_back(TRY(question_(socket_)));
      std::this_thread::sleep_for(10ms);
    }
    load_->Pause();
    std::this_thread::sleep_for(10ms);  // the last answers come
    return {};
  }

 private:
  static constexpr auto kWarmUp = 50ms;
  explicit Side(Question question) : question_(std::move(question)) {}

  const std::unique_ptr<void, void (*)(void*)> context_{zmq_ctx_new(), [](void* c) { zmq_ctx_term(c); }};
  Socket socket_{context_.get(), ZMQ_DEALER};
  Question question_;
  std::unique_ptr<Load> load_;
};

rpc::LeaseRequest Wish() { return {.client = "c", .client_name = "c", .key = "cpu", .wait_ms = kPatienceMs}; }

Result<double> TimeLease(Socket& socket) {
  double ms = 0, ignored = 0;
  const rpc::LeaseGranted granted = TRY(Ask<rpc::LeaseGranted>(socket, Wish(), ms));
  TRY(Ask<rpc::LeaseReleased>(socket, rpc::LeaseRelease{granted.lease}, ignored));
  return ms;
}

Result<double> TimeEcho(Socket& socket) {
  const rpc::Frames asked = rpc::Encode({rpc::RandomId(), Wish(), {}});
  const Clock::time_point begin = Clock::now();
  socket.Send(asked);
  if (socket.Receive().empty()) return Err("the echo does not answer");
  const double ms = MillisSince(begin);
  socket.Send(rpc::Encode({rpc::RandomId(), rpc::LeaseRelease{rpc::RandomId()}, {}}));
  socket.Receive();
  return ms;
}

// Measures both for so long. They change every half second, so that both meet what disturbs this host meanwhile.
Result<std::pair<Times, Times>> Turn(Side& tracker, Side& echo, double seconds) {
  constexpr double kSlice = 0.5;  // seconds
  std::vector<double> tracker_ms, echo_ms;
  for (double measured = 0; measured < seconds; measured += kSlice) {
    TRY(tracker.Measure(kSlice, tracker_ms));
    TRY(echo.Measure(kSlice, echo_ms));
  }
  return std::pair(Summary(std::move(tracker_ms)), Summary(std::move(echo_ms)));
}

// Starts a program and returns the first line that it prints.
struct Started {
  Subprocess process;
  UniqueFd output;
};
Result<Started> Run(std::vector<std::string> argv) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return Err("cannot make a pipe");
  UniqueFd output(ends[0]), other(ends[1]), null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  Subprocess process = TRY(Subprocess::Spawn({.argv = std::move(argv), .fds = {{1, other.get()}, {2, null.get()}}}));
  return Started{std::move(process), std::move(output)};
}

Result<Peer> StartEcho(std::optional<Started>& echo) {
  echo = TRY(Run({"/proc/self/exe", "echo"}));
  std::string line;
  for (char c; read(echo->output.get(), &c, 1) == 1 && c != '\n';) line += c;
  const size_t space = line.find(' ');
  if (space == std::string::npos) return Err("the echo did not start");
  return Peer{line.substr(0, space), line.substr(space + 1)};
}

Result<rpc::CurveKeys> Invite(const std::string& state, const std::string& name, const std::string& role,
                              const std::string& join_file = "") {
  const rpc::CurveKeys keys = rpc::NewCurveKeys();
  const rpc::MemberInvited invited = TRY(AddMember(state, {name, role, keys.public_key, {}}));
  if (!join_file.empty()) TRY(ReplaceFileDurably(join_file, JoinFileOf(invited, keys).Text()));
  return keys;
}

// A tracker with one device, in a folder of its own.
struct Farm {
  std::string folder;
  std::optional<Started> tracker, server;
  rpc::CurveKeys client;
  Peer peer;

  Status Start() {
    folder = std::filesystem::temp_directory_path() / "bench_farm_curve_XXXXXX";
    if (!mkdtemp(folder.data())) return Err("cannot make a folder");
    const std::string tools = std::getenv("AUTOTUNE_LIBEXEC"), state = folder + "/state";
    client = TRY(Invite(state, "client", "client"));
    tracker = TRY(
        Run({tools + "/rpc_tracker", "--listen", "127.0.0.1:0", "--listen", folder + "/tracker", "--state", state}));
    for (int i = 0; i < 100 && !std::filesystem::exists(folder + "/tracker"); ++i) std::this_thread::sleep_for(50ms);
    TRY(Invite(state, "server", "server", folder + "/server.join"));
    // The tracker notes its address after it has opened its sockets.
    Members members = TRY(ReadFarmMembers(state));
    const auto listens = [&] { return members.endpoints.at(0).starts_with("tcp://127.0.0.1:"); };
    for (int i = 0; i < 100 && !listens(); ++i) {
      std::this_thread::sleep_for(50ms);
      members = TRY(ReadFarmMembers(state));
    }
    peer = {members.endpoints.at(0), members.keys.public_key};
    server = TRY(
        Run({tools + "/rpc_server", "--join", folder + "/server.join", "--key", "cpu", "--state", folder + "/server"}));
    return {};
  }
  ~Farm() {
    server.reset();
    tracker.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
};

Result<int> Main(int argc, char** argv) {
  const auto arguments = TRY(bench::Arguments::Parse(argc, argv, {"turns", "seconds"}, {"turns", "seconds"}));
  if (arguments.words == std::vector<std::string>{"echo"}) TRY(Echo());
  const int turns = static_cast<int>(arguments.Number("turns", 9));
  const double seconds = arguments.Number("seconds", 5);
  if (turns < 1 || seconds <= 0 || !arguments.words.empty()) return Err("expected --turns N and --seconds S");
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  descriptors.rlim_cur = descriptors.rlim_max;
  setrlimit(RLIMIT_NOFILE, &descriptors);
  Farm farm;
  TRY(farm.Start());
  std::optional<Started> echo_process;
  const Peer echo = TRY(StartEcho(echo_process));
  const auto leases = TRY(Side::Start(farm.peer, farm.client, TimeLease));
  const auto echoes = TRY(Side::Start(echo, rpc::NewCurveKeys(), TimeEcho));
  std::vector<double> p50, p99;
  std::printf("%5s %31s %31s\n", "", "tracker: p50 ms, p99 ms", "echo: p50 ms, p99 ms");
  for (int turn = 0; turn < turns; ++turn) {
    const auto [tracker, bare] = TRY(Turn(*leases, *echoes, seconds));
    p50.push_back(tracker.p50 / bare.p50);
    p99.push_back(tracker.p99 / bare.p99);
    std::printf("%5d %20.3f %10.3f %20.3f %10.3f\n", turn + 1, tracker.p50, tracker.p99, bare.p50, bare.p99);
    std::fflush(stdout);
  }
  std::printf("medians of the ratios: p50 %.2f, p99 %.2f\n", Summary(p50).p50, Summary(p99).p50);
  return 0;
}

}  // namespace
}  // namespace autotune

int main(int argc, char** argv) {
  autotune::bench::UseProgramsOfBuildTree();
  return autotune::bench::ExitCode("bench_farm_curve", autotune::Main(argc, argv));
}
