// PowerSwitch runs an operator's command for members whose hosts have fallen silent (`rpc_tracker --power-cycle`). May
// be used only on the thread of its loop.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/loop.h"
#include "support/subprocess.h"
#include "tracker/power_cycle.h"

namespace autotune::tools {

class PowerSwitch {
 public:
  struct Options {
    // For /bin/sh. Its environment names the host: AUTOTUNE_MEMBER, AUTOTUNE_KEY and AUTOTUNE_ADDRESS.
    std::string command;
    PowerCycle::Options cycle;
    std::function<std::vector<ServerSilence>()> silences;
    std::function<void(const std::string& line)> log;
  };
  PowerSwitch(Loop& loop, Options options);

 private:
  struct Run {
    std::string member;
    Subprocess command;
    int64_t began = 0;
  };
  void Look();
  void Start(const ServerSilence& server);
  // Returns true once the command has ended, or has taken too long and was killed.
  bool IsOver(Run& run);

  Options options_;
  PowerCycle cycle_;
  std::vector<Run> runs_;
  Loop::Watch look_;
};

}  // namespace autotune::tools
