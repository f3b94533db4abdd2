#include <algorithm>

#include "ir/added_product.h"
#include "ir/arithmetic.h"
#include "ir/byte_table.h"
#include "ir/dot.h"
#include "ir/visit.h"
#include "tuner/rule/block_view.h"

namespace autotune {
namespace {

void Collect(const Stmt& s, std::vector<BlockView::Loop>& loops, std::vector<BlockView>& out) {
  s.Visit(Overloaded{
      [&](const For& f) {
        const int64_t* extent = AsInt(f.extent);
        loops.push_back({f.var, extent ? *extent : 0, Name()});
        Collect(f.body, loops, out);
        loops.pop_back();
      },
      [&](const Seq& seq) {
        for (const Stmt& child : seq.stmts) Collect(child, loops, out);
      },
      [&](const If& n) {
        Collect(n.then_body, loops, out);
        if (n.else_body) Collect(n.else_body, loops, out);
      },
      [&](const Block& block) {
        BlockView view;
        view.name = block.name;
        view.node = s;
        if (auto stage = block.annotations.find(topi::kWinograd); stage != block.annotations.end())
          view.winograd = static_cast<topi::WinogradStage>(stage->second);
        std::set<Name> reduce_vars;
        for (const Iter& iter : block.iters) {
          if (iter.kind != IterKind::kReduce) continue;
          view.reduction = true;
          if (const int64_t* extent = AsInt(iter.extent)) view.reduce_length *= static_cast<double>(*extent);
          UsesVar(iter.binding, [&](const Name& v) {
            reduce_vars.insert(v);
            return false;
          });
        }
        for (BlockView::Loop loop : loops) {
          for (const Iter& iter : block.iters) {
            if (loop.iter.empty() && IsVar(iter.binding, loop.var)) loop.iter = iter.var;
          }
          (reduce_vars.count(loop.var) ? view.reduce : view.spatial).push_back(loop);
        }
        Walk(
            block.body,
            [&](const Stmt& inner) {
              if (const Store* store = inner.As<Store>()) {
                view.writes = store->buffer->name;
                view.element_bytes = store->buffer->dtype.Bytes();
              }
              return true;
            },
            [&](const Expr& e) {
              if (const Load* load = e.As<Load>()) view.reads.insert(load->buffer->name);
              if (e.As<Select>()) view.guarded = true;
              return !e.dtype().IsIndex() || e.As<Select>() || e.As<Cast>();  // else a subscript
            });
        const Arithmetic arithmetic = ArithmeticOf(block.body);
        view.transcendental = arithmetic.transcendental > 0;
        view.flops = arithmetic.Cost();
        view.reads.erase(view.writes);
        view.lane_bytes = view.element_bytes;
        Walk(block.body, nullptr, [&](const Expr& e) {
          const Load* load = e.As<Load>();
          if (load) view.lane_bytes = std::max<int64_t>(view.lane_bytes, load->buffer->dtype.Bytes());
          return !load || LookedUpByte(*load);  // other subscripts do not count
        });
        out.push_back(std::move(view));
      },
      [&](const auto&) {},
  });
}

}  // namespace

std::vector<BlockView> ViewBlocks(const PrimFunc& func) {
  std::vector<BlockView> blocks;
  std::vector<BlockView::Loop> loops;
  Collect(func.body, loops, blocks);
  for (BlockView& block : blocks) {
    block.writes_output = std::any_of(func.params.begin(), func.params.end(),
                                      [&](const Param& p) { return p.buffer->name == block.writes; });
  }
  return blocks;
}

std::vector<const BlockView*> ConsumersOf(const std::vector<BlockView>& blocks, const BlockView& block) {
  std::vector<const BlockView*> consumers;
  for (const BlockView& other : blocks) {
    if (other.reads.count(block.writes)) consumers.push_back(&other);
  }
  return consumers;
}

const BlockView* FindBlock(const std::vector<BlockView>& blocks, const Name& name) {
  for (const BlockView& block : blocks) {
    if (block.name == name) return &block;
  }
  return nullptr;
}

namespace {

// Returns true if an operand depends on n, the last spatial loop, but not on this loop. If the rows of a register tile
// run along this loop, they share the operand's elements.
bool SharesColumns(const BlockView& block, const BlockView::Loop& loop) {
  bool shares = false;
  ForEachOperand(block, [&](const Load& load) {
    auto moves = [&](const Name& iter) {
      return std::any_of(load.indices.begin(), load.indices.end(), [&](const Expr& i) { return UsesVar(i, iter); });
    };
    shares |= moves(block.spatial.back().iter) && !moves(loop.iter);
  });
  return shares && loop.extent > 1 && !loop.iter.empty();
}

}  // namespace

Roles RolesOf(const BlockView& block) {
  Roles roles{.k = block.reduce};
  if (block.spatial.empty()) return roles;
  roles.n = block.spatial.back();
  roles.outer.assign(block.spatial.begin(), block.spatial.end() - 1);
  if (roles.outer.empty()) return roles;
  // The search runs from the innermost loop outwards, and of equal loops max_element returns the first one.
  auto worse = [&](const BlockView::Loop& a, const BlockView::Loop& b) {
    return std::pair(SharesColumns(block, a), a.extent) < std::pair(SharesColumns(block, b), b.extent);
  };
  auto m = std::max_element(roles.outer.rbegin(), roles.outer.rend(), worse);
  roles.m = *m;
  roles.outer.erase(m.base() - 1);
  return roles;
}

int64_t Iterations(const std::vector<BlockView::Loop>& loops) {
  int64_t count = 1;
  for (const BlockView::Loop& loop : loops) count *= loop.extent;
  return count;
}

int64_t Instances(const BlockView& block) { return Iterations(block.spatial) * Iterations(block.reduce); }

LinearForm FlatIndex(const BlockView& block, const Buffer& buffer, const std::vector<Expr>& indices) {
  Analyzer analyzer;
  for (const Iter& iter : block.node.As<Block>()->iters) {
    if (const int64_t* extent = AsInt(iter.extent)) analyzer.Bind(iter.var, 0, *extent - 1);
  }
  Expr index = Expr(0);
  int64_t stride = 1;
  for (size_t d = indices.size(); d-- > 0; stride *= ConstShape(buffer)[d]) index = indices[d] * Expr(stride) + index;
  return ToLinear(analyzer.Simplify(index));
}

namespace {

// Writes the conditions of the block's selects as e < 0, and returns each e that is linear in the block's iterators.
// The block reads only where these conditions hold.
std::vector<LinearForm> TailsOf(const BlockView& block) {
  std::vector<LinearForm> tails;
  Walk(block.node.As<Block>()->body, nullptr, [&](const Expr& e) {
    const Select* select = e.As<Select>();
    const Binary* condition = select ? select->condition.As<Binary>() : nullptr;
    if (!condition || condition->op != BinaryOp::kLt) return true;
    LinearForm form = ToLinear(condition->a - condition->b);
    if (!form.Rest()) tails.push_back(std::move(form));
    return true;
  });
  return tails;
}

}  // namespace

bool ReadsOnce(const BlockView& block, const LinearForm& index, const std::set<Name>& repeated) {
  if (index.Rest()) return false;
  // The index is a number in a mixed radix, with the iterators as digits, if the step of each iterator is at least
  // `reach`, the number of values that the iterators of smaller steps can form. Each element is then read once.
  struct Digit {
    int64_t step, extent;
    Name iter;
  };
  std::vector<Digit> digits;
  for (const Iter& iter : block.node.As<Block>()->iters) {
    const int64_t* extent = AsInt(iter.extent);
    if (!extent) return false;
    if (*extent > 1 && !repeated.contains(iter.var)) digits.push_back({index.Coefficient(iter.var), *extent, iter.var});
  }
  std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.step < b.step; });
  const std::vector<LinearForm> tails = TailsOf(block);
  int64_t reach = 1;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i].step < reach) return false;
    reach = digits[i].step * (digits[i].extent - 1) + reach;
    // A condition e < 0 with the same steps limits the number that the digits up to this one form.
    for (const LinearForm& tail : tails) {
      const auto finer = [&](const Digit& digit) { return tail.Coefficient(digit.iter) == digit.step; };
      const auto end = digits.begin() + static_cast<std::ptrdiff_t>(i) + 1;
      if (std::all_of(digits.begin(), end, finer)) reach = std::min(reach, -tail.constant);
    }
  }
  return true;
}

bool IsVar(const Expr& e, const Name& name) {
  const Var* var = e.As<Var>();
  return var && var->name == name;
}

void ForEachOperand(const BlockView& block, const std::function<void(const Load&)>& visit) {
  Walk(block.node.As<Block>()->body, nullptr, [&](const Expr& e) {
    const Load* load = e.As<Load>();
    if (load && load->buffer->name != block.writes) visit(*load);
    return true;
  });
}

bool HasSelect(const BlockView& block) {
  bool found = false;
  Walk(block.node.As<Block>()->body, nullptr, [&](const Expr& e) {
    found |= e.As<Select>() != nullptr;
    return true;
  });
  return found;
}

namespace {

// The element types of the factors that the block adds up; nothing if `dot` does not add their products.
std::optional<std::pair<DType, DType>> DotOperandsOf(const BlockView& view) {
  const Store* store = view.node.As<Block>()->body.As<Store>();
  const std::optional<AddedProduct> added = store ? AddedProductOf(*store) : std::nullopt;
  if (!added) return std::nullopt;
  const auto type_of = [](const Expr& e) {
    const Cast* cast = e.As<Cast>();
    if (!cast) return e.dtype();
    // Where a window meets padding, the step is skipped (SkipPadding).
    const Select* inside = cast->a.As<Select>();
    const Expr& factor = inside && IsZero(inside->b) ? inside->a : cast->a;
    return factor.As<Load>() || PartOfBytes(factor) ? factor.dtype() : e.dtype();
  };
  const DType a = type_of(added->a), b = type_of(added->b);
  if (!AreDotOperands(a, b) || store->buffer->dtype != SumType(a, b)) return std::nullopt;
  return std::pair(a, b);
}

}  // namespace

int64_t DotGroupOf(const BlockView& view) {
  const auto operands = DotOperandsOf(view);
  return operands ? DotGroup(operands->first) : 0;
}

bool AddsWords(const BlockView& view) {
  const auto operands = DotOperandsOf(view);
  return operands && IsWord(operands->first);
}

int64_t StepsOfDot(const BlockView& view, const Target& target) {
  const auto operands = DotOperandsOf(view);
  if (!operands) return 1;
  const DType type = operands->first;
  return target.HasDot(type.IsFloat(), type.bits) ? DotGroup(type) : 1;
}

}  // namespace autotune
