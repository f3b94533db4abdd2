// For tests: interprets a lowered kernel.
#pragma once
#include <string>
#include <vector>

#include "ir/interp.h"
#include "lower/lower.h"

namespace autotune {

// Interprets `prepare` and `run` of the kernel on these arguments and returns all outputs' elements. If the kernel does
// not run, returns an empty list and sets `error`.
inline std::vector<double> RunLowered(const PrimFunc& f, const LoweredKernel& kernel, std::vector<InterpArray> args,
                                      std::string& error, uint64_t order_seed = 0) {
  std::vector<InterpArray> prepared;
  if (kernel.prepare) {
    std::vector<InterpArray> constants;
    for (size_t i = 0; i < f.params.size(); ++i) {
      if (f.params[i].role == ParamRole::kConstant) constants.push_back(args[i]);
    }
    const size_t given = constants.size();
    for (size_t i = given; i < kernel.prepare->params.size(); ++i)
      constants.push_back({kernel.prepare->params[i].buffer->dtype, {}, {}});
    for (size_t i = 0; i < constants.size(); ++i) constants[i].shape = ConstShape(kernel.prepare->params[i].buffer);
    if (Status ran = Interpret(*kernel.prepare, constants, {.order_seed = order_seed}); !ran.ok())
      return error = ran.error().Text(), std::vector<double>();
    prepared.assign(constants.begin() + static_cast<int64_t>(given), constants.end());
  }
  args.insert(args.end(), prepared.begin(), prepared.end());
  for (size_t i = 0; i < args.size(); ++i) args[i].shape = ConstShape(kernel.run.params[i].buffer);
  if (Status ran = Interpret(kernel.run, args, {.order_seed = order_seed}); !ran.ok())
    return error = ran.error().Text(), std::vector<double>();
  std::vector<double> outputs;
  for (size_t i = 0; i < f.params.size(); ++i) {
    if (f.params[i].role == ParamRole::kOutput) outputs.insert(outputs.end(), args[i].data.begin(), args[i].data.end());
  }
  return outputs;
}

}  // namespace autotune
