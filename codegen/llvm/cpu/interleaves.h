// Stores of several vectors whose lanes take turns in memory, as those of a transpose whose result has short rows: lane
// i of vector c is element i n + c, for n vectors. One by one, each lane would be a store of its own. Together, n - 1
// shuffles per vector or fewer bring the lanes into their order, and n stores write them. Borrows the builder. Not
// thread-safe. Internal to codegen/llvm/cpu.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "codegen/llvm/addresses.h"

namespace autotune {

class Interleaves {
 public:
  explicit Interleaves(llvm::IRBuilder<>& builder) : builder_(builder) {}

  // Finds the stores of `seq` that take turns. Must be called before the sequence is emitted.
  void Find(const Seq& seq);
  // Forgets all stores. Must be called after the sequence is emitted.
  void Clear() { places_.clear(); }

  // Takes the value of a store that takes turns with others, and returns true. The last of them emits all. Returns
  // false, and does nothing, for other stores.
  bool Take(Addresses& addresses, const Store& store, llvm::Value* value);

 private:
  struct Group {
    const Store* first = nullptr;      // the store of the lowest address
    std::vector<llvm::Value*> values;  // by place; null: the store is still to come
    size_t missing = 0;
  };
  struct Place {
    std::shared_ptr<Group> group;
    size_t index;
  };
  std::vector<llvm::Value*> InTurns(const std::vector<llvm::Value*>& vectors);

  llvm::IRBuilder<>& builder_;
  std::unordered_map<const Store*, Place> places_;
};

}  // namespace autotune
