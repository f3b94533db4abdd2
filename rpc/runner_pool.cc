#include "rpc/runner_pool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "rpc/channel.h"
#include "rpc/runner.h"
#include "support/log.h"
#include "support/subprocess.h"

namespace autotune::rpc {
namespace {

constexpr size_t kLastWords = 500;

// How many processes this kernel has killed for want of memory.
int64_t OomKills() {
  std::ifstream file("/proc/vmstat");
  std::string name;
  for (int64_t value; file >> name >> value;) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

}  // namespace

struct RunnerPool::Runner {
  explicit Runner(Subprocess p) : process(std::move(p)) {}
  Subprocess process;
  std::unique_ptr<LoopChannel> channel;
  UniqueFd errors;  // the read end of its standard error
  std::string last_words;
  Loop::Watch exit_watch, error_watch, start_watch;
  bool ready = false;
  int64_t oom_kills = OomKills();

  void ReadErrors() {
    char bytes[4096];
    ssize_t n;
    while ((n = read(errors.get(), bytes, sizeof bytes)) > 0) {
      last_words.append(bytes, static_cast<size_t>(n));
      if (last_words.size() > kLastWords) last_words.erase(0, last_words.size() - kLastWords);
    }
    if (n == 0) error_watch.reset();
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
  // A runner that cannot start will hardly start right away.
  constexpr int64_t kRetryMs[] = {0, 100, 500, 1000, 5000};
  failures_ = std::min(failures_ + 1, 5);
  Log(LogLevel::kWarning, "a runner could not be started: ", why);
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
  auto process =
      Subprocess::Spawn({.argv = options_.argv,
                         .fds = {{1, write_end.get()}, {2, write_end.get()}, {kRunnerDescriptor, theirs.get()}},
                         .wrapped = options_.wrapped});
  if (!process) return Failed(process.error().Text());
  auto runner = std::make_unique<Runner>(std::move(*process));
  Runner* raw = runner.get();
  fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  raw->errors = std::move(read_end);
  raw->error_watch = loop_.OnReadable(raw->errors.get(), [raw] { raw->ReadErrors(); });
  raw->channel = std::make_unique<LoopChannel>(
      loop_, std::move(ours),
      [this, raw](Message message) {
        if (!raw->ready && message.As<RunnerHello>()) {
          raw->ready = true;
          raw->start_watch.reset();
          failures_ = 0;
          Promote();
        } else if (raw == active_) {
          handlers_.on_message(message);
        }
      },
      [this, raw](const std::string& nonsense) { OnEnd(raw, nonsense); });
  if (raw->process.exit_descriptor() >= 0) {
    raw->exit_watch = loop_.OnReadable(raw->process.exit_descriptor(), [this, raw] {
      raw->exit_watch.reset();
      raw->channel->Read();  // a last result may have arrived before the end; it also notices the end
      if (raw->channel) OnEnd(raw, "");
    });
  }
  raw->start_watch = loop_.After(options_.start_ms, [this, raw] { OnEnd(raw, "did not start in time"); });
  runners_.push_back(std::move(runner));
}

void RunnerPool::Promote() {
  if (active_) return;
  for (auto& runner : runners_) {
    if (!runner->ready) continue;
    active_ = runner.get();
    // Not from within the callback that ended the last one.
    loop_.Post([this, alive = alive_] {
      if (*alive && active_) handlers_.on_ready();
    });
    return;
  }
}

// Kills the runner and whatever it left behind, and waits until it is dead.
void RunnerPool::Remove(Runner* runner) {
  auto it = std::find_if(runners_.begin(), runners_.end(), [&](const auto& r) { return r.get() == runner; });
  if (it == runners_.end()) return;
  runner->exit_watch.reset();
  runner->start_watch.reset();
  runner->process.Kill();
  if (!runner->process.Wait(5000)) {
    Log(LogLevel::kError, "runner ", runner->process.pid(), " cannot be killed");
    handlers_.on_unavailable("a runner cannot be killed; the device needs a restart");
  }
  runner->ReadErrors();
  runner->error_watch.reset();
  if (active_ == runner) active_ = nullptr;
  dead_.push_back(std::move(*it));
  runners_.erase(it);
  if (options_.adopt_orphans) {
    std::vector<pid_t> known;
    for (auto& r : runners_) known.push_back(r->process.pid());
    if (int n = KillStrangers(known)) Log(LogLevel::kWarning, "killed ", n, " processes that a runner left behind");
  }
  loop_.Post([this, alive = alive_] {
    if (*alive) dead_.clear();
  });
}

void RunnerPool::OnEnd(Runner* runner, const std::string& nonsense) {
  bool was_active = runner == active_, was_ready = runner->ready;
  if (std::none_of(runners_.begin(), runners_.end(), [&](const auto& r) { return r.get() == runner; })) return;
  Remove(runner);
  RunnerEnd end;
  if (auto status = runner->process.Poll()) {
    end.text = status->Text();
    end.signal = status->signal;
    end.out_of_memory = status->signal == SIGKILL && OomKills() > runner->oom_kills;
  }
  if (!nonsense.empty()) {
    end.text = was_ready ? "sent what makes no sense: " + nonsense : nonsense;
    end.signal = 0;
  }
  std::string words = runner->last_words;
  std::replace(words.begin(), words.end(), '\n', ' ');
  while (!words.empty() && words.back() == ' ') words.pop_back();
  if (!words.empty()) end.text += ": " + words;
  if (was_active) handlers_.on_end(end);
  if (!was_ready) return Failed(end.text);
  Promote();
  Fill();
}

void RunnerPool::Replace() {
  if (!active_) return;
  Remove(active_);
  Promote();
  Fill();
}

void RunnerPool::Send(const Message& message) {
  if (active_) active_->channel->Send(message);
}

}  // namespace autotune::rpc
