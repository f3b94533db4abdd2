// Arithmetic: counts a program's operations on elements, floats and integers, by class, and weighs each class.
// Operations of the type `index` address elements and count as nothing, like comparisons and logic of conditions. Also
// counts a program's bytes. Pure functions; thread-safe.
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

  double bits = 0;    // shifts and logic of bits, as they unpack numbers; they count for Cost, not for Flops
  double select = 0;  // selections; no weight, since most are padding, which lowering turns into masks

  void Add(const Arithmetic& other, double times = 1);

  // The usual count for GFLOPS: two for a multiply-add, one for every other operation but those on bits. A product of
  // integers and the addition of it count two as well.
  double Flops() const;
  // An estimate of the time of code that is limited by throughput, in units of an addition. Like Flops, but a
  // transcendental function counts 20, for a polynomial of about ten multiply-adds (lower/math.cc).
  double Cost() const;
};

// Counts the operations of one evaluation of e.
Arithmetic ArithmeticOf(const Expr& e);
// Counts one execution, without guards and initialisations. A block counts as often as the extents of its iterators
// say, whatever loops surround it. Statements without blocks count as often as their loops run. A symbolic extent
// counts as 1.
Arithmetic ArithmeticOf(const Stmt& s);

// Returns the bytes of a program's parameters, the least that its kernels must read and write. Shapes must be constant.
int64_t BytesOfParams(const PrimFunc& func);

}  // namespace autotune
