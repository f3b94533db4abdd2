#include "costmodel/footprint.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "ir/int_math.h"
#include "support/integer.h"

namespace autotune {
namespace {

constexpr int64_t kWide = int64_t{1} << 40;  // bound of a value of unknown range; more than any buffer has elements
constexpr int64_t kMost = int64_t{1} << 60;  // products saturate here

// Returns gcd(a, b), where gcd(0, x) = x. The frequent cases need no loop.
int64_t CommonFactor(int64_t a, int64_t b) {
  if (a == 1 || b == 1) return 1;
  if (a == 0 || a == b) return b;
  if (b == 0) return a;
  return std::gcd(a, b);
}

// Adds coefficient * x to `sum`, where the two vary independently. The caller adds terms by ascending magnitude of the
// coefficient.
void Accumulate(Spread& sum, const Spread& x, int64_t coefficient) {
  if (coefficient > 0) {
    sum.offset += TimesWithin<kMost>(coefficient, x.offset);
    sum.low += TimesWithin<kMost>(coefficient, x.low);
    sum.high += TimesWithin<kMost>(coefficient, x.high);
  } else {  // the least value belongs to the greatest x
    sum.offset += TimesWithin<kMost>(coefficient, x.offset + x.span - 1);
    sum.low += TimesWithin<kMost>(coefficient, x.high + x.span - 1);
    sum.high += TimesWithin<kMost>(coefficient, x.low + x.span - 1);
    coefficient = -coefficient;
  }
  if (x.align != 0) sum.align = CommonFactor(sum.align, TimesWithin<kMost>(coefficient, x.align));
  if (x.step == 0) return;
  sum.span = std::min(kMost, sum.span + TimesWithin<kMost>(coefficient, x.span - 1));
  sum.step = CommonFactor(sum.step, TimesWithin<kMost>(coefficient, x.step));
  sum.count = std::min(TimesWithin<kMost>(sum.count, x.count), (sum.span - 1) / sum.step + 1);
}

// Returns the greatest possible remainder of x's least value modulo `period`.
int64_t WorstOffset(const Spread& x, int64_t period) {
  if (x.align == 0) return FloorModulo(x.offset, period);
  const int64_t factor = CommonFactor(x.align, period);
  int64_t worst = FloorModulo(x.offset, factor) + period - factor;
  if (x.low >= 0 && x.high < period) worst = std::min(worst, x.high);
  return worst;
}

void DivideBy(Spread& x, int64_t divisor) {
  x.span = (WorstOffset(x, divisor) + x.span - 1) / divisor + 1;
  x.count = std::min(x.count, x.span);
  x.step = x.span == 1 ? 0 : x.step % divisor == 0 ? x.step / divisor : 1;
  x.align = x.align % divisor == 0 ? x.align / divisor : 1;
  x.offset = FloorDivide(x.offset, divisor);
  x.low = FloorDivide(x.low, divisor);
  x.high = FloorDivide(x.high, divisor);
}

void ReduceModulo(Spread& x, int64_t period) {
  const int64_t worst = WorstOffset(x, period);
  if (worst + x.span - 1 < period) {
    x.offset = FloorModulo(x.offset, period);
    if (x.align != 0) x.align = CommonFactor(x.align, period);
    const bool within = x.low >= 0 && x.high < period;
    if (!within) x.low = x.align == 0 ? x.offset : 0, x.high = worst;
    return;
  }
  // The values wrap around, so any r + k * step below the period may occur. Here r is the remainder modulo the step
  // that all values share. If they share none, the span is the whole period.
  x.step = CommonFactor(x.step, period);
  x.count = std::min(x.count, period / x.step);
  const bool same_remainder = x.align % x.step == 0;
  x.offset = same_remainder ? FloorModulo(x.offset, x.step) : 0;
  x.span = same_remainder ? period - x.step + 1 : period;
  x.align = 0;
  x.low = x.high = x.offset;
}

void Limit(Spread& x, int64_t low, int64_t high) {
  if (x.low >= low && x.high + x.span - 1 <= high) return;
  const int64_t width = high - low + 1;
  if (x.span > width) x.span = width;
  x.count = std::min(x.count, x.span);
  if (x.span == 1) x.step = 0;
  x.align = 1;  // a value beyond the limits becomes the limit, which need not be aligned
  x.low = std::clamp(x.low, low, high);
  x.high = std::clamp(x.high, low, high);
}

}  // namespace

Footprints::Mask Footprints::LoopsIn(const Nest::Sum& sum) const {
  Mask mask = 0;
  for (const Nest::Term& term : nest_->TermsOf(sum)) {
    if (term.of == Nest::Of::kLoop) {
      std::span<const Nest::Index> loops = nest_->LoopsOf(*block_);
      mask |= Bit(std::find(loops.begin(), loops.end(), term.index) - loops.begin());
    } else if (term.of == Nest::Of::kIterator) {
      mask |= loops_of_iterator_[term.index - block_->iterators.begin];
    } else {
      mask |= LoopsIn(nest_->sums[term.index]);
    }
  }
  return mask;
}

Footprints::Mask Footprints::IteratorsIn(const Nest::Sum& sum) const {
  Mask mask = 0;
  for (const Nest::Term& term : nest_->TermsOf(sum)) {
    if (term.of == Nest::Of::kIterator) {
      mask |= Bit(term.index - block_->iterators.begin);
    } else if (term.of != Nest::Of::kLoop) {
      mask |= IteratorsIn(nest_->sums[term.index]);
    }
  }
  return mask;
}

Spread Footprints::SpreadOfOpaque(const Nest::Sum& sum) const {
  int64_t count = 1;
  for (const Nest::Term& term : nest_->TermsOf(sum)) count = TimesWithin<kMost>(count, SpreadOf(term).count);
  const int64_t low = std::max(sum.low, -kWide), high = std::min(sum.high, kWide);
  Spread x{.align = 1, .low = low, .high = high};
  if (count == 1) return x;
  x.span = high - low + 1;
  x.count = std::min(count, x.span);
  x.step = x.span > 1;
  x.align = 0;
  x.offset = x.high = low;
  return x;
}

Spread Footprints::SpreadOf(const Nest::Term& term) const {
  Spread x;
  switch (term.of) {
    case Nest::Of::kLoop: {
      const int64_t extent = nest_->loops[term.index].extent;
      if (extent == 1) return x;
      if (runs_[term.index]) {
        x.span = x.count = extent;
        x.step = 1;
      } else {
        x.align = 1;
        x.high = extent - 1;
      }
      break;
    }
    case Nest::Of::kIterator:
      x = iterators_[term.index - block_->iterators.begin];
      break;
    case Nest::Of::kSum:
      x = SpreadOf(nest_->sums[term.index]);
      break;
    case Nest::Of::kOpaque:
      x = SpreadOfOpaque(nest_->sums[term.index]);
      break;
  }
  if (term.div > 1) DivideBy(x, term.div);
  if (term.mod > 0) ReduceModulo(x, term.mod);
  return x;
}

Spread Footprints::SpreadOf(const Nest::Sum& sum) const {
  Spread total{.offset = sum.constant, .low = sum.constant, .high = sum.constant};
  for (const Nest::Term& term : nest_->TermsOf(sum)) Accumulate(total, SpreadOf(term), term.coefficient);
  if (sum.low > -Nest::kUnbounded || sum.high < Nest::kUnbounded) Limit(total, sum.low, sum.high);
  return total;
}

void Footprints::Begin(const Nest& nest, const Nest::Block& block) {
  nest_ = &nest;
  block_ = &block;
  runs_.resize(nest.loops.size());
  loops_of_iterator_.clear();
  for (const Nest::Iterator& iterator : nest.IteratorsOf(block))
    loops_of_iterator_.push_back(LoopsIn(iterator.binding));
  iterators_.resize(loops_of_iterator_.size());
  iterators_of_access_.clear();
  loops_of_access_.clear();
  plain_.clear();
  first_subscript_.clear();
  loops_of_subscript_.clear();
  for (const Nest::Access& access : nest.AccessesOf(block)) {
    first_subscript_.push_back(loops_of_subscript_.size());
    Mask iterators = 0, loops = 0, through_iterators = 0;
    for (const Nest::Sum& subscript : nest.SubscriptsOf(access)) {
      iterators |= IteratorsIn(subscript);
      loops_of_subscript_.push_back(LoopsIn(subscript));
      loops |= loops_of_subscript_.back();
    }
    for (size_t i = 0; i < loops_of_iterator_.size(); ++i) {
      if (iterators & Bit(static_cast<int64_t>(i))) through_iterators |= loops_of_iterator_[i];
    }
    iterators_of_access_.push_back(iterators);
    loops_of_access_.push_back(loops);
    plain_.push_back(loops == through_iterators && !(iterators & Bit(63)));
  }
  subscripts_.resize(loops_of_subscript_.size());
}

void Footprints::StandStill() {
  for (Nest::Index loop : nest_->LoopsOf(*block_)) runs_[loop] = 0;
  Update(~Mask{0});
}

void Footprints::Update(Mask loops) {
  std::span<const Nest::Iterator> iterators = nest_->IteratorsOf(*block_);
  for (size_t i = 0; i < iterators.size(); ++i) {
    if ((loops_of_iterator_[i] & loops) || loops == ~Mask{0}) iterators_[i] = SpreadOf(iterators[i].binding);
  }
  size_t place = 0;
  for (const Nest::Access& access : nest_->AccessesOf(*block_)) {
    for (const Nest::Sum& subscript : nest_->SubscriptsOf(access)) {
      if ((loops_of_subscript_[place] & loops) || loops == ~Mask{0}) subscripts_[place] = SpreadOf(subscript);
      ++place;
    }
  }
}

Footprint Footprints::FootprintOf(size_t index, int line_bytes) const {
  const Nest::Access& access = nest_->AccessesOf(*block_)[index];
  const Nest::Buffer& buffer = nest_->buffers[access.buffer];
  std::span<const Nest::Dim> dims = nest_->DimsOf(buffer);
  double elements = 1, span = 1, inner = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    const Spread& s = subscripts_[first_subscript_[index] + d];
    inner = static_cast<double>(std::min(s.count, dims[d].extent));
    span = static_cast<double>(std::min(s.span, dims[d].extent));
    elements *= inner;
  }
  // Subscripts that share an iterator do not vary independently. There are at most as many elements as combinations of
  // the iterators' values.
  if (plain_[index]) {
    double instances = 1;
    Mask mask = iterators_of_access_[index];
    for (size_t i = 0; mask != 0; ++i, mask >>= 1) {
      if (mask & 1) instances *= static_cast<double>(iterators_[i].count);
    }
    elements = std::min(elements, instances);
  }
  const double size = static_cast<double>(buffer.element_bytes);
  const double rows = elements / std::max(1.0, std::min(inner, elements));
  return {elements * size, rows * std::max(1.0, std::min(std::ceil(span * size / line_bytes), inner))};
}

Contiguity Footprints::LanesOf(size_t access, int64_t lanes) const {
  const size_t begin = first_subscript_[access];
  const size_t dims = static_cast<size_t>(nest_->AccessesOf(*block_)[access].subscripts.size);
  if (dims == 0) return Contiguity::kNoVector;
  for (size_t d = 0; d + 1 < dims; ++d) {
    if (subscripts_[begin + d].count > 1) return Contiguity::kStrided;
  }
  const Spread& last = subscripts_[begin + dims - 1];
  return last.count <= 1 ? Contiguity::kSame : last.span <= lanes ? Contiguity::kContiguous : Contiguity::kStrided;
}

void Footprints::Compute(const Nest& nest, const Nest::Block& block, int line_bytes) {
  Begin(nest, block);
  const size_t accesses = static_cast<size_t>(block.accesses.size), depth = static_cast<size_t>(block.loops.size);
  std::span<const Nest::Index> loops = nest.LoopsOf(block);
  contiguity_.assign(accesses, Contiguity::kNoVector);
  StandStill();
  for (size_t v = 0; v < depth; ++v) {
    if (nest.loops[loops[v]].kind != LoopKind::kVectorized) continue;
    runs_[loops[v]] = 1;
    Update(Bit(static_cast<int64_t>(v)));
    for (size_t a = 0; a < accesses; ++a) contiguity_[a] = LanesOf(a, nest.loops[loops[v]].extent);
    runs_[loops[v]] = 0;
    Update(Bit(static_cast<int64_t>(v)));
    break;
  }
  footprints_.resize(accesses * (depth + 1));
  total_.assign(depth + 1, {});
  for (size_t a = 0; a < accesses; ++a) footprints_[a * (depth + 1) + depth] = FootprintOf(a, line_bytes);
  for (size_t level = depth; level-- > 0;) {
    const Mask mask = Bit(static_cast<int64_t>(level));
    const bool moves = nest.loops[loops[level]].extent > 1;
    runs_[loops[level]] = 1;
    if (moves) Update(mask);
    for (size_t a = 0; a < accesses; ++a) {
      Footprint* of_access = &footprints_[a * (depth + 1)];
      of_access[level] = moves && (loops_of_access_[a] & mask) ? FootprintOf(a, line_bytes) : of_access[level + 1];
    }
  }
  for (size_t level = 0; level <= depth; ++level) {
    for (size_t a = 0; a < accesses; ++a) {
      total_[level].bytes += footprints_[a * (depth + 1) + level].bytes;
      total_[level].lines += footprints_[a * (depth + 1) + level].lines;
    }
  }
}

Spread Footprints::SubscriptSpread(const Nest& nest, const Nest::Block& block, size_t access, size_t dim,
                                   size_t level) {
  Footprints footprints;
  footprints.Begin(nest, block);
  std::span<const Nest::Index> loops = nest.LoopsOf(block);
  for (size_t i = 0; i < loops.size(); ++i) footprints.runs_[loops[i]] = i >= level;
  footprints.Update(~Mask{0});
  return footprints.subscripts_[footprints.first_subscript_[access] + dim];
}

}  // namespace autotune
