// Look-ups of bytes in tables that registers hold (ir/byte_table.h). A register of AVX-512 takes 64 bytes, but vectors
// of floats that become bytes have 16 lanes. So look-ups that the stores of a sequence make in one table are joined.
// Borrows the builder and the target. Not thread-safe. Internal to codegen/llvm/cpu.
#pragma once
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "codegen/llvm/addresses.h"
#include "target/target.h"

namespace autotune {

class ByteTables {
 public:
  ByteTables(llvm::IRBuilder<>& builder, const Target& target) : builder_(builder), target_(target) {}

  // Finds the look-ups of `seq` that can be joined. Must be called before the sequence is emitted.
  void Find(const Seq& seq);
  // Forgets them. Must be called after the sequence is emitted, since another sequence may contain the same load
  // expressions.
  void Clear() { joined_.clear(); }

  // Returns the entries that the load looks up; null: it is no look-up, or a load for each lane is as fast. Reads the
  // whole table, whatever the conditions of the lanes are. `value_of` emits expressions, under a condition if
  // `is_guarded`. The first look-up of several joined ones that is requested emits all of them.
  llvm::Value* EntriesOf(Addresses& addresses, const Load& load, bool is_guarded,
                         const std::function<llvm::Value*(const Expr&)>& value_of);

 private:
  struct Group {
    std::vector<const Load*> loads;
    std::vector<llvm::Value*> entries;  // empty until the first look-up is requested
  };
  struct Place {
    std::shared_ptr<Group> group;
    size_t index;
  };
  int RegisterLanes() const;
  llvm::Value* LookUp(llvm::Value* table, llvm::Value* bytes);
  llvm::Value* LanesOf(llvm::Value* vector, int begin, int count);
  llvm::Value* Joined(const std::vector<llvm::Value*>& parts);

  llvm::IRBuilder<>& builder_;
  const Target& target_;
  std::unordered_map<const Load*, Place> joined_;
};

}  // namespace autotune
