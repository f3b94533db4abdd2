// The ways to compute each anchor, one list for each kind of anchor. The first entry of a list always applies and
// defines the result. A task offers every alternative that takes its element type and applies to its shapes; each gives
// a PrimFunc of the same parameters.
// Thread-safe. To add one: write the function, add its line in topi/alternatives.cc.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "target/target.h"
#include "topi/conv.h"
#include "topi/matmul.h"

namespace autotune::topi {

struct ConvAlternative {
  std::string_view name;  // stored in records
  bool (*takes)(DType);   // the element types for which it holds; both operands have the same
  bool (*applies)(const Shape& data, const Shape& weight, const ConvAttrs&, const Target&);
  Tensor (*make)(const std::string& name, const Tensor& data, const Tensor& weight, const ConvAttrs&, const Target&);
  bool exact = true;  // true: adds the products of the direct sum; --no-winograd excludes the others
};
std::span<const ConvAlternative> ConvAlternatives();
// Returns whether an alternative is of Winograd's algorithm, by its name. Records and packages hold names only.
inline bool IsWinograd(std::string_view alternative) { return alternative.starts_with("winograd"); }

struct MatMulAlternative {
  std::string_view name;
  bool (*takes)(DType);
  bool (*applies)(const Shape& a, const Shape& b, const Target&);
  Tensor (*make)(const std::string& name, const Tensor& a, const Tensor& b, const Target&);
};
std::span<const MatMulAlternative> MatMulAlternatives();

}  // namespace autotune::topi
