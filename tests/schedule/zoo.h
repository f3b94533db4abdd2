// Programs to schedule (small versions of the operators of real networks), and helpers to schedule and compare them.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "ir/stmt.h"
#include "schedule/schedule.h"

namespace autotune::zoo {

// `ic`: input channels of one group; `oc`: output channels of all groups. MaxPool has `oc` channels.
struct ConvShape {
  int64_t h = 8, w = 8, ic = 4, oc = 8;
  int64_t kernel = 3, stride = 1, pad = 1, groups = 1, dilation = 1;
};

// data (input), weight (constant), bias (constant) [, residual (input)] -> out = relu(conv + bias [+ residual]).
PrimFunc ConvBiasRelu(const ConvShape& shape, bool residual = false);
PrimFunc Conv(const ConvShape& shape);            // without an epilogue
PrimFunc Dense(int64_t m, int64_t n, int64_t k);  // with a bias
PrimFunc MaxPool(const ConvShape& shape);
PrimFunc Softmax(int64_t rows, int64_t columns);
PrimFunc Elementwise(int64_t rows, int64_t columns);  // relu(a*2 + b), three blocks

// Applies the steps of a trace's text. They must be legal.
Schedule Scheduled(const PrimFunc& func, const std::string& trace);
// Returns the error of the last line of a trace whose other lines are legal. Checks that the failing step leaves the
// schedule unchanged.
std::string ErrorOf(const PrimFunc& func, const std::string& trace);

// Checks that `after` is well-formed, that its text parses to an equal function, and that both functions compute equal
// outputs from small integers. Parallel iterations of `after` run in random order.
void ExpectSame(const PrimFunc& before, const PrimFunc& after, uint64_t seed = 1);

}  // namespace autotune::zoo
