// For tests: a client that asks for a device and keeps it for ever, whatever tracker and server say.
#pragma once
#include <functional>
#include <string>

#include "rpc/message.h"

namespace autotune {

class Hoarder {
 public:
  struct World {
    std::function<void(const rpc::Message&)> to_tracker;
    std::function<void(const std::string& endpoint)> connect;
    std::function<void(const rpc::Message&)> to_server;
    std::function<rpc::Id()> new_id;
  };
  Hoarder(rpc::Id client, std::string key, World world)
      : client_(std::move(client)), key_(std::move(key)), world_(std::move(world)) {}

  void EverySecond() {
    if (!lease_.lease.empty()) {
      world_.to_tracker({world_.new_id(), rpc::LeaseRenew{lease_.lease}, {}});
      const rpc::LeaseClaim claim{lease_.lease, lease_.token, lease_.ttl_ms,      client_,     client_,
                                  "",           "",           lease_.incarnation, lease_.proof};
      world_.to_server({world_.new_id(), rpc::ClientBeat{claim, ""}, {}});
      return;
    }
    if (request_.empty()) request_ = world_.new_id();
    rpc::LeaseRequest wish;
    wish.client = wish.client_name = client_;
    wish.key = key_;
    wish.wait_ms = int64_t{24} * 3600 * 1000;
    world_.to_tracker({request_, wish, {}});
  }
  void OnTracker(const rpc::Message& message) {
    if (auto* granted = message.As<rpc::LeaseGranted>(); granted && message.request == request_) {
      lease_ = *granted;
      request_.clear();
      world_.connect(granted->device->endpoint);
    } else if (message.As<rpc::Refusal>()) {
      lease_ = {};
      request_.clear();
    }
  }

 private:
  rpc::Id client_;
  std::string key_;
  World world_;
  rpc::Id request_;
  rpc::LeaseGranted lease_;
};

}  // namespace autotune
