// The part of a tracker's status that one message holds. A pure function.
#pragma once
#include <string>

#include "rpc/message.h"

namespace autotune {

// Returns the part of a status that answers a request for this key, or for all keys if it is empty. The devices, keys
// and waiting clients for which one message has no room are counted in `omitted`.
rpc::StatusReply StatusOfKey(const rpc::StatusReply& all, const std::string& key);

}  // namespace autotune
