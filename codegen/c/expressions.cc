#include "codegen/c/expressions.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "codegen/guarded_work.h"
#include "codegen/lanes.h"
#include "codegen/walk.h"
#include "ir/float_math.h"
#include "ir/linear_form.h"
#include "lower/lower.h"
#include "support/check.h"

namespace autotune::c {
namespace {

constexpr size_t kLongestText = 90;  // most characters of a subexpression without a variable of its own

Level LevelOf(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
      return Level::kAdd;
    case BinaryOp::kMul:
    case BinaryOp::kDiv:
      return Level::kMul;
    case BinaryOp::kEq:
    case BinaryOp::kNe:
      return Level::kEquality;
    case BinaryOp::kLt:
    case BinaryOp::kLe:
    case BinaryOp::kGt:
    case BinaryOp::kGe:
      return Level::kRelation;
    case BinaryOp::kAnd:
      return Level::kAnd;
    case BinaryOp::kOr:
      return Level::kOr;
    case BinaryOp::kBitAnd:
      return Level::kBitAnd;
    case BinaryOp::kBitOr:
      return Level::kBitOr;
    case BinaryOp::kBitXor:
      return Level::kBitXor;
    default:
      CHECK(false) << ToText(op) << " is no operator of C";
      return Level::kPrimary;
  }
}

bool Compares(BinaryOp op, int64_t a, int64_t b) {
  switch (op) {
    case BinaryOp::kEq:
      return a == b;
    case BinaryOp::kNe:
      return a != b;
    case BinaryOp::kLt:
      return a < b;
    case BinaryOp::kLe:
      return a <= b;
    case BinaryOp::kGt:
      return a > b;
    default:
      CHECK(op == BinaryOp::kGe) << ToText(op) << " is no comparison";
      return a >= b;
  }
}

bool IsOrder(BinaryOp op) { return IsComparison(op) && op != BinaryOp::kEq && op != BinaryOp::kNe; }
bool IsBits(BinaryOp op) { return op == BinaryOp::kBitAnd || op == BinaryOp::kBitOr || op == BinaryOp::kBitXor; }

}  // namespace

Code NumberOf(int64_t value, DType type) {
  if (type.code == TypeCode::kUInt && type.bits >= 32) return {std::to_string(static_cast<uint64_t>(value)) + "u"};
  if (value == std::numeric_limits<int64_t>::min()) return {"-9223372036854775807 - 1", Level::kAdd};
  return {std::to_string(value), value < 0 ? Level::kAdd : Level::kPrimary};
}

Code NumberOf(double value, DType type, const Dialect& dialect, Helpers& helpers) {
  if (type.IsHalf()) return {std::to_string(FloatToBits(value, type)) + "u"};
  const bool wide = type.bits == 64;
  if (std::isinf(value)) {
    return {std::string(value < 0 ? "-" : "") + dialect.Infinity(type), value < 0 ? Level::kAdd : Level::kPrimary};
  }
  if (std::isnan(value)) {  // its bits
    const DType bits = DType::UInt(type.bits);
    const uint64_t pattern = wide ? std::bit_cast<uint64_t>(value) : std::bit_cast<uint32_t>(static_cast<float>(value));
    return CallOf(helpers.Reinterpret(bits, type.Element()), std::to_string(pattern) + "u");
  }
  char digits[64];
  const auto written = wide ? std::to_chars(digits, digits + sizeof digits, value)
                            : std::to_chars(digits, digits + sizeof digits, static_cast<float>(value));
  std::string text(digits, written.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return {text + (wide ? "" : "f"), std::signbit(value) ? Level::kAdd : Level::kPrimary};
}

void Expressions::StartStatement(std::initializer_list<Expr> roots) {
  memo_.clear();
  uses_.clear();
  for (const Expr& root : roots) {
    WalkOnce(root, [&](const Expr& e) {
      MapChildren(e, [&](const Expr& child) {
        ++uses_[child.get()];
        return child;
      });
      return true;
    });
    ++uses_[root.get()];
  }
}

void Expressions::SelectLanes(Chunk chunk, Expr lane) {
  chunk_ = chunk;
  lane_ = std::move(lane);
}

Code Expressions::Named(const Code& code, const std::string& declared) {
  const std::string id = "t" + std::to_string(++temporaries_);
  writer_.Line(declared + " " + id + " = " + code.text + ";");
  return {id};
}

Code Expressions::Value(const Expr& e) {
  const bool number = e.dtype().lanes == 1;
  auto key = [&](const std::string& guard) {
    return Key{e.get(), guard, number ? -1 : chunk_.begin, number ? -1 : chunk_.count};
  };
  auto known = memo_.find(key(guard_ ? guard_->id : ""));
  // A value that was computed under an outer guard, or without one, is valid here, too. If it was computed once more,
  // the text of nested selects would grow exponentially with their depth.
  for (auto outer = outer_guards_.rbegin(); known == memo_.end() && outer != outer_guards_.rend(); ++outer)
    known = memo_.find(key(*outer));
  if (known == memo_.end() && guard_) known = memo_.find(key(""));
  if (known != memo_.end()) return known->second.code;
  Code code = Compute(e);
  const bool long_inside = code.text.size() > kLongestText && e.get() != whole_;
  if (!code.IsAtom() && (uses_[e.get()] > 1 || long_inside)) {
    code = Temporary(code, dialect_.Type(TypeOf(e)));
  }
  memo_.insert({key(guard_ ? guard_->id : ""), {e, code}});
  return code;
}

Code Expressions::Whole(const Expr& e) {
  whole_ = e.get();
  Code code = Value(e);
  whole_ = nullptr;
  return code;
}

Code Expressions::Atom(const Expr& e) {
  Code code = Value(e);
  return code.IsAtom() ? code : Temporary(code, dialect_.Type(TypeOf(e)));
}

Code Expressions::Compute(const Expr& e) {
  const DType type = TypeOf(e);
  return e.Visit(Overloaded{
      [&](const IntImm& n) { return ComputeConstant(NumberOf(n.value, type), type); },
      [&](const FloatImm& n) { return ComputeConstant(NumberOf(n.value, type, dialect_, helpers_), type); },
      [&](const Var& n) {
        auto it = bindings_.vars.find(n.name);
        CHECK(it != bindings_.vars.end()) << "variable " << n.name << " is not defined";
        return it->second;
      },
      [&](const Unary& n) { return ComputeUnary(n, type); },
      [&](const Binary& n) { return ComputeBinary(n, TypeOf(n.a)); },
      [&](const Cast& n) { return ComputeCast(n, type); },
      [&](const Select& n) { return ComputeSelect(n, type); },
      [&](const Load& n) { return ComputeLoad(n, type); },
      [&](const autotune::Call& n) { return ComputeCall(n, type); },
      [&](const Ramp& n) { return ComputeRamp(n, type); },
      [&](const Broadcast& n) { return ComputeConstant(Value(n.a), type); },
  });
}

// Returns a value of `type` whose lanes are all `number`.
Code Expressions::ComputeConstant(const Code& number, DType type) {
  return type.lanes == 1 ? number : CallOf(helpers_.Splat(type), number.text);
}

Code Expressions::ComputeUnary(const Unary& n, DType type) {
  const Code a = Value(n.a);
  if (n.op == UnaryOp::kNot) return {(type.lanes == 1 ? "!" : "~") + a.Under(Level::kPrimary), Level::kUnary};
  if (type.IsInt() && !type.IsIndex()) return CallOf(helpers_.Negate(type), a.text);
  return {"-" + a.Under(Level::kPrimary), Level::kUnary};
}

Code Expressions::ComputeBinary(const Binary& n, DType operands) {
  if (n.op == BinaryOp::kFloorDiv || n.op == BinaryOp::kFloorMod) return ComputeDivision(n, operands);
  const bool vector = operands.lanes > 1;
  if (vector && operands.IsIndex() && IsComparison(n.op)) {
    if (std::optional<Code> mask = CompareLanes(n, operands.lanes)) return *mask;
  }
  const Code a = Value(n.a), b = Value(n.b);
  // In a mask, true is -1 and so less than false. So the operands of an order comparison are swapped.
  if (vector && operands.IsBool() && IsOrder(n.op)) return Infix(b, ToText(n.op), a, LevelOf(n.op));
  auto helper = [&] { return CallOf(helpers_.Binary(n.op, operands), a.text + ", " + b.text); };
  if (IsComparison(n.op)) {
    const bool is_mask = operands.bits == 32 || operands.IsBool();
    return vector && !is_mask ? helper() : Infix(a, ToText(n.op), b, LevelOf(n.op));
  }
  if (n.op == BinaryOp::kAnd || n.op == BinaryOp::kOr) {
    if (!vector) return Infix(a, ToText(n.op), b, LevelOf(n.op));
    return n.op == BinaryOp::kAnd ? Infix(a, "&", b, Level::kBitAnd) : Infix(a, "|", b, Level::kBitOr);
  }
  const bool is_operator =
      n.op == BinaryOp::kAdd || n.op == BinaryOp::kSub || n.op == BinaryOp::kMul || n.op == BinaryOp::kDiv;
  const bool as_in_c = operands.IsFloat() || operands.IsIndex();  // an index must not overflow, as in C
  return IsBits(n.op) || (is_operator && as_in_c) ? Infix(a, ToText(n.op), b, LevelOf(n.op)) : helper();
}

// Compares index vectors by comparing a vector of 32-bit constants with one number (LaneComparison). If that number is
// constant, too, returns a constant mask. Returns nothing if the distances between the lanes are unknown.
std::optional<Code> Expressions::CompareLanes(const Binary& n, int lanes) {
  const std::optional<LaneComparison> comparison = ComparisonOfLanes(n.a, n.b);
  if (!comparison) return std::nullopt;
  std::vector<std::string> distances, known;
  const LinearForm& form = comparison->limit;
  for (int i = chunk_.begin; i < chunk_.begin + lanes; ++i) {
    const int64_t distance = comparison->distances[static_cast<size_t>(i)];
    distances.push_back(std::to_string(distance));
    known.push_back(Compares(n.op, distance, form.constant) ? "-1" : "0");
  }
  const DType mask = MaskOf(lanes);
  if (form.IsConst()) return Code{dialect_.Vector(mask, known)};
  const Code limit = CallOf(helpers_.Narrow(), Value(form.ToExpr()).text);
  return Infix({dialect_.Vector(mask, distances)}, ToText(n.op), CallOf(helpers_.Splat(mask), limit.text),
               LevelOf(n.op));
}

Code Expressions::ComputeDivision(const Binary& n, DType type) {
  const Broadcast* splat = n.b.As<Broadcast>();
  const int64_t* divisor = AsInt(splat ? splat->a : n.b);
  const Code a = Value(n.a);
  Code b = Value(n.b);
  if (!divisor && guard_) {  // where the guard fails, the divisor may be 0
    const Code one = ComputeConstant({"1"}, type);
    if (guard_->lanes == 1) {
      b = {guard_->id + " ? " + b.text + " : " + one.text, Level::kTernary};
    } else if (type.lanes > 1) {
      b = CallOf(helpers_.Select(type), guard_->id + ", " + b.text + ", " + one.text);
    } else {
      b = {CallOf(helpers_.Any(guard_->lanes), guard_->id).text + " ? " + b.text + " : 1", Level::kTernary};
    }
    b = Temporary(b, dialect_.Type(type));
  }
  if (type.IsIndex() && divisor && *divisor > 0) {
    const Interval range = bindings_.analyzer.Bounds(n.a);
    if (range.low && *range.low >= 0) return Infix(a, n.op == BinaryOp::kFloorDiv ? "/" : "%", b, Level::kMul);
  }
  return CallOf(helpers_.Binary(n.op, type), a.text + ", " + b.text);
}

Code Expressions::ComputeCast(const Cast& n, DType to) {
  const DType from = TypeOf(n.a);
  Code a = Value(n.a);
  if (to.IsBool()) {
    if (from.IsBool()) return a;
    if (to.lanes == 1) return Infix(a, "!=", {"0"}, Level::kEquality);
    return CallOf(helpers_.Binary(BinaryOp::kNe, from), a.text + ", " + ComputeConstant({"0"}, from).text);
  }
  if (from != to && (from.IsHalf() || to.IsHalf())) return CallOf(helpers_.ConvertHalf(from, to), a.text);
  const bool same = dialect_.Type(from) == dialect_.Type(to) && !from.IsBool();
  if (same) return a;
  if (to.lanes > 1) {
    return {dialect_.Convert(from.IsBool() ? "-" + a.Under(Level::kPrimary) : a.text, to)};
  }
  return {"(" + dialect_.Type(to) + ")" + a.Under(Level::kPrimary), Level::kUnary};
}

Code Expressions::ComputeSelect(const Select& n, DType type) {
  const bool guard_a = HasGuardedWork(n.a), guard_b = HasGuardedWork(n.b);
  const int lanes = TypeOf(n.condition).lanes;
  const Code condition = guard_a || guard_b ? Atom(n.condition) : Value(n.condition);
  if (guard_a && guard_b) {
    for (const Expr& term : CommonTerms(n.a, n.b)) Value(term);
  }
  const Code a = guard_a ? ValueUnder({condition.text, lanes}, n.a) : Value(n.a);
  Code b;
  if (guard_b) {
    const Code other = Temporary({(lanes == 1 ? "!" : "~") + condition.text}, dialect_.Type(TypeOf(n.condition)));
    b = ValueUnder({other.text, lanes}, n.b);
  } else {
    b = Value(n.b);
  }
  if (lanes > 1) return CallOf(helpers_.Select(type), condition.text + ", " + a.text + ", " + b.text);
  return {condition.Under(Level::kOr) + " ? " + a.Under(Level::kOr) + " : " + b.Under(Level::kOr), Level::kTernary};
}

// Returns the value of `e`, which is used only where `condition` and the current guard hold.
Code Expressions::ValueUnder(const Guard& condition, const Expr& e) {
  const std::optional<Guard> outside = guard_;
  Guard both = condition;
  if (outside) {
    both.lanes = std::max(condition.lanes, outside->lanes);
    auto widened = [&](const Guard& g) {
      return both.lanes == g.lanes ? g.id : helpers_.Splat(DType::Bool().WithLanes(both.lanes)) + "(" + g.id + ")";
    };
    const std::string text = widened(*outside) + (both.lanes == 1 ? " && " : " & ") + widened(condition);
    both.id = Temporary({text}, dialect_.Type(DType::Bool().WithLanes(both.lanes))).text;
  }
  if (outside) outer_guards_.push_back(outside->id);
  guard_ = both;
  const Code code = Value(e);
  guard_ = outside;
  if (outside) outer_guards_.pop_back();
  return code;
}

Code Expressions::ComputeCall(const autotune::Call& n, DType type) {
  const DType from = TypeOf(n.args[0]);
  std::string arguments;
  for (const Expr& a : n.args) arguments += (arguments.empty() ? "" : ", ") + Value(a).text;
  if (n.op == Op::kReinterpret) {
    if (type.lanes == 1) return CallOf(helpers_.Reinterpret(from, type), arguments);
    return {dialect_.Reinterpret(Value(n.args[0]).Under(Level::kPrimary), type), Level::kUnary};
  }
  if (!from.IsFloat()) {
    if (n.op == Op::kIsNan) return ComputeConstant({"0"}, type);
    const bool is_signed = from.IsSigned();
    if (n.op != Op::kAbs || !is_signed) return Value(n.args[0]);  // an integer already
  }
  return CallOf(IsLongMath(n.op) ? helpers_.Math(n.op, type) : helpers_.Call(n.op, type, from), arguments);
}

Code Expressions::ComputeRamp(const Ramp& n, DType type) {
  auto at = [&](const Expr& lane) { return n.base + n.stride * MakeCast(n.stride.dtype(), lane); };
  if (type.lanes == 1) return Value(at(lane_));
  std::vector<std::string> steps;
  const int64_t* stride = AsInt(n.stride);
  for (int i = 0; i < type.lanes; ++i) steps.push_back(std::to_string(i * (stride ? *stride : 1)));
  const Code base = ComputeConstant(Value(at(Expr(chunk_.begin))), type);
  Code offsets = {dialect_.Vector(type, steps)};
  if (!stride) offsets = Infix(offsets, "*", ComputeConstant(Value(n.stride), type), Level::kMul);
  return Infix(base, "+", offsets, Level::kAdd);
}

}  // namespace autotune::c
