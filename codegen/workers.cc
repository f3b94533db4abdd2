// The client side of the build workers: a Builder that hands jobs to worker processes.
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <fstream>
#include <limits>
#include <thread>

#include "codegen/frame.h"
#include "codegen/job.h"
#include "support/check.h"
#include "support/cpus.h"
#include "support/host_lock.h"
#include "support/subprocess.h"

namespace autotune {
namespace {

using Clock = std::chrono::steady_clock;

// Time limit for compiling one needed kernel, and for linking a library. The limit is generous, so that a busy or
// suspended machine does not fail the whole library.
constexpr double kNeededSeconds = 600;

constexpr int64_t kLongestPollMs = 60000;

struct Worker {
  std::optional<Subprocess> process;
  UniqueFd fd;
  FrameReader reader;
  int64_t jobs = 0;
  int running = -1;             // index of the job, -1: idle
  double used_before = 0;       // CPU time of the process when the job began, in seconds
  Clock::time_point deadline;   // when the job's time is checked
  Clock::time_point last_time;  // when the job ends in any case
};

// The limit of a candidate is one of CPU time: on a busy machine a build waits for cores, which says nothing about it.
// Returns the seconds after which a job ends in any case, such as one that waits for a C compiler, or for ever; for
// needed jobs, their limit.
double LongestWait(double limit) {
  constexpr double kLimits = 10;  // [chosen]
  return std::min(kLimits * limit, std::max(limit, kNeededSeconds));
}

// Returns the CPU time that a process has used, in seconds; infinity if it has ended.
double CpuSeconds(pid_t pid) {
  clockid_t clock;
  timespec used;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
    return std::numeric_limits<double>::infinity();
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

Clock::time_point After(Clock::time_point now, double seconds) {
  return now + std::chrono::microseconds(static_cast<int64_t>(seconds * 1e6));
}

int64_t RssBytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  int64_t size = 0, resident = 0;
  return file >> size >> resident ? resident * sysconf(_SC_PAGESIZE) : 0;
}

// Number of workers that may die while they run a job before the job fails. If two workers die on one candidate, the
// candidate is probably the cause. Needed kernels have more lives, since a machine that is short of memory also kills
// workers of harmless jobs.
constexpr int kCandidateLives = 2, kNeededLives = 5;

// The outcome of a job: an answer, or the reason why there is none.
struct Outcome {
  std::optional<JobAnswer> answer;
  TrialStatus status = TrialStatus::kBuildFailed;
  std::string text;
};

// Returns the status of jobs that did not run, since the host's lock could not be had.
TrialStatus StatusWithoutLock(const Error& error) {
  return error.kind == ErrorKind::kStopped ? TrialStatus::kCancelled : TrialStatus::kInfrastructure;
}

// One call of RunAll: its jobs, limits and progress.
struct Run {
  const std::vector<Job>& jobs;
  double seconds;  // limit for each job, of CPU time
  int lives;       // number of workers that die on a job before it fails
  const std::function<void(int, Outcome)>& done;
  std::deque<int> waiting;
  std::vector<int> deaths;  // by job: number of workers that died while they ran it
  size_t left;              // jobs without an outcome

  Run(const std::vector<Job>& all, double limit, int most_lives, const std::function<void(int, Outcome)>& on_done)
      : jobs(all), seconds(limit), lives(most_lives), done(on_done), deaths(all.size(), 0), left(all.size()) {
    for (size_t i = 0; i < all.size(); ++i) waiting.push_back(static_cast<int>(i));
  }
  void Finish(int job, Outcome outcome) {
    --left;
    done(job, std::move(outcome));
  }
};

class BuildWorkers : public Builder {
 public:
  explicit BuildWorkers(BuildWorkersOptions options) : options_(std::move(options)) {}

  Status Start() {
    int count = options_.workers > 0 ? options_.workers : AvailableCpus();
    workers_.resize(static_cast<size_t>(std::max(1, count)));
    for (Worker& worker : workers_) TRY(Spawn(worker));
    return {};
  }

  std::vector<BuildResult> Build(const std::vector<BuildRequest>& requests,
                                 const std::function<void(const BuildResult&)>& on_result) override {
    Result<HostLock> lock = HostLock::Acquire(HostLock::Mode::kShared, options_.stop);
    if (!lock.ok()) {
      std::vector<BuildResult> results;
      for (const BuildRequest& request : requests) {
        results.push_back({.id = request.id, .status = StatusWithoutLock(lock.error()), .text = lock.error().Text()});
        if (on_result) on_result(results.back());
      }
      return results;
    }
    std::vector<Job> jobs;
    for (const BuildRequest& request : requests) jobs.push_back({JobKind::kBuild, request, {}, ""});
    std::vector<BuildResult> results(requests.size());
    RunAll(jobs, options_.timeout_seconds, kCandidateLives, [&](int i, Outcome outcome) {
      if (outcome.answer) {
        results[i] = std::move(outcome.answer->result);
      } else {
        results[i].status = outcome.status;
        results[i].text = std::move(outcome.text);
      }
      results[i].id = requests[i].id;
      if (on_result) on_result(results[i]);
    });
    return results;
  }

  std::vector<CompiledKernel> Compile(const std::vector<BuildRequest>& requests, Patience patience) override {
    std::vector<CompiledKernel> kernels(requests.size());
    Result<HostLock> lock = HostLock::Acquire(HostLock::Mode::kShared, options_.stop);
    if (!lock.ok()) {
      for (CompiledKernel& kernel : kernels)
        kernel = {.status = StatusWithoutLock(lock.error()), .text = lock.error().Text()};
      return kernels;
    }
    std::vector<Job> jobs;
    for (const BuildRequest& request : requests) jobs.push_back({JobKind::kCompile, request, {}, ""});
    const bool needed = patience == Patience::kNeeded;
    RunAll(jobs, needed ? kNeededSeconds : options_.timeout_seconds, needed ? kNeededLives : kCandidateLives,
           [&](int i, Outcome outcome) {
             if (outcome.answer) {
               kernels[i] = std::move(outcome.answer->compiled);
             } else {
               kernels[i] = {.status = outcome.status, .text = std::move(outcome.text)};
             }
           });
    return kernels;
  }

  Result<BuiltLibrary> Link(const std::vector<const KernelObject*>& objects, const std::string& target) override {
    HostLock lock = TRY(HostLock::Acquire(HostLock::Mode::kShared, options_.stop));
    BuiltLibrary library;
    Job link{.kind = JobKind::kLink, .target = target};
    for (const KernelObject* object : objects) {
      library.kernels.push_back(object->metadata);
      library.facts.spills += object->facts.spills;
      library.facts.spills_in_register_loops += object->facts.spills_in_register_loops;
      library.facts.code_bytes += object->facts.code_bytes;
      for (const auto& [stage, ms] : object->facts.times_ms) library.facts.times_ms[stage] += ms;
      link.objects.push_back(*object);
    }
    JobAnswer answer = TRY(RunLink(link));
    for (const auto& [stage, ms] : answer.facts.times_ms) library.facts.times_ms[stage] += ms;
    library.artifact = std::move(answer.linked.artifact);
    library.support = std::move(answer.linked.support);
    library.support_source = std::move(answer.linked.support_source);
    library.device_blob = std::move(answer.linked.device_blob);
    return library;
  }

  Status LinkWithData(const std::vector<Json::Bytes>& objects, const std::string& data,
                      const std::string& output) override {
    HostLock lock = TRY(HostLock::Acquire(HostLock::Mode::kShared, options_.stop));
    TRY(RunLink({.kind = JobKind::kLinkWithData, .relocatable = objects, .data = data, .output = output}));
    return {};
  }

 private:
  Result<JobAnswer> RunLink(const Job& link) {
    Outcome linked;
    RunAll({link}, kNeededSeconds, kNeededLives, [&](int, Outcome outcome) { linked = std::move(outcome); });
    if (!linked.answer) return Err("linking: ", linked.text);
    if (!linked.answer->error.empty()) return Err(linked.answer->error);
    return std::move(*linked.answer);
  }

  Status Spawn(Worker& worker) {
    worker = Worker();
    auto [ours, theirs] = TRY(MakeSocketPair());
    SpawnOptions spawn;
    spawn.argv = options_.command;
    spawn.fds[kBuildWorkerFd] = theirs.get();
    worker.process.emplace(TRY_NOTE(Subprocess::Spawn(spawn), "while starting a build worker"));
    worker.fd = std::move(ours);
    // Limits the time of a write. A stopped worker reads nothing, so without the limit a job larger than the socket's
    // buffer would block the client forever.
    auto whole = static_cast<time_t>(options_.timeout_seconds);
    timeval timeout{whole, static_cast<suseconds_t>(1e6 * (options_.timeout_seconds - static_cast<double>(whole)))};
    if (setsockopt(worker.fd.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0)
      return Err("setting the timeout of a build worker's socket: ", strerror(errno));
    return {};
  }

  // Runs every job, each for at most `seconds` of CPU time and its LongestWait. A job whose worker died runs
  // again on another worker, and fails when `lives` workers have died. Calls `done` once per job.
  void RunAll(const std::vector<Job>& jobs, double seconds, int lives, const std::function<void(int, Outcome)>& done) {
    Run run(jobs, seconds, lives, done);
    while (run.left > 0) {
      for (Worker& worker : workers_) {
        if (worker.running < 0 && !run.waiting.empty()) Assign(run, worker);
      }
      std::vector<pollfd> fds;
      std::vector<Worker*> polled;
      int64_t wait_ms = kLongestPollMs;
      auto now = Clock::now();
      for (Worker& worker : workers_) {
        if (worker.running < 0) continue;
        fds.push_back({worker.fd.get(), POLLIN, 0});
        polled.push_back(&worker);
        int64_t ms = std::chrono::duration_cast<std::chrono::milliseconds>(worker.deadline - now).count() + 1;
        wait_ms = std::clamp<int64_t>(ms, 0, wait_ms);
      }
      if (fds.empty()) continue;
      poll(fds.data(), fds.size(), static_cast<int>(wait_ms));
      now = Clock::now();
      for (size_t i = 0; i < fds.size(); ++i) {
        if (fds[i].revents) Receive(run, *polled[i]);
        if (polled[i]->running >= 0 && now >= polled[i]->deadline) EndLate(run, *polled[i]);
      }
    }
  }

  // Gives the first waiting job to an idle worker.
  void Assign(Run& run, Worker& worker) {
    const int job = run.waiting.front();
    run.waiting.pop_front();
    if (Status ready = MakeReady(worker); !ready.ok()) {
      return run.Finish(job, {std::nullopt, TrialStatus::kInfrastructure, ready.error().Text()});
    }
    worker.running = job;
    ++worker.jobs;
    const auto now = Clock::now();
    worker.used_before = CpuSeconds(worker.process->pid());
    worker.deadline = After(now, run.seconds);
    worker.last_time = After(now, LongestWait(run.seconds));
    if (!WriteFrame(worker.fd.get(), ToJson(run.jobs[job])).ok()) Lose(run, worker, HowItEnded(worker, "takes no job"));
  }

  // Reads the bytes that a worker has sent. A complete frame finishes the worker's job. If the connection is closed or
  // the frame is damaged, the worker is lost.
  void Receive(Run& run, Worker& worker) {
    Result<bool> open = worker.reader.Fill(worker.fd.get());
    Result<std::optional<Json>> frame = worker.reader.Next();
    if (frame.ok() && *frame) {
      JobAnswer answer;
      Status parsed = FromJson(**frame, answer);
      const int job = std::exchange(worker.running, -1);
      if (parsed.ok()) {
        run.Finish(job, {std::move(answer), TrialStatus::kOk, ""});
      } else {
        run.Finish(job, {std::nullopt, TrialStatus::kBuildFailed, "a build worker's answer is damaged"});
      }
    } else if (!frame.ok() || !open.ok() || !*open) {
      Lose(run, worker, HowItEnded(worker, "closed its connection"));
    }
  }

  // Handles a worker that ended while it ran a job. The job fails if it has now lost `lives` workers; otherwise it
  // waits for another worker.
  static void Lose(Run& run, Worker& worker, const std::string& how) {
    const int job = std::exchange(worker.running, -1);
    worker.process.reset();
    worker.fd.Reset();
    if (++run.deaths[job] < run.lives) {
      run.waiting.push_front(job);
    } else {
      run.Finish(job, {std::nullopt, TrialStatus::kBuildFailed,
                       "the build worker " + how + ", " + std::to_string(run.lives) + " times"});
    }
  }

  // Kills a worker whose job has reached its limit. The job fails. A worker that has used less CPU time goes on.
  static void EndLate(Run& run, Worker& worker) {
    constexpr double kShortest = 1e-3;  // between two checks, in seconds
    const double left = run.seconds - (CpuSeconds(worker.process->pid()) - worker.used_before);
    const auto now = Clock::now();
    if (left > 0 && now < worker.last_time) {
      worker.deadline = std::min(worker.last_time, After(now, std::max(left, kShortest)));
      return;
    }
    const int job = std::exchange(worker.running, -1);
    worker.process.reset();  // kills it
    worker.fd.Reset();
    std::ostringstream text;
    text << "the build took longer than " << (left > 0 ? LongestWait(run.seconds) : run.seconds) << " s"
         << (left > 0 ? "" : " of CPU time");
    run.Finish(job, {std::nullopt, TrialStatus::kBuildTimedOut, text.str()});
  }

  Status MakeReady(Worker& worker) {
    bool worn =
        worker.process && (worker.jobs >= options_.jobs_per_worker || worker.process->Poll() ||
                           (worker.jobs % 16 == 15 && RssBytes(worker.process->pid()) > options_.max_rss_bytes));
    if (worker.process && !worn) return {};
    return Spawn(worker);
  }

  static std::string HowItEnded(Worker& worker, const std::string& if_alive) {
    std::optional<ExitStatus> status = worker.process->Wait(1000);
    return status ? status->Text() : if_alive;
  }

  BuildWorkersOptions options_;
  std::vector<Worker> workers_;
};

}  // namespace

Result<BuiltLibrary> Builder::BuildLibrary(const std::vector<BuildRequest>& requests) {
  std::vector<CompiledKernel> kernels = Compile(requests, Patience::kNeeded);
  std::vector<const KernelObject*> objects;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (kernels[i].status != TrialStatus::kOk)
      return Err("kernel ", requests[i].kernel, " cannot be built: ", kernels[i].text);
    if (requests[i].target != requests[0].target) return Err("the kernels of a library must have one target");
    objects.push_back(&kernels[i].object);
  }
  return Link(objects, requests.empty() ? "" : requests[0].target);
}

Result<std::unique_ptr<Builder>> MakeBuildWorkers(const BuildWorkersOptions& options) {
  BuildWorkersOptions filled = options;
  if (filled.command.empty()) {
    std::string own = TRY(FindOwnExecutable("autotune"));
    filled.command = {own, "--build-worker"};
  }
  auto workers = std::make_unique<BuildWorkers>(std::move(filled));
  TRY(workers->Start());
  return std::unique_ptr<Builder>(std::move(workers));
}

Result<std::vector<std::string>> CheckTarget(const Target& target, Builder& builder) {
  BuildRequest request;
  request.func = "func probe(out: f32[1] output) { for i in 1 { block x(v: S 1 = i) { out[v] = 0.0 } } }";
  request.target = target.Text();
  request.wants_cpu_features = !target.IsGpu();
  BuildResult built = builder.Build({request})[0];
  if (built.status != TrialStatus::kOk) return Err("nothing can be built for ", target.Text(), ": ", built.text);
  return std::move(built.cpu_features);
}

}  // namespace autotune
