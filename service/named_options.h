// Sets the options of a request by the names that they have on the command line, for callers that pass texts.
// Stateless.
#pragma once
#include <string>

#include "service/compile.h"
#include "service/tune.h"
#include "support/result.h"

namespace autotune {

// What a caller has set so far, for tuning and for compiling.
struct NamedOptions {
  TuneRequest tune;  // its `model` is for both
  std::string schedules = "chosen";
};

// Sets an option: `name` is that of the command without "--", such as "trials". Repeated "shape", "dim" and "bind" add
// up. Errors: there is no such option; the value has not its form.
Status SetOption(NamedOptions& options, const std::string& name, const std::string& value);

}  // namespace autotune
