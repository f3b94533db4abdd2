// Intrinsics: operations on small pieces of buffers for which a target has fast instructions. Each is declared as a
// pair of programs with the same parameters. The description computes the operation in plain loops; `tensorize` looks
// for these loops. It replaces them by the implementation, whose loops are already vectorized and unrolled. A trace
// refers to an intrinsic by its name.
//
// A parameter stands for a part of a buffer of its type. The buffer has at least the rank of the parameter. The
// parameter's dimensions are the last dimensions of the buffer, each from any offset; the index in the buffer's other
// dimensions is fixed. If a parameter states `strides`, the buffer must have the same strides. A program that reads an
// output before it writes it describes an operation that updates the output.
//
// For every intrinsic, both programs touch all of each parameter and nothing beyond, and leave the same bits in the
// outputs, whatever the inputs hold (tests/schedule/intrinsic_test.cc, tests/codegen/intrinsic_test.cc).
// Thread-safe.
#pragma once
#include <vector>

#include "ir/stmt.h"

namespace autotune {

struct Intrinsic {
  Name name;
  PrimFunc description, implementation;  // schedulable
};

// Returns all intrinsics, in the order of schedule/intrinsic.cc.
const std::vector<Intrinsic>& Intrinsics();
const Intrinsic* FindIntrinsic(const Name& name);  // null if there is none

}  // namespace autotune
