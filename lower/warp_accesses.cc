#include "lower/warp_accesses.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "ir/int_math.h"
#include "ir/visit.h"
#include "support/integer.h"

namespace autotune {
namespace {

constexpr int64_t kBanks = 32, kBankBytes = 4;  // of shared memory

using Values = std::unordered_map<Name, int64_t>;

// Returns the value of an integer or bool for the given values of variables, or nothing if it depends on memory.
std::optional<int64_t> LaneValue(const Expr& e, const Values& values) {
  using Maybe = std::optional<int64_t>;
  return e.Visit(Overloaded{
      [&](const IntImm& n) -> Maybe { return n.value; },
      [&](const Var& n) -> Maybe {
        auto it = values.find(n.name);
        return it == values.end() ? Maybe() : it->second;
      },
      [&](const Unary& n) -> Maybe {
        const Maybe a = LaneValue(n.a, values);
        if (!a) return a;
        return n.op == UnaryOp::kNot ? Maybe(!*a) : n.op == UnaryOp::kNeg ? Maybe(-*a) : Maybe();
      },
      [&](const Binary& n) -> Maybe {
        const Maybe a = LaneValue(n.a, values), b = LaneValue(n.b, values);
        return a && b && n.a.dtype().IsInt()    ? FoldInt(n.op, *a, *b, n.a.dtype())
               : a && b && n.a.dtype().IsBool() ? FoldInt(n.op, *a, *b, n.a.dtype())
                                                : Maybe();
      },
      [&](const Select& n) -> Maybe {
        const Maybe condition = LaneValue(n.condition, values);
        return condition ? LaneValue(*condition ? n.a : n.b, values) : Maybe();
      },
      [&](const Cast& n) -> Maybe {
        const Maybe a = n.a.dtype().IsFloat() || e.dtype().IsFloat() ? Maybe() : LaneValue(n.a, values);
        return a ? Maybe(WrapTo(static_cast<uint64_t>(*a), e.dtype())) : a;
      },
      [&](const Broadcast& n) -> Maybe { return LaneValue(n.a, values); },
      [&](const auto&) -> Maybe { return {}; },
  });
}

// Returns the passes that shared memory needs beyond one for each group of lanes. A group takes one pass if no two of
// its lanes need different words of one bank.
int64_t ConflictsOf(const std::vector<std::optional<int64_t>>& addresses, int64_t bytes) {
  const int64_t group = bytes <= kBankBytes ? kWarp : std::max<int64_t>(kWarp * kBankBytes / bytes, 1);
  int64_t conflicts = 0;
  for (size_t first = 0; first < addresses.size(); first += static_cast<size_t>(group)) {
    std::array<std::set<int64_t>, kBanks> words;
    size_t passes = 0;
    for (size_t lane = first; lane < std::min(addresses.size(), first + static_cast<size_t>(group)); ++lane) {
      if (!addresses[lane]) continue;
      for (int64_t at = *addresses[lane]; at < *addresses[lane] + bytes; at += std::min(bytes, kBankBytes)) {
        const int64_t word = at / kBankBytes;
        auto& bank = words[static_cast<size_t>(word % kBanks)];
        bank.insert(word);
        passes = std::max(passes, bank.size());
      }
    }
    if (passes > 1) conflicts += static_cast<int64_t>(passes) - 1;
  }
  return conflicts;
}

void CountSectors(const std::vector<std::optional<int64_t>>& addresses, WarpAccess& access) {
  std::set<int64_t> sectors, pieces;  // pieces: the different addresses
  for (const std::optional<int64_t>& address : addresses) {
    if (!address) continue;
    pieces.insert(*address);
    for (int64_t s = *address / kSectorBytes; s <= (*address + access.bytes - 1) / kSectorBytes; ++s) sectors.insert(s);
  }
  access.sectors = static_cast<int64_t>(sectors.size());
  access.least_sectors = CeilDiv(static_cast<int64_t>(pieces.size()) * access.bytes, kSectorBytes);
}

class Collector {
 public:
  std::vector<WarpAccess> accesses;

  void Visit(const Stmt& s) {
    s.Visit(Overloaded{
        [&](const Store& n) {
          Loads(n.value);
          Add(n.buffer, n.indices[0], true);
        },
        [&](const Evaluate&) {},
        [&](const Seq& n) {
          for (const Stmt& child : n.stmts) Visit(child);
        },
        [&](const If& n) {
          Loads(n.condition);
          Under(n.condition, true, [&] { Visit(n.then_body); });
          if (n.else_body) Under(n.condition, false, [&] { Visit(n.else_body); });
        },
        [&](const For& n) {
          around_.push_back({n.var, AsInt(n.extent) ? *AsInt(n.extent) : 1, n.kind, {}});
          Visit(n.body);
          around_.pop_back();
        },
        [&](const Block&) {},
        [&](const Alloc& n) { Visit(n.body); },
        [&](const Let& n) {
          Loads(n.value);
          around_.push_back({n.var, 1, LoopKind::kSerial, n.value});
          Visit(n.body);
          around_.pop_back();
        },
    });
  }

 private:
  struct Around {  // a loop, or a let, which has a value
    Name var;
    int64_t extent;
    LoopKind kind;
    Expr value;
  };

  template <class F>
  void Under(const Expr& condition, bool holds, F&& visit) {
    conditions_.emplace_back(condition, holds);
    visit();
    conditions_.pop_back();
  }

  void Loads(const Expr& e) {
    if (const Load* load = e.As<Load>()) {
      Loads(load->indices[0]);
      return Add(load->buffer, load->indices[0], false);
    }
    if (const Select* select = e.As<Select>()) {
      Loads(select->condition);
      Under(select->condition, true, [&] { Loads(select->a); });
      return Under(select->condition, false, [&] { Loads(select->b); });
    }
    MapChildren(e, [&](const Expr& child) { return Loads(child), child; });
  }

  void Add(const Buffer& buffer, const Expr& index, bool write) {
    const bool shared = buffer->scope == Scope::kShared;
    if (!shared && buffer->scope != Scope::kGlobal) return;
    const Ramp* ramp = index.As<Ramp>();
    const int64_t element = buffer->dtype.Bytes();
    if (ramp && IsConst(ramp->stride, 1)) return AddLanes(buffer, ramp->base, element * index.dtype().lanes, write);
    // Each lane of a vector with a stride other than 1 counts as an access of its own.
    for (int lane = 0; ramp && lane < index.dtype().lanes; ++lane)
      AddLanes(buffer, ramp->base + ramp->stride * Expr(lane), element, write);
    if (!ramp && index.dtype().lanes == 1) AddLanes(buffer, index, element, write);
  }

  void AddLanes(const Buffer& buffer, const Expr& first, int64_t bytes, bool write) {
    WarpAccess worst{
        .buffer = buffer->name, .shared = buffer->scope == Scope::kShared, .write = write, .bytes = bytes, .times = 1};
    int64_t threads = 1;
    for (const Around& a : around_) {
      if (IsThreadAxis(a.kind)) threads *= a.extent;
      if (!IsBound(a.kind)) worst.times *= static_cast<double>(a.extent);
    }
    bool any = false;
    for (int64_t iteration : {0, 1}) {
      for (int64_t warp = 0; warp * kWarp < threads; ++warp) {
        std::vector<std::optional<int64_t>> addresses;
        for (int64_t thread = warp * kWarp; thread < std::min(threads, (warp + 1) * kWarp); ++thread) {
          const std::optional<Values> values = ValuesOf(thread, iteration);
          std::optional<int64_t> at = values ? LaneValue(first, *values) : std::nullopt;
          if (at) *at *= buffer->dtype.Bytes();
          any |= at.has_value();
          addresses.push_back(at);
        }
        WarpAccess access = worst;
        if (access.shared) {
          access.conflicts = ConflictsOf(addresses, bytes);
        } else {
          CountSectors(addresses, access);
        }
        if (access.conflicts > worst.conflicts ||
            access.sectors - access.least_sectors > worst.sectors - worst.least_sectors || worst.sectors == 0)
          worst = access;
      }
    }
    if (any) accesses.push_back(worst);
  }

  // Returns the values of the variables for a thread of the first block, or nothing if a condition around the access is
  // known to be false.
  std::optional<Values> ValuesOf(int64_t thread, int64_t iteration) const {
    std::map<LoopKind, int64_t> extents;
    for (const Around& a : around_) {
      if (IsThreadAxis(a.kind)) extents[a.kind] = a.extent;
    }
    std::map<LoopKind, int64_t> places;
    for (const auto& [axis, extent] : extents) places[axis] = thread % extent, thread /= extent;
    Values values;
    for (const Around& a : around_) {
      if (a.value) {
        if (const std::optional<int64_t> value = LaneValue(a.value, values)) values[a.var] = *value;
      } else if (IsBound(a.kind)) {
        values[a.var] = IsThreadAxis(a.kind) ? places[a.kind] : 0;
      } else {
        values[a.var] = std::min(iteration, a.extent - 1);
      }
    }
    for (const auto& [condition, holds] : conditions_) {
      const std::optional<int64_t> value = LaneValue(condition, values);
      if (value && (*value != 0) != holds) return std::nullopt;
    }
    return values;
  }

  std::vector<Around> around_;
  std::vector<std::pair<Expr, bool>> conditions_;
};

}  // namespace

std::vector<WarpAccess> WarpAccessesOf(const Stmt& kernel) {
  Collector collector;
  collector.Visit(kernel);
  return std::move(collector.accesses);
}

}  // namespace autotune
