// `autotune doctor` checks whether this machine is fit for tuning, and prints facts about it. Each finding is one line.
// The exit code is 1 if a finding would keep tuning from working.
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "records/open.h"
#include "service/gpus.h"
#include "support/host_lock.h"
#include "support/terminal.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/host.h"
#include "tools/autotune/probe.h"
#include "tools/autotune/text.h"
#include "tools/autotune/usage.h"
#include "tools/error_lines.h"
#include "tracker/local_farm.h"

namespace autotune::tools {
namespace {

namespace fs = std::filesystem;

struct DoctorOptions {
  std::string db;
  bool probe = false;
};

constexpr int kIndent = 11;  // columns before the second row of a finding that is too long for the terminal

class Doctor {
 public:
  int problems() const { return problems_; }
  void Say(const char* about, const std::string& text) { Print(about, text, /*is_problem=*/false); }
  void Bad(const char* about, const std::string& text) {
    ++problems_;
    Print(about, text, /*is_problem=*/true);
  }

 private:
  // Quiet, only problems are printed.
  static void Print(const char* about, const std::string& text, bool is_problem) {
    Console& console = Console::Get();
    if (console.json()) {
      Json line;
      line["about"] = about, line["text"] = text, line["problem"] = is_problem;
      return console.Result(line);
    }
    if (console.quiet() && !is_problem) return;
    const std::string word = is_problem ? Painted("PROBLEM:", Colour::kFault, console.colours_out()) + " " : "";
    console.Result(WrapWords(Format("%-10s ", about) + word + text, console.WidthOut(), kIndent) + "\n");
  }
  int problems_ = 0;
};

void LookAtHost(Doctor& doctor, const Target& target) {
  const MachineDescription host = DescribeHost();
  doctor.Say("cpu", ModelText(host) + ", " + std::to_string(host.usable_cores) + " of " +
                        CountText(host.online_cores, "core") +
                        Format(", %.1f GB of memory", static_cast<double>(host.memory_bytes) / 1e9));
  doctor.Say("target", target.Text());
  doctor.Say("caches", CachesText(target) + ", lines of " + std::to_string(target.cache_line) + " bytes");
}

// Prints the GPUs. A machine without a GPU is fit for tuning, too.
void LookAtGpus(Doctor& doctor) {
  const Gpus gpus = FindGpus();
  for (const Gpu& gpu : gpus.found) doctor.Say("gpu", GpuText(gpu) + ", " + GpuTargetText(gpu));
  for (const std::string& reason : gpus.missing) doctor.Say("gpu", reason);
}

void Measure(Doctor& doctor, const Target& target) {
  auto measure = [&]() -> Result<HostSpeed> {
    std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
    return MeasureHostSpeed(target, *builder);
  };
  Result<HostSpeed> speed = measure();
  if (!speed.ok()) return doctor.Bad("speed", SentenceOf(speed.error()));
  doctor.Say("lock",
             speed->alone ? HostLock::Path() + ": free" : HostLock::HeldText() + ", which may disturb these speeds");
  std::string copying;
  for (const CopySpeed& level : speed->roofline.copying)
    copying += (copying.empty() ? "" : ", ") + Format("%.1f in ", level.bytes_per_second / 1e9) + level.level;
  doctor.Say("speed", Format("%.1f GFLOPS (fp32 multiply-adds, ", speed->roofline.flops_per_second / 1e9) +
                          CountText(target.num_cores, "core") + ")");
  doctor.Say("copying", "GB/s, read and written: " + copying);
  doctor.Say("noise", NoiseText(speed->noise));
}

// Returns the first word after `name` in the line of /proc/PID/`file` that begins with `name`; an empty text if there
// is none. `file` is "status" or "limits".
std::string FieldOf(pid_t pid, const char* file, const std::string& name) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/" + file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    size_t at = line.find_first_not_of(": \t", name.size());
    return at == std::string::npos ? "" : line.substr(at, line.find_first_of(" \t", at) - at);
  }
  return "";
}

std::vector<pid_t> RunnersOf(pid_t server) {
  std::vector<pid_t> runners;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", error)) {
    pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0 && FieldOf(pid, "status", "PPid") == std::to_string(server)) runners.push_back(pid);
  }
  return runners;
}

// Starts a device server and prints how its runner is isolated: the limits and the sandbox that the operating system
// reports for it.
void LookAtRunner(Doctor& doctor) {
  Result<std::unique_ptr<LocalFarm>> farm = LocalFarm::Start();
  if (!farm.ok()) return doctor.Bad("runner", SentenceOf(farm.error()));
  std::vector<pid_t> runners = RunnersOf((*farm)->server_pid());
  if (runners.empty()) return doctor.Bad("runner", "the device server has no runner");
  pid_t pid = runners[0];
  doctor.Say("runner",
             "a process of its own (" + std::to_string(pid) + "), killed and replaced when it crashes or hangs");
  auto limit = [&](const char* name, int64_t scale, const char* unit) {
    std::string value = FieldOf(pid, "limits", name);
    if (value.empty() || value == "unlimited") return std::string("unlimited");
    return std::to_string(std::atoll(value.c_str()) / scale) + unit;
  };
  doctor.Say("limits", "memory " + limit("Max data size", 1 << 20, " MiB") + ", files " +
                           limit("Max file size", 1 << 20, " MiB each") + ", " + limit("Max open files", 1, " open") +
                           ", core dumps " + limit("Max core file size", 1, " bytes") + ", processes " +
                           limit("Max processes", 1, ""));
  std::string shared, separate;
  for (const char* name : {"user", "mnt", "pid", "net", "ipc"}) {
    std::error_code error;
    std::string link = std::string("ns/") + name;
    bool same = fs::read_symlink("/proc/self/" + link, error) ==
                fs::read_symlink("/proc/" + std::to_string(pid) + "/" + link, error);
    (same ? shared : separate) += std::string(" ") + name;
  }
  doctor.Say("namespaces", (separate.empty() ? "none of its own" : "its own:" + separate) +
                               (shared.empty() ? "" : "; this machine's:" + shared));
  std::string seccomp = FieldOf(pid, "status", "Seccomp"), privileges = FieldOf(pid, "status", "NoNewPrivs");
  doctor.Say("seccomp", (seccomp == "2"   ? "a filter"
                         : seccomp == "1" ? "strict"
                                          : "none") +
                            std::string(", new privileges ") + (privileges == "1" ? "barred" : "not barred"));
}

// Returns `path` or the nearest folder above it that exists.
fs::path Existing(fs::path path) {
  std::error_code error;
  while (!path.empty() && path != path.root_path() && !fs::is_directory(path, error)) path = path.parent_path();
  return path.empty() ? fs::path(".") : path;
}

void LookAtDatabase(Doctor& doctor, const DoctorOptions& options) {
  Result<std::string> path = options.db.empty() ? DefaultStorePath() : Result<std::string>(options.db);
  if (!path.ok()) return doctor.Bad("database", SentenceOf(path.error()));
  std::error_code error;
  fs::path folder = Existing(fs::absolute(*path).parent_path());
  if (fs::exists(*path, error)) {
    Result<std::unique_ptr<RecordStore>> store = OpenStore(*path, {.lock_timeout_ms = 2000});
    Result<int64_t> count = store.ok() ? (*store)->Count({}) : Result<int64_t>(store.error());
    if (!count.ok()) return doctor.Bad("database", SentenceOf(count.error()));
    doctor.Say("database", *path + ": " + CountText(*count, "record"));
  } else {
    doctor.Say("database", *path + ": does not exist yet");
  }
  // Make a new database in the folder, to see whether the file system allows a write-ahead log.
  std::string trial = (folder / (".autotune-doctor-" + std::to_string(getpid()) + ".db")).string();
  {
    Result<std::unique_ptr<RecordStore>> store = OpenStore(trial);
    if (!store.ok()) {
      doctor.Bad("folder", folder.string() + ": " + SentenceOf(store.error()));
    } else {
      bool log = fs::exists(trial + "-wal", error);
      doctor.Say("folder", folder.string() + (log ? ": with a write-ahead log: readers never wait"
                                                  : ": no write-ahead log here (a network file system?): slower"));
    }
  }
  for (const char* suffix : {"", "-wal", "-shm", "-journal", ".lock"}) fs::remove(trial + suffix, error);
  struct statvfs disk {};
  if (statvfs(folder.c_str(), &disk)) return doctor.Bad("disk", folder.string() + ": " + strerror(errno));
  double free_bytes = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  const std::string text = Format("%.1f GB free", free_bytes / 1e9);
  if (free_bytes < 64e6) return doctor.Bad("disk", text + ": too little for a database to grow");
  doctor.Say("disk", text);
}

Result<int> Examine(const DoctorOptions& options) {
  Doctor doctor;
  Target target = TRY(Target::Parse("cpu"));
  LookAtHost(doctor, target);
  LookAtGpus(doctor);
  Measure(doctor, target);
  LookAtRunner(doctor);
  LookAtDatabase(doctor, options);
  if (doctor.problems() == 0) {
    doctor.Say("verdict", "this machine is fit for tuning");
    return kExitOk;
  }
  return Err(CountText(doctor.problems(), "problem"), " found");
}

// Measures this machine and prints its row for the table in target/machine.cc.
Result<int> Probe() {
  constexpr int kPatienceMs = 500;  // longest wait for the host's lock, for each measurement
  const Target target = TRY(Target::Parse("cpu"));
  const std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
  const ProbedMachine probed = TRY(ProbeMachine(target, *builder, kPatienceMs));
  const std::string row = MachineRowText(target, probed);
  Console& console = Console::Get();
  console.json() ? console.Result(Json(Json::Object{{"row", row}})) : console.Result(row);
  return kExitOk;
}

}  // namespace

Command DoctorCommand(CLI::App& root) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* app = root.add_subcommand("doctor", "Checks in a few seconds whether this machine is fit for tuning.");
  app->add_option("--db", options->db,
                  "the tuning database; default AUTOTUNE_DB, else autotune/records.db in your data directory");
  app->add_flag("--probe", options->probe,
                "measures this CPU and prints its row for the table of machines (target/machine.cc), nothing else");
  AddOutput(*app, "about, text and problem of each finding");
  return {
      app, [options] { return options->probe ? Probe() : Examine(*options); },
      [options, app] { return options->probe ? RefuseGiven(*app, {"--db"}, "--probe uses no database") : Status(); }};
}

}  // namespace autotune::tools
