#include "costmodel/features.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "costmodel/feature_schema.h"
#include "costmodel/footprint.h"
#include "support/check.h"
#include "target/streaming.h"

namespace autotune {
namespace {

// Returns the cost of one instance of the block, in units of an addition.
double OperationsOf(const Nest::Block& block) { return block.arithmetic.Cost() + block.arithmetic.select; }

float Log(double x) { return std::log2(1.0F + static_cast<float>(std::max(0.0, x))); }

// Counts the index operations that the evaluation of `sum` takes.
double IndexOperations(const Nest& nest, const Nest::Sum& sum) {
  double operations = std::max(0, sum.terms.size + (sum.constant != 0) - 1);
  for (const Nest::Term& term : nest.TermsOf(sum)) {
    operations += std::abs(term.coefficient) != 1;
    operations += (term.div > 1) + (term.mod > 0);
    if (term.of == Nest::Of::kSum || term.of == Nest::Of::kOpaque)
      operations += IndexOperations(nest, nest.sums[term.index]);
  }
  return operations + (sum.low > -Nest::kUnbounded) + (sum.high < Nest::kUnbounded);
}

double IndexOperations(const Nest& nest, const Nest::Block& block) {
  double operations = 0;
  for (const Nest::Access& access : nest.AccessesOf(block)) {
    for (const Nest::Sum& subscript : nest.SubscriptsOf(access)) operations += IndexOperations(nest, subscript);
  }
  for (const Nest::Guard& guard : nest.GuardsOf(block)) {
    operations +=
        IndexOperations(nest, guard.value) + (guard.low > -Nest::kUnbounded) + (guard.high < Nest::kUnbounded);
  }
  return operations;
}

// Products of the extents of the loops around a block.
struct Extents {
  double iterations = 1, parallel = 1, lanes = 1, unrolled = 1;
};
Extents ExtentsOf(const Nest& nest, const Nest::Block& block) {
  Extents e;
  for (Nest::Index index : nest.LoopsOf(block)) {
    const Nest::Loop& loop = nest.loops[index];
    const double extent = static_cast<double>(loop.extent);
    e.iterations *= extent;
    if (loop.kind == LoopKind::kParallel) e.parallel *= extent;
    if (loop.kind == LoopKind::kVectorized) e.lanes *= extent;
    if (loop.kind == LoopKind::kUnrolled) e.unrolled *= extent;
  }
  return e;
}

struct Weight {
  Nest::Index block;
  double flops, weight;
};

// Totals over prefetches: cache lines, and the bytes by which the prefetches are ahead of the accesses.
struct Prefetched {
  double lines = 0, bytes_ahead = 0;
};

// Tables that all calls of one thread reuse, to allocate memory only once.
struct Scratch {
  std::vector<Weight> weights;
  std::vector<size_t> ranked;  // accesses, those that touch most lines first
  Footprints footprints, prefetched;
};

class Extractor {
 public:
  Extractor(const Nest& nest, const Target& target, Scratch& scratch) : nest_(nest), target_(target), s_(scratch) {}

  void Extract(float* out) {
    s_.weights.clear();
    double flops = 0, parallel = 1;
    int loops = 0;
    for (size_t i = 0; i < nest_.blocks.size(); ++i) {
      const Nest::Block& block = nest_.blocks[i];
      if (block.prepared) continue;
      const Extents e = ExtentsOf(nest_, block);
      const double of_block = e.iterations * OperationsOf(block);
      s_.weights.push_back({static_cast<Nest::Index>(i), of_block, of_block + e.iterations});
      flops += of_block;
      parallel = std::max(parallel, e.parallel);
      loops += OwnLoops(i);
    }
    double param_bytes = 0, temporary_bytes = 0;
    for (const Nest::Buffer& buffer : nest_.buffers) {
      const bool temporary = buffer.role == Nest::Role::kTemporary;
      (temporary ? temporary_bytes : param_bytes) += static_cast<double>(nest_.BytesOf(buffer));
    }
    Prefetched all;
    for (const Nest::Prefetch& prefetch : nest_.prefetches) Add(prefetch, all);
    float* f = out;
    *f++ = Log(flops);
    *f++ = Log(param_bytes);
    *f++ = static_cast<float>(s_.weights.size());
    *f++ = static_cast<float>(loops);
    *f++ = Log(parallel);
    *f++ = Log(temporary_bytes);
    *f++ = Log(all.lines);
    *f++ = Log(all.bytes_ahead);
    CHECK(f == out + schema::kFunction);
    const size_t shown = std::min<size_t>(schema::kBlocks, s_.weights.size());
    std::partial_sort(s_.weights.begin(), s_.weights.begin() + static_cast<std::ptrdiff_t>(shown), s_.weights.end(),
                      [](const Weight& x, const Weight& y) {
                        return x.weight != y.weight ? x.weight > y.weight : x.block < y.block;
                      });
    for (size_t i = 0; i < shown; ++i) BlockFeatures(s_.weights[i], f + i * schema::kPerBlock);
  }

 private:
  // Returns the number of loops around a block that are not around the block before it.
  int OwnLoops(size_t block) const {
    std::span<const Nest::Index> loops = nest_.LoopsOf(nest_.blocks[block]), before;
    if (block > 0) before = nest_.LoopsOf(nest_.blocks[block - 1]);
    return static_cast<int>(loops.end() - std::ranges::mismatch(loops, before).in1);
  }

  void Add(const Nest::Prefetch& prefetch, Prefetched& total) {
    const Nest::Block& block = nest_.blocks[prefetch.block];
    std::span<const Nest::Index> loops = nest_.LoopsOf(block);
    const size_t level = static_cast<size_t>(std::ranges::find(loops, prefetch.loop) - loops.begin()) + 1;
    // Iterations of the loops down to prefetch.loop, and of the loops inside prefetch.loop down to prefetch.at.
    double around = 1, between = 1;
    bool below = false;
    for (Nest::Index loop : loops) {
      (below ? between : around) *= static_cast<double>(nest_.loops[loop].extent);
      below |= loop == prefetch.loop;
      if (loop == prefetch.at) break;
    }
    s_.prefetched.Compute(nest_, block, target_.cache_line);
    std::span<const Nest::Access> accesses = nest_.AccessesOf(block);
    for (size_t a = 0; a < accesses.size(); ++a) {
      if (accesses[a].buffer != prefetch.buffer) continue;
      const Footprint& next = s_.prefetched.At(a, level);
      total.lines += around * std::min(next.lines, static_cast<double>(Nest::Prefetch::kMostLines) * between);
      total.bytes_ahead += static_cast<double>(prefetch.ahead) * next.bytes;
      return;
    }
  }

  void BlockFeatures(const Weight& weight, float* out) {
    const Nest::Block& block = nest_.blocks[weight.block];
    s_.footprints.Compute(nest_, block, target_.cache_line);
    const Arithmetic& a = block.arithmetic;
    for (double x : {a.fma, a.add + a.bits, a.multiply, a.divide, a.compare + a.select, a.transcendental,
                     IndexOperations(nest_, block), weight.flops})
      *out++ = Log(x);
    out = ShapeFeatures(block, out);
    out = AccessFeatures(weight.block, out);
    const size_t depth = static_cast<size_t>(block.loops.size);
    for (size_t i = 0; i < schema::kIntensity; ++i) {
      const size_t level = depth * i / schema::kIntensity;
      *out++ =
          Log(Iterations(block, level, depth) * OperationsOf(block) / std::max(1.0, s_.footprints.Total(level).bytes));
    }
  }

  // Returns the product of the extents of the block's loops at positions [begin, end).
  double Iterations(const Nest::Block& block, size_t begin, size_t end) const {
    double iterations = 1;
    std::span<const Nest::Index> loops = nest_.LoopsOf(block);
    for (size_t l = begin; l < end; ++l) iterations *= static_cast<double>(nest_.loops[loops[l]].extent);
    return iterations;
  }

  float* ShapeFeatures(const Nest::Block& block, float* out) const {
    const Extents e = ExtentsOf(nest_, block);
    double reduction = 1, useful = 1;
    for (const Nest::Iterator& iterator : nest_.IteratorsOf(block)) {
      if (iterator.kind == IterKind::kReduce) reduction *= static_cast<double>(iterator.extent);
      useful *= static_cast<double>(iterator.original);
    }
    const double tile = RegisterTile(block);
    const double cores = target_.num_cores;
    *out++ = Log(e.iterations);
    *out++ = Log(reduction);
    *out++ = Log(e.parallel);
    *out++ = Log(e.iterations / e.parallel);
    *out++ = Log(e.lanes);
    *out++ = Log(e.unrolled);
    *out++ = static_cast<float>(block.loops.size);
    *out++ = tile >= 0 ? 1.F : 0.F;
    *out++ = static_cast<float>(std::max(0.0, tile));
    *out++ = static_cast<float>(e.iterations / std::max(1.0, useful));
    *out++ = static_cast<float>(std::ceil(e.parallel / cores) * cores / e.parallel);
    *out++ = Guarded(block);
    *out++ = WorkingSet(block, &Footprint::bytes);
    *out++ = WorkingSet(block, &Footprint::lines);
    return out;
  }

  // Returns the mean, over the loops, of the logarithm of the bytes or lines (`*what`) that one run of the loop
  // touches. The mean depends on the order of all loops, while the features per cache ignore the order of loops whose
  // data fits into one cache.
  float WorkingSet(const Nest::Block& block, double Footprint::*what) const {
    std::span<const Nest::Index> loops = nest_.LoopsOf(block);
    float sum = 0;
    int count = 0;
    for (size_t level = 0; level < loops.size(); ++level) {
      if (nest_.loops[loops[level]].extent == 1) continue;
      sum += Log(s_.footprints.Total(level).*what);
      ++count;
    }
    return count == 0 ? 0 : sum / static_cast<float>(count);
  }

  // Returns the size in vectors of the register tile, which the innermost unrolled and vectorized loops write. Returns
  // -1 if the block writes nothing in registers.
  double RegisterTile(const Nest::Block& block) const {
    std::span<const Nest::Access> accesses = nest_.AccessesOf(block);
    std::span<const Nest::Index> loops = nest_.LoopsOf(block);
    for (size_t a = accesses.size(); a-- > 0;) {
      if (!accesses[a].writes || nest_.buffers[accesses[a].buffer].scope != Scope::kRegister) continue;
      size_t level = loops.size();
      auto expanded = [&](LoopKind kind) { return kind == LoopKind::kUnrolled || kind == LoopKind::kVectorized; };
      while (level > 0 && expanded(nest_.loops[loops[level - 1]].kind)) --level;
      return s_.footprints.At(a, level).bytes * 8 / target_.vector_bits;
    }
    return -1;
  }

  // Returns 0 without guards and branches, 2 if a guard differs between the lanes of a vector, and 1 otherwise.
  float Guarded(const Nest::Block& block) const {
    if (block.guards.size == 0) return block.branches ? 1.F : 0.F;
    for (Nest::Index loop : nest_.LoopsOf(block)) {
      if (nest_.loops[loop].kind != LoopKind::kVectorized || nest_.loops[loop].extent == 1) continue;
      for (const Nest::Guard& guard : nest_.GuardsOf(block)) {
        if (MovesWith(guard.value, block, loop)) return 2;
      }
    }
    return 1;
  }
  bool MovesWith(const Nest::Sum& sum, const Nest::Block& block, Nest::Index loop) const {
    for (const Nest::Term& term : nest_.TermsOf(sum)) {
      const bool moves = term.of == Nest::Of::kLoop       ? term.index == loop
                         : term.of == Nest::Of::kIterator ? MovesWith(nest_.iterators[term.index].binding, block, loop)
                                                          : MovesWith(nest_.sums[term.index], block, loop);
      if (moves) return true;
    }
    return false;
  }

  // Returns 2 for streaming stores, else 1. Code generation uses streaming stores for large outputs that the block does
  // not read.
  float Written(const Nest::Access& access) const {
    const Nest::Buffer& buffer = nest_.buffers[access.buffer];
    const bool result = buffer.role == Nest::Role::kOutput && !access.reads;
    return result && IsStreamed(nest_.BytesOf(buffer), target_) ? 2.F : 1.F;
  }

  float* AccessFeatures(Nest::Index block_index, float* out) {
    const Nest::Block& block = nest_.blocks[block_index];
    const Footprints& footprints = s_.footprints;
    std::span<const Nest::Access> accesses = nest_.AccessesOf(block);
    s_.ranked.clear();
    for (size_t a = 0; a < accesses.size(); ++a) {
      auto place = std::ranges::find_if(
          s_.ranked, [&](size_t other) { return footprints.At(other, 0).lines < footprints.At(a, 0).lines; });
      s_.ranked.insert(place, a);
    }
    // By level of memory: the outermost loop level whose footprint fits, or the depth if none does.
    size_t fits[schema::kLevels];
    const double capacity[schema::kLevels] = {
        static_cast<double>(target_.vector_bits / 8 * target_.vector_registers), static_cast<double>(target_.l1_bytes),
        static_cast<double>(target_.l2_bytes), static_cast<double>(target_.l3_bytes)};
    for (size_t c = 0; c < schema::kLevels; ++c) {
      size_t level = static_cast<size_t>(block.loops.size);
      while (level > 0 && footprints.Total(level - 1).bytes <= capacity[c]) --level;
      fits[c] = level;
    }
    const double iterations = Iterations(block, 0, static_cast<size_t>(block.loops.size));
    for (size_t i = 0; i < schema::kAccesses; ++i, out += schema::kPerAccess) {
      if (i >= s_.ranked.size()) continue;
      const size_t a = s_.ranked[i];
      const Nest::Buffer& buffer = nest_.buffers[accesses[a].buffer];
      const double whole = footprints.At(a, 0).bytes;
      out[0] = static_cast<float>(buffer.element_bytes);
      out[1] = accesses[a].writes ? Written(accesses[a]) : 0.F;
      out[2] = static_cast<float>(footprints.ContiguityOf(a));
      out[3] = Log(whole);
      for (size_t c = 0; c < schema::kLevels; ++c) {
        const Footprint& f = footprints.At(a, fits[c]);
        const double repeats = Iterations(block, 0, fits[c]);  // number of times that the footprint is loaded
        out[4 + 2 * c] = Log(f.bytes * repeats);
        out[5 + 2 * c] = Log(f.lines * repeats);
      }
      out[12] = Log(iterations * static_cast<double>(buffer.element_bytes) / std::max(1.0, whole));
      Prefetched prefetched;
      for (const Nest::Prefetch& prefetch : nest_.prefetches) {
        if (prefetch.block == block_index && prefetch.buffer == accesses[a].buffer) Add(prefetch, prefetched);
      }
      out[13] = Log(prefetched.lines);
      out[14] = Log(prefetched.bytes_ahead);
    }
    return out;
  }

  const Nest& nest_;
  const Target& target_;
  Scratch& s_;
};

}  // namespace

int NumFeatures() { return schema::kFunction + schema::kBlocks * schema::kPerBlock; }

void ExtractFeatures(const Nest& nest, const Target& target, std::span<float> out) {
  CHECK(static_cast<int>(out.size()) == NumFeatures());
  thread_local Scratch scratch;
  std::ranges::fill(out, 0.F);
  Extractor(nest, target, scratch).Extract(out.data());
}

Features ExtractFeatures(const Nest& nest, const Target& target) {
  Features features(static_cast<size_t>(NumFeatures()));
  ExtractFeatures(nest, target, features);
  return features;
}

}  // namespace autotune
