// Footprints: the bytes and lines that the accesses of one block of a Nest touch while its innermost loops run and the
// outer loops are fixed. The numbers are maxima over all positions of the fixed loops. They are exact where a subscript
// is made of the quotients and remainders of split and fused loops, and upper bounds elsewhere. Allocates nothing once
// its tables have grown. Not thread-safe.
#pragma once
#include <cstdint>
#include <vector>

#include "schedule/nest.h"

namespace autotune {

// The values that a sum takes while some loops run.
struct Spread {
  int64_t span = 1;   // from the least to the greatest value, both included
  int64_t count = 1;  // distinct values
  int64_t step = 0;   // all differences of values are multiples of the step; 0: there is only one value
  // The least value is `offset` plus a multiple of `align`, and lies within [low, high]. If `align` is 0, the least
  // value is `offset` itself.
  int64_t align = 0, offset = 0, low = 0, high = 0;
};

struct Footprint {
  double bytes = 0, lines = 0;
};

// How the lanes of the vector loop access a buffer.
enum class Contiguity { kNoVector, kSame, kContiguous, kStrided };

class Footprints {
 public:
  // Computes the footprints of the block at all levels. At level l, the loops from position l inwards run and the loops
  // outside them are fixed. So level 0 is the whole block.
  void Compute(const Nest& nest, const Nest::Block& block, int line_bytes);

  size_t levels() const { return static_cast<size_t>(block_->loops.size) + 1; }
  const Footprint& At(size_t access, size_t level) const { return footprints_[access * levels() + level]; }
  const Footprint& Total(size_t level) const { return total_[level]; }  // of all accesses
  Contiguity ContiguityOf(size_t access) const { return contiguity_[access]; }

  // For tests: returns the values of subscript `dim` of an access at a level, calculated from scratch, while Compute
  // updates them from level to level.
  static Spread SubscriptSpread(const Nest& nest, const Nest::Block& block, size_t access, size_t dim, size_t level);

 private:
  // A set of loops or iterators, by their positions in the block's list. Positions from 63 on share one bit.
  using Mask = uint64_t;
  static Mask Bit(int64_t position) { return Mask{1} << (position < 63 ? position : 63); }

  void Begin(const Nest& nest, const Nest::Block& block);
  void StandStill();
  void Update(Mask loops);  // recomputes the iterators and subscripts that depend on these loops
  Mask LoopsIn(const Nest::Sum& sum) const;
  Mask IteratorsIn(const Nest::Sum& sum) const;
  Spread SpreadOf(const Nest::Sum& sum) const;
  Spread SpreadOf(const Nest::Term& term) const;
  Spread SpreadOfOpaque(const Nest::Sum& sum) const;
  Footprint FootprintOf(size_t access, int line_bytes) const;
  Contiguity LanesOf(size_t access, int64_t lanes) const;

  const Nest* nest_ = nullptr;
  const Nest::Block* block_ = nullptr;
  std::vector<char> runs_;               // by loop of the Nest: 1 if the loop runs, 0 if it is fixed
  std::vector<Mask> loops_of_iterator_;  // by iterator of the block
  std::vector<Spread> iterators_;        // by iterator of the block
  // By access: its iterators, and the loops in its subscripts, directly or through iterators.
  std::vector<Mask> iterators_of_access_, loops_of_access_;
  std::vector<char> plain_;               // by access: 1 if its subscripts use loops through iterators only
  std::vector<size_t> first_subscript_;   // by access: its first position in the next two tables
  std::vector<Mask> loops_of_subscript_;  // by access and dimension
  std::vector<Spread> subscripts_;        // by access and dimension
  std::vector<Footprint> footprints_;     // by access and level
  std::vector<Footprint> total_;          // by level
  std::vector<Contiguity> contiguity_;    // by access
};

}  // namespace autotune
