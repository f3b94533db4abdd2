// Element-wise operators with NumPy broadcasting, for any layout. A constant of one element is a te::Splat.
// Thread-safe.
//
// The loops of a result are the axes (te/tensor.h) of the first operand that has the result's shape and fused axes,
// such as (n, m, oc) of a convolution. Without such an operand they are the dimensions of the result. So an operator
// after a convolution has the convolution's loops and can be fused with it loop by loop.
#pragma once
#include <string>
#include <vector>

#include "te/tensor.h"

namespace autotune::topi {

using te::Shape;
using te::Tensor;

// fn gets one element of each input. Shapes must broadcast (CHECK).
Tensor Map(const std::string& name, const std::vector<Tensor>& inputs,
           const std::function<Expr(const std::vector<Expr>&)>& fn);

// Relu and Clip return NaN for NaN.
Tensor Relu(const std::string& name, const Tensor& x);
Tensor LeakyRelu(const std::string& name, const Tensor& x, double alpha);
Tensor Clip(const std::string& name, const Tensor& x, double low, double high);  // infinite: no bound on that side
// Applies an op of one argument (ir/op.h), such as exp, sqrt or sin, to each element.
Tensor ApplyOp(const std::string& name, Op op, const Tensor& x);
Tensor Neg(const std::string& name, const Tensor& x);
Tensor Abs(const std::string& name, const Tensor& x);  // integers too
// Logical operators on bools; bitwise on integers.
Tensor Not(const std::string& name, const Tensor& x);
Tensor And(const std::string& name, const Tensor& a, const Tensor& b);
Tensor Or(const std::string& name, const Tensor& a, const Tensor& b);
Tensor Xor(const std::string& name, const Tensor& a, const Tensor& b);
// Shifts of unsigned integers. A shift by the width or more gives 0.
Tensor ShiftLeft(const std::string& name, const Tensor& a, const Tensor& b);
Tensor ShiftRight(const std::string& name, const Tensor& a, const Tensor& b);
// Converts to `dtype`. Floats truncate to integers; a bool is true if the number is not 0.
Tensor CastTo(const std::string& name, const Tensor& x, DType dtype);
// Reinterprets the bits as numbers of another type of the same width.
Tensor BitCast(const std::string& name, const Tensor& x, DType dtype);
Tensor Identity(const std::string& name, const Tensor& x);

Tensor Add(const std::string& name, const Tensor& a, const Tensor& b);
Tensor Sub(const std::string& name, const Tensor& a, const Tensor& b);
Tensor Mul(const std::string& name, const Tensor& a, const Tensor& b);
Tensor Div(const std::string& name, const Tensor& a, const Tensor& b);  // integers truncate; x / 0 is x
Tensor Mod(const std::string& name, const Tensor& a, const Tensor& b);  // integers, the divisor's sign; x mod 0 is 0
Tensor Maximum(const std::string& name, const Tensor& a, const Tensor& b);
Tensor Minimum(const std::string& name, const Tensor& a, const Tensor& b);
Tensor Pow(const std::string& name, const Tensor& a, const Tensor& b);
Tensor Compare(const std::string& name, const Tensor& a, const Tensor& b, BinaryOp op);  // to bool
Tensor Where(const std::string& name, const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor Fma(const std::string& name, const Tensor& a, const Tensor& b, const Tensor& c);  // a b + c of floats
// x of i8 or u8, table [256] of bytes: the entry for the bits of each x (ir/byte_table.h).
Tensor LookUp(const std::string& name, const Tensor& x, const Tensor& table);
Tensor Sum(const std::string& name, const std::vector<Tensor>& inputs);  // from left to right; at least one

}  // namespace autotune::topi
