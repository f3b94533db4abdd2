// Measures whether the page of a tracker and `status` delay leases: the round trip of a lease on a farm of simulated
// devices, in turns of a few seconds. The tracker, the devices, the readers and those who ask are processes of their
// own, as on a real farm. Readers and askers also take processor time of this host, which is no fault of the tracker:
// as a control, an asker asks another tracker of an equal farm.
//   bench_farm_page [DEVICES [READERS [SECONDS [TURNS]]]]
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/query_tracker.h"
#include "rpc/transport.h"
#include "support/check.h"
#include "support/clock.h"
#include "support/file.h"
#include "support/subprocess.h"
#include "support/unique_fd.h"
#include "tools/descriptors.h"
#include "tools/live/farm_page.h"

namespace autotune {
namespace {

// Starts this program in another role. `out`: file for its output.
Result<Subprocess> Spawn(std::vector<std::string> argv, const std::string& out = "") {
  argv.insert(argv.begin(), "/proc/self/exe");
  SpawnOptions options{.argv = std::move(argv)};
  const UniqueFd file(out.empty() ? -1 : open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file) options.fds[1] = file.get();
  return Subprocess::Spawn(options);
}

// Simulated device servers of one process: each reports every second, and answers the tracker's dial.
int RunServers(const std::string& tracker, const std::string& folder, int first, int count) {
  Loop loop;
  struct Server {
    std::unique_ptr<rpc::DealerSocket> to_tracker;
    std::unique_ptr<rpc::RouterSocket> listener;
    rpc::ServerReport report;
    Loop::Watch timer;
  };
  std::vector<std::unique_ptr<Server>> servers;
  for (int i = first; i < first + count; ++i) {
    auto server = std::make_unique<Server>();
    Server* raw = server.get();
    raw->report.server = rpc::RandomId();
    raw->report.incarnation = "1";
    raw->report.ready = true;
    raw->report.device.key = i == 0 ? "leased" : "board" + std::to_string(i % 7);
    raw->report.device.model = "simulated";
    raw->report.device.endpoint = "ipc://" + folder + "/server" + std::to_string(i);
    raw->report.trials = {{"ok", i}, {"crashed", 1}};
    auto listener = rpc::RouterSocket::Bind(
        loop, raw->report.device.endpoint, {.on_message = [raw](const rpc::From& from, const rpc::Message& message) {
          if (message.As<rpc::Ping>())
            raw->listener->Send(from.peer, {message.request, rpc::Pong{"", rpc::PublicId(raw->report.server)}, {}});
        }});
    if (!listener.ok()) return 1;
    raw->listener = std::move(*listener);
    auto socket = rpc::DealerSocket::Connect(loop, tracker,
                                             {.on_message = [](const rpc::Message&) {},
                                              .on_connected =
                                                  [raw] {
                                                    raw->to_tracker->Send({"", raw->report, {}});
                                                  }},
                                             rpc::DealerSocket::Peers::kTracker);
    if (!socket.ok()) return 1;
    raw->to_tracker = std::move(*socket);
    raw->timer = loop.Every(1000, [raw] { raw->to_tracker->Send({"", raw->report, {}}); });
    servers.push_back(std::move(server));
  }
  loop.Run();
  return 0;
}

// Prints the round trips of leases, in milliseconds.
int TimeLeases(const std::string& tracker, double seconds) {
  Loop loop;
  std::vector<double> times;
  double sent = 0;
  bool ended = false;
  std::unique_ptr<rpc::DealerSocket> socket;
  Loop::Watch next;
  const auto ask = [&] {
    sent = SteadySeconds();
    socket->Send(
        {rpc::RandomId(), rpc::LeaseRequest{.client = "c", .client_name = "c", .key = "leased", .wait_ms = 60000}, {}});
  };
  socket = std::move(
      *rpc::DealerSocket::Connect(loop, tracker,
                                  {.on_message =
                                       [&](const rpc::Message& message) {
                                         const auto* granted = message.As<rpc::LeaseGranted>();
                                         if (!granted) return;
                                         times.push_back(1e3 * (SteadySeconds() - sent));
                                         socket->Send({rpc::RandomId(), rpc::LeaseRelease{granted->lease, ""}, {}});
                                         // The device must be free for the next measurement.
                                         next = ended ? loop.After(50, [&] { loop.Stop(); }) : loop.After(5, ask);
                                       },
                                   .on_connected = ask},
                                  rpc::DealerSocket::Peers::kTracker));
  const auto end = loop.After(static_cast<int64_t>(seconds * 1e3), [&] { ended = true; });
  loop.Run();
  for (const double ms : times) printf("%.6f\n", ms);
  return 0;
}

// Reads the events of the page on many connections until it is killed.
int ReadEvents(int port, int count) {
  constexpr std::string_view kRequest = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<UniqueFd> sockets;
  for (int i = 0; i < count; ++i) {
    sockets.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(sockets.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return 1;
    if (send(sockets.back().get(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL) < 0) return 1;
  }
  std::vector<char> bytes(1 << 20);
  while (true) {
    for (const UniqueFd& one : sockets)
      while (recv(one.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
      }
    usleep(20000);
  }
}

// Asks for the status in a loop, as `rpc_tracker status` does, until it is killed. Appends a byte to a file for each
// answer.
int AskStatus(const std::string& tracker, const std::string& count) {
  const UniqueFd file(open(count.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  while (true)
    if (rpc::QueryStatus(tracker, "", 5).ok() && write(file.get(), ".", 1) < 0) return 1;
}

// A tracker with a page, until it is killed. Writes the page's port into a file.
int RunTracker(const std::string& address, const std::string& folder) {
  Loop loop;
  auto tracker = Tracker::Start(loop, {.endpoints = {address}, .state_folder = folder + "/state"});
  if (!tracker.ok()) return fprintf(stderr, "%s\n", tracker.error().Text().c_str()), 1;
  auto page = tools::FarmPage::Start(loop, **tracker,
                                     {.address = "127.0.0.1:0", .state_folder = folder + "/state", .version = "bench"});
  if (!page.ok()) return fprintf(stderr, "%s\n", page.error().Text().c_str()), 1;
  const std::string url = (*page)->Url();
  if (!ReplaceFile(folder + "/port", url.substr(url.rfind(':') + 1)).ok()) return 1;
  loop.Run();
  return 0;
}

// A tracker and its devices.
class Farm {
 public:
  explicit Farm(int devices) : devices_(devices) {
    CHECK(mkdtemp(folder_.data()) != nullptr);
    Start({"tracker", address(), folder_});
    for (int i = 0; i < 100 && port() == 0; ++i) usleep(100000);
    constexpr int kPerProcess = 100;  // libzmq has 1,023 sockets in a process
    for (int first = 0; first < devices; first += kPerProcess) {
      Start({"servers", address(), folder_, std::to_string(first),
             std::to_string(std::min(kPerProcess, devices - first))});
    }
  }
  ~Farm() {
    processes_.clear();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Farm(const Farm&) = delete;
  const std::string& folder() const { return folder_; }
  std::string address() const { return "ipc://" + folder_ + "/tracker"; }
  int port() const {
    const Result<std::string> text = ReadFile(folder_ + "/port");
    return text.ok() ? std::atoi(text->c_str()) : 0;
  }
  bool Await() const {
    for (int i = 0; i < 120; ++i) {
      const auto status = rpc::QueryStatus(address(), "", 5);
      const auto free = [](const auto& device) { return device.state == rpc::device_state::kFree; };
      if (status.ok() && std::ranges::count_if(status->devices, free) == devices_) return true;
      sleep(1);
    }
    return false;
  }

 private:
  void Start(std::vector<std::string> argv) {
    auto child = Spawn(std::move(argv));
    if (child.ok()) processes_.push_back(std::move(child).value());
  }

  const int devices_;
  std::string folder_ = "/tmp/farm-page-XXXXXX";
  std::vector<Subprocess> processes_;
};

// One condition under which leases are timed.
struct Case {
  std::string name;
  std::vector<std::string> beside = {};  // arguments of the process that runs beside; none: nothing does
  std::string counts = {};               // file with a byte for each answer
  std::vector<double> times = {}, medians = {};
  int64_t answers = 0;
};

double At(std::vector<double>& times, double share) {
  std::sort(times.begin(), times.end());
  return times.empty() ? 0 : times.at(static_cast<size_t>(share * static_cast<double>(times.size() - 1)));
}

Status Turn(const Farm& farm, Case& its, double seconds) {
  std::optional<Subprocess> beside;
  if (!its.beside.empty()) beside = TRY(Spawn(its.beside));
  usleep(500000);
  const auto answers = [&] {
    std::error_code none;
    const auto size = std::filesystem::file_size(its.counts, none);
    return none ? 0 : static_cast<int64_t>(size);
  };
  const int64_t before = answers();
  const std::string file = farm.folder() + "/times";
  auto client = TRY(Spawn({"leases", farm.address(), std::to_string(seconds)}, file));
  if (!client.Wait(60000)) return Err("the leases take too long");
  its.answers += answers() - before;
  std::istringstream lines(TRY(ReadFile(file)));
  std::vector<double> times;
  for (double ms = 0; lines >> ms;) times.push_back(ms);
  if (times.empty()) return Err("no lease was granted");
  its.times.insert(its.times.end(), times.begin(), times.end());
  its.medians.push_back(At(times, 0.5));
  return {};
}

Status Measure(int devices, int readers, double seconds, int turns) {
  const Farm farm(devices), other(devices);
  if (!farm.Await() || !other.Await()) return Err("not all devices are free");
  printf("two farms of %d devices; leases of the first one, %d turns of %g s\n", devices, turns, seconds);
  std::vector<Case> cases = {
      {"nothing beside"},
      {std::to_string(readers) + " readers of its page",
       {"readers", std::to_string(farm.port()), std::to_string(readers)}},
      {"control: readers of the other page", {"readers", std::to_string(other.port()), std::to_string(readers)}},
      {"its status in a loop", {"ask", farm.address(), farm.folder() + "/own"}, farm.folder() + "/own"},
      {"control: status of the other", {"ask", other.address(), farm.folder() + "/other"}, farm.folder() + "/other"}};
  for (int turn = 0; turn < turns; ++turn)
    for (size_t i = 0; i < cases.size(); ++i) TRY(Turn(farm, cases[turn % 2 ? cases.size() - 1 - i : i], seconds));
  printf("%-36s %7s  %9s %9s %9s  %s\n", "", "leases", "median", "90 %", "99 %",
         "median of turns' ratios to nothing beside");
  for (Case& its : cases) {
    std::vector<double> ratios;
    for (size_t i = 0; i < its.medians.size(); ++i) ratios.push_back(its.medians[i] / cases[0].medians[i]);
    printf("%-36s %7zu  %6.3f ms %6.3f ms %6.3f ms  %.3f", its.name.c_str(), its.times.size(), At(its.times, 0.5),
           At(its.times, 0.9), At(its.times, 0.99), At(ratios, 0.5));
    if (!its.counts.empty()) printf("  (%.1f answers/s)", static_cast<double>(its.answers) / (seconds * turns));
    printf("\n");
  }
  return {};
}

}  // namespace
}  // namespace autotune

int main(int argc, char** argv) {
  autotune::EndWithParent();
  autotune::tools::AllowManyDescriptors();
  const std::string mode = argc > 1 ? argv[1] : "";
  if (argc == 6 && mode == "servers")
    return autotune::RunServers(argv[2], argv[3], std::atoi(argv[4]), std::atoi(argv[5]));
  if (argc == 4 && mode == "tracker") return autotune::RunTracker(argv[2], argv[3]);
  if (argc == 4 && mode == "leases") return autotune::TimeLeases(argv[2], std::atof(argv[3]));
  if (argc == 4 && mode == "readers") return autotune::ReadEvents(std::atoi(argv[2]), std::atoi(argv[3]));
  if (argc == 4 && mode == "ask") return autotune::AskStatus(argv[2], argv[3]);
  const auto number = [&](int i, double otherwise) { return argc > i ? std::atof(argv[i]) : otherwise; };
  const autotune::Status measured =
      autotune::Measure(static_cast<int>(number(1, 1000)), static_cast<int>(number(2, 100)), number(3, 2),
                        static_cast<int>(number(4, 8)));
  if (!measured.ok()) fprintf(stderr, "%s\n", measured.error().Text().c_str());
  return measured.ok() ? 0 : 1;
}
