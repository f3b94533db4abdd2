#include "costmodel/work.h"

#include <algorithm>
#include <map>

#include "costmodel/footprint.h"

namespace autotune {
namespace {

constexpr int kAnyLine = 64;  // bytes of a cache line; without effect, since only counts of bytes are used

// How the given blocks use one buffer.
struct Use {
  bool read = false, written = false;
  double bytes = 0;  // most bytes of the buffer that one block touches
};

}  // namespace

Work WorkOf(const Nest& nest, std::span<const Name> blocks) {
  Work work;
  std::map<Nest::Index, Use> uses;  // by buffer
  Footprints footprints;
  for (const Nest::Block& block : nest.blocks) {
    if (std::ranges::find(blocks, block.name) == blocks.end()) continue;
    double instances = 1;
    for (const Nest::Iterator& iterator : nest.IteratorsOf(block)) instances *= static_cast<double>(iterator.original);
    work.operations += instances * std::max(1.0, block.arithmetic.Cost());
    footprints.Compute(nest, block, kAnyLine);
    std::span<const Nest::Access> accesses = nest.AccessesOf(block);
    // Bytes by buffer. Accesses of one block may touch different parts of a buffer, so their bytes are added.
    std::map<Nest::Index, double> touched;
    for (size_t a = 0; a < accesses.size(); ++a) {
      Use& use = uses[accesses[a].buffer];
      use.read |= accesses[a].reads && !accesses[a].writes;
      use.written |= accesses[a].writes;
      touched[accesses[a].buffer] += footprints.At(a, 0).bytes;
    }
    for (const auto& [buffer, bytes] : touched) {
      const double whole = static_cast<double>(nest.BytesOf(nest.buffers[buffer]));
      uses[buffer].bytes = std::max(uses[buffer].bytes, std::min(bytes, whole));
    }
  }
  for (const auto& [buffer, use] : uses) {
    if (!use.written) work.read_bytes += use.bytes;
    if (!use.read) work.write_bytes += use.bytes;
  }
  return work;
}

}  // namespace autotune
