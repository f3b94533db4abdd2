// Registers: the variables that a register buffer becomes. Each variable holds lanes that the program reads or writes
// together. So the buffer never exists in memory, as the contract of scope `register` demands, and the compiler need
// not remove it. Dialects without vectors use an array instead. A value; not thread-safe. Internal to codegen/c.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "codegen/c/names.h"
#include "ir/stmt.h"

namespace autotune::c {

// Lanes begin, begin + 1, ... of a vector statement that are one vector of the dialect, or one number.
struct Chunk {
  int begin = 0, count = 1;
};
// The lanes of a statement in vectors of powers of two, at most `max_lanes` long, longest first: 13 are 8, 4 and 1.
std::vector<Chunk> ChunksOf(int lanes, int max_lanes);

// The elements that the lanes of `chunk` access, in a buffer whose indices are constants; nothing if one is not.
std::optional<std::vector<int64_t>> ElementsOf(const Expr& index, Chunk chunk);
// Returns true if the elements follow one another.
bool AreConsecutive(const std::vector<int64_t>& elements);

class Registers {
 public:
  struct Piece {
    int64_t begin;
    int count;
    std::string id;        // "": there is no such piece
    bool in_part = false;  // some statement writes a part of it
  };

  // Returns the pieces that the accesses of `body` need. Their variables are called `stem`, "_" and a number, or
  // something similar if `names` already has that name. Returns nothing if accesses overlap in part: such lanes cannot
  // be variables.
  static std::optional<Registers> For(const Buffer& buffer, const Stmt& body, int max_lanes, const std::string& stem,
                                      Names& names);

  const std::vector<Piece>& pieces() const { return pieces_; }
  // The piece that holds an element that the body accesses.
  const Piece& Holding(int64_t element) const;

 private:
  std::vector<Piece> pieces_;  // in order
};

}  // namespace autotune::c
