// Nest: the cost-relevant facts of one scheduled function, as numbers. It holds the loops around each block, the
// iterators that they drive, the addresses that the blocks access, the arithmetic of an instance, and the annotations
// that steps left. Features (costmodel/features.h) are computed from it and the target alone.
//
// A Nest belongs to one candidate, so all extents are integers. NestOf makes it from a program. A step can also be
// applied to the Nest directly, without a program; schedule/nest_sums.h has the arithmetic for that. The tables hold
// plain values, and no Expr. A copy into an existing Nest allocates nothing once the tables have grown.
//
// A value that cannot be written as a sum is `opaque`. The Nest only has the value's bounds and the variables on which
// it depends, so it over-approximates the value.
//
// A value type: threads may share an object only to read it. A Nest does not check legality: it describes a program
// that a schedule made.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/arithmetic.h"
#include "ir/stmt.h"

namespace autotune {

struct Nest {
  using Index = int32_t;  // a position in one of the tables below
  static constexpr Index kNone = -1;
  static constexpr int64_t kUnbounded = int64_t{1} << 60;

  // Neighbouring entries of a table.
  struct Range {
    Index begin = 0, size = 0;
    bool operator==(const Range&) const = default;
  };

  enum class Of : uint8_t {
    kLoop,      // `index` in `loops`; its values are [0, extent)
    kIterator,  // `index` in `iterators`; its values are [0, extent) wherever the block's guards hold
    kSum,       // `index` in `sums`
    kOpaque,    // an unknown value in [low, high] of sums[index]; depends only on the terms of this sum
  };
  // coefficient * ((x // div) % mod), where `of` and `index` name x. div 1 means no division, mod 0 no remainder. The
  // coefficient is not 0.
  struct Term {
    int64_t coefficient = 1, div = 1, mod = 0;
    Of of = Of::kLoop;
    Index index = 0;
  };
  // min(max(constant + the terms, low), high). The terms are sorted by the magnitude of their coefficients, least
  // first.
  struct Sum {
    Range terms;  // in `terms`
    int64_t constant = 0, low = -kUnbounded, high = kUnbounded;
  };

  struct Loop {
    Name name;
    int64_t extent = 1;
    LoopKind kind = LoopKind::kSerial;
    bool symbolic = false;                 // the extent is not a constant; `extent` is 1
    bool peeled = false, overlap = false;  // the loop has the annotation kPeel or kOverlap (ir/annotations.h)
  };
  struct Iterator {
    Name name;
    IterKind kind = IterKind::kSpatial;
    int64_t extent = 1;
    int64_t original = 1;  // the extent before padding; values beyond it are wasted work
    Sum binding;           // a sum of loops
  };
  // A condition under which a block runs: low <= value <= high.
  struct Guard {
    Sum value;  // a sum of loops or iterators
    int64_t low = -kUnbounded, high = kUnbounded;
  };
  struct Access {
    Index buffer = 0;
    bool reads = false, writes = false;
    Range subscripts;  // in `sums`, one for each dimension: sums of iterators (and of loops inside the block)
  };
  // A block of the program. A block that contains loops (blockize) becomes several Blocks, one for each group of
  // statements inside these loops.
  struct Block {
    Name name;
    Range loops;            // in `loop_lists`: the loops around the statements, outermost first
    Range iterators;        // in `iterators`
    Range accesses;         // in `accesses`; one for each distinct pair of buffer and subscripts
    Range guards;           // in `guards`; guards that the extents imply are left out
    Arithmetic arithmetic;  // operations of one instance
    bool has_init = false;  // the block initialises its reduction
    bool branches = false;  // some of its statements run under conditions of their own
    bool prepared = false;  // the block depends on constants only and runs in `prepare`, untimed (MarkPrepared)
  };

  enum class Role : uint8_t { kInput, kConstant, kOutput, kTemporary };
  struct Dim {
    int64_t extent = 1, stride = 1;  // the stride in elements
  };
  struct Buffer {
    Name name;
    int64_t element_bytes = 4;
    Scope scope = Scope::kGlobal;
    Role role = Role::kTemporary;
    Range dims;  // in `dims`
  };

  // Each iteration of `at` prefetches lines of `buffer` that `block` accesses `ahead` iterations of `loop` later.
  struct Prefetch {
    static constexpr int64_t kMostLines = 32;  // most lines that one iteration of `at` prefetches
    Index block = 0, buffer = 0, loop = 0, at = 0;
    int64_t ahead = 1;
  };

  std::vector<Block> blocks;      // in program order
  std::vector<Loop> loops;        // each loop of the program once
  std::vector<Index> loop_lists;  // positions in `loops`; blocks inside the same loop list the same position
  std::vector<Iterator> iterators;
  std::vector<Access> accesses;
  std::vector<Guard> guards;
  std::vector<Sum> sums;
  std::vector<Term> terms;
  std::vector<Buffer> buffers;  // the parameters, then the temporaries
  std::vector<Dim> dims;
  std::vector<Prefetch> prefetches;

  std::span<const Index> LoopsOf(const Block& b) const { return Part(loop_lists, b.loops); }
  std::span<const Iterator> IteratorsOf(const Block& b) const { return Part(iterators, b.iterators); }
  std::span<const Access> AccessesOf(const Block& b) const { return Part(accesses, b.accesses); }
  std::span<const Guard> GuardsOf(const Block& b) const { return Part(guards, b.guards); }
  std::span<const Sum> SubscriptsOf(const Access& a) const { return Part(sums, a.subscripts); }
  std::span<const Term> TermsOf(const Sum& s) const { return Part(terms, s.terms); }
  std::span<const Dim> DimsOf(const Buffer& b) const { return Part(dims, b.dims); }
  int64_t BytesOf(const Buffer& b) const;  // size of all elements, without gaps between rows

 private:
  template <class T>
  static std::span<const T> Part(const std::vector<T>& table, Range range) {
    return {table.data() + range.begin, static_cast<size_t>(range.size)};
  }
};

// Returns the Nest of a function in the schedulable dialect.
Nest NestOf(const PrimFunc& func);

// Sets Block::prepared by the rule of lowering (lower/prepare.cc). The prepared statements are the greatest set of
// top-level statements with two properties: they read only constants and buffers that the set writes, and they write
// only temporaries in global memory that no other statement writes.
void MarkPrepared(Nest& nest);

// Returns a text that shows all of a Nest except positions in its tables. Two Nests are equal if their texts are equal.
std::string ToText(const Nest& nest);

}  // namespace autotune
