// Footprints: what the accesses of one block of a Nest touch while the innermost of its loops run and the others stand
// still. Numbers are the most over all positions of the standing loops: exact where a subscript is made of the digits
// of split and fused loops, else never too small. Allocates nothing once its tables have grown. Not thread-safe.
#pragma once
#include <cstdint>
#include <vector>

#include "schedule/nest.h"

namespace autotune {

// The values that a sum takes while some loops run.
struct Spread {
  int64_t span = 1;   // from the least to the greatest value, both included
  int64_t count = 1;  // distinct values
  int64_t step = 0;   // differences are multiples of it; 0: there is only one value
  // The least value: offset + a multiple of `align` (0: exactly the offset), within [low, high].
  int64_t align = 0, offset = 0, low = 0, high = 0;
};

struct Footprint {
  double bytes = 0, lines = 0;
};

// How the lanes of the vector loop access a buffer.
enum class Contiguity { kNoVector, kSame, kContiguous, kStrided };

class Footprints {
 public:
  // `level` of the functions below: the loops from this position inwards run, so 0 is the whole block.
  void Compute(const Nest& nest, const Nest::Block& block, int line_bytes);

  size_t levels() const { return static_cast<size_t>(block_->loops.size) + 1; }
  const Footprint& At(size_t access, size_t level) const { return footprints_[access * levels() + level]; }
  const Footprint& Total(size_t level) const { return total_[level]; }  // of all accesses
  Contiguity ContiguityOf(size_t access) const { return contiguity_[access]; }

  // The values of subscript `dim` of an access; an independent calculation, for tests.
  static Spread SubscriptSpread(const Nest& nest, const Nest::Block& block, size_t access, size_t dim, size_t level);

 private:
  // Sets of loops, by position in the block's list, and of iterators; those from 63 on share a bit.
  using Mask = uint64_t;
  static Mask Bit(int64_t position) { return Mask{1} << (position < 63 ? position : 63); }

  void Begin(const Nest& nest, const Nest::Block& block);
  void StandStill();
  void Update(Mask loops);  // computes all again that moves with these loops
  Mask LoopsIn(const Nest::Sum& sum) const;
  Mask IteratorsIn(const Nest::Sum& sum) const;
  Spread SpreadOf(const Nest::Sum& sum) const;
  Spread SpreadOf(const Nest::Term& term) const;
  Spread SpreadOfOpaque(const Nest::Sum& sum) const;
  Footprint FootprintOf(size_t access, int line_bytes) const;
  Contiguity LanesOf(size_t access, int64_t lanes) const;

  const Nest* nest_ = nullptr;
  const Nest::Block* block_ = nullptr;
  std::vector<char> runs_;               // by loop of the Nest
  std::vector<Mask> loops_of_iterator_;  // by iterator of the block
  std::vector<Spread> iterators_;
  std::vector<Mask> iterators_of_access_, loops_of_access_;  // the loops that an access uses through any iterator
  std::vector<char> plain_;                                  // the access uses no loop but through iterators
  std::vector<size_t> first_subscript_;                      // by access, into the next two
  std::vector<Mask> loops_of_subscript_;
  std::vector<Spread> subscripts_;
  std::vector<Footprint> footprints_;
  std::vector<Footprint> total_;
  std::vector<Contiguity> contiguity_;
};

}  // namespace autotune
