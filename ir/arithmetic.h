// Arithmetic: counts a program's operations on floating-point elements, by class, and weighs each class. Operations on
// indices and integers, and conditions on them, count as nothing. Pure functions; thread-safe.
#pragma once
#include "ir/stmt.h"

namespace autotune {

struct Arithmetic {
  double fma = 0;             // multiply-adds that round once
  double add = 0;             // additions, subtractions, negations, and calls of one or few instructions (sqrt, abs)
  double multiply = 0;        // products
  double divide = 0;          // quotients
  double compare = 0;         // minima and maxima
  double transcendental = 0;  // calls that lowering expands into polynomials (`expanded` in ir/op.h): exp, tanh, pow

  double select = 0;  // selections, which weigh nothing: mostly padding, which lowering turns into masks

  void Add(const Arithmetic& other, double times = 1);

  // Floating-point operations as the field counts them for GFLOPS: two for a multiply-add, one for all else.
  double Flops() const;
  // Time in units of an addition, where throughput counts: as Flops, but a transcendental function takes a polynomial
  // of some ten multiply-adds and the scaling around it (lower/math.cc).
  double Cost() const;
};

// Of one evaluation.
Arithmetic ArithmeticOf(const Expr& e);
// Of one execution, guards and initialisations aside. Each block counts as often as its iterators' extents say,
// whatever loops are around it; statements without blocks count as often as their loops run. A symbolic extent counts
// as 1.
Arithmetic ArithmeticOf(const Stmt& s);

}  // namespace autotune
