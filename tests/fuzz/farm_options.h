// Options of the fuzzed machines, some of which the input chooses. For tests only.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rpc/client_session.h"
#include "rpc/server_session.h"
#include "tests/fuzz/farm_messages.h"

namespace autotune::fuzz {

inline std::function<rpc::Id()> Ids(const std::string& prefix) {
  return [prefix, n = 0]() mutable { return prefix + std::to_string(++n); };
}

inline rpc::ServerSession::Options ServerOptions(StepBytes& in) {
  rpc::ServerSession::Options options{.server = "s1", .incarnation = rpc::RandomId()};
  options.device.key = "k";
  options.device.endpoint = "ipc:///s1";
  options.device.uploads = in.OneIn(2);
  options.uploads = {.chunk_bytes = 16, .most_pulled_bytes = 64};
  options.grant_key = "grants";  // which nobody who is authenticated knows
  options.reference_bytes = 20;  // two references
  options.output_bytes = 20;
  options.judge_calibration = [&in](const std::vector<double>&) {
    return in.OneIn(4) ? std::optional<std::string>() : std::optional<std::string>(in.OneIn(4) ? "slow" : "");
  };
  return options;
}

inline rpc::ClientSession::Options ClientOptions(StepBytes& in) {
  rpc::ClientSession::Options options;
  options.client = options.client_name = "c1";
  options.key = "k";
  options.max_losses = 1 + static_cast<int>(in.Below(5));
  options.wait_ms = in.OneIn(2) ? 5000 : 600000;
  if (in.OneIn(2)) options.inline_bytes = 8;
  options.new_id = Ids("client");
  return options;
}

}  // namespace autotune::fuzz
