#include "rpc/runner_pool.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "rpc/channel.h"
#include "rpc/library_files.h"
#include "rpc/rules.h"
#include "rpc/runner.h"
#include "rpc/upload.h"
#include "support/clock.h"
#include "support/cpus.h"
#include "support/log.h"
#include "support/process_stat.h"
#include "support/subprocess.h"
#include "support/utf8.h"

namespace autotune::rpc {
namespace {

constexpr int64_t kCleanUpMs = 2;  // time between two checks of killed runners; a kill takes about this long
// Time between two looks at a runner that works, which see whether it was stopped, and whether it may use too much
// memory by now.
constexpr int64_t kLookMs = 100;
// Counting the runner's memory takes up to a millisecond of a CPU that it measures on. So its memory is counted again
// only when it could have filled what it may still use, and once in kLongestCountMs [chosen]. No core fills more than
// kFillPerMs bytes in a millisecond, since each new page costs more than its zeros do [chosen].
constexpr int64_t kFillPerMs = int64_t{4} << 20, kLongestCountMs = 1000;
constexpr int64_t kUnkillableMs = 100;  // time between two checks once a runner has outlived unkillable_ms

}  // namespace

int64_t RunnerPool::OomKills() {
  std::ifstream file("/proc/vmstat");
  std::string name;
  for (int64_t value; file >> name >> value;) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

namespace {

// Returns the bytes of memory that a process occupies: its resident pages, and its memory files, whose pages need not
// be resident. Files that it has open count with their memory. Those that it has only mapped count with the largest
// size that they may have.
int64_t MemoryOf(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  int64_t pages = 0, resident = 0, files = 0;
  std::ifstream(folder + "/statm") >> pages >> resident;
  std::set<std::string> seen;  // inodes
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/fd", ignored)) {
    struct stat facts {};
    if (!std::filesystem::read_symlink(entry.path(), ignored).native().starts_with("/memfd:")) continue;
    if (stat(entry.path().c_str(), &facts) || !seen.insert(std::to_string(facts.st_ino)).second) continue;
    files += int64_t{512} * facts.st_blocks;
  }
  std::ifstream maps(folder + "/maps");  // "ADDRESSES RIGHTS OFFSET DEVICE INODE PATH"
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find("/memfd:");
    if (path == std::string::npos) continue;
    std::istringstream words(line.substr(0, path));
    std::string inode;
    for (std::string word; words >> word;) inode = word;
    if (!seen.insert(inode).second) continue;
    const std::string_view name = std::string_view(line).substr(path + strlen("/memfd:"));
    files += name.starts_with(LibraryFiles::kName)   ? LibraryFiles::kMostBytes
             : name.starts_with(SharedMemory::kName) ? kMostPackedBytes
                                                     : kRunnerFileBytes;
  }
  return resident * sysconf(_SC_PAGESIZE) + files;
}

}  // namespace

struct RunnerPool::Runner {
  explicit Runner(Subprocess p) : process(std::move(p)) {}
  Subprocess process;
  std::unique_ptr<LoopChannel> channel;
  UniqueFd errors;  // the read end of the runner's standard output and standard error
  OutputTail last_words;
  Loop::Watch exit_watch, error_watch, start_watch, ask_watch;
  int64_t run = 0;                // of its latest request
  std::optional<Message> result;  // a result, until the runner asks for work
  bool ready = false;
  RunnerHello hello;        // its first one
  bool replaced = false;    // killed by Replace, so its end is not reported
  bool was_active = false;  // it was the active runner when it ended
  bool reported = false;    // its end has been reported
  std::string greed;        // text about the memory for which the pool killed it; empty: none
  std::string nonsense;  // reason for which the pool killed it, such as a malformed message; empty: it ended by itself
  int64_t killed_at = 0;
  int64_t oom_kills = 0;  // OomKills before the latest request
  int64_t looked_at = 0;  // when CountStops was called
  double stopped_ms = 0;  // since its latest request
  int64_t count_at = 0;   // when its memory is to be counted again

  // If the runner was stopped since the latest call, counts all of that time.
  void CountStops() {
    const int64_t since = std::exchange(looked_at, BootMillis());
    if (process.WasStopped()) stopped_ms += static_cast<double>(looked_at - since);
  }
  void ReadErrors() {
    if (!last_words.ReadSome(errors.get())) error_watch.reset();
  }
};

RunnerPool::RunnerPool(Loop& loop, Options options, Handlers handlers)
    : loop_(loop), options_(std::move(options)), handlers_(std::move(handlers)) {
  if (options_.adopt_orphans) AdoptOrphans();
  Fill();
}

RunnerPool::~RunnerPool() { *alive_ = false; }

void RunnerPool::Fill() {
  if (retry_) return;
  while (static_cast<int>(runners_.size()) < options_.runners && !retry_) Start();
}

void RunnerPool::Failed(const std::string& why) {
  // The waits before the next attempts grow, since the cause of a failed start rarely goes away at once.
  constexpr int64_t kRetryMs[] = {0, 100, 500, 1000, 5000};
  failures_ = std::min(failures_ + 1, 5);
  if (ever_started_ || !options_.quiet_start) Log(LogLevel::kWarning, "a runner could not be started: ", why);
  retry_ = loop_.After(kRetryMs[failures_ - 1], [this] {
    retry_.reset();
    Fill();
  });
  if (failures_ >= 3 && !active_) handlers_.on_unavailable("no runner can be started: " + why);
}

void RunnerPool::Start() {
  auto pair = MakeSocketPair();
  auto pipe = MakePipe();
  if (!pair || !pipe) return Failed((pair ? pipe.error() : pair.error()).Text());
  auto& [ours, theirs] = *pair;
  auto& [read_end, write_end] = *pipe;
  const int buffer = 1 << 20;  // the system may give less. An artifact of 8 MiB takes a few wake-ups then. [chosen]
  setsockopt(ours.get(), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
  auto process =
      Subprocess::Spawn({.argv = options_.argv,
                         .fds = {{1, write_end.get()}, {2, write_end.get()}, {kRunnerDescriptor, theirs.get()}},
                         .wrapped = options_.wrapped});
  if (!process) return Failed(process.error().Text());
  auto runner = std::make_unique<Runner>(std::move(*process));
  Runner* raw = runner.get();
  fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  raw->oom_kills = options_.oom_kills();
  raw->errors = std::move(read_end);
  raw->error_watch = loop_.OnReadable(raw->errors.get(), [raw] { raw->ReadErrors(); });
  raw->channel = std::make_unique<LoopChannel>(
      loop_, std::move(ours), [this, raw](Message message) { OnMessage(raw, std::move(message)); },
      [this, raw](const std::string& nonsense) { OnEnd(raw, nonsense); }, !options_.wrapped);
  if (raw->process.exit_descriptor() >= 0) {
    raw->exit_watch = loop_.OnReadable(raw->process.exit_descriptor(), [this, raw] {
      raw->exit_watch.reset();
      raw->channel->Read();  // delivers a last result, and notices the end of the stream
      if (raw->channel) OnEnd(raw, "");
    });
  }
  raw->start_watch = loop_.After(options_.start_ms, [this, raw] { OnEnd(raw, "did not start in time"); });
  runners_.push_back(std::move(runner));
}

void RunnerPool::OnMessage(Runner* runner, Message message) {
  if (runner->killed_at) return;  // the message was still buffered when the runner was killed
  const auto* hello = message.As<RunnerHello>();
  if (hello && !runner->ready) {
    runner->ready = ever_started_ = true;
    runner->hello = *hello;
    runner->start_watch.reset();
    failures_ = 0;
    Promote();
  } else if (runner != active_ || runner->result) {
    if (hello && runner == active_) PassResult(*runner, false);
  } else if (const auto* result = message.As<RunnerResult>()) {
    if (result->run != runner->run && Holds(Rule::kFreshRuns)) return;  // not of the request that it has got
    const bool last = result->last;
    runner->result = std::move(message);
    if (last) return PassResult(*runner, true);
    runner->ask_watch = loop_.After(options_.ask_ms, [this, runner] { PassResult(*runner, true); });
  } else {
    handlers_.on_message(message);
  }
}

// Passes on the result that the active runner has sent. `last`: the runner must not get further work.
void RunnerPool::PassResult(Runner& runner, bool last) {
  Message message = *std::exchange(runner.result, std::nullopt);
  runner.ask_watch.reset();
  work_watch_.reset();
  RunnerResult result = *message.As<RunnerResult>();
  result.last = last;
  runner.CountStops();
  TrialResult& measured = result.result;
  if (runner.stopped_ms > 0 && measured.status == TrialStatus::kOk && measured.disturbed.empty())
    measured.disturbed = "something stopped the runner";
  message.body = std::move(result);
  handlers_.on_message(message);
}

void RunnerPool::Promote() {
  if (active_ || !dying_.empty()) return;
  for (auto& runner : runners_) {
    if (!runner->ready) continue;
    active_ = runner.get();
    // The call is posted, so that on_ready never runs inside the callback that ended the previous runner.
    loop_.Post([this, alive = alive_] {
      if (*alive && active_) handlers_.on_ready();
    });
    return;
  }
}

void RunnerPool::Kill(Runner* runner) {
  auto it = std::find_if(runners_.begin(), runners_.end(), [&](const auto& r) { return r.get() == runner; });
  runner->exit_watch.reset();
  runner->start_watch.reset();
  runner->ask_watch.reset();
  runner->error_watch.reset();
  runner->process.Kill();
  runner->was_active = runner == active_;
  if (runner->was_active) {
    active_ = nullptr;
    work_watch_.reset();
  }
  runner->killed_at = BootMillis();
  dying_.push_back(std::move(*it));
  runners_.erase(it);
  CleanUp();
}

// Kills the processes that killed runners left behind. Returns whether these processes and the killed runners are dead.
bool RunnerPool::AllDead() {
  std::vector<pid_t> known;
  for (auto& r : runners_) known.push_back(r->process.pid());
  bool dead = true;
  for (auto& r : dying_) {
    if (r->process.Poll()) continue;
    dead = false;
    known.push_back(r->process.pid());
  }
  if (!options_.adopt_orphans) return dead;
  Strangers strangers = KillStrangers(known);
  if (strangers.reaped) {
    Log(LogLevel::kWarning, "killed ", strangers.reaped, " processes that a runner left behind");
  }
  return dead && strangers.alive == 0;
}

void RunnerPool::WatchWork() {
  if (!active_) return;
  active_->CountStops();
  if (options_.memory_bytes <= 0) return;
  if (active_->looked_at + kLookMs / 2 < active_->count_at) return;
  const int64_t used = MemoryOf(active_->process.pid());
  if (used <= options_.memory_bytes) {
    const int64_t full = (options_.memory_bytes - used) / (kFillPerMs * AvailableCpus());
    active_->count_at = active_->looked_at + std::min(full, kLongestCountMs);
    return;
  }
  active_->greed = "used " + std::to_string(used >> 20) + " MiB of memory, and may use " +
                   std::to_string(options_.memory_bytes >> 20);
  Kill(active_);
}

void RunnerPool::CleanUp() {
  clean_up_.reset();
  if (!AllDead()) {
    ReportUnkillable();
    clean_up_ = loop_.After(unkillable_ ? kUnkillableMs : kCleanUpMs, [this] { CleanUp(); });
    return;
  }
  bool was_unkillable = std::exchange(unkillable_, false);
  auto ended = std::exchange(dying_, {});
  for (auto& runner : ended) Report(*runner);
  for (auto& runner : ended) dead_.push_back(std::move(runner));
  loop_.Post([this, alive = alive_] {
    if (*alive) dead_.clear();
  });
  handlers_.on_all_dead();
  if (was_unkillable && active_) handlers_.on_ready();
  Promote();
  Fill();
}

// Reports the end of a runner, at most once.
void RunnerPool::Report(Runner& runner) {
  if (runner.replaced || std::exchange(runner.reported, true)) return;
  runner.ReadErrors();
  RunnerEnd end;
  if (auto status = runner.process.Poll()) {
    end.text = status->Text();
    end.signal = status->signal;
    end.out_of_memory = status->signal == SIGKILL && options_.oom_kills() > runner.oom_kills;
  } else {
    end.text = "cannot be killed";
  }
  if (!runner.greed.empty()) {
    end = {.text = runner.greed, .out_of_memory = true};
  } else if (!runner.nonsense.empty()) {
    end.text = runner.ready ? "sent a malformed message: " + runner.nonsense : runner.nonsense;
    end.signal = 0;
  }
  std::string words = runner.last_words.text();
  std::ranges::replace_if(
      words, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  while (!words.empty() && words.back() == ' ') words.pop_back();
  words = OneLine(words);
  if (!words.empty()) end.text += ": " + words;
  if (runner.was_active) handlers_.on_end(end);
  if (!runner.ready) Failed(end.text);
}

// If a killed runner has outlived unkillable_ms, makes the device unavailable. Reports the ends of the overdue and of
// the dead runners, so that their candidates get results.
void RunnerPool::ReportUnkillable() {
  auto overdue = [&](auto& runner) { return BootMillis() - runner->killed_at >= options_.unkillable_ms; };
  if (std::none_of(dying_.begin(), dying_.end(), overdue)) return;
  bool known = std::exchange(unkillable_, true);
  if (!known) Log(LogLevel::kError, "a runner, or a process it left behind, cannot be killed");
  for (auto& runner : dying_) {
    if (overdue(runner) || runner->process.Poll()) Report(*runner);
  }
  if (!known) handlers_.on_unavailable("a runner cannot be killed; the device needs a restart");
}

void RunnerPool::OnEnd(Runner* runner, const std::string& nonsense) {
  auto is_known = [&] {
    return std::any_of(runners_.begin(), runners_.end(), [&](const auto& r) { return r.get() == runner; });
  };
  if (!is_known()) return;
  if (runner == active_ && runner->result) PassResult(*runner, true);
  if (!is_known()) return;  // the handler has replaced it
  runner->nonsense = nonsense;
  Kill(runner);
}

void RunnerPool::Replace() {
  if (active_) {
    active_->replaced = true;
    Kill(active_);
  } else {
    for (auto& runner : dying_) runner->replaced |= runner->was_active;
  }
}

RunnerFacts RunnerPool::Examine() {
  const std::optional<ProcessStat> stat = active_ ? StatOfProcess(active_->process.pid()) : std::nullopt;
  if (!stat) return {};
  active_->CountStops();
  return {.stopped = stat->IsStopped(),
          .cpu_ms = stat->cpu_ms,
          .waited_ms = WaitedOfProcess(active_->process.pid()),
          .stopped_ms = active_->stopped_ms};
}

int64_t RunnerPool::BufferedBytes() const {
  int64_t bytes = 0;
  for (const auto& runner : runners_) bytes += runner->channel->buffered();
  return bytes;
}

RunnerHello RunnerPool::ActiveHello() const { return active_ ? active_->hello : RunnerHello(); }

void RunnerPool::Send(const Message& message) {
  if (!active_) return;
  active_->oom_kills = options_.oom_kills();
  if (Holds(Rule::kDropsUnread)) active_->channel->Discard();
  if (const auto* request = message.As<RunnerRequest>()) active_->run = request->run;
  if (const auto* probe = message.As<RunnerProbe>()) active_->run = probe->run;
  if (const auto* call = message.As<RunnerCall>()) active_->run = call->run;
  active_->channel->Send(message);
  active_->looked_at = BootMillis();
  active_->stopped_ms = 0;
  active_->count_at = 0;
  work_watch_ = loop_.Every(kLookMs, [this] { WatchWork(); });
}

}  // namespace autotune::rpc
