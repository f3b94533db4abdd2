// From tensor expressions to an unscheduled PrimFunc: one perfect loop nest and one block per compute that an output
// depends on, in topological order. Deterministic; thread-safe. Not a scheduler: nothing is inlined, fused or reordered
// here.
#pragma once
#include <string>
#include <vector>

#include "ir/stmt.h"
#include "te/tensor.h"

namespace autotune::te {

struct TensorParam {
  Tensor tensor;
  ParamRole role = ParamRole::kInput;
  std::string name;  // of the parameter; empty: after the tensor
};

struct CreateOptions {
  // Target::has_fma. A sum of products is updated as fma(a, b, C), rounded once, instead of C + a*b, rounded twice:
  // the interpreter and every back end then agree on the bits.
  bool use_fma = false;
};

// Parameters in the given order: inputs and constants are placeholders, outputs are computed tensors; every placeholder
// that an output depends on must be listed (CHECK).
//
// An output that is a reduction over other axes than its dimensions (a convolution without an epilogue) accumulates in
// a buffer of the axes' shape, which a block `t_store` copies: every anchor has an epilogue with its own axes.
//
// Names, each bound once in the function: a tensor t gives block `t` (+ the part's suffix), loops `t_<axis>`, iterators
// `v_t_<axis>`, and buffer `t_out` (placeholders: `t`). A clash is resolved by `_1`, `_2`, ...
PrimFunc CreatePrimFunc(const std::string& name, const std::vector<TensorParam>& params,
                        const CreateOptions& options = {});

}  // namespace autotune::te
