// Type inference functions that the table of operators (op.cc) uses. Internal to graph/.
#pragma once
#include <vector>

#include "graph/op.h"

namespace autotune::graph {

using Specs = std::vector<TensorSpec>;

Status NeedRank(const TensorSpec& spec, int rank, const char* what);

// Operators that slide a window over the `dims` (2 or 3) spatial dimensions of an image (infer_window.cc).
template <size_t dims>
Result<TensorSpec> InferConv(const Attrs& attrs, const Specs& in);
template <size_t dims>
Result<TensorSpec> InferPool(const Attrs& attrs, const Specs& in);
Result<TensorSpec> InferArgMaxPool(const Attrs& attrs, const Specs& in);
Result<TensorSpec> InferGlobalPool(const Attrs& attrs, const Specs& in);

// Operators that select elements or write to computed places (infer_select.cc).
Result<TensorSpec> InferScatter(const Attrs& attrs, const Specs& in);
Result<TensorSpec> InferCumulate(const Attrs& attrs, const Specs& in);
Result<TensorSpec> InferSelectBoxes(const Attrs& attrs, const Specs& in);
Result<TensorSpec> InferTopK(const Attrs& attrs, const Specs& in);
Result<TensorSpec> InferGatherSum(const Attrs& attrs, const Specs& in);
Result<TensorSpec> InferLookUp(const Attrs& attrs, const Specs& in);
Result<TensorSpec> InferDet(const Attrs& attrs, const Specs& in);
Result<TensorSpec> InferBlockMatmul(const Attrs& attrs, const Specs& in);

}  // namespace autotune::graph
