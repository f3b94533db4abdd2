#include "tracker/local_farm.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "support/clock.h"
#include "support/join.h"
#include "support/log.h"
#include "support/loop.h"
#include "support/subprocess.h"
#include "tracker/tracker.h"

namespace autotune {
namespace {

namespace fs = std::filesystem;
constexpr char kFolderPrefix[] = "autotune-farm-";

fs::path BaseFolder() {
  // An ipc path has at most 107 bytes, and a path below TMPDIR may be longer.
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime && *runtime && strlen(runtime) < 48 && access(runtime, W_OK) == 0) return runtime;
  return "/tmp";
}

// Locks the folder for its owner; an empty descriptor means that another process holds the lock. The lock ends with the
// process, so it identifies a living owner better than a process id, which may be reused.
UniqueFd TryLock(const fs::path& folder, int flags) {
  UniqueFd fd(open((folder / "owner").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
  if (fd && flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  return UniqueFd();
}

// Removes the folders of local farms whose processes have ended.
void SweepStaleFolders() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(BaseFolder(), error)) {
    if (!entry.path().filename().string().starts_with(kFolderPrefix)) continue;
    struct stat info {};
    if (lstat(entry.path().c_str(), &info) || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) continue;
    // Another process may have made this folder just now, and not yet its lock file.
    bool has_lock = fs::exists(entry.path() / "owner", error);
    if (!has_lock && time(nullptr) - info.st_mtime < 60) continue;
    if (has_lock && !TryLock(entry.path(), 0)) continue;
    fs::remove_all(entry.path(), error);
  }
}

}  // namespace

struct LocalFarm::Impl {
  explicit Impl(LocalFarmOptions o) : options(std::move(o)) {}

  Status MakeFolder() {
    SweepStaleFolders();
    std::string name = (BaseFolder() / kFolderPrefix).string() + "XXXXXX";
    if (!mkdtemp(name.data())) return Err("cannot make a folder in ", BaseFolder().string(), ": ", strerror(errno));
    folder = name;  // mode 0700
    lock = TryLock(folder, O_CREAT);
    if (!lock) return Err("cannot lock ", folder, ": ", strerror(errno));
    return {};
  }

  // --- On the farm's thread ---

  void Run() {
    Status started = StartHere();
    if (!started) {
      Answer(started);
      return;
    }
    loop.Run();
    child_watch.reset();
    deadline_watch.reset();
    // The end of its standard input asks the server to end, so that it removes its sockets and kills its runners.
    stdin_write.Reset();
    if (child) child->Wait(1000);
    child.reset();
    tracker.reset();
  }

  Status StartHere() {
    tracker = TRY(
        Tracker::Start(loop, {.endpoints = {"ipc://" + folder + "/tracker"}, .on_message = [this] { CheckReady(); }}));
    endpoint = tracker->endpoints().front();
    TRY(Spawn());
    deadline_watch = loop.After(static_cast<int64_t>(options.start_seconds * 1000), [this] { OnDeadline(); });
    return {};
  }

  void CheckReady() {
    if (!answered && tracker->Offers("local")) Answer({});
  }

  void OnDeadline() {
    std::string why;
    if (tracker->Offers("local", &why)) return;
    Answer(Err("the local device server was not ready within ", options.start_seconds, " s", why.empty() ? "" : ": ",
               why));
  }

  void Answer(Status status) {
    deadline_watch.reset();
    if (std::exchange(answered, true)) return;
    if (!status) Fail(status.error().Text());
    started.set_value(std::move(status));
  }

  void Fail(const std::string& why) {
    std::lock_guard hold(mutex);
    if (failure.empty()) failure = why;
  }

  // Starts the server. Runs only on the farm's thread, since a child dies with the thread that spawned it.
  Status Spawn() {
    auto [read_end, write_end] = TRY(MakePipe());
    SpawnOptions spawn;
    spawn.argv = {server_path, "--tracker", endpoint, "--key", "local", "--end-with-stdin"};
    if (!options.cores.empty()) spawn.argv.insert(spawn.argv.end(), {"--cores", Joined(options.cores, ",")});
    spawn.argv.insert(spawn.argv.end(), options.server_arguments.begin(), options.server_arguments.end());
    spawn.fds = {{0, read_end.get()}};
    child = TRY(Subprocess::Spawn(spawn));
    stdin_write = std::move(write_end);
    pid = child->pid();
    born = BootMillis();
    // Notices the child's end at once with a pidfd, and within 100 ms without one.
    child_watch = child->exit_descriptor() >= 0 ? loop.OnReadable(child->exit_descriptor(), [this] { OnChildEnd(); })
                                                : loop.Every(100, [this] { OnChildEnd(); });
    return {};
  }

  void OnChildEnd() {
    auto status = child->Poll();
    if (!status) return;
    child_watch.reset();
    std::string why = "the local device server (" + server_path + ") " + status->Text();
    if (static_cast<double>(BootMillis() - born) / 1000 >= options.stable_seconds) restarts = 0;
    if (++restarts <= options.max_restarts) {
      Log(LogLevel::kWarning, why, "; starting it again");
      Status spawned = Spawn();
      if (spawned) return;
      why += ", and does not start again: " + spawned.error().Text();
    } else {
      why += "; it was restarted " + std::to_string(options.max_restarts) + " times and is now given up";
    }
    Log(LogLevel::kError, why);
    Fail(why);
    tracker->FailKey("local", why);
    Answer(Err(why));
  }

  LocalFarmOptions options;
  std::string folder, server_path, endpoint;
  UniqueFd lock;
  Loop loop;
  std::unique_ptr<Tracker> tracker;
  std::optional<Subprocess> child;
  UniqueFd stdin_write;  // the child ends when this is closed
  Loop::Watch child_watch, deadline_watch;
  int restarts = 0;  // since a server last ran for stable_seconds
  int64_t born = 0;  // BootMillis at the start of the child
  bool answered = false;
  std::promise<Status> started;
  std::atomic<int> pid{0};
  mutable std::mutex mutex;
  std::string failure;  // guarded by mutex
  std::thread thread;
};

LocalFarm::LocalFarm(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<LocalFarm>> LocalFarm::Start(const LocalFarmOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  impl->server_path = options.server_path.empty() ? TRY(FindOwnExecutable("rpc_server")) : options.server_path;
  TRY(impl->MakeFolder());
  Impl* raw = impl.get();
  auto started = impl->started.get_future();
  impl->thread = std::thread([raw] { raw->Run(); });
  auto farm = std::unique_ptr<LocalFarm>(new LocalFarm(std::move(impl)));
  TRY(started.get());
  return farm;
}

LocalFarm::~LocalFarm() {
  impl_->loop.Stop();
  if (impl_->thread.joinable()) impl_->thread.join();
  std::error_code ignored;
  fs::remove_all(impl_->folder, ignored);
}

std::string LocalFarm::tracker() const { return impl_->endpoint; }
int LocalFarm::server_pid() const { return impl_->pid; }

Status LocalFarm::Health() const {
  std::lock_guard hold(impl_->mutex);
  if (impl_->failure.empty()) return {};
  return Err(impl_->failure);
}

}  // namespace autotune
