// DistinctSchedules: collects the first n records that differ in alternative, function or trace. Not thread-safe.
#pragma once
#include <unordered_set>
#include <utility>
#include <vector>

#include "records/record.h"
#include "support/hash.h"

namespace autotune {

class DistinctSchedules {
 public:
  explicit DistinctSchedules(int n) : n_(n) {}
  bool full() const { return static_cast<int>(records_.size()) >= n_; }
  // Keeps the record unless its schedule was seen already.
  void Add(Record record) {
    std::string schedule;
    for (const std::string* part : {&record.alternative, &record.func, &record.trace}) {
      schedule += std::to_string(part->size()) + ":" + *part;
    }
    if (!full() && seen_.insert(HashBytes128(schedule)).second) records_.push_back(std::move(record));
  }
  std::vector<Record> Take() { return std::move(records_); }

 private:
  int n_;
  std::unordered_set<Hash128> seen_;
  std::vector<Record> records_;
};

}  // namespace autotune
