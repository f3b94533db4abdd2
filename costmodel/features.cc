#include "costmodel/features.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "ir/int_math.h"
#include "ir/visit.h"
#include "support/check.h"

namespace autotune {
namespace {

constexpr int kFunctionFeatures = 8;
constexpr int kBlocks = 3;
constexpr int kArithmetic = 8;
constexpr int kShape = 10;
constexpr int kAccesses = 4;
constexpr int kPerAccess = 15;
constexpr int kIntensity = 6;
constexpr int kPerBlock = kArithmetic + kShape + kAccesses * kPerAccess + kIntensity;

struct Loop {
  Name var;
  double extent;
  LoopKind kind;
};

// How an index moves when some loops run: distance between its least and greatest value, plus one, and the number of
// distinct values. Over-approximated where an expression mixes loops.
struct Spread {
  double span = 1, count = 1;
};

using Bindings = std::unordered_map<Name, Expr>;

class SpreadOf {
 public:
  // Loops with position >= level run; the others stand still.
  SpreadOf(const std::vector<Loop>& loops, const Bindings& bindings, size_t level)
      : loops_(loops), bindings_(bindings), level_(level) {}

  Spread operator()(const Expr& e) const {
    return e.Visit(Overloaded{
        [&](const Var& v) -> Spread {
          auto it = bindings_.find(v.name);
          if (it != bindings_.end()) return (*this)(it->second);
          for (size_t i = level_; i < loops_.size(); ++i) {
            if (loops_[i].var == v.name) return {loops_[i].extent, loops_[i].extent};
          }
          return {};
        },
        [&](const Binary& b) -> Spread {
          Spread x = (*this)(b.a), y = (*this)(b.b);
          const int64_t* c = AsInt(b.b);
          switch (b.op) {
            case BinaryOp::kAdd:
            case BinaryOp::kSub: {
              double span = x.span + y.span - 1;
              return {span, std::min(span, x.count * y.count)};
            }
            case BinaryOp::kMul: {
              if (!c) c = AsInt(b.a), std::swap(x, y);
              double k = c ? std::abs(static_cast<double>(*c)) : 1;
              return {(x.span - 1) * k + 1, x.count};
            }
            case BinaryOp::kFloorDiv: {
              double n = c ? std::ceil(x.span / static_cast<double>(*c)) : x.span;
              return {n, std::min(n, x.count)};
            }
            case BinaryOp::kFloorMod: {
              double n = c ? std::min(x.span, static_cast<double>(*c)) : x.span;
              return {n, std::min(n, x.count)};
            }
            default:
              return x.span >= y.span ? x : y;
          }
        },
        [&](const Select& s) -> Spread {
          Spread x = (*this)(s.a), y = (*this)(s.b);
          return x.span >= y.span ? x : y;
        },
        [&](const Cast& c) { return (*this)(c.a); },
        [&](const auto&) { return Spread{}; },
    });
  }

 private:
  const std::vector<Loop>& loops_;
  const Bindings& bindings_;
  size_t level_;
};

struct Arithmetic {
  double fma = 0, add = 0, mul = 0, div = 0, compare = 0, transcendental = 0, integer = 0;
  double Flops() const { return 2 * fma + add + mul + 4 * div + compare + 20 * transcendental; }
};

struct Access {
  Buffer buffer;
  std::vector<Expr> indices;
  bool write;
};

struct BlockInfo {
  const Block* block;
  std::vector<Loop> loops;
  Arithmetic arithmetic;  // of one instance of the body
  std::vector<Access> accesses;
  Bindings bindings;
  double iterations = 1;
  double flops = 0;
};

void CountArithmetic(const Expr& e, Arithmetic& out) {
  Walk(e, [&](const Expr& x) {
    if (x.dtype().IsIndex()) {
      out.integer += 1;
      return true;
    }
    x.Visit(Overloaded{
        [&](const Unary&) { out.add += 1; },
        [&](const Binary& b) {
          if (b.op == BinaryOp::kMul) {
            out.mul += 1;
          } else if (b.op == BinaryOp::kDiv) {
            out.div += 1;
          } else if (b.op == BinaryOp::kAdd || b.op == BinaryOp::kSub) {
            out.add += 1;
          } else {
            out.compare += 1;
          }
        },
        [&](const Select&) { out.compare += 1; },
        [&](const Call& c) {
          if (c.op == Op::kFma) {
            out.fma += 1;
          } else if (Row(c.op).expanded) {
            out.transcendental += 1;
          } else {
            out.add += 1;
          }
        },
        [&](const auto&) {},
    });
    return true;
  });
}

void AddAccesses(const Stmt& body, BlockInfo& info) {
  auto add = [&](const Buffer& buffer, const std::vector<Expr>& indices, bool write) {
    for (Access& known : info.accesses) {
      if (known.buffer->name != buffer->name) continue;
      bool same = known.indices.size() == indices.size();
      for (size_t i = 0; same && i < indices.size(); ++i) same = Equal(known.indices[i], indices[i]);
      if (same) {
        known.write |= write;
        return;
      }
    }
    info.accesses.push_back({buffer, indices, write});
  };
  Walk(
      body,
      [&](const Stmt& s) {
        if (const Store* store = s.As<Store>()) {
          add(store->buffer, store->indices, true);
          CountArithmetic(store->value, info.arithmetic);
        }
        return true;
      },
      [&](const Expr& e) {
        if (const Load* load = e.As<Load>()) add(load->buffer, load->indices, false);
        return true;
      });
}

// A block's body: loops inside it count as loops around what they hold.
void CollectBody(const Block& block, const Stmt& s, std::vector<Loop>& loops, std::vector<BlockInfo>& out,
                 int& num_loops) {
  if (const For* loop = s.As<For>()) {
    const int64_t* extent = AsInt(loop->extent);
    loops.push_back({loop->var, extent ? static_cast<double>(*extent) : 1.0, loop->kind});
    ++num_loops;
    CollectBody(block, loop->body, loops, out, num_loops);
    loops.pop_back();
    return;
  }
  bool nested = false;
  if (!s.As<Store>()) {
    Walk(s, [&](const Stmt& inner) {
      nested |= inner.As<For>() != nullptr;
      return !nested;
    });
  }
  if (nested) {
    auto collect = [&](const Stmt& child) {
      CollectBody(block, child, loops, out, num_loops);
      return child;
    };
    MapChildren(s, collect, nullptr);
    return;
  }
  BlockInfo info;
  info.block = &block;
  info.loops = loops;
  for (const Loop& loop : loops) info.iterations *= loop.extent;
  for (const Iter& iter : block.iters) info.bindings.emplace(iter.var, iter.binding);
  AddAccesses(s, info);
  info.flops = info.iterations * info.arithmetic.Flops();
  out.push_back(std::move(info));
}

void Collect(const Stmt& s, std::vector<Loop>& loops, std::vector<BlockInfo>& out, int& num_loops) {
  s.Visit(Overloaded{
      [&](const For& f) {
        const int64_t* extent = AsInt(f.extent);
        loops.push_back({f.var, extent ? static_cast<double>(*extent) : 1.0, f.kind});
        ++num_loops;
        Collect(f.body, loops, out, num_loops);
        loops.pop_back();
      },
      [&](const Seq& seq) {
        for (const Stmt& child : seq.stmts) Collect(child, loops, out, num_loops);
      },
      [&](const If& n) {
        Collect(n.then_body, loops, out, num_loops);
        if (n.else_body) Collect(n.else_body, loops, out, num_loops);
      },
      [&](const Block& b) { CollectBody(b, b.body, loops, out, num_loops); },
      [&](const auto&) {},
  });
}

// The value of an index in the first iteration of all loops, where every loop variable is 0. Values that are not known,
// such as loads, count as 0 too.
int64_t ValueAtStart(const Expr& e, const Bindings& bindings) {
  if (const int64_t* value = AsInt(e)) return *value;
  return e.Visit(Overloaded{
      [&](const Var& v) -> int64_t {
        auto it = bindings.find(v.name);
        return it == bindings.end() ? 0 : ValueAtStart(it->second, bindings);
      },
      [&](const Binary& b) -> int64_t {
        return FoldInt(b.op, ValueAtStart(b.a, bindings), ValueAtStart(b.b, bindings), e.dtype()).value_or(0);
      },
      [&](const Cast& c) -> int64_t { return ValueAtStart(c.a, bindings); },
      [&](const auto&) -> int64_t { return 0; },
  });
}
// Bytes from the start of the buffer to this element, in the first iteration of all loops.
int64_t AddressAtStart(const Buffer& buffer, const std::vector<Expr>& indices, const Bindings& bindings) {
  int64_t element = 0;
  for (size_t d = 0; d < indices.size(); ++d) {
    const int64_t* extent = AsInt(buffer->shape[d]);
    element = element * (extent ? *extent : 1) + ValueAtStart(indices[d], bindings);
  }
  return element * buffer->dtype.Bytes();
}

// The prefetches of one buffer.
struct Asked {
  Name buffer;
  double lines = 0;     // prefetched in one run of the function
  int64_t address = 0;  // of the first prefetch: bytes from the buffer's start, in the first iteration of all loops
};

void CollectPrefetches(const Stmt& s, double times, std::vector<Asked>& out) {
  auto add = [&](const Load& load) {
    auto it = std::find_if(out.begin(), out.end(), [&](const Asked& a) { return a.buffer == load.buffer->name; });
    if (it == out.end()) {
      int64_t address = AddressAtStart(load.buffer, load.indices, {});
      it = out.insert(out.end(), {.buffer = load.buffer->name, .address = address});
    }
    it->lines += times;
  };
  s.Visit(Overloaded{
      [&](const For& f) {
        const int64_t* extent = AsInt(f.extent);
        CollectPrefetches(f.body, times * (extent ? static_cast<double>(*extent) : 1), out);
      },
      [&](const Seq& seq) {
        for (const Stmt& child : seq.stmts) CollectPrefetches(child, times, out);
      },
      [&](const If& n) {
        CollectPrefetches(n.then_body, times, out);
        if (n.else_body) CollectPrefetches(n.else_body, times, out);
      },
      [&](const Block& b) { CollectPrefetches(b.body, times, out); },
      [&](const Evaluate& e) {
        const Call* call = e.value.As<Call>();
        const Load* load = call && IsPrefetch(call->op) ? call->args[0].As<Load>() : nullptr;
        if (load) add(*load);
      },
      [&](const auto&) {},
  });
}

float Log(double x) { return static_cast<float>(std::log2(1.0 + std::max(0.0, x))); }

struct Footprint {
  double bytes = 0, lines = 0;
};

Footprint FootprintAt(const Access& access, const BlockInfo& info, size_t level, int line) {
  SpreadOf spread(info.loops, info.bindings, level);
  double elements = 1, last = 1;
  for (size_t d = 0; d < access.indices.size(); ++d) {
    Spread s = spread(access.indices[d]);
    if (const int64_t* extent = AsInt(access.buffer->shape[d]))
      s.count = std::min(s.count, static_cast<double>(*extent)),
      s.span = std::min(s.span, static_cast<double>(*extent));
    elements *= s.count;
    last = s.span;
  }
  double size = static_cast<double>(access.buffer->dtype.Bytes());
  Spread inner = access.indices.empty() ? Spread{} : spread(access.indices.back());
  double rows = elements / std::max(1.0, std::min(inner.count, elements));
  return {elements * size, rows * std::max(1.0, std::min(std::ceil(last * size / line), inner.count))};
}

// 0: no vector loop, 1: every lane reads the same element, 2: contiguous, 3: strided.
double Contiguity(const Access& access, const BlockInfo& info) {
  size_t v = 0;
  while (v < info.loops.size() && info.loops[v].kind != LoopKind::kVectorized) ++v;
  if (v == info.loops.size() || access.indices.empty()) return 0;
  std::vector<Loop> only = info.loops;
  for (size_t i = 0; i < only.size(); ++i) {
    if (i != v) only[i].extent = 1;
  }
  SpreadOf spread(only, info.bindings, 0);
  for (size_t d = 0; d + 1 < access.indices.size(); ++d) {
    if (spread(access.indices[d]).count > 1) return 3;
  }
  Spread s = spread(access.indices.back());
  return s.count <= 1 ? 1 : s.span <= only[v].extent ? 2 : 3;
}

void BlockFeatures(const BlockInfo& info, const std::vector<Asked>& prefetches, const Target& target, float* out) {
  const Arithmetic& a = info.arithmetic;
  for (double x : {a.fma, a.add, a.mul, a.div, a.compare, a.transcendental, a.integer, info.flops}) *out++ = Log(x);

  double parallel = 1, lanes = 1, unrolled = 1, reduce = 1, useful = 1;
  for (const Loop& loop : info.loops) {
    if (loop.kind == LoopKind::kParallel) parallel *= loop.extent;
    if (loop.kind == LoopKind::kVectorized) lanes *= loop.extent;
    if (loop.kind == LoopKind::kUnrolled) unrolled *= loop.extent;
  }
  for (const Iter& iter : info.block->iters) {
    double extent = AsInt(iter.extent) ? static_cast<double>(*AsInt(iter.extent)) : 1;
    if (iter.kind == IterKind::kReduce) reduce *= extent;
    useful *= extent;
  }
  bool in_registers = false;
  double tile = 0;
  for (const Access& access : info.accesses) {
    if (!access.write) continue;
    if (access.buffer->scope == Scope::kRegister) {
      in_registers = true;
      size_t level = info.loops.size();  // the innermost unrolled and vectorized loops hold the tile
      while (level > 0 &&
             (info.loops[level - 1].kind == LoopKind::kUnrolled || info.loops[level - 1].kind == LoopKind::kVectorized))
        --level;
      tile = FootprintAt(access, info, level, target.cache_line).bytes * 8 / target.vector_bits;
    }
  }
  *out++ = Log(info.iterations);
  *out++ = Log(reduce);
  *out++ = Log(parallel);
  *out++ = Log(info.iterations / parallel);
  *out++ = Log(lanes);
  *out++ = Log(unrolled);
  *out++ = static_cast<float>(info.loops.size());
  *out++ = in_registers ? 1.f : 0.f;
  *out++ = static_cast<float>(tile);
  *out++ = static_cast<float>(info.iterations / std::max(1.0, useful));

  // By access and by level: the footprint of the loops from this level inwards.
  std::vector<std::vector<Footprint>> footprints;
  std::vector<size_t> ranked;
  for (const Access& access : info.accesses) {
    ranked.push_back(footprints.size());
    footprints.emplace_back();
    for (size_t level = 0; level <= info.loops.size(); ++level)
      footprints.back().push_back(FootprintAt(access, info, level, target.cache_line));
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](size_t x, size_t y) { return footprints[x][0].lines > footprints[y][0].lines; });

  // For each cache: the outermost level whose accesses together still fit it.
  const double capacity[] = {static_cast<double>(target.vector_bits / 8 * target.vector_registers),
                             static_cast<double>(target.l1_bytes), static_cast<double>(target.l2_bytes),
                             static_cast<double>(target.l3_bytes)};
  std::vector<double> total(info.loops.size() + 1, 0);
  for (size_t level = 0; level <= info.loops.size(); ++level) {
    for (const std::vector<Footprint>& of_access : footprints) total[level] += of_access[level].bytes;
  }
  size_t fits[4];
  for (int c = 0; c < 4; ++c) {
    size_t level = info.loops.size();
    while (level > 0 && total[level - 1] <= capacity[c]) --level;
    fits[c] = level;
  }
  for (int i = 0; i < kAccesses; ++i, out += kPerAccess) {
    if (i >= static_cast<int>(ranked.size())) continue;
    const Access& access = info.accesses[ranked[i]];
    const std::vector<Footprint>& footprint = footprints[ranked[i]];
    out[0] = static_cast<float>(access.buffer->dtype.Bytes());
    out[1] = access.write ? 1.f : 0.f;
    out[2] = static_cast<float>(Contiguity(access, info));
    out[3] = Log(footprint[0].bytes);
    for (int c = 0; c < 4; ++c) {
      const Footprint& f = footprint[fits[c]];
      double repeats = 1;  // how often the fitting part is brought in again
      for (size_t level = 0; level < fits[c]; ++level) repeats *= info.loops[level].extent;
      out[4 + 2 * c] = Log(f.bytes * repeats);
      out[5 + 2 * c] = Log(f.lines * repeats);
    }
    out[12] =
        Log(info.iterations * static_cast<double>(access.buffer->dtype.Bytes()) / std::max(1.0, footprint[0].bytes));
    for (const Asked& asked : prefetches) {
      if (asked.buffer != access.buffer->name) continue;
      int64_t here = AddressAtStart(access.buffer, access.indices, info.bindings);
      out[13] = Log(asked.lines);
      out[14] = Log(static_cast<double>(std::abs(asked.address - here)));
    }
  }
  double flops_per_iteration = a.Flops();
  for (int i = 0; i < kIntensity; ++i) {
    size_t level = info.loops.size() * i / kIntensity;
    double inner = 1;
    for (size_t l = level; l < info.loops.size(); ++l) inner *= info.loops[l].extent;
    *out++ = Log(inner * flops_per_iteration / std::max(1.0, total[level]));
  }
}

}  // namespace

int NumFeatures() { return kFunctionFeatures + kBlocks * kPerBlock; }

Features ExtractFeatures(const PrimFunc& func, const Target& target) {
  std::vector<BlockInfo> blocks;
  std::vector<Loop> loops;
  int num_loops = 0;
  Collect(func.body, loops, blocks, num_loops);
  std::vector<Asked> prefetches;
  CollectPrefetches(func.body, 1, prefetches);
  Features features(NumFeatures(), 0.f);
  double flops = 0, parallel = 1, param_bytes = 0, alloc_bytes = 0;
  auto bytes = [](const Buffer& buffer) {
    double n = static_cast<double>(buffer->dtype.Bytes());
    for (const Expr& extent : buffer->shape) n *= AsInt(extent) ? static_cast<double>(*AsInt(extent)) : 1;
    return n;
  };
  for (const BlockInfo& info : blocks) {
    flops += info.flops;
    double p = 1;
    for (const Loop& loop : info.loops) p *= loop.kind == LoopKind::kParallel ? loop.extent : 1;
    parallel = std::max(parallel, p);
  }
  for (const Param& param : func.params) param_bytes += bytes(param.buffer);
  for (const Buffer& buffer : func.allocs) alloc_bytes += bytes(buffer);
  float* out = features.data();
  for (double x : {flops, param_bytes}) *out++ = Log(x);
  *out++ = static_cast<float>(blocks.size());
  *out++ = static_cast<float>(num_loops);
  *out++ = Log(parallel);
  *out++ = Log(alloc_bytes);
  double lines_asked = 0, bytes_ahead = 0;
  for (const Asked& asked : prefetches) {
    lines_asked += asked.lines;
    bytes_ahead += std::abs(static_cast<double>(asked.address));
  }
  *out++ = Log(lines_asked);
  *out++ = Log(bytes_ahead);

  std::stable_sort(blocks.begin(), blocks.end(), [](const BlockInfo& x, const BlockInfo& y) {
    return x.flops + x.iterations > y.flops + y.iterations;
  });
  for (int i = 0; i < kBlocks && i < static_cast<int>(blocks.size()); ++i)
    BlockFeatures(blocks[i], prefetches, target, out + i * kPerBlock);
  return features;
}

}  // namespace autotune
