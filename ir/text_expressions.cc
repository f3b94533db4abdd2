#include "ir/text_expressions.h"

#include <charconv>
#include <cmath>

#include "ir/float_math.h"
#include "ir/int_math.h"
#include "ir/text_common.h"

namespace autotune::text {
namespace {

constexpr int kMaxDepth = 1000;  // levels of nesting in the text, and levels of an expression's tree
constexpr int kMaxLanes = 1024;

std::optional<BinaryOp> OperatorOf(const Token& token) {
  if (token.kind != Kind::kPunct) return std::nullopt;
  auto op = EnumFromText<BinaryOp>(token.text);
  return op && Precedence(*op) > 0 ? op : std::nullopt;
}

bool IsExponentAt(std::string_view s, size_t i) {
  if (s[i] != 'e' || i + 1 >= s.size()) return false;
  return IsDigit(s[i + 1]) || ((s[i + 1] == '-' || s[i + 1] == '+') && i + 2 < s.size() && IsDigit(s[i + 2]));
}

}  // namespace

Result<Expr> ExprParser::OneExpr() {
  Expr e = ParseExpr();
  if (ok() && tok_.kind != Kind::kEnd) Expected("the end of the text");
  if (!ok()) return TakeError();
  return e;
}

void ExprParser::Deeper() {
  if (++depth_ > kMaxDepth) Fail("nested too deeply (more than " + std::to_string(kMaxDepth) + " levels)");
}

ExprParser::Tree ExprParser::ParseExpr(int min_precedence) {
  Tree left = ParseUnary();
  while (ok()) {
    auto op = OperatorOf(tok_);
    if (!op || Precedence(*op) < min_precedence) break;
    size_t pos = tok_.pos;
    Advance();
    Tree right = ParseExpr(Precedence(*op) + 1);
    if (!ok()) break;
    left = MakeTree(pos, *op, left, right);
  }
  return left;
}

ExprParser::Tree ExprParser::MakeTree(size_t pos, BinaryOp op, const Tree& a, const Tree& b) {
  int height = std::max(a.height, b.height) + 1;
  if (height > kMaxDepth)
    return Fail(pos, "the expression has more than " + std::to_string(kMaxDepth) + " levels"), Tree{};
  DType dtype = a.e.dtype();
  if (dtype != b.e.dtype()) {
    Fail(pos, "operands of '" + std::string(ToText(op)) + "' are " + dtype.Text() + " and " + b.e.dtype().Text());
    return {};
  }
  if (!HasOperator(dtype, op)) return Fail(pos, "'" + std::string(ToText(op)) + "' is not for " + dtype.Text()), Tree{};
  if (IsComparison(op)) dtype = DType::Bool().WithLanes(dtype.lanes);
  return {MakeExpr(dtype, Binary{op, a.e, b.e}), height};
}

ExprParser::Tree ExprParser::ParseUnary() {
  DepthGuard guard(*this);
  size_t pos = tok_.pos;
  if (Is("-")) {
    Advance();
    if (tok_.pos == pos + 1 && (tok_.kind == Kind::kNumber || AtFloatWord())) return {ParseLiteral(true), 1};
    Tree a = ParseUnary();
    if (!ok()) return {};
    if (a.e.dtype().IsBool()) return Fail(pos, "'-' is not for bool"), Tree{};
    return Grown(pos, MakeExpr(a.e.dtype(), Unary{UnaryOp::kNeg, a.e}), a.height);
  }
  if (Accept("!")) {
    Tree a = ParseUnary();
    if (!ok()) return {};
    if (!a.e.dtype().IsBool()) return Fail(pos, "'!' is for bool, not " + a.e.dtype().Text()), Tree{};
    return Grown(pos, MakeExpr(a.e.dtype(), Unary{UnaryOp::kNot, a.e}), a.height);
  }
  return ParsePrimary();
}
ExprParser::Tree ExprParser::Grown(size_t pos, Expr e, int height) {
  if (height >= kMaxDepth) Fail(pos, "the expression has more than " + std::to_string(kMaxDepth) + " levels");
  return {std::move(e), height + 1};
}

bool ExprParser::AtFloatWord() const {
  return tok_.kind == Kind::kWord &&
         (tok_.text == "inf" || tok_.text == "nan" || tok_.text.starts_with("inf_") || tok_.text.starts_with("nan_"));
}

Expr ExprParser::ParseLiteral(bool negative) {
  Token token = tok_;
  Advance();
  if (token.kind == Kind::kWord) return ParseFloatWord(token, negative);
  // Digits, then perhaps a dtype: 16, 0.5, 1e-05f64, 5i32.
  size_t end = 0;
  std::string_view s = token.text;
  while (end < s.size() && (IsDigit(s[end]) || s[end] == '.' || IsExponentAt(s, end))) {
    end += s[end] == 'e' ? 2 : 1;  // 2: the 'e' with its sign or first digit
  }
  bool is_float = s.substr(0, end).find_first_of(".e") != std::string_view::npos;
  DType dtype = is_float ? DType::Float(32) : DType::Index();
  if (end < s.size()) {
    auto suffix = DType::Parse(s.substr(end));
    if (!suffix || suffix->lanes != 1 || !(suffix->IsFloat() || (suffix->IsInt() && !is_float))) {
      return Fail(token.pos, "'" + std::string(s) + "' is not a number: after the digits comes a dtype or nothing"),
             Expr();
    }
    dtype = *suffix;
  }
  std::string digits = (negative ? "-" : "") + std::string(s.substr(0, end));
  const char *first = digits.data(), *last = first + digits.size();
  bool parsed = false;
  if (dtype == DType::UInt(64)) {
    uint64_t value = 0;
    auto [p, error] = std::from_chars(first, last, value);
    parsed = error == std::errc() && p == last;
    if (parsed) return IntConst(static_cast<int64_t>(value), dtype);
  } else if (dtype.IsInt()) {
    int64_t value = 0;
    auto [p, error] = std::from_chars(first, last, value);
    parsed = error == std::errc() && p == last && WrapTo(static_cast<uint64_t>(value), dtype) == value;
    if (parsed) return IntConst(value, dtype);
  } else if (dtype.bits == 64) {
    double value = 0;
    auto [p, error] = std::from_chars(first, last, value);
    parsed = error == std::errc() && p == last;
    if (parsed) return FloatConst(value, dtype);
  } else {
    float value = 0;
    auto [p, error] = std::from_chars(first, last, value);
    parsed = error == std::errc() && p == last && std::isfinite(RoundFloat(value, dtype));
    if (parsed) return FloatConst(value, dtype);
  }
  Fail(token.pos, "'" + digits + "' is not a value of " + dtype.Text());
  return Expr();
}

// Parses inf, -inf_f64, nan, nan_f16, nan_fff8000000000000_f64 (with the bits that the NaN has as an f64).
Expr ExprParser::ParseFloatWord(const Token& token, bool negative) {
  std::string_view s = token.text;
  bool is_nan = s.starts_with("nan");
  double value = is_nan ? std::nan("") : negative ? -INFINITY : INFINITY;
  DType dtype = DType::Float(32);
  s.remove_prefix(3);
  bool good = !(is_nan && negative);
  if (is_nan && s.size() >= 17 && s[0] == '_') {
    uint64_t bits = 0;
    auto [p, error] = std::from_chars(s.data() + 1, s.data() + 17, bits, 16);
    good = good && error == std::errc() && p == s.data() + 17;
    value = FloatFromBits(bits, DType::Float(64));
    good = good && std::isnan(value);
    s.remove_prefix(17);
  }
  if (!s.empty()) {
    auto suffix = DType::Parse(s.substr(1));
    good = good && s[0] == '_' && suffix && suffix->IsFloat() && suffix->lanes == 1;
    if (good) dtype = *suffix;
  }
  if (!good) return Fail(token.pos, "'" + std::string(token.text) + "' is not a float"), Expr();
  return MakeExpr(dtype, FloatImm{value});
}

ExprParser::Tree ExprParser::ParsePrimary() {
  if (tok_.kind == Kind::kNumber || AtFloatWord()) return {ParseLiteral(false), 1};
  if (Accept("(")) {
    Tree inner = ParseExpr(1);
    Expect(")");
    return inner;
  }
  if (AcceptWord("true")) return {BoolConst(true), 1};
  if (AcceptWord("false")) return {BoolConst(false), 1};
  if (tok_.kind == Kind::kWord && (AfterToken() == '(' || tok_.text == "reinterpret")) return ParseCall();
  if (!AtName()) {
    if (tok_.kind == Kind::kWord) {
      ParseName("");  // reports that the word is reserved
    } else {
      Expected("an expression");
    }
    return {};
  }
  size_t pos = tok_.pos;
  Name name = ParseName("a variable");
  if (Accept("[")) {
    auto it = buffers_.find(name);
    if (it == buffers_.end()) return Fail(pos, "unknown buffer " + name.str()), Tree{};
    int height = 0;
    std::vector<Expr> indices = ParseIndices(height);
    if (!ok()) return {};
    return Grown(pos, MakeLoad(it->second, std::move(indices)), height);
  }
  if (Accept(":")) {
    DType dtype = ParseDType();
    return {VarOf(name, dtype), 1};
  }
  Expr& var = vars_[name];
  if (!var) var = IndexVar(name);
  return {var, 1};
}

std::vector<Expr> ExprParser::ParseIndices(int& height) {  // after '['
  std::vector<Expr> indices;
  int lanes = 1;
  if (Accept("]")) return indices;
  do {
    size_t pos = tok_.pos;
    Tree index = ParseExpr(1);
    if (!ok()) return indices;
    DType dtype = index.e.dtype();
    if (!dtype.IsInt()) Fail(pos, "an index is " + dtype.Text() + ", not an integer");
    if (dtype.lanes != 1) {
      if (lanes != 1 && lanes != dtype.lanes) Fail(pos, "indices of different numbers of lanes");
      lanes = dtype.lanes;
    }
    height = std::max(height, index.height);
    indices.push_back(std::move(index.e));
  } while (Accept(","));
  Expect("]");
  return indices;
}

ExprParser::Tree ExprParser::ParseCall() {
  Token name = tok_;
  Advance();
  auto bad = [&](const std::string& message) { return Fail(name.pos, message), Tree{}; };
  std::optional<DType> given;
  if (name.text == "reinterpret") {
    Expect("<");
    given = ParseDType();
    Expect(">");
  }
  Expect("(");
  std::vector<Expr> args;
  int height = 0;
  if (!Accept(")")) {
    do {
      Tree arg = ParseExpr(1);
      if (!ok()) return {};
      height = std::max(height, arg.height);
      args.push_back(std::move(arg.e));
    } while (Accept(","));
    Expect(")");
  }
  if (!ok()) return {};
  auto arity = [&](size_t n) {
    if (args.size() != n) bad("'" + std::string(name.text) + "' takes " + std::to_string(n) + " arguments");
    return args.size() == n;
  };
  auto grown = [&](Expr e) { return Grown(name.pos, std::move(e), height); };

  if (auto dtype = DType::Parse(name.text)) {
    if (!arity(1)) return {};
    if (args[0].dtype().lanes != dtype->lanes) return bad("a cast keeps the number of lanes");
    return grown(MakeExpr(*dtype, Cast{args[0]}));
  }
  if (name.text == "min" || name.text == "max") {
    if (!arity(2)) return {};
    BinaryOp op = name.text == "min" ? BinaryOp::kMin : BinaryOp::kMax;
    return MakeTree(name.pos, op, {args[0], height}, {args[1], height});
  }
  if (name.text == "select") {
    if (!arity(3)) return {};
    DType c = args[0].dtype(), a = args[1].dtype();
    if (!c.IsBool() || a != args[2].dtype() || (c.lanes != 1 && c.lanes != a.lanes)) {
      return bad("select(condition, a, b) takes a bool and two values of one dtype, not " + c.Text() + ", " + a.Text() +
                 ", " + args[2].dtype().Text());
    }
    return grown(MakeSelect(args[0], args[1], args[2]));
  }
  if (name.text == "ramp" || name.text == "broadcast") {
    bool ramp = name.text == "ramp";
    if (!arity(ramp ? 3 : 2)) return {};
    const int64_t* lanes = AsInt(args.back());
    if (!lanes || *lanes < 2 || *lanes > kMaxLanes) return bad("the number of lanes must be a constant from 2 to 1024");
    DType dtype = args[0].dtype();
    if (dtype.lanes != 1) return bad("'" + std::string(name.text) + "' of a vector");
    int n = static_cast<int>(*lanes);
    if (!ramp) return grown(MakeBroadcast(args[0], n));
    if (!dtype.IsInt() || args[1].dtype() != dtype)
      return bad("ramp(base, stride, lanes) takes two integers of one dtype");
    return grown(MakeRamp(args[0], args[1], n));
  }
  auto op = OpByName(name.text);
  if (!op) return bad("unknown operation '" + std::string(name.text) + "'");
  if (!arity(Row(*op).arity)) return {};
  for (const Expr& arg : args) {
    if (*op != Op::kMma && *op != Op::kDot && arg.dtype() != args[0].dtype())
      return bad("arguments of '" + std::string(name.text) + "' differ in dtype");
  }
  if (given) {
    if (given->bits != args[0].dtype().bits || given->lanes != args[0].dtype().lanes) {
      return bad("reinterpret keeps the number of bits and lanes");
    }
    return grown(MakeExpr(*given, Call{*op, std::move(args)}));
  }
  return grown(MakeCall(*op, std::move(args)));
}

}  // namespace autotune::text
