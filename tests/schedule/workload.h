// Workloads: small programs to schedule, each named by a text that makes it again, `dense(m=3, n=7, k=2, ...)`. All the
// operators that real tasks are made of, with odd extents, extents of one, strides, padding, dilation, groups, several
// outputs and all combiners; and random chains of stages. Inputs are small integers, on which every legal reordering of
// an `exact` workload's sums is exact.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ir/interp.h"
#include "ir/stmt.h"
#include "support/result.h"
#include "support/rng.h"

namespace autotune::zoo {

struct Workload {
  std::string kind;
  std::vector<int64_t> args;  // one for each of the kind's parameters
  bool operator==(const Workload&) const = default;
};

std::string ToText(const Workload& workload);
Result<Workload> ParseWorkload(std::string_view text);

std::vector<std::string> WorkloadKinds();
Workload DrawWorkload(Rng& rng);
Workload DrawWorkload(const std::string& kind, Rng& rng);
PrimFunc MakeProgram(const Workload& workload);
// How far integer inputs may lead from the same result in another order, relative to the greatest element or 1: 0 where
// all sums are exact.
double ToleranceOf(const Workload& workload);
// The same kind with one smaller argument, the greatest steps first.
std::vector<Workload> SmallerThan(const Workload& workload);

// Normally distributed floats; small integers where the type is none.
std::vector<InterpArray> NormalArgs(const PrimFunc& f, uint64_t seed);

}  // namespace autotune::zoo
