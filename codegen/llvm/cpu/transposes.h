// Transposes in registers, for copies that transpose a tensor and write vectors. The lanes of such a vector are a
// stride apart in memory, so a plain load of the vector takes one load per lane. But n vectors of n lanes that begin at
// consecutive elements together read an n x n square. The rows of the square are contiguous and are loaded as vectors.
// Then log2(n) shuffles per vector turn the rows into the columns. Borrows the builder. Not thread-safe. Internal to
// codegen/llvm/cpu.
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

  // Finds the squares that the stores of `seq` read. Must be called before the sequence is emitted.
  void Find(const Seq& seq);
  // Forgets all squares. Must be called after the sequence is emitted, since another sequence may contain the same load
  // expressions.
  void Clear() { columns_.clear(); }

  // Returns the value of `load` if it is a column of a square, else null. The first column that is requested emits the
  // loads and shuffles of the whole square.
  llvm::Value* ColumnOf(Addresses& addresses, const Load& load, llvm::Type* type);

 private:
  struct Square {
    const Load* first = nullptr;        // the column at the lowest address; row i begins at lane i of this column
    std::vector<llvm::Value*> columns;  // empty until the first column is requested
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
