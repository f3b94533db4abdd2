// Measures how fast a batch reaches a device server over a link, beside what ZeroMQ itself does there.
//   bench_farm_link upload --join FILE --key KEY [--mib N]     N MiB of artifacts, 64 MiB in a batch
//   bench_farm_link receive ENDPOINT                           a PULL socket with CURVE; prints its public key
//   bench_farm_link send ENDPOINT KEY [--mib N]                N MiB in frames of 256 KiB to it
// scripts/slow_link.sh runs these in network namespaces.
#include <zmq.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "bench/arguments.h"
#include "bench/main.h"
#include "rpc/client.h"
#include "rpc/curve_keys.h"
#include "rpc/join_file.h"
#include "support/rng.h"

namespace autotune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kMiB = 1 << 20;
constexpr size_t kFrame = 256 << 10;

// Times a transfer from its begin, by the clock and in CPU time of this process.
class Stopwatch {
 public:
  void Print(const char* what, int64_t bytes) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    const double mib = static_cast<double>(bytes) / kMiB;
    std::printf("%s: %.0f MiB in %.2f s of which this process computed %.2f s, %.1f MiB/s\n", what, mib, seconds,
                CpuSeconds() - cpu_, mib / seconds);
  }

 private:
  static double CpuSeconds() {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
  }
  Clock::time_point begin_ = Clock::now();
  double cpu_ = CpuSeconds();
};

std::string RandomBytes(size_t count) {
  static Rng rng(1);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(rng.Next());
  return bytes;
}

// A job of `bytes` bytes whose artifacts are no libraries. So they end at once, as `load failed`, and the time is that
// of their way.
rpc::MeasureJob JobOf(int64_t bytes) {
  rpc::MeasureJob job;
  job.task.id = "link";
  for (int i = 0; bytes > 0; ++i) {
    const int64_t size = std::min(bytes, rpc::kMaxUploadedBlobBytes);
    bytes -= size;
    rpc::Candidate candidate;
    candidate.id = std::to_string(i);
    candidate.kernel = "k";
    candidate.blob = i;
    candidate.check = false;
    job.candidates.push_back(candidate);
    job.artifacts.push_back(rpc::MakeBlob(RandomBytes(static_cast<size_t>(size))));
  }
  return job;
}

Status Upload(const std::string& join, const std::string& key, int64_t bytes) {
  const rpc::JoinFile file = TRY(rpc::ReadJoinFile(join));
  auto client = TRY(rpc::FarmClient::Connect({.tracker = file.TrackerAddress(), .key = key}));
  rpc::MeasureJob job = JobOf(bytes);
  const Stopwatch watch;
  for (const rpc::TrialResult& result : TRY(client->Measure(std::move(job))))
    if (result.status != TrialStatus::kLoadFailed) return Err(ToText(result.status), ": ", result.error);
  watch.Print("upload", bytes);
  return {};
}

void* Context() {
  static void* context = zmq_ctx_new();
  return context;
}
void* NewSocket(int type) { return zmq_socket(Context(), type); }

Status Receive(const std::string& endpoint) {
  void* socket = NewSocket(ZMQ_PULL);
  const rpc::CurveKeys keys = rpc::NewCurveKeys();
  const int yes = 1;
  zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &yes, sizeof yes);
  zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys.secret_key.c_str(), keys.secret_key.size() + 1);
  if (zmq_bind(socket, endpoint.c_str())) return Err("cannot listen on ", endpoint, ": ", zmq_strerror(zmq_errno()));
  std::printf("%s\n", keys.public_key.c_str());
  std::fflush(stdout);
  int64_t bytes = 0;
  Stopwatch watch;
  while (true) {
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    if (zmq_msg_recv(&frame, socket, 0) < 0) return Err("cannot receive: ", zmq_strerror(zmq_errno()));
    const auto size = static_cast<int64_t>(zmq_msg_size(&frame));
    zmq_msg_close(&frame);
    if (size == 0) break;  // the end
    if (bytes == 0) watch = {};
    bytes += size;
  }
  watch.Print("pipe", bytes);
  return {};
}

Status Send(const std::string& endpoint, const std::string& peer, int64_t bytes) {
  void* socket = NewSocket(ZMQ_PUSH);
  const rpc::CurveKeys keys = rpc::NewCurveKeys();
  zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, peer.c_str(), peer.size() + 1);
  zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys.public_key.c_str(), keys.public_key.size() + 1);
  zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys.secret_key.c_str(), keys.secret_key.size() + 1);
  if (zmq_connect(socket, endpoint.c_str()))
    return Err("cannot connect to ", endpoint, ": ", zmq_strerror(zmq_errno()));
  const std::string frame = RandomBytes(kFrame);
  const Stopwatch watch;
  for (int64_t sent = 0; sent < bytes; sent += static_cast<int64_t>(kFrame)) zmq_send(socket, frame.data(), kFrame, 0);
  zmq_send(socket, "", 0, 0);
  zmq_close(socket);
  zmq_ctx_term(Context());  // waits until the last frames have left
  watch.Print("sender of the pipe", bytes);
  return {};
}

Result<int> Main(int argc, char** argv) {
  const auto arguments = TRY(bench::Arguments::Parse(argc, argv, {"join", "key", "mib"}, {"mib"}));
  const auto& words = arguments.words;
  const auto bytes = static_cast<int64_t>(arguments.Number("mib", 64)) * kMiB;
  if (words.size() == 1 && words[0] == "upload") {
    TRY(Upload(arguments.Text("join", ""), arguments.Text("key", ""), bytes));
  } else if (words.size() == 2 && words[0] == "receive") {
    TRY(Receive(words[1]));
  } else if (words.size() == 3 && words[0] == "send") {
    TRY(Send(words[1], words[2], bytes));
  } else {
    return Err("expected upload, receive or send; bench/farm_link.cc says how");
  }
  return 0;
}

}  // namespace
}  // namespace autotune

int main(int argc, char** argv) { return autotune::bench::ExitCode("bench_farm_link", autotune::Main(argc, argv)); }
