// `autotune verify --against`: how far a package's outputs are from those of another package of the same network.
#pragma once
#include <string>

#include "support/result.h"
#include "tools/autotune/runnable_model.h"

namespace autotune::tools {

struct AgainstOptions {
  std::string package, against;  // files; the latter has the exact numbers
  std::string data;              // inputs (service/calibration_data.h)
  double max_error = 0;          // 0: no bound
  ModelPlace place;              // of both
};

// Prints the error (service/network_error.h) over all inputs. Returns the exit code: kExitWrong if the error is beyond
// the bound.
Result<int> VerifyAgainst(const AgainstOptions& options);

}  // namespace autotune::tools
