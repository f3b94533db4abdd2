// Transposes in registers, for copies that transpose and write vectors. The lanes of such a vector are a stride apart
// in memory, so it would take one load per lane. Where as many of these vectors as they have lanes begin one element
// after the other, together they read a square of elements: its rows are loaded as vectors, and log2(lanes) shuffles
// per vector turn the rows into the columns.
// Borrows the builder. Not thread-safe. Internal to codegen/llvm/cpu.
#pragma once
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/llvm/addresses.h"

namespace autotune {

class Transposes {
 public:
  explicit Transposes(llvm::IRBuilder<>& builder) : builder_(builder) {}

  // Finds the squares that the stores of `seq` read. To be called before the sequence is emitted.
  void Find(const Seq& seq);
  // Forgets them all. To be called after the sequence, since another one may share a load with it.
  void Clear() { columns_.clear(); }

  // Returns the value of a load that is a column of a square; null if it is none. The first column that is needed
  // emits the loads and shuffles of the whole square.
  llvm::Value* ColumnOf(Addresses& addresses, const Load& load, llvm::Type* type);

 private:
  struct Square {
    const Load* first = nullptr;        // the column that begins first: row i begins at its lane i
    std::vector<llvm::Value*> columns;  // empty until one of them is needed
  };
  struct Place {
    std::shared_ptr<Square> square;
    size_t column;
  };
  std::vector<llvm::Value*> Transposed(std::vector<llvm::Value*> rows, int64_t element_bytes);

  llvm::IRBuilder<>& builder_;
  std::unordered_map<const Load*, Place> columns_;
};

}  // namespace autotune
