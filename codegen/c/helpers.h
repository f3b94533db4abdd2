// Helpers: emits small functions for operations that C lacks or defines differently: integer arithmetic that wraps
// around, divisions that round down, minima, selects between vectors, loads of lanes. Each helper that a source calls
// is defined once, before its callers. Arithmetic on vectors is defined lane by lane; compilers turn it into vector
// instructions. Borrows the dialect and the target. Not thread-safe. Internal to codegen/c.
#pragma once
#include <set>
#include <string>

#include "codegen/c/dialect.h"
#include "ir/expr.h"
#include "target/target.h"

namespace autotune::c {

class Helpers {
 public:
  Helpers(const Dialect& dialect, const Target& target) : dialect_(dialect), target_(target) {}

  // Each function defines a helper, whose signature is in the comment, and returns the helper's name. The types may
  // have any number of lanes unless the comment restricts it.
  std::string Binary(BinaryOp op, DType type);      // type f(type a, type b); comparisons: only vectors, return a mask
  std::string Negate(DType type);                   // of integers
  std::string Call(Op op, DType type, DType from);  // type f(from a, ...); any op but reinterpret
  std::string Reinterpret(DType from, DType to);    // of numbers
  std::string ConvertHalf(DType from, DType to);    // between f16 and f32; only for targets with has_f16
  // type f(type a, ...): an elementary function of many operations (IsLongMath), expanded by lower/math.cc.
  std::string Math(Op op, DType type);
  std::string Select(DType type);  // of vectors: f(mask, a, b)
  std::string Splat(DType type);   // of vectors
  std::string Narrow();            // int32_t f(int64_t): the nearest number of 32 bits
  std::string Any(int lanes);      // int f(mask)
  // Loads and stores of lanes. Vectors of bool are bytes in memory and masks as values.
  std::string Load(DType type);         // f(p)
  std::string LoadMasked(DType type);   // f(p, begin, mask): a lane whose mask is 0 is 0 and is not read
  std::string LoadStrided(DType type);  // f(p, begin, stride, mask): the mask works as in LoadMasked
  std::string Store(DType type);        // f(p, v)

  const std::string& text() const { return text_; }

 private:
  // Defines the function RESULT NAME(PARAMETERS) with the lines of `body`, unless it is defined already. Returns its
  // name.
  std::string Define(const std::string& name, const std::string& result, const std::string& parameters,
                     const std::string& body) {
    return Define(dialect_.Inlined(), name, result, parameters, body);
  }
  std::string Define(const std::string& storage, const std::string& name, const std::string& result,
                     const std::string& parameters, const std::string& body);
  // Returns "type a, type b", with one parameter for each argument of the op.
  std::string ParametersOf(Op op, DType type) const;
  // Returns the dialect's body of the function, or `lane_by_lane` if the dialect has none. If the dialect's body has a
  // condition, returns both bodies, between which the preprocessor selects.
  std::string BodyOf(std::string_view function, DType type, const std::string& lane_by_lane) const;
  // Defines the helper `name`, which applies the scalar function `function` to each lane.
  std::string LaneByLane(const std::string& name, const std::string& function, DType type, int arguments);
  std::string ScalarBinary(BinaryOp op, DType type);
  std::string ForLanes(int lanes, const std::string& statement) const;

  const Dialect& dialect_;
  const Target& target_;
  std::set<std::string> defined_;
  std::string text_;
};

// Returns the part of a helper's or vector type's name that states the type, such as f32x8. An index type is i64.
std::string TypeName(DType dtype);
inline DType MaskOf(int lanes) { return DType::Int(32).WithLanes(lanes); }

}  // namespace autotune::c
