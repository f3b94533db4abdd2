#include "tracker/status_answers.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "support/clock.h"
#include "tracker/status_of_key.h"

namespace autotune {
namespace {

constexpr double kPerLook = 50, kPerAnswer = 4;  // time between two copies, in multiples of what they take [chosen]
constexpr double kLongestMs = 1000;              // between two copies [chosen]
constexpr int kNiceness = 10;                    // of the thread: leases come first [chosen]

struct Work {
  rpc::StatusReply status;
  std::vector<std::pair<rpc::Id, std::string>> asked;  // requests and their keys
};

// Returns the frames of an answer for each request. Those of one key share the body.
std::vector<rpc::Frames> AnswersOf(const Work& work) {
  std::map<std::string, rpc::Frames> of_key;
  std::vector<rpc::Frames> answers;
  for (const auto& [request, key] : work.asked) {
    rpc::Frames& frames = of_key[key];
    if (frames.empty()) frames = rpc::Encode({"", StatusOfKey(work.status, key), {}});
    answers.push_back(rpc::WithRequest(frames, rpc::StatusReply::kKind, request));
  }
  return answers;
}

}  // namespace

struct StatusAnswers::Thread {
  using Done = std::function<void(std::vector<rpc::Frames> answers, double cpu_ms)>;
  explicit Thread(Done its_done) : done(std::move(its_done)) {
    // Signals are for the other threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread = std::thread([this] { Run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Thread() {
    {
      std::lock_guard lock(mutex);
      ends = true;
    }
    wake.notify_all();
    thread.join();
  }
  void Give(Work work) {
    {
      std::lock_guard lock(mutex);
      next = std::move(work);
    }
    wake.notify_all();
  }
  void Run() {
    (void)nice(kNiceness);  // of this thread alone
    std::unique_lock lock(mutex);
    while (true) {
      wake.wait(lock, [this] { return ends || next; });
      if (ends) return;
      const Work work = std::move(*std::exchange(next, std::nullopt));
      lock.unlock();
      const double before = CpuMilliseconds();
      std::vector<rpc::Frames> answers = AnswersOf(work);
      done(std::move(answers), CpuMilliseconds() - before);
      lock.lock();
    }
  }

  const Done done;
  std::mutex mutex;
  std::condition_variable wake;
  std::optional<Work> next;  // protected by the mutex
  bool ends = false;         // protected by the mutex
  std::thread thread;
};

StatusAnswers::StatusAnswers(Loop& loop, Calls calls) : loop_(loop), calls_(std::move(calls)) {}
StatusAnswers::~StatusAnswers() = default;

void StatusAnswers::Ask(StatusQuestion question) {
  if (waiting_.size() >= kMostWaiting) return;
  waiting_.push_back(std::move(question));
  BeginSoon();
}

void StatusAnswers::BeginSoon() {
  if (is_busy_ || timer_ || waiting_.empty()) return;
  // At the soonest when all messages that have arrived are read: their senders share a copy.
  const double ms = std::clamp(1e3 * (next_ - SteadySeconds()), 0.0, kLongestMs);
  timer_ = loop_.After(static_cast<int64_t>(ms), [this] {
    timer_.reset();
    Begin();
  });
}

void StatusAnswers::Begin() {
  began_ = SteadySeconds();
  const double before = CpuMilliseconds();
  Work work{.status = calls_.look(), .asked = {}};
  look_ms_ = CpuMilliseconds() - before;
  is_busy_ = true;
  asked_ = std::exchange(waiting_, {});
  for (const StatusQuestion& question : asked_) work.asked.emplace_back(question.request, question.key);
  // Bytes of an entry of the copy, and of an answer as a tree and a text. [estimated]
  constexpr int64_t kOfCopy = 1 << 10, kOfAnswer = 3 << 10, kMostInAnswer = 4096;
  const auto entries =
      static_cast<int64_t>(work.status.devices.size() + work.status.queue.size() + work.status.absent_keys.size());
  memory_ = kOfCopy * entries + kOfAnswer * std::min(entries, kMostInAnswer);
  if (!thread_) {
    thread_ = std::make_unique<Thread>(
        [this, alive = std::weak_ptr(alive_)](std::vector<rpc::Frames> answers, double cpu_ms) {
          loop_.Post([this, alive, answers = std::move(answers), cpu_ms] {
            if (!alive.expired()) Finish(answers, cpu_ms);
          });
        });
  }
  thread_->Give(std::move(work));
}

void StatusAnswers::Finish(const std::vector<rpc::Frames>& answers, double cpu_ms) {
  is_busy_ = false;
  memory_ = 0;
  next_ = began_ + 1e-3 * std::min(kLongestMs, std::max(kPerLook * look_ms_, kPerAnswer * cpu_ms));
  const std::vector<StatusQuestion> asked = std::exchange(asked_, {});
  for (size_t i = 0; i < asked.size(); ++i) calls_.send(asked[i], answers[i]);
  BeginSoon();
}

int64_t StatusAnswers::Memory() const { return memory_; }

}  // namespace autotune
