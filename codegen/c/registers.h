// Registers: the variables that replace a register buffer. Each variable holds lanes that the program reads or writes
// together. So the contract of scope `register`, that the buffer is never in memory, does not depend on an optimization
// of the compiler. Dialects without vectors use an array instead. A value; not thread-safe. Internal to codegen/c.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/c/names.h"
#include "ir/stmt.h"

namespace autotune::c {

// Lanes [begin, begin + count) of a vector statement. In the source they are one vector or, if count is 1, one number.
struct Chunk {
  int begin = 0, count = 1;
};
// Splits the lanes of a statement into chunks, the longest first. The number of lanes of a chunk is a power of two, at
// most `max_lanes`. For example, 13 lanes become chunks of 8, 4 and 1.
std::vector<Chunk> ChunksOf(int lanes, int max_lanes);

// Returns the elements that the lanes of `chunk` access. Returns nothing if the index of a lane is not constant.
std::optional<std::vector<int64_t>> ElementsOf(const Expr& index, Chunk chunk);
// Returns true if each element is one more than the one before.
bool AreConsecutive(const std::vector<int64_t>& elements);

class Registers {
 public:
  struct Piece {
    int64_t begin;         // first element
    int count;             // number of elements
    std::string id;        // name of the variable
    bool in_part = false;  // whether some statement writes only a part of the piece
  };

  // Returns the pieces that the accesses of `body` need. Their variables are called `stem`, "_" and a number, or
  // something similar if `names` already has that name. Returns nothing if accesses overlap in part: such lanes cannot
  // be variables.
  static std::optional<Registers> For(const Buffer& buffer, const Stmt& body, int max_lanes, const std::string& stem,
                                      Names& names);

  const std::vector<Piece>& pieces() const { return pieces_; }
  // Returns the piece that holds `element`, which the body must access.
  const Piece& Holding(int64_t element) const;

 private:
  std::vector<Piece> pieces_;  // in order
};

}  // namespace autotune::c
