#include "tools/farm_status.h"

#include <cstdio>

namespace autotune::tools {
namespace {

std::string Age(int64_t ms) {
  char text[32];
  if (ms < 60000) {
    snprintf(text, sizeof text, "%.1f s", static_cast<double>(ms) / 1000);
  } else if (ms < 7200000) {
    snprintf(text, sizeof text, "%lld min", static_cast<long long>(ms / 60000));
  } else {
    snprintf(text, sizeof text, "%lld h", static_cast<long long>(ms / 3600000));
  }
  return text;
}

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

}  // namespace

void PrintStatus(const rpc::StatusReply& status) {
  printf("tracker: epoch %lld, up %s%s; %lld leases granted, %lld expired; %lld malformed messages received\n",
         static_cast<long long>(status.epoch), Age(status.uptime_ms).c_str(), status.recovering ? ", recovering" : "",
         static_cast<long long>(status.grants), static_cast<long long>(status.expired),
         static_cast<long long>(status.malformed));
  if (status.devices.empty()) printf("no devices\n");
  for (const auto& device : status.devices) {
    printf("%-12s %-12s %-8s cores %-6s", device.key.c_str(), device.state.c_str(), device.server.substr(0, 8).c_str(),
           CoresText(device.cores).c_str());
    if (device.state == rpc::device_state::kBusy) {
      printf("  %s%s for %s", device.client_name.c_str(), device.job.empty() ? "" : (" (" + device.job + ")").c_str(),
             Age(device.since_ms).c_str());
    }
    if (device.state == rpc::device_state::kUnreachable) printf("  last seen %s ago", Age(device.last_seen_ms).c_str());
    std::string trials;
    for (const auto& [name, count] : device.trials) {
      trials += (trials.empty() ? "" : ", ") + std::to_string(count) + " " + name;
    }
    if (!trials.empty()) printf("  [%s]", trials.c_str());
    if (!device.last_error.empty()) printf("  last error: %s", device.last_error.c_str());
    printf("\n");
  }
  for (const auto& waiting : status.queue) {
    printf("waiting: %s for %s, place %lld, since %s ago\n", waiting.client_name.c_str(), waiting.key.c_str(),
           static_cast<long long>(waiting.position), Age(waiting.waiting_ms).c_str());
  }
  for (const auto& [key, age] : status.absent_keys)
    printf("absent: %s, last seen %s ago\n", key.c_str(), Age(age).c_str());
  for (const auto& error : status.errors) printf("error: %s\n", error.c_str());
}

}  // namespace autotune::tools
