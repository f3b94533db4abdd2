// ZAP, ZeroMQ's authentication (https://rfc.zeromq.org/spec/27): one thread of the process answers whether the owner of
// a public key may connect to a listener. Without it, a CURVE listener would let everybody in.
#pragma once
#include <memory>
#include <string>

#include "rpc/allow_list.h"
#include "support/result.h"

namespace autotune::rpc {

// Handshakes of one listener are judged by its allow-list until this is destroyed; after that, all are refused.
// Thread-safe.
class ZapDomain {
 public:
  // Error: the process has no descriptor left for the handler.
  static Result<std::unique_ptr<ZapDomain>> Open(std::shared_ptr<const AllowList> allowed);
  ~ZapDomain();
  ZapDomain(const ZapDomain&) = delete;
  const std::string& name() const { return name_; }  // for ZMQ_ZAP_DOMAIN

 private:
  explicit ZapDomain(std::string name) : name_(std::move(name)) {}
  const std::string name_;
};

}  // namespace autotune::rpc
