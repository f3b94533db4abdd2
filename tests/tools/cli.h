// Runs the real `autotune` as a user does, in a process. Each test has its own database, host lock and folder.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/json.h"
#include "support/subprocess.h"
#include "tests/read.h"
#include "tests/tools/small_network.h"

namespace autotune::test {

inline const std::string kTools = std::string(AUTOTUNE_BINARY_DIR) + "/tools";
inline const std::string kExample = std::string(AUTOTUNE_SOURCE_DIR) + "/examples/resnet20.onnx";
inline const std::string kExampleData = std::string(AUTOTUNE_SOURCE_DIR) + "/examples/resnet20/test_data_set_0";

inline std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

template <class F>
bool Soon(F condition, int seconds = 120) {
  for (int i = 0; i < seconds * 50; ++i) {
    if (condition()) return true;
    usleep(20000);
  }
  return condition();
}

// A process as the kernel shows it. `start`, its start time, distinguishes it from a later process of the same number.
struct Process {
  pid_t pid = 0, parent = 0;
  std::string start, command;
  bool operator<(const Process& other) const { return pid < other.pid; }
  bool Is(const std::string& word) const { return command.find(word) != std::string::npos; }
};

// Returns all processes except zombies.
inline std::map<pid_t, Process> AllProcesses() {
  std::map<pid_t, Process> all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    std::string stat = ReadAll(entry.path() / "stat");
    size_t end = stat.rfind(')');
    if (end == std::string::npos) continue;
    std::istringstream rest(stat.substr(end + 1));
    Process process;
    std::string state, skipped;
    rest >> state >> process.parent;
    for (int i = 0; i < 17; ++i) rest >> skipped;
    rest >> process.start;
    if (state == "Z" || state == "X") continue;
    process.pid = std::stoi(stat);
    process.command = ReadAll(entry.path() / "cmdline");
    for (char& c : process.command) {
      if (c == '\0') c = ' ';
    }
    all[process.pid] = process;
  }
  return all;
}

inline std::vector<Process> DescendantsOf(pid_t ancestor) {
  std::map<pid_t, Process> all = AllProcesses();
  std::vector<Process> found;
  for (const auto& [pid, process] : all) {
    pid_t p = process.parent;
    for (int depth = 0; p > 1 && p != ancestor && depth < 32; ++depth) p = all.count(p) ? all[p].parent : 0;
    if (p == ancestor) found.push_back(process);
  }
  return found;
}

inline bool IsAlive(const Process& process) {
  std::map<pid_t, Process> all = AllProcesses();
  auto found = all.find(process.pid);
  return found != all.end() && found->second.start == process.start;
}

struct CliResult {
  int code = -1;
  std::string out, err;
  std::string Text() const { return "exit code " + std::to_string(code) + "\n" + out + err; }
};

// Returns whether `autotune compile` found records of its network and target. With records, it uses the tuned schedule
// of a task, or the default schedule if few trials found nothing faster.
inline bool FollowsRecords(const CliResult& compiled) {
  return compiled.code == 0 && compiled.err.find("tune it first") == std::string::npos;
}

class CliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "cli-XXXXXX";
    ASSERT_TRUE(mkdtemp(folder_.data()));
    db_ = folder_ + "/records.db";
    setenv("AUTOTUNE_LIBEXEC", kTools.c_str(), 1);
    setenv("AUTOTUNE_HOST_LOCK", (folder_ + "/lock").c_str(), 1);  // so that tests do not wait for each other
    setenv("AUTOTUNE_DB", db_.c_str(), 1);
    setenv("XDG_STATE_HOME", folder_.c_str(), 1);
    unsetenv("AUTOTUNE_TRACKER");
    WriteSmallNetwork(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string File(const std::string& name) const { return folder_ + "/" + name; }
  std::string SmallModel() const { return File("small.onnx"); }
  std::string SmallData() const { return File("small_data"); }
  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(File(name), std::ios::binary) << bytes;
    return File(name);
  }

  // Starts autotune. Standard output goes to File(name + ".out"), standard error to File(name + ".err"). Standard input
  // is empty, or `in`.
  Subprocess Start(std::vector<std::string> arguments, const std::string& name, int in = -1) {
    UniqueFd out(open(File(name + ".out").c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    UniqueFd err(open(File(name + ".err").c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600));
    arguments.insert(arguments.begin(), kTools + "/autotune");
    arguments.insert(arguments.begin(), prefix_.begin(), prefix_.end());
    std::map<int, int> fds = {{1, out.get()}, {2, err.get()}};
    if (in >= 0) fds[0] = in;
    auto child = Subprocess::Spawn({.argv = arguments, .fds = fds});
    EXPECT_TRUE(child.ok()) << (child.ok() ? "" : child.error().Text());
    return std::move(child).value();
  }
  CliResult Finish(Subprocess& child, const std::string& name, int seconds = 250) {
    CliResult result;
    auto status = child.Wait(seconds * 1000);
    result.out = ReadAll(File(name + ".out"));
    result.err = ReadAll(File(name + ".err"));
    EXPECT_TRUE(status.has_value()) << "autotune did not end\n" << result.out << result.err;
    if (!status) return result;
    EXPECT_EQ(status->signal, 0) << status->Text() << "\n" << result.err;
    if (status->signal == 0) result.code = status->code;
    return result;
  }
  CliResult Run(std::vector<std::string> arguments) {
    Subprocess child = Start(std::move(arguments), "cli");
    return Finish(child, "cli");
  }

  std::string folder_, db_;
  std::vector<std::string> prefix_;  // a program and its arguments that start autotune
};

// Returns the events of a --json run so far, without a line that is still being written. Fails if a line is no JSON
// object.
inline std::vector<Json> EventsOf(const std::string& out) {
  std::vector<Json> events;
  for (const std::string& line : Lines(out.substr(0, out.rfind('\n') + 1))) {
    auto event = Json::Parse(line);
    EXPECT_TRUE(event.ok()) << line;
    if (!event.ok()) continue;
    EXPECT_TRUE((*event)["event"].As<std::string>()) << line;
    events.push_back(*event);
  }
  return events;
}
inline std::string NameOf(const Json& event) {
  const std::string* name = event["event"].As<std::string>();
  return name ? *name : "";
}
// Returns the last event of this name; fails if there is none.
inline Json LastOf(const std::vector<Json>& events, const std::string& name) {
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (NameOf(*event) == name) return *event;
  }
  ADD_FAILURE() << "no event " << name;
  return Json();
}
inline int64_t TrialsOf(const Json& event) {
  const int64_t* trials = event["trials"].As<int64_t>();
  return trials ? *trials : -1;
}

// Returns the number of trials that a --json run has reported so far on standard output.
inline int64_t TrialsReported(const std::string& out) {
  int64_t trials = 0;
  for (const Json& event : EventsOf(out)) {
    if (NameOf(event) == "round") trials = TrialsOf(event);
  }
  return trials;
}

}  // namespace autotune::test
