// Helpers: small functions that a source calls where C has no operator, or one with another meaning: integers that wrap
// around, divisions that round down, minima as the language defines them, selects between vectors, loads of lanes. Each
// helper that is called is defined once, before its callers. Arithmetic on vectors is defined lane by lane; compilers
// turn it into vector instructions. Borrows the dialect and the target. Not thread-safe. Internal to codegen/c.
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

  // Each returns the name of a function. The types are of any number of lanes unless stated.
  std::string Binary(BinaryOp op, DType type);      // type f(type a, type b); comparisons: of vectors, give a mask
  std::string Negate(DType type);                   // of integers
  std::string Call(Op op, DType type, DType from);  // but reinterpret: type f(from a, ...)
  std::string Reinterpret(DType from, DType to);    // of numbers
  // An elementary function of many operations (IsLongMath), as lower/math.cc expands it: type f(type a, ...).
  std::string Math(Op op, DType type);
  std::string Select(DType type);  // of vectors: f(mask, a, b)
  std::string Splat(DType type);   // of vectors
  std::string Narrow();            // int32_t f(int64_t): the nearest number of 32 bits
  std::string Any(int lanes);      // int f(mask)
  // Lanes of a buffer. Vectors of bool are bytes in memory and masks as values.
  std::string Load(DType type);         // f(p)
  std::string LoadMasked(DType type);   // f(p, begin, mask): 0 where the mask is; touches nothing there
  std::string LoadStrided(DType type);  // f(p, begin, stride, mask): likewise
  std::string Store(DType type);        // f(p, v)
  std::string Scatter(DType type);      // f(p, indices, v)

  const std::string& text() const { return text_; }

 private:
  // Defines the function unless it is already: "RESULT NAME(PARAMETERS) {" and the lines of the body.
  std::string Define(const std::string& name, const std::string& result, const std::string& parameters,
                     const std::string& body) {
    return Define(dialect_.Inlined(), name, result, parameters, body);
  }
  std::string Define(const std::string& storage, const std::string& name, const std::string& result,
                     const std::string& parameters, const std::string& body);
  // "type a, type b", one for each argument of the op.
  std::string ParametersOf(Op op, DType type) const;
  // The body that the dialect has for the function, else `lane_by_lane`, or one and the other by a condition.
  std::string BodyOf(std::string_view function, DType type, const std::string& lane_by_lane) const;
  // A function of numbers applied to each lane.
  std::string LaneByLane(const std::string& name, const std::string& function, DType type, int arguments);
  std::string ScalarBinary(BinaryOp op, DType type);
  std::string ForLanes(int lanes, const std::string& statement) const;

  const Dialect& dialect_;
  const Target& target_;
  std::set<std::string> defined_;
  std::string text_;
};

// The element type that a value of `dtype` has in names of types and functions: index is i64.
std::string TypeName(DType dtype);
inline DType MaskOf(int lanes) { return DType::Int(32).WithLanes(lanes); }

}  // namespace autotune::c
