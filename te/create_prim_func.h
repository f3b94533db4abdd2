// From tensor expressions to an unscheduled PrimFunc: one perfect loop nest with one block for each part (te/tensor.h)
// of each tensor that an output depends on, in topological order, numbers that follow from numbers alone first.
// Deterministic; thread-safe. Not a scheduler: nothing is inlined, fused or reordered here.
#pragma once
#include <string>
#include <vector>

#include "ir/stmt.h"
#include "te/tensor.h"

namespace autotune::te {

struct TensorParam {
  Tensor tensor;
  ParamRole role = ParamRole::kInput;
  std::string name;  // of the parameter; empty: derived from the tensor's name
};

struct CreateOptions {
  // Set it to Target::has_fma. If true, a sum of products is updated as fma(a, b, C), rounded once, instead of
  // C + a*b, rounded twice. So the interpreter and every back end agree on the bits.
  bool use_fma = false;
};

// Makes a function with the parameters in the given order. Inputs and constants are placeholders, outputs are computed
// tensors. Every placeholder that an output depends on must be listed (CHECK).
//
// If an output is a reduction whose axes are not its dimensions (a convolution without an epilogue), it accumulates in
// a buffer of the axes' shape, and a block `t_store` copies the results. So the reduction always has an epilogue with
// its own axes.
//
// Names, each bound once in the function: a tensor t gives block `t` (+ the part's suffix), loops `t_<axis>`, iterators
// `v_t_<axis>`, and buffer `t_out` (placeholders: `t`). A clash is resolved by `_1`, `_2`, ...
PrimFunc CreatePrimFunc(const std::string& name, const std::vector<TensorParam>& params,
                        const CreateOptions& options = {});

}  // namespace autotune::te
