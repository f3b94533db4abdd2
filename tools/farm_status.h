// Prints a tracker's report on its devices, for `rpc_tracker status` and `autotune devices`.
#pragma once
#include "rpc/message.h"

namespace autotune::tools {

void PrintStatus(const rpc::StatusReply& status);  // prints to standard output

}  // namespace autotune::tools
