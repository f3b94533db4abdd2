// Measures whether the page of a tracker delays leases: the round trip of a lease on a farm of simulated devices, with
// and without readers of the page, in turns.
//   bench_farm_page [DEVICES [READERS [SECONDS]]]
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "rpc/query_tracker.h"
#include "rpc/transport.h"
#include "support/clock.h"
#include "support/statistics.h"
#include "support/subprocess.h"
#include "support/unique_fd.h"
#include "tools/descriptors.h"
#include "tools/live/farm_page.h"

namespace autotune {
namespace {

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

// The round trips of leases, in milliseconds.
std::vector<double> TimeLeases(const std::string& tracker, double seconds) {
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
  return times;
}

// Reads the events of the page on many connections until it is stopped.
class Readers {
 public:
  Readers(int port, int count) : thread_([this, port, count] { Read(port, count); }) {}
  ~Readers() {
    stop_ = true;
    thread_.join();
  }
  int64_t bytes() const { return bytes_; }

 private:
  void Read(int port, int count) {
    constexpr std::string_view kRequest = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::vector<UniqueFd> sockets;
    for (int i = 0; i < count; ++i) {
      sockets.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(sockets.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return;
      if (send(sockets.back().get(), kRequest.data(), kRequest.size(), MSG_NOSIGNAL) < 0) return;
    }
    std::vector<char> bytes(1 << 20);
    while (!stop_) {
      for (const UniqueFd& one : sockets) {
        const ssize_t n = recv(one.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (n > 0) bytes_ += n;
      }
      usleep(20000);
    }
  }
  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> bytes_ = 0;
  std::thread thread_;
};

int Measure(int devices, int readers, double seconds) {
  constexpr int kPerProcess = 100;  // libzmq has 1,023 sockets in a process
  std::string folder = "/tmp/farm-page-XXXXXX";
  if (!mkdtemp(folder.data())) return 1;
  const std::string address = "ipc://" + folder + "/tracker";
  Loop loop;
  auto tracker = Tracker::Start(loop, {.endpoints = {address}, .state_folder = folder + "/state"});
  if (!tracker.ok()) return fprintf(stderr, "%s\n", tracker.error().Text().c_str()), 1;
  std::thread runs([&] { loop.Run(); });
  std::vector<Subprocess> servers;
  for (int first = 0; first < devices; first += kPerProcess) {
    auto child = Subprocess::Spawn({.argv = {"/proc/self/exe", "servers", address, folder, std::to_string(first),
                                             std::to_string(std::min(kPerProcess, devices - first))}});
    if (child.ok()) servers.push_back(std::move(child).value());
  }
  const auto free = [&] {
    const auto status = rpc::QueryStatus(address, "", 5);
    return !status.ok() ? 0 : std::ranges::count(status->devices, std::string("free"), &rpc::DeviceStatus::state);
  };
  for (int i = 0; i < 120 && free() < devices; ++i) sleep(1);
  printf("%lld of %d devices free\n", static_cast<long long>(free()), devices);
  std::vector<double> without, page, watched, asked;
  for (int turn = 0; turn < 3; ++turn) {
    const auto add = [&](std::vector<double>& all) {
      for (const double ms : TimeLeases(address, seconds)) all.push_back(ms);
    };
    add(without);
    std::unique_ptr<tools::FarmPage> shown;
    std::atomic<bool> started = false;
    loop.Post([&] {
      auto made = tools::FarmPage::Start(
          loop, **tracker, {.address = "127.0.0.1:0", .state_folder = folder + "/state", .version = "bench"});
      if (made.ok()) shown = std::move(*made);
      started = true;
    });
    while (!started) usleep(1000);
    if (!shown) return 1;
    add(page);
    {
      const std::string url = shown->Url();
      const Readers reading(std::stoi(url.substr(url.rfind(':') + 1)), readers);
      sleep(2);
      const int64_t before = reading.bytes();
      add(watched);
      printf("readers got %.1f KB/s\n", static_cast<double>(reading.bytes() - before) / seconds / 1e3);
    }
    std::atomic<bool> ended = false;
    loop.Post([&] {
      shown.reset();
      ended = true;
    });
    while (!ended) usleep(1000);
    std::atomic<bool> stop = false;
    std::thread asks([&] {
      while (!stop) (void)rpc::QueryStatus(address, "", 5).ok();
    });
    add(asked);
    stop = true;
    asks.join();
  }
  const auto show = [&](const char* name, std::vector<double>& times) {
    std::sort(times.begin(), times.end());
    if (times.empty()) return (void)printf("%-34s no lease\n", name);
    const auto at = [&](double share) {
      return times.at(static_cast<size_t>(share * static_cast<double>(times.size() - 1)));
    };
    printf("%-34s %5zu leases: median %.3f ms, 90 %% %.3f ms, 99 %% %.3f ms\n", name, times.size(), at(0.5), at(0.9),
           at(0.99));
  };
  show("without a page", without);
  show("with a page that nobody reads", page);
  show("with readers", watched);
  show("without a page, status in a loop", asked);
  loop.Stop();
  runs.join();
  servers.clear();
  return 0;
}

}  // namespace
}  // namespace autotune

int main(int argc, char** argv) {
  autotune::EndWithParent();
  autotune::tools::AllowManyDescriptors();
  if (argc == 6 && std::string(argv[1]) == "servers")
    return autotune::RunServers(argv[2], argv[3], std::atoi(argv[4]), std::atoi(argv[5]));
  const auto number = [&](int i, double otherwise) { return argc > i ? std::atof(argv[i]) : otherwise; };
  return autotune::Measure(static_cast<int>(number(1, 1000)), static_cast<int>(number(2, 100)), number(3, 10));
}
