// The C texts of a network that is compiled ahead of time: its header, the driver that calls its kernels, and for
// targets of kind c the whole network. Stateless. Internal to compiler/.
#pragma once
#include <string>

#include "compiler/aot_plan.h"

namespace autotune {

// Returns true for the names that a network can have in C: letters, digits and '_', a letter first.
bool IsCName(const std::string& name);

// Returns NAME.h.
std::string AotHeader(const std::string& name, const PackageInfo& info, const AotPlan& plan);

// Returns the driver, which includes NAME.h. Its kernels are the functions NAME.KERNEL.raw of other objects, and its
// constants the symbol NAME.data.
std::string AotDriver(const std::string& name, const PackageInfo& info, const AotPlan& plan);

// Returns one C source that holds the network: kernels (Package::sources), constants and driver. It defines only the
// symbols that NAME.h names.
std::string AotSource(const std::string& name, const Package& package, const AotPlan& plan);

}  // namespace autotune
