// The commands of rpc_tracker by which an administrator asks a running tracker: drain, lock, undrain and release, and
// `status --watch`. They print to standard output, and errors to standard error.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "rpc/message.h"
#include "support/result.h"
#include "tools/tracker_choice.h"

namespace autotune::tools {

class TrackerCommands {
 public:
  explicit TrackerCommands(CLI::App& app);  // adds the commands to `app`
  // Returns whether the command line gives one of them.
  bool Given() const;
  // Returns what is wrong with its arguments: the command is then not to be run.
  Status Check() const;
  // Runs it. The error says why the tracker has not done what it asks for.
  Status Run() const;

 private:
  std::map<std::string, CLI::App*> commands_;
  std::string pattern_, lease_, note_, for_;
  TrackerChoice tracker_;
};

// Prints the tracker's status whenever it changes, until Ctrl-C or SIGTERM. On a terminal, draws it anew each second.
// While no tracker answers, says so and asks on.
void WatchStatus(const rpc::Address& tracker, const std::string& key, bool json);

}  // namespace autotune::tools
