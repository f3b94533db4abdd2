// Describes a tracker's report on its devices, for `rpc_tracker status` and `autotune devices`.
#pragma once
#include <string>

#include "rpc/message.h"

namespace autotune::tools {

std::string StatusText(const rpc::StatusReply& status);  // whole lines

}  // namespace autotune::tools
