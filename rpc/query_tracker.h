// Asks a tracker one thing, without a FarmClient. Blocks. Thread-safe.
#pragma once
#include <string>

#include "rpc/address.h"
#include "rpc/message.h"
#include "support/result.h"

namespace autotune::rpc {

class DealerSocket;

struct TrackerQuery {
  Body body;
  // The minor version that has this kind of message. If it is not 0, the tracker's version is looked at first, since an
  // earlier tracker would call the question malformed.
  int first_minor = 0;
  double timeout_seconds = 5;
};
// Returns the answer. Errors: no tracker answers, and why as far as the connection shows; the tracker refuses the
// question, or is too old for it.
Result<Message> QueryTracker(const Address& tracker, TrackerQuery query);
// Says for people why a tracker lets nobody in with this join file, or "" if it may.
std::string WhyRefused(const DealerSocket& tracker);
// Asks for the devices of a key, or for all if it is empty.
Result<StatusReply> QueryStatus(const Address& tracker, const std::string& key = "", double timeout_seconds = 5);

}  // namespace autotune::rpc
