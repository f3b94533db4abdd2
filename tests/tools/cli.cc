#include "tests/tools/cli.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/read.h"

namespace autotune::test {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::map<pid_t, Process> AllProcesses() {
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

std::vector<Process> DescendantsOf(pid_t ancestor) {
  std::map<pid_t, Process> all = AllProcesses();
  std::vector<Process> found;
  for (const auto& [pid, process] : all) {
    pid_t p = process.parent;
    for (int depth = 0; p > 1 && p != ancestor && depth < 32; ++depth) p = all.count(p) ? all[p].parent : 0;
    if (p == ancestor) found.push_back(process);
  }
  return found;
}

bool IsAlive(const Process& process) {
  std::map<pid_t, Process> all = AllProcesses();
  auto found = all.find(process.pid);
  return found != all.end() && found->second.start == process.start;
}

bool FollowsRecords(const CliResult& compiled) {
  return compiled.code == 0 && compiled.err.find("tune it first") == std::string::npos;
}

std::vector<Json> EventsOf(const std::string& out) {
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

std::string NameOf(const Json& event) {
  const std::string* name = event["event"].As<std::string>();
  return name ? *name : "";
}

Json LastOf(const std::vector<Json>& events, const std::string& name) {
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (NameOf(*event) == name) return *event;
  }
  ADD_FAILURE() << "no event " << name;
  return Json();
}

int64_t TrialsOf(const Json& event) {
  const int64_t* trials = event["trials"].As<int64_t>();
  return trials ? *trials : -1;
}

int64_t TrialsReported(const std::string& out) {
  int64_t trials = 0;
  for (const Json& event : EventsOf(out)) {
    if (NameOf(event) == "round") trials = TrialsOf(event);
  }
  return trials;
}

void CliTest::SetUp() {
  folder_ = ::testing::TempDir() + "cli-XXXXXX";
  ASSERT_TRUE(mkdtemp(folder_.data()));
  db_ = folder_ + "/records.db";
  setenv("AUTOTUNE_LIBEXEC", kTools.c_str(), 1);
  setenv("AUTOTUNE_HOST_LOCK", (folder_ + "/lock").c_str(), 1);  // so that tests do not wait for each other
  setenv("AUTOTUNE_DB", db_.c_str(), 1);
  setenv("XDG_STATE_HOME", folder_.c_str(), 1);
  setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  unsetenv("AUTOTUNE_TRACKER");
  WriteSmallNetwork(folder_);
}

std::string CliTest::Write(const std::string& name, const std::string& bytes) const {
  std::ofstream(File(name), std::ios::binary) << bytes;
  return File(name);
}

Subprocess CliTest::Start(std::vector<std::string> arguments, const std::string& name, int in) {
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

CliResult CliTest::Finish(Subprocess& child, const std::string& name, int seconds) {
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

CliResult CliTest::Run(std::vector<std::string> arguments) {
  Subprocess child = Start(std::move(arguments), "cli");
  return Finish(child, "cli");
}

}  // namespace autotune::test
