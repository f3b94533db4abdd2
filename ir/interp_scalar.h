// One scalar operation of the language, as ir/expr.h and ir/op.h define it. Internal to ir/.
#pragma once
#include <string>

#include "ir/interp_memory.h"

namespace autotune::interp {

// If the operation is undefined, sets `error` to its description, and the result is meaningless.
Scalar ApplyBinary(BinaryOp op, DType dtype, Scalar a, Scalar b, std::string& error);  // dtype of the operands
Scalar ApplyUnary(UnaryOp op, DType dtype, Scalar a);
Scalar ApplyCast(DType from, DType to, Scalar a);
double FusedMultiplyAdd(double a, double b, double c, DType dtype);  // a * b + c, rounded once to dtype
Scalar ApplyCall(Op op, DType from, DType to, const Scalar* args, std::string& error);  // `from`: of the arguments

}  // namespace autotune::interp
