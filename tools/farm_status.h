// What a tracker says of its devices, for people: one way to show it in `rpc_tracker status` and `autotune devices`.
#pragma once
#include "rpc/message.h"

namespace autotune::tools {

void PrintStatus(const rpc::StatusReply& status);  // to standard output

}  // namespace autotune::tools
