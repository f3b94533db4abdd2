// Operators whose results' shapes depend on values: supported on what is known at import.
#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {
namespace {

// Row d has the indices along dimension d of all elements other than 0, in the order of the elements.
Status ImportNonZero(ImportContext& c) {
  const TensorValue* value = c.Known(0);
  if (!value) {
    return Err(
        "is for what is known at import: its operand is computed at run time, or takes too long to compute before");
  }
  if (!IsSupported(value->spec.dtype)) return Err("of ", value->spec.Text(), " is not supported");
  std::vector<int64_t> places;
  for (int64_t i = 0; i < value->spec.NumElements(); ++i) {
    if (value->Number(i) != 0) places.push_back(i);
  }
  const Shape& shape = value->spec.shape;
  const int64_t rank = value->spec.rank(), count = static_cast<int64_t>(places.size());
  TRY(c.Reserve({rank, count}));
  std::vector<int64_t> indices(rank * count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = places[i];
    for (int64_t d = rank; d-- > 0; rest /= shape[d]) indices[d * count + i] = rest % shape[d];
  }
  return c.BindConstant(TensorValue::Of<int64_t>({rank, count}, indices));
}

}  // namespace

const std::vector<OperatorRow>& KnownOperators() {
  static const std::vector<OperatorRow> rows = {
      {"NonZero", 9, 28, ImportNonZero},
  };
  return rows;
}

}  // namespace autotune::onnx_import
