#include "service/run_key.h"

#include "records/record.h"

namespace autotune {

std::string RunKeyOf(const RunIdentity& run) {
  std::vector<std::string> parts = {run.network, run.target, std::to_string(run.seed), std::to_string(run.trials),
                                    run.search};
  parts.insert(parts.end(), run.versions.begin(), run.versions.end());
  // The word tells the key of a device from the hash of a task.
  if (!run.device.empty()) parts.push_back("device " + run.device);
  for (const std::string& plugin : run.plugins) parts.push_back("plug-in " + plugin);
  parts.insert(parts.end(), run.tasks.begin(), run.tasks.end());
  return RunKey(parts);
}

}  // namespace autotune
