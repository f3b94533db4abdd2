// For tests: sample records.
#pragma once
#include <string>

#include "records/record.h"

namespace autotune {

// Returns record number `i` of a run. Every field is filled from the arguments, except the id, which is new each time.
inline Record SampleRecord(int i, const std::string& task = "t0", double cost = 1e-3) {
  Record r;
  r.id = NewRecordId();
  r.task = task;
  r.alternative = "direct";
  r.func = "func of " + task;
  r.trace = "split(oc, [?,16]) # " + std::to_string(i);
  r.target = "llvm -mcpu=znver3 -num-cores=2";
  r.device = "local";
  r.server = "0123456789abcdef";
  r.times = {cost, cost * 1.25};
  r.cost = cost;
  r.verified = true;
  r.tenant = "me";
  r.run = "run0";
  r.seed = 0xfedcba9876543210ULL + i;
  r.versions = {1, 2, 3, 4};
  r.created_at = 1700000000000 + i;
  r.facts["spills"] = i;
  return r;
}

}  // namespace autotune
