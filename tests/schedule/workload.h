// Workloads: small programs to schedule. A text such as `dense(m=3, n=7, k=2, ...)` identifies a workload. Workloads
// cover the common operators of real tasks, with odd extents, extents of one, strides, padding, dilation, groups,
// several outputs and all combiners, and random chains of stages. Inputs are small integers. Their sums are exact in
// every order, except in workloads whose ToleranceOf is above 0.
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
// Returns how much the outputs for integer inputs may differ in another order of sums, relative to max(1, largest
// element). 0 if all sums are exact.
double ToleranceOf(const Workload& workload);
// Returns workloads of the same kind with one smaller argument; for each argument, the largest reduction first.
std::vector<Workload> SmallerThan(const Workload& workload);

// Returns normally distributed floats; small integers for integer parameters.
std::vector<InterpArray> NormalArgs(const PrimFunc& f, uint64_t seed);

}  // namespace autotune::zoo
