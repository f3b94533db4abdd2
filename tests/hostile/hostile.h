// Shared by the attacks on a farm: a tracker and three servers in processes of their own. `victim` is attacked, in the
// strict sandbox where this user can have it. `bystander` is held by a client that measures without a break. `open` has
// no sandbox, to show what an attack does there. For tests only.
#pragma once
#include <atomic>
#include <cstdio>
#include <thread>

#include "rpc/system_calls.h"
#include "support/clock.h"
#include "support/sanitized.h"
#include "tests/draws.h"
#include "tests/hostile/attack.h"
#include "tests/tracker/farm.h"

namespace autotune {

#if defined(__x86_64__)
// Makes system calls by number, since artifacts may have no undefined symbols.
inline constexpr char kSystemCall[] =
    "static long call6(long n, long a, long b, long d, long e, long f, long g) { register long r10 __asm__(\"r10\") = "
    "e; "
    "register long r8 __asm__(\"r8\") = f; register long r9 __asm__(\"r9\") = g; long r; __asm__ volatile(\"syscall\" "
    ": "
    "\"=a\"(r) : \"a\"(n), \"D\"(a), \"S\"(b), \"d\"(d), \"r\"(r10), \"r\"(r8), \"r\"(r9) : \"rcx\", \"r11\", "
    "\"memory\"); return r; }\n"
    "#define call(n, a, b, d) call6(n, (long)(a), (long)(b), (long)(d), 0, 0, 0)\n"
    "#define FAIL(text) { c->set_error(c, text); return 1; }\n";

// A farm under attack.
class Hostile : public FarmTest {
 protected:
  // Seconds that a bar allows. The scripts (AUTOTUNE_DRAWS=all) apply bars as they are. The tests also run on hosts
  // that give them a small part of a processor.
  static int Bar(int seconds) { return test::DrawsAll() ? seconds : 10 * seconds; }
  // Bytes of memory above rest, for the tracker and for each server. Sanitizers keep freed memory.
  static constexpr int64_t kMostGrowth = 32 << 20;

  void SetUp() override {
    FarmTest::SetUp();
    StartProcesses();
    const int servers = static_cast<int>(servers_.size());
    ASSERT_TRUE(Soon([&] { return Count("") == servers && Count("victim") == 1 && Count("bystander") == 1; })) << Log();
    bystander_ = std::thread([this] { Stand(); });
    ASSERT_TRUE(Soon([&] { return good_.load() > 0; })) << Log();
    Honest("before any attack");
    rest_ = Memory();
  }
  void TearDown() override {
    EndBystander();
    servers_.clear();
    tracker_.reset();
    FarmTest::TearDown();
  }

  virtual void StartProcesses() {
    LaunchTracker({kTools + "/rpc_tracker", "--listen", Endpoint(), "--state", folder_ + "/state"});
    for (const char* key : {"victim", "bystander", "open"}) {
      const bool strict = geteuid() == 0 && rpc::CanRestrictSystemCalls();
      const std::string sandbox = std::string(key) == "open" ? "off" : strict ? "strict" : "on";
      LaunchServer(key, {kTools + "/rpc_server", "--tracker", Endpoint(), "--key", key, "--shared-host",
                         "--memory-limit=0.25", "--sandbox=" + sandbox});
    }
  }
  void LaunchTracker(const std::vector<std::string>& argv) { tracker_.emplace(Start(argv)); }
  void LaunchServer(const std::string& key, const std::vector<std::string>& argv) {
    servers_.emplace(key, Start(argv));
  }

  void EndBystander() {
    stop_ = true;
    if (bystander_.joinable()) bystander_.join();
  }

  // Measures candidates of one client on a device.
  std::vector<TrialResult> Measure(const std::string& key, std::vector<Blob> artifacts, double seconds = 10) {
    return Measure(key, JobOf(std::move(artifacts)), seconds);
  }
  std::vector<TrialResult> Measure(const std::string& key, MeasureJob job, double seconds = 10) {
    auto client = Client(key, 2 * Bar(5));
    if (!client) return {};
    for (Candidate& candidate : job.candidates) {
      candidate.run_seconds = seconds;
      candidate.load_seconds = 5;
    }
    auto results = client->Measure(job);
    EXPECT_TRUE(results.ok()) << results.error().Text();
    return results.ok() ? *results : std::vector<TrialResult>();
  }
  // Measures one candidate of another client on the attacked device.
  void Honest(const std::string& after) {
    const int64_t begin = BootMillis();
    const auto results = Measure("victim", {Compile(kDouble)});
    const int64_t took = BootMillis() - begin;
    ASSERT_EQ(results.size(), 1u) << after;
    EXPECT_EQ(results[0].status, TrialStatus::kOk) << after << ": " << results[0].error;
    EXPECT_LE(took, 1000 * Bar(5)) << after;
  }
  // What must hold after each attack, or after several that one client has made.
  void ExpectUnharmed(const std::vector<std::string>& attacks) {
    ExpectNoHarm(attacks.front() + (attacks.size() > 1 ? " to " + attacks.back() : ""));
    for (const std::string& attack : attacks) {
      std::printf("%-58s unharmed, %+.1f MiB\n", attack.c_str(), static_cast<double>(Growth(Memory())) / (1 << 20));
      ++attacks_;
    }
    std::fflush(stdout);
  }
  void ExpectUnharmed(const std::string& attack) { ExpectUnharmed(std::vector<std::string>{attack}); }
  void ExpectNoHarm(const std::string& attack) {
    Honest(attack);
    EXPECT_EQ(bad_, 0) << attack << ": the bystander got a result that is not ok";
    const int good = good_;
    EXPECT_TRUE(Soon([&] { return good_ > good; }, Bar(5))) << attack << ": the bystander gets no results";
    EXPECT_EQ(LostLeases(), "") << attack;
    // Freed memory may take a moment to return.
    std::map<std::string, int64_t> now;
    const bool small = Soon([&] { return Growth(now = Memory()) <= kMostGrowth || kSanitized; }, Bar(5));
    EXPECT_TRUE(small) << attack << ": memory grew by " << (Growth(now) >> 20) << " MiB";
  }

  std::map<std::string, int64_t> Memory() {
    std::map<std::string, int64_t> memory = {{"tracker", MemoryOf(tracker_->pid())}};
    for (const auto& [key, server] : servers_) memory[key] = MemoryOf(server.pid());
    return memory;
  }
  // The largest growth of a process since the farm was at rest.
  int64_t Growth(const std::map<std::string, int64_t>& memory) {
    int64_t growth = INT64_MIN;
    for (const auto& [name, bytes] : memory) growth = std::max(growth, bytes - rest_[name]);
    return growth;
  }
  static int64_t MemoryOf(pid_t pid) {
    std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
    int64_t pages = 0, resident = 0;
    statm >> pages >> resident;
    return resident * sysconf(_SC_PAGESIZE);
  }
  std::string Log() const { return test::ReadAll(folder_ + "/log"); }
  // The lines of the log that say so, but of those who call themselves "attacker".
  std::string LostLeases() const {
    std::istringstream log(Log());
    std::string lost;
    for (std::string line; std::getline(log, line);)
      if (line.find(" lost by ") != std::string::npos && line.find("attacker") == std::string::npos)
        lost += line + "\n";
    return lost;
  }
  pid_t PidOf(const std::string& key) const { return servers_.at(key).pid(); }
  pid_t TrackerPid() const { return tracker_->pid(); }

  std::string Tracker() const { return "ipc://" + Endpoint(); }
  int Good() const { return good_; }  // results that the bystander has got
  rpc::DeviceStatus DeviceOf(const std::string& key) {
    auto status = rpc::QueryStatus(Tracker(), key, 5);
    EXPECT_TRUE(status.ok() && status->devices.size() == 1u);
    return status.ok() && !status->devices.empty() ? status->devices[0] : rpc::DeviceStatus();
  }
  // Sends so many MiB of a message that never ends over so many connections. Returns the largest growth of the process.
  int64_t MostWhileUnfinished(const std::string& endpoint, pid_t process, int connections, int mebibytes) {
    const std::string frame(1 << 20, 'x');
    const int64_t rest = MemoryOf(process);
    int64_t most = 0;
    std::vector<Peer> peers;
    for (int n = 0; n < connections; ++n) peers.emplace_back(endpoint);
    for (int sent = 0; sent < mebibytes; ++sent) {
      Peer& peer = peers[static_cast<size_t>(sent % connections)];
      if (!peer.connected() || !peer.Frame(frame, true)) peer = Peer(endpoint);
      // Half a GiB a second. What arrives until the process looks depends on how soon other processes let it run.
      usleep(2000);
      most = std::max(most, MemoryOf(process) - rest);
    }
    return most;
  }

  int attacks_ = 0;

 private:
  Subprocess Start(const std::vector<std::string>& argv) {
    if (!log_) log_.Reset(open((folder_ + "/log").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600));
    auto child = Subprocess::Spawn({.argv = argv, .fds = {{1, log_.get()}, {2, log_.get()}}});
    EXPECT_TRUE(child.ok());
    return std::move(child).value();
  }
  void Stand() {
    auto client = Client("bystander");
    while (client && !stop_) {
      auto results = client->Measure(JobOf({Compile(kDouble)}));
      const bool good = results.ok() && results->front().status == TrialStatus::kOk;
      ++(good ? good_ : bad_);
      usleep(20000);
    }
  }

  UniqueFd log_;
  std::optional<Subprocess> tracker_;
  std::map<std::string, Subprocess> servers_;
  std::map<std::string, int64_t> rest_;
  std::thread bystander_;
  std::atomic<bool> stop_{false};
  std::atomic<int> good_{0}, bad_{0};
};
#endif

}  // namespace autotune
