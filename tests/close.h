// For tests: compares numbers with expected ones by the rule of runtime/compare.h. A test that uses it links `runtime`.
#pragma once
#include <string>
#include <vector>

#include "ir/interp.h"
#include "runtime/compare.h"

namespace autotune::test {

// For single operators in f32: a tenth of what networks are allowed, and more than a thousand units of roundoff.
inline constexpr Tolerance kClose = {.rtol = 1e-5, .atol = 1e-5};

// Compares the numbers of a tensor of type `dtype` with as many expected ones. Integers and bools must be equal. For
// 16-bit floats a neighbour of the expected number is right, too. `bounds` are errors that are allowed besides, one for
// each element.
inline Comparison CompareNumbers(const std::vector<double>& got, const std::vector<double>& want,
                                 const Tolerance& tolerance, DType dtype, const std::vector<double>& bounds) {
  auto view = [](const std::vector<double>& numbers) {
    return Tensor::View(const_cast<double*>(numbers.data()), {static_cast<int64_t>(numbers.size())},
                        DataTypeFromText("f64").value(), nullptr)
        .value();
  };
  Tolerance allowed = dtype.IsFloat() ? tolerance : Tolerance{0, 0};
  if (dtype.IsHalf()) allowed.rtol += dtype == DType::BFloat16() ? 0x1p-7 : 0x1p-10;
  const Tensor bounds_view = view(bounds);
  return CompareTensors(view(got), view(want), allowed, &bounds_view).value();
}
inline Comparison CompareNumbers(const std::vector<double>& got, const std::vector<double>& want,
                                 const Tolerance& tolerance = kClose, DType dtype = DType::Float(64),
                                 double bound = 0) {
  return CompareNumbers(got, want, tolerance, dtype, std::vector<double>(want.size(), bound));
}

// Returns "" if they agree, else a description of the worst element.
inline std::string Difference(const std::vector<double>& got, const std::vector<double>& want,
                              const Tolerance& tolerance = kClose, DType dtype = DType::Float(64), double bound = 0) {
  if (got.size() != want.size())
    return std::to_string(got.size()) + " numbers instead of " + std::to_string(want.size());
  const Comparison compared = CompareNumbers(got, want, tolerance, dtype, bound);
  return compared.ok ? "" : compared.Text();
}

// Returns "" if all arrays of a program agree, else the name of the first one that does not, and its worst element.
// `bounds` are none, or errors that are allowed besides: one array for each output of the program, in order.
inline std::string Difference(const PrimFunc& f, const std::vector<InterpArray>& got,
                              const std::vector<InterpArray>& want, const Tolerance& tolerance,
                              const std::vector<InterpArray>& bounds = {}) {
  size_t output = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const bool bounded = !bounds.empty() && f.params[i].role == ParamRole::kOutput;
    const Comparison compared =
        bounded ? CompareNumbers(got[i].data, want[i].data, tolerance, want[i].dtype, bounds[output++].data)
                : CompareNumbers(got[i].data, want[i].data, tolerance, want[i].dtype);
    if (!compared.ok) return f.params[i].buffer->name.str() + ": " + compared.Text();
  }
  return "";
}

}  // namespace autotune::test
