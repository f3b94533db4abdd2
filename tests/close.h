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
// 16-bit floats a neighbour of the expected number is right, too. `bound` is an error that is allowed at each element
// besides.
inline Comparison CompareNumbers(const std::vector<double>& got, const std::vector<double>& want,
                                 const Tolerance& tolerance = kClose, DType dtype = DType::Float(64),
                                 double bound = 0) {
  auto view = [](const std::vector<double>& numbers) {
    return Tensor::View(const_cast<double*>(numbers.data()), {static_cast<int64_t>(numbers.size())},
                        DataTypeFromText("f64").value(), nullptr)
        .value();
  };
  Tolerance allowed = dtype.IsFloat() ? tolerance : Tolerance{0, 0};
  if (dtype.IsHalf()) allowed.rtol += dtype == DType::BFloat16() ? 0x1p-7 : 0x1p-10;
  const std::vector<double> bounds(want.size(), bound);
  const Tensor bounds_view = view(bounds);
  return CompareTensors(view(got), view(want), allowed, &bounds_view).value();
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
inline std::string Difference(const PrimFunc& f, const std::vector<InterpArray>& got,
                              const std::vector<InterpArray>& want, const Tolerance& tolerance) {
  for (size_t i = 0; i < want.size(); ++i) {
    const std::string difference = Difference(got[i].data, want[i].data, tolerance, want[i].dtype);
    if (!difference.empty()) return f.params[i].buffer->name.str() + ": " + difference;
  }
  return "";
}

}  // namespace autotune::test
