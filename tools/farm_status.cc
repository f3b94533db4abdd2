#include "tools/farm_status.h"

#include "support/clock.h"
#include "support/clock_text.h"
#include "support/printf_text.h"
#include "support/utf8.h"

namespace autotune::tools {
namespace {

std::string CoresText(const std::vector<int>& cores) {
  std::string text;
  for (size_t i = 0; i < cores.size();) {
    size_t j = i;
    while (j + 1 < cores.size() && cores[j + 1] == cores[j] + 1) ++j;
    text += (text.empty() ? "" : ",") + std::to_string(cores[i]) + (j > i ? "-" + std::to_string(cores[j]) : "");
    i = j + 1;
  }
  return text;
}

// Ends a line that has texts of members, who could otherwise forge lines or send commands to the terminal.
std::string Line(const std::string& text) { return OneLine(text) + "\n"; }

std::string DeviceLine(const rpc::DeviceStatus& device) {
  std::string text = Format("%-12s %-12s %-8s cores %-6s", device.key.c_str(), device.state.c_str(),
                            device.server.substr(0, 8).c_str(), CoresText(device.cores).c_str());
  if (device.state == rpc::device_state::kBusy) {
    text += "  " + device.client_name + (device.job.empty() ? "" : " (" + device.job + ")") + " for " +
            LastingText(device.since_ms);
  }
  if (device.state == rpc::device_state::kUnreachable)
    text += "  last seen " + LastingText(device.last_seen_ms) + " ago";
  if (!device.why.empty()) text += "  " + device.why;
  std::string trials;
  for (const auto& [name, count] : device.trials)
    trials += (trials.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  if (!trials.empty()) text += "  [trials: " + trials + "]";
  if (!device.last_error.empty() && device.last_error != device.why) text += "  last error: " + device.last_error;
  return Line(text);
}

}  // namespace

std::string StatusText(const rpc::StatusReply& status) {
  std::string text = "tracker: epoch " + std::to_string(status.epoch) + ", up " + LastingText(status.uptime_ms) +
                     (status.recovering ? ", recovering" : "") + "; leases: " + std::to_string(status.grants) +
                     " granted, " + std::to_string(status.expired) +
                     " expired; malformed messages: " + std::to_string(status.malformed) + "\n";
  if (status.devices.empty()) text += "no devices\n";
  for (const rpc::DeviceStatus& device : status.devices) text += DeviceLine(device);
  for (const auto& waiting : status.queue) {
    text += Line("waiting: " + waiting.client_name + " for " + waiting.key + ", place " +
                 std::to_string(waiting.position) + ", for " + LastingText(waiting.waiting_ms));
  }
  for (const rpc::DeviceHold& hold : status.holds) {
    const auto until = [](int64_t ms) { return "until " + MomentText(WallMillis() + ms, WallMillis()); };
    text += Line("held: `" + hold.pattern + "` " + HoldText(hold, until));
  }
  for (const auto& [key, age] : status.absent_keys)
    text += Line("absent: " + key + ", last seen " + LastingText(age) + " ago");
  if (status.omitted > 0) {
    text += std::to_string(status.omitted) + " more devices, keys and waiting clients; --key shows those of one key\n";
  }
  for (const auto& error : status.errors) text += Line("error: " + error);
  return text;
}

}  // namespace autotune::tools
