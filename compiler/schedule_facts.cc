#include "compiler/schedule_facts.h"

#include <algorithm>
#include <cmath>

#include "ir/byte_table.h"
#include "target/machine.h"

namespace autotune {
namespace {

// Instructions for elements that are loaded one by one: the load, and half of an insertion into the vector, since an
// insertion can load its operand.
constexpr double kSeparateLane = 1.5;
// Arithmetic instructions of a division [chosen] and of an expanded function (as in Arithmetic::Cost), in multiples of
// an addition's time.
constexpr double kDivisionSlots = 4, kFunctionSlots = 20;
// The part of the shorter of two kinds of work that the longer one does not hide [chosen].
constexpr double kExposed = 0.3;

double SlotsOf(const Arithmetic& a) {
  return a.fma + a.add + a.multiply + kDivisionSlots * a.divide + a.compare + a.select +
         kFunctionSlots * a.transcendental;
}

// Returns the change of a sum when the loop makes a step; 0 if it does not depend on the loop or not by a constant.
int64_t StepOf(const Nest& nest, const Nest::Sum& sum, Nest::Index loop) {
  int64_t step = 0;
  for (const Nest::Term& term : nest.TermsOf(sum)) {
    int64_t inner = 0;
    if (term.of == Nest::Of::kLoop) {
      inner = term.index == loop;
    } else if (term.of == Nest::Of::kIterator) {
      inner = StepOf(nest, nest.iterators[term.index].binding, loop);
    } else if (term.of == Nest::Of::kSum) {
      inner = StepOf(nest, nest.sums[term.index], loop);
    }
    if (inner % term.div == 0) step += term.coefficient * (inner / term.div);
  }
  return step;
}

// Returns the elements between two neighbouring iterations of the loop.
int64_t StrideOf(const Nest& nest, const Nest::Access& access, Nest::Index loop) {
  int64_t stride = 0;
  const std::span<const Nest::Dim> dims = nest.DimsOf(nest.buffers[access.buffer]);
  const std::span<const Nest::Sum> subscripts = nest.SubscriptsOf(access);
  for (size_t d = 0; d < subscripts.size() && d < dims.size(); ++d)
    stride += StepOf(nest, subscripts[d], loop) * dims[d].stride;
  return stride;
}

// Returns whether the access looks bytes up in a table (ir/byte_table.h).
bool IsByteLookUp(const Nest& nest, const Nest::Access& access) {
  const Nest::Buffer& buffer = nest.buffers[access.buffer];
  const std::span<const Nest::Dim> dims = nest.DimsOf(buffer);
  if (buffer.element_bytes != 1 || dims.size() != 1 || dims[0].extent != kByteValues) return false;
  const std::span<const Nest::Term> terms = nest.TermsOf(nest.SubscriptsOf(access)[0]);
  return terms.size() == 1 && terms[0].of == Nest::Of::kOpaque;
}

class Facts {
 public:
  Facts(const Nest& nest, const Target& target) : nest_(nest), target_(target) {}

  BlockFacts Of(const Nest::Block& block) {
    BlockFacts facts;
    facts.name = block.name.str();
    for (const Nest::Iterator& iterator : nest_.IteratorsOf(block)) {
      facts.useful *= static_cast<double>(iterator.original);
      if (iterator.kind == IterKind::kReduce) facts.reduction *= static_cast<double>(iterator.original);
    }
    vector_ = Nest::kNone;
    for (Nest::Index index : nest_.LoopsOf(block)) {
      const Nest::Loop& loop = nest_.loops[index];
      const double extent = static_cast<double>(loop.extent);
      facts.instances *= extent;
      if (loop.extent > 1) facts.inner = loop.name.str();
      if (loop.kind == LoopKind::kParallel) facts.tasks *= extent;
      if (loop.kind == LoopKind::kVectorized && loop.extent > 1) {
        facts.lanes *= extent;
        vector_ = index;
        if (facts.vector_loop.empty()) facts.vector_loop = loop.name.str();
      }
    }
    facts.slots = SlotsOf(block.arithmetic);
    facts.transcendental = kFunctionSlots * block.arithmetic.transcendental;
    footprints_.Compute(nest_, block, target_.cache_line);
    FindFittingLoops(block);
    int64_t widest = 1;  // bytes of the largest element that vectors hold
    const std::span<const Nest::Access> accesses = nest_.AccessesOf(block);
    for (size_t a = 0; a < accesses.size(); ++a) {
      const Nest::Buffer& buffer = nest_.buffers[accesses[a].buffer];
      widest = std::max(widest, buffer.element_bytes);
      if (buffer.scope != Scope::kRegister) facts.accesses.push_back(OfAccess(block, a, facts.lanes));
    }
    facts.full_lanes = std::max<double>(1, target_.VectorLanes(static_cast<int>(8 * widest)));
    return facts;
  }

 private:
  // Finds, for the registers and each cache, the outermost loop of which one iteration fits. What the next iteration
  // reads again is then still there.
  void FindFittingLoops(const Nest::Block& block) {
    const double capacity[kMemoryLevels] = {
        static_cast<double>(target_.vector_bits / 8 * target_.vector_registers), static_cast<double>(target_.l1_bytes),
        static_cast<double>(target_.l2_bytes), static_cast<double>(target_.l3_bytes)};
    for (size_t c = 0; c < kMemoryLevels; ++c) {
      size_t level = static_cast<size_t>(block.loops.size);
      while (level > 0 && footprints_.Total(level - 1).bytes <= capacity[c]) --level;
      whole_[c] = level == 0;
      level = level == 0 ? 0 : level - 1;
      fits_[c] = level;
      repeats_[c] = 1;
      const std::span<const Nest::Index> loops = nest_.LoopsOf(block);
      for (size_t l = 0; l < level; ++l) repeats_[c] *= static_cast<double>(nest_.loops[loops[l]].extent);
    }
  }

  AccessFacts OfAccess(const Nest::Block& block, size_t index, double lanes) const {
    const Nest::Access& access = nest_.AccessesOf(block)[index];
    const Nest::Buffer& buffer = nest_.buffers[access.buffer];
    const double element = static_cast<double>(buffer.element_bytes), line = target_.cache_line;
    AccessFacts facts;
    facts.buffer = buffer.name.str();
    facts.contiguity = footprints_.ContiguityOf(index);
    if (target_.has_byte_tables && IsByteLookUp(nest_, access)) facts.contiguity = Contiguity::kSame;  // in registers
    facts.writes = access.writes;
    facts.unique_bytes = footprints_.At(index, 0).bytes;
    const double directions = access.reads && access.writes ? 2 : 1;
    facts.elements = directions * footprints_.At(index, fits_[0]).bytes * repeats_[0] / element;
    facts.bytes[0] = facts.elements * element;
    facts.least[0] = facts.bytes[0];
    for (size_t c = 1; c < kMemoryLevels; ++c) {
      // What fits a cache as a whole stays there from one run to the next.
      if (whole_[c]) continue;
      facts.bytes[c] = footprints_.At(index, fits_[c]).lines * line * repeats_[c];
      facts.least[c] = std::min(facts.bytes[c], footprints_.At(index, 0).lines * line);
    }
    if (facts.contiguity == Contiguity::kStrided) {
      facts.stride = StrideOf(nest_, access, vector_);
      facts.lane_cost = LaneCost(block, access, facts.stride, lanes);
    }
    return facts;
  }

  // Returns the instructions for one element of a vector whose lanes are not contiguous. The code generator loads lanes
  // that are close together as one vector, transposes squares in registers (codegen/llvm/cpu/strided_loads.h), and
  // brings the lanes of vectors that take turns into their order (codegen/llvm/cpu/interleaves.h).
  double LaneCost(const Nest::Block& block, const Nest::Access& access, int64_t stride, double lanes) const {
    const double vector = target_.VectorLanes(static_cast<int>(8 * nest_.buffers[access.buffer].element_bytes));
    const double elements = std::max(1.0, std::min(vector, lanes));
    if (stride != 0 && static_cast<double>(std::abs(stride)) * (elements - 1) < vector) return 2 / elements;
    for (Nest::Index index : nest_.LoopsOf(block)) {
      const Nest::Loop& loop = nest_.loops[index];
      const bool square = loop.kind == LoopKind::kUnrolled && static_cast<double>(loop.extent) >= elements;
      const bool turns = loop.kind == LoopKind::kUnrolled && loop.extent == stride;
      const bool neighbours = std::abs(StrideOf(nest_, access, index)) == 1;
      if (square && !access.writes && neighbours) return (1 + std::log2(elements)) / elements;
      if (turns && access.writes && neighbours) return static_cast<double>(stride) / elements;
    }
    return kSeparateLane;
  }

  const Nest& nest_;
  const Target& target_;
  Footprints footprints_;
  Nest::Index vector_ = Nest::kNone;  // the innermost vectorized loop of the block
  // By registers and cache: the level of loops whose iterations fit, how often it runs, and whether all data fits.
  std::array<size_t, kMemoryLevels> fits_{};
  std::array<double, kMemoryLevels> repeats_{};
  std::array<bool, kMemoryLevels> whole_{};
};

// Returns the lanes that one instruction works on, on average: vectors of 20 lanes are one of 16 and one of 4.
double UsedLanes(double lanes, double full) { return lanes <= 1 ? 1 : lanes / std::ceil(lanes / full); }

}  // namespace

ScheduleFacts ScheduleFactsOf(const Nest& nest, const Target& target) {
  ScheduleFacts facts;
  Facts of(nest, target);
  for (const Nest::Block& block : nest.blocks) {
    if (!block.prepared) facts.blocks.push_back(of.Of(block));
  }
  return facts;
}

Estimate EstimateBlock(const BlockFacts& block, const Target& target, int threads, Fault without) {
  const Machine& machine = MachineOf(target);
  const double lanes = without == Fault::kScalar ? std::max(block.full_lanes, UsedLanes(block.lanes, block.full_lanes))
                                                 : UsedLanes(block.lanes, block.full_lanes);
  const double needed = without == Fault::kPadding ? std::min(1.0, block.useful / block.instances) : 1;
  double cycles[5] = {};
  cycles[0] = block.instances * block.slots / lanes / machine.multiply_add_ports;
  double loads = 0, by_lane = 0;  // instructions that move whole vectors, and further ones for separate lanes
  std::array<double, kMemoryLevels> bytes{};
  for (const AccessFacts& access : block.accesses) {
    loads += access.elements / lanes;
    if (access.contiguity == Contiguity::kStrided && without != Fault::kStrided)
      by_lane += access.elements * std::max(0.0, access.lane_cost - 1 / lanes);
    for (size_t l = 1; l < kMemoryLevels; ++l)
      bytes[l] += without == Fault::kTraffic ? access.least[l] : access.bytes[l];
  }
  cycles[1] = loads / machine.load_ports;
  // A register tile of a sum loads less often than it multiplies.
  if (without == Fault::kTraffic && block.reduction > 1) cycles[1] = std::min(cycles[1], cycles[0]);
  cycles[1] += by_lane / machine.load_ports;
  cycles[2] = bytes[1] / machine.l2_bytes_per_cycle;
  cycles[3] = bytes[2] / machine.l3_bytes_per_cycle;
  cycles[4] = bytes[3] / machine.memory_bytes_per_cycle;
  const double* longest = std::max_element(std::begin(cycles), std::end(cycles));
  double rest = 0;
  for (const double& part : cycles) rest += &part == longest ? 0 : part;
  const double cores = threads, tasks = std::max(1.0, block.tasks);
  const double speedup = without == Fault::kFewTasks ? cores : tasks / std::ceil(tasks / cores);
  return {(*longest + kExposed * rest) * needed / speedup / machine.hz, static_cast<Limit>(longest - cycles)};
}

double EstimateSeconds(const ScheduleFacts& facts, const Target& target, int threads, Fault without) {
  double seconds = 0;
  for (const BlockFacts& block : facts.blocks) seconds += EstimateBlock(block, target, threads, without).seconds;
  return seconds;
}

}  // namespace autotune
