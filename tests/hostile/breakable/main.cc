// A tracker or a device server, some of whose rules are switched off, for tests/hostile/twins_test.cc:
//   breakable_farm RULES tracker ENDPOINT STATE [ENDPOINT ...]
//   breakable_farm RULES server TRACKER KEY STATE RUNNER [argument of the runner ...]
// RULES are names of rpc/rules.h with commas between them. TRACKER is a socket or a join file.
#include <csignal>
#include <cstdio>
#include <string>

#include "rpc/farm_event.h"
#include "rpc/join_file.h"
#include "rpc/rules.h"
#include "rpc/server.h"
#include "support/loop.h"
#include "tracker/tracker.h"

namespace {

int Fail(const autotune::Error& error) {
  std::fprintf(stderr, "%s\n", error.Text().c_str());
  return 1;
}

void Tell(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

int Track(const std::vector<std::string>& endpoints, const std::string& state) {
  autotune::Loop loop;
  auto tracker = autotune::Tracker::Start(
      loop, {.endpoints = endpoints, .state_folder = state, .on_event = [](const autotune::rpc::FarmEvent& event) {
               Tell(Text(event));
             }});
  if (!tracker.ok()) return Fail(tracker.error());
  auto signals = loop.OnSignals({SIGINT, SIGTERM}, [&](int) { loop.Stop(); });
  loop.Run();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 4) return 2;
  signal(SIGPIPE, SIG_IGN);
  autotune::rpc::BreakRule(words[0]);
  if (words[1] == "tracker") {
    std::vector<std::string> endpoints = {words[2]};
    endpoints.insert(endpoints.end(), words.begin() + 4, words.end());
    return Track(endpoints, words[3]);
  }
  autotune::rpc::ServerOptions options{.tracker = words[2], .key = words[3]};
  if (words[2].ends_with(".join")) options.tracker = autotune::rpc::ReadJoinFile(words[2]).value().TrackerAddress();
  options.state = words[4];
  options.runner_command = {words.begin() + 5, words.end()};
  options.host_lock = false;
  options.on_event = Tell;
  const autotune::Status status = autotune::rpc::RunServer(options);
  return status.ok() ? 0 : Fail(status.error());
}
