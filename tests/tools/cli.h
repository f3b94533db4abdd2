// Runs the real `autotune` as a user does, in a process. Each test has its own database, host lock and folder.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
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

std::vector<std::string> Lines(const std::string& text);

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
std::map<pid_t, Process> AllProcesses();

std::vector<Process> DescendantsOf(pid_t ancestor);

bool IsAlive(const Process& process);

struct CliResult {
  int code = -1;
  std::string out, err;
  std::string Text() const { return "exit code " + std::to_string(code) + "\n" + out + err; }
};

// Returns whether `autotune compile` found records of its network and target. With records, it uses the tuned schedule
// of a task, or the default schedule if few trials found nothing faster.
bool FollowsRecords(const CliResult& compiled);

class CliTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string File(const std::string& name) const { return folder_ + "/" + name; }
  std::string SmallModel() const { return File("small.onnx"); }
  std::string SmallData() const { return File("small_data"); }
  std::string Write(const std::string& name, const std::string& bytes) const;

  // Starts autotune. Standard output goes to File(name + ".out"), standard error to File(name + ".err"). Standard input
  // is empty, or `in`.
  Subprocess Start(std::vector<std::string> arguments, const std::string& name, int in = -1);
  CliResult Finish(Subprocess& child, const std::string& name, int seconds = 250);
  CliResult Run(std::vector<std::string> arguments);

  std::string folder_, db_;
  std::vector<std::string> prefix_;  // a program and its arguments that start autotune
};

// Returns the events of a --json run so far, without a line that is still being written. Fails if a line is no JSON
// object.
std::vector<Json> EventsOf(const std::string& out);
std::string NameOf(const Json& event);
// Returns the last event of this name; fails if there is none.
Json LastOf(const std::vector<Json>& events, const std::string& name);
int64_t TrialsOf(const Json& event);

// Returns the number of trials that a --json run has reported so far on standard output.
int64_t TrialsReported(const std::string& out);

}  // namespace autotune::test
