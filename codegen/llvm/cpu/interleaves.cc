#include "codegen/llvm/cpu/interleaves.h"

#include <algorithm>
#include <optional>

#include "codegen/walk.h"

namespace autotune {
namespace {

// Most vectors that take turns. An odd number n needs n - 1 shuffles for each, and lanes cost two instructions each.
constexpr int64_t kMostVectors = 8;
constexpr int kMinLanes = 4;  // least length of a vector; joining shorter ones gains nothing

// A store whose lanes are `stride` elements apart.
struct Turn {
  const Store* store = nullptr;
  LinearForm base;
  int64_t stride = 0;

  bool TakesTurnsWith(const Turn& other) const {
    return store->buffer->name == other.store->buffer->name && stride == other.stride &&
           store->value.dtype() == other.store->value.dtype() && base.SameTerms(other.base);
  }
};

std::optional<Turn> AsTurn(const Stmt& s) {
  const Store* store = s.As<Store>();
  const Ramp* ramp = store ? store->indices[0].As<Ramp>() : nullptr;
  const int64_t* stride = ramp ? AsInt(ramp->stride) : nullptr;
  if (!stride || *stride < 2 || *stride > kMostVectors || store->value.dtype().lanes < kMinLanes) return std::nullopt;
  if (store->buffer->scope == Scope::kRegister) return std::nullopt;
  bool reads_own = false;
  WalkOnce(store->value, [&](const Expr& e) {
    const Load* load = e.As<Load>();
    reads_own |= load && load->buffer->name == store->buffer->name;
    return true;
  });
  if (reads_own) return std::nullopt;
  return Turn{store, ToLinear(ramp->base), *stride};
}

// Returns as many turns from `begin` on as take turns with the first one and together write each element once, sorted
// by their addresses. Returns none if there are not so many.
std::vector<Turn> TurnsFrom(const std::vector<std::optional<Turn>>& turns, size_t begin) {
  std::vector<Turn> group;
  for (size_t i = begin; i < turns.size() && turns[i] && turns[i]->TakesTurnsWith(*turns[begin]); ++i) {
    if (static_cast<int64_t>(group.size()) == turns[begin]->stride) break;
    group.push_back(*turns[i]);
  }
  if (group.empty() || static_cast<int64_t>(group.size()) != group[0].stride) return {};
  std::ranges::sort(group, {}, [](const Turn& t) { return t.base.constant; });
  for (size_t i = 0; i < group.size(); ++i)
    if (group[i].base.constant != group[0].base.constant + static_cast<int64_t>(i)) return {};
  return group;
}

}  // namespace

void Interleaves::Find(const Seq& seq) {
  std::vector<std::optional<Turn>> turns;
  for (const Stmt& s : seq.stmts)
    if (!s.As<Evaluate>()) turns.push_back(AsTurn(s));
  for (size_t i = 0; i < turns.size();) {
    const std::vector<Turn> group = TurnsFrom(turns, i);
    const auto shared = std::make_shared<Group>();
    for (size_t place = 0; place < group.size(); ++place) places_[group[place].store] = {shared, place};
    if (!group.empty()) *shared = {group[0].store, std::vector<llvm::Value*>(group.size()), group.size()};
    i += std::max<size_t>(1, group.size());
  }
}

bool Interleaves::Take(Addresses& addresses, const Store& store, llvm::Value* value) {
  const auto found = places_.find(&store);
  if (found == places_.end()) return false;
  Group& group = *found->second.group;
  group.values[found->second.index] = value;
  if (--group.missing > 0) return true;
  const Ramp& ramp = *group.first->indices[0].As<Ramp>();
  const std::vector<llvm::Value*> vectors = InTurns(group.values);
  for (size_t i = 0; i < vectors.size(); ++i) {
    const auto first = static_cast<int64_t>(i) * store.value.dtype().lanes;
    const Addresses::Address address = addresses.Of(store.buffer, ramp.base + Expr(first));
    builder_.CreateAlignedStore(vectors[i], address.pointer, address.alignment);
  }
  return true;
}

// Returns the lanes of the vectors in turns, as vectors of the same length.
std::vector<llvm::Value*> Interleaves::InTurns(const std::vector<llvm::Value*>& vectors) {
  const int count = static_cast<int>(vectors.size());
  const int lanes = static_cast<int>(llvm::cast<llvm::FixedVectorType>(vectors[0]->getType())->getNumElements());
  std::vector<llvm::Value*> joined;
  if (count == 1) return vectors;
  if (count % 2 == 0) {  // vectors of even and of odd numbers, in turns each; then both in turns
    std::vector<llvm::Value*> halves[2];
    for (int i = 0; i < count; ++i) halves[i % 2].push_back(vectors[i]);
    for (std::vector<llvm::Value*>& half : halves) half = InTurns(half);
    for (int i = 0; i < count; ++i) {
      std::vector<int> order;
      for (int lane = i % 2 * lanes; lane < (i % 2 + 1) * lanes; ++lane) order.push_back(lane % 2 * lanes + lane / 2);
      joined.push_back(builder_.CreateShuffleVector(halves[0][i / 2], halves[1][i / 2], order));
    }
    return joined;
  }
  for (int i = 0; i < count; ++i) {
    llvm::Value* all = vectors[0];
    for (int from = 1; from < count; ++from) {
      std::vector<int> order;  // the lanes of vectors up to `from`; others come later (-1)
      for (int lane = 0; lane < lanes; ++lane) {
        const int element = i * lanes + lane, source = element % count;
        const int kept = from == 1 ? element / count : lane;  // the first vector is still in its own order
        order.push_back(source < from ? kept : source == from ? lanes + element / count : -1);
      }
      all = builder_.CreateShuffleVector(all, vectors[from], order);
    }
    joined.push_back(all);
  }
  return joined;
}

}  // namespace autotune
