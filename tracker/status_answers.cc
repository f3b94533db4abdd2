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

namespace autotune {
namespace {

constexpr double kPerLook = 50, kPerAnswer = 4;  // time between two copies, in multiples of what they take [chosen]
constexpr double kLongestMs = 1000;              // between two copies [chosen]
constexpr int kNiceness = 10;                    // of the thread: leases come first [chosen]

// The room for devices, queue and keys in an answer, which must fit into one frame of 4 MiB.
class Room {
 public:
  // Takes the room of an entry with texts of so many bytes. Returns false if there is none.
  bool Take(size_t text_bytes) {
    constexpr size_t kOfEntry = 512;  // names of fields and numbers
    if (left_ < text_bytes + kOfEntry) {
      ++omitted_;
      return false;
    }
    left_ -= text_bytes + kOfEntry;
    return true;
  }
  int64_t omitted() const { return omitted_; }

 private:
  size_t left_ = 2 << 20;
  int64_t omitted_ = 0;
};

size_t BytesOf(const rpc::DeviceStatus& device) {
  size_t bytes = device.key.size() + device.endpoint.size() + device.model.size() + device.last_error.size() +
                 device.why.size() + device.cores.size() * sizeof(int);
  for (const auto& [status, count] : device.trials) bytes += status.size() + sizeof count;
  return bytes;
}

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

rpc::StatusReply StatusOfKey(const rpc::StatusReply& all, const std::string& key) {
  rpc::StatusReply reply{.epoch = all.epoch,
                         .recovering = all.recovering,
                         .uptime_ms = all.uptime_ms,
                         .grants = all.grants,
                         .expired = all.expired,
                         .malformed = all.malformed,
                         .errors = all.errors,
                         .next_key = all.next_key};
  Room room;
  for (const rpc::DeviceHold& hold : all.holds)
    if (room.Take(hold.pattern.size() + hold.note.size() + hold.who.size())) reply.holds.push_back(hold);
  for (const rpc::DeviceStatus& device : all.devices)
    if ((key.empty() || device.key == key) && room.Take(BytesOf(device))) reply.devices.push_back(device);
  for (const rpc::QueueStatus& its : all.queue) {
    const size_t bytes = its.key.size() + its.client_name.size() + its.tenant.size() + its.job.size();
    if ((key.empty() || its.key == key) && room.Take(bytes)) reply.queue.push_back(its);
  }
  for (const auto& [absent, age] : all.absent_keys)
    if (room.Take(absent.size())) reply.absent_keys.emplace(absent, age);
  reply.omitted = all.omitted + room.omitted();
  return reply;
}

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
