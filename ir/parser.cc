// The parser of ir/text.h: recursive descent, limited in depth. It builds exactly the nodes that the text shows (no
// folding), and refuses what the builders of ir/expr.h would CHECK.
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "ir/float_math.h"
#include "ir/int_math.h"
#include "ir/text.h"
#include "ir/text_common.h"

namespace autotune {
namespace {

constexpr int kMaxDepth = 1000;  // of nesting, and of the trees that chains of operators make
constexpr int kMaxLanes = 1024;

enum class Kind { kEnd, kWord, kQuoted, kNumber, kPunct };

struct Token {
  Kind kind = Kind::kEnd;
  std::string_view text;
  size_t pos = 0;
};

class Parser {
 public:
  explicit Parser(std::string_view source) : source_(source) { Advance(); }

  Result<PrimFunc> Func() {
    PrimFunc f = ParseFunc();
    if (ok() && tok_.kind != Kind::kEnd) Expected("the end of the text");
    if (!ok()) return TakeError();
    return f;
  }
  Result<Expr> OneExpr() {
    Expr e = ParseExpr(1).e;
    if (ok() && tok_.kind != Kind::kEnd) Expected("the end of the text");
    if (!ok()) return TakeError();
    return e;
  }

 private:
  struct Tree {  // height of the tree, so that hostile chains cannot make one that overflows a walker's stack
    Expr e;
    int height = 0;
  };

  // --- errors: the first one counts, and every loop ends once there is one.
  bool ok() const { return error_.empty(); }
  void Fail(size_t pos, const std::string& message) {
    if (!ok()) return;
    size_t line = 1, start = 0;
    for (size_t i = 0; i < pos && i < source_.size(); ++i) {
      if (source_[i] == '\n') ++line, start = i + 1;
    }
    error_ = "line " + std::to_string(line) + ", column " + std::to_string(pos - start + 1) + ": " + message;
    tok_ = Token{Kind::kEnd, {}, pos};
  }
  void Fail(const std::string& message) { Fail(tok_.pos, message); }
  void Expected(std::string_view what) {
    std::string found =
        tok_.kind == Kind::kEnd ? "the end of the text" : "'" + std::string(tok_.text.substr(0, 40)) + "'";
    Fail("expected " + std::string(what) + ", found " + found);
  }
  Error TakeError() { return Error("IR text: " + error_); }

  // --- tokens
  void Advance() {
    if (!ok()) return;
    while (next_ < source_.size()) {
      char c = source_[next_];
      if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        ++next_;
      } else if (c == '#') {
        while (next_ < source_.size() && source_[next_] != '\n') ++next_;
      } else {
        break;
      }
    }
    size_t start = next_;
    if (start == source_.size()) {
      tok_ = Token{Kind::kEnd, {}, start};
      return;
    }
    char c = source_[start];
    Kind kind = Kind::kPunct;
    if (text::IsWordStart(c)) {
      kind = Kind::kWord;
      SkipWord();
    } else if (text::IsDigit(c)) {
      kind = Kind::kNumber;
      SkipNumber();
    } else if (c == '"') {
      kind = Kind::kQuoted;
      ++next_;
      while (next_ < source_.size() && source_[next_] != '"' && source_[next_] != '\n') {
        next_ += source_[next_] == '\\' && next_ + 1 < source_.size() ? 2 : 1;
      }
      if (next_ >= source_.size() || source_[next_] != '"') return Fail(start, "a quoted name that does not end");
      ++next_;
    } else {
      static constexpr std::string_view kPairs[] = {"//", "<=", ">=", "==", "!=", "&&", "||", "<<", ">>"};
      next_ += 1;
      for (std::string_view pair : kPairs) {
        if (source_.substr(start, 2) == pair) next_ = start + 2;
      }
    }
    tok_ = Token{kind, source_.substr(start, next_ - start), start};
  }
  void SkipWord() {
    while (next_ < source_.size() && text::IsWordChar(source_[next_])) ++next_;
  }
  char At(size_t i) const { return i < source_.size() ? source_[i] : '\0'; }
  void SkipNumber() {
    auto digits = [&] {
      while (text::IsDigit(At(next_))) ++next_;
    };
    digits();
    if (At(next_) == '.' && text::IsDigit(At(next_ + 1))) ++next_, digits();
    if (At(next_) == 'e') {
      size_t exponent = next_ + 1 + (At(next_ + 1) == '-' || At(next_ + 1) == '+');
      if (text::IsDigit(At(exponent))) next_ = exponent, digits();
    }
    SkipWord();
  }
  bool Is(std::string_view punct) const { return tok_.kind == Kind::kPunct && tok_.text == punct; }
  bool IsWord(std::string_view word) const { return tok_.kind == Kind::kWord && tok_.text == word; }
  bool Accept(std::string_view punct) {
    if (!Is(punct)) return false;
    Advance();
    return true;
  }
  bool AcceptWord(std::string_view word) {
    if (!IsWord(word)) return false;
    Advance();
    return true;
  }
  void Expect(std::string_view punct) {
    if (!Accept(punct)) Expected("'" + std::string(punct) + "'");
  }
  void ExpectWord(std::string_view word) {
    if (!AcceptWord(word)) Expected("'" + std::string(word) + "'");
  }

  bool AtName() const {
    return tok_.kind == Kind::kQuoted || (tok_.kind == Kind::kWord && !text::IsReserved(tok_.text));
  }
  std::string ParseNameText(std::string_view what) {
    if (tok_.kind == Kind::kWord && text::IsReserved(tok_.text)) {
      Fail("'" + std::string(tok_.text) + "' is a reserved word: quote it to use it as a name");
    }
    if (!AtName()) {
      Expected(what);
      return "";
    }
    std::string name = tok_.kind == Kind::kQuoted ? Unquote(tok_) : std::string(tok_.text);
    Advance();
    return name;
  }
  Name ParseName(std::string_view what) {
    if (tok_.kind == Kind::kWord && !text::IsReserved(tok_.text)) {
      Name name(tok_.text);
      Advance();
      return name;
    }
    std::string name = ParseNameText(what);
    return name.empty() ? Name() : Name(name);
  }
  std::string Unquote(const Token& token) {
    std::string out;
    std::string_view s = token.text.substr(1, token.text.size() - 2);
    auto hex = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
    for (size_t i = 0; i < s.size(); ++i) {
      if (s[i] != '\\') {
        out += s[i];
        continue;
      }
      char c = ++i < s.size() ? s[i] : '\0';
      if (c == '"' || c == '\\') {
        out += c;
      } else if (c == 'n') {
        out += '\n';
      } else if (c == 'x' && i + 2 < s.size() && hex(s[i + 1]) >= 0 && hex(s[i + 2]) >= 0) {
        out += static_cast<char>(hex(s[i + 1]) * 16 + hex(s[i + 2]));
        i += 2;
      } else {
        Fail(token.pos + 1 + i, "an unknown escape; use \\\", \\\\, \\n or \\x1f");
        return out;
      }
    }
    return out;
  }

  int64_t ParseInt(std::string_view what, int64_t low, int64_t high) {
    bool negative = Accept("-");
    int64_t value = 0;
    if (tok_.kind != Kind::kNumber) return Expected(what), 0;
    std::string digits = (negative ? "-" : "") + std::string(tok_.text);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value < low || value > high) {
      return Expected(std::string(what) + " between " + std::to_string(low) + " and " + std::to_string(high)), 0;
    }
    Advance();
    return value;
  }

  DType ParseDType() {
    if (tok_.kind == Kind::kWord) {
      if (auto dtype = DType::Parse(tok_.text)) {
        Advance();
        return *dtype;
      }
    }
    Expected("a dtype such as f32, i8 or index");
    return DType::Index();
  }

  // --- expressions
  struct DepthGuard {
    explicit DepthGuard(Parser& p) : p(p) {
      if (++p.depth_ > kMaxDepth) p.Fail("nested too deeply (more than " + std::to_string(kMaxDepth) + " levels)");
    }
    ~DepthGuard() { --p.depth_; }
    Parser& p;
  };

  static std::optional<BinaryOp> OperatorOf(const Token& token) {
    if (token.kind != Kind::kPunct) return std::nullopt;
    auto op = EnumFromText<BinaryOp>(token.text);
    return op && text::Precedence(*op) > 0 ? op : std::nullopt;
  }

  Tree ParseExpr(int min_precedence) {
    Tree left = ParseUnary();
    while (ok()) {
      auto op = OperatorOf(tok_);
      if (!op || text::Precedence(*op) < min_precedence) break;
      size_t pos = tok_.pos;
      Advance();
      Tree right = ParseExpr(text::Precedence(*op) + 1);
      if (!ok()) break;
      left = MakeTree(pos, *op, left, right);
    }
    return left;
  }
  Expr ParseExpr() { return ParseExpr(1).e; }

  Tree MakeTree(size_t pos, BinaryOp op, const Tree& a, const Tree& b) {
    int height = std::max(a.height, b.height) + 1;
    if (height > kMaxDepth)
      return Fail(pos, "an expression of more than " + std::to_string(kMaxDepth) + " levels"), Tree{};
    DType dtype = a.e.dtype();
    if (dtype != b.e.dtype()) {
      Fail(pos, "operands of '" + std::string(ToText(op)) + "' are " + dtype.Text() + " and " + b.e.dtype().Text());
      return {};
    }
    bool fits = true;
    switch (op) {
      case BinaryOp::kAnd:
      case BinaryOp::kOr:
        fits = dtype.IsBool();
        break;
      case BinaryOp::kDiv:
        fits = dtype.IsFloat();
        break;
      case BinaryOp::kFloorDiv:
      case BinaryOp::kFloorMod:
      case BinaryOp::kShl:
      case BinaryOp::kShr:
        fits = dtype.IsInt();
        break;
      case BinaryOp::kBitAnd:
      case BinaryOp::kBitOr:
      case BinaryOp::kBitXor:
        fits = dtype.IsInt() || dtype.IsBool();
        break;
      default:
        break;
    }
    if (!fits) return Fail(pos, "'" + std::string(ToText(op)) + "' is not for " + dtype.Text()), Tree{};
    if (IsComparison(op)) dtype = DType::Bool().WithLanes(dtype.lanes);
    return {MakeExpr(dtype, Binary{op, a.e, b.e}), height};
  }

  Tree ParseUnary() {
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
  Tree Grown(size_t pos, Expr e, int height) {
    if (height >= kMaxDepth) Fail(pos, "an expression of more than " + std::to_string(kMaxDepth) + " levels");
    return {std::move(e), height + 1};
  }

  bool AtFloatWord() const {
    return tok_.kind == Kind::kWord &&
           (tok_.text == "inf" || tok_.text == "nan" || tok_.text.starts_with("inf_") || tok_.text.starts_with("nan_"));
  }

  Expr ParseLiteral(bool negative) {
    Token token = tok_;
    Advance();
    if (token.kind == Kind::kWord) return ParseFloatWord(token, negative);
    // Digits, then perhaps a dtype: 16, 0.5, 1e-05f64, 5i32.
    size_t end = 0;
    std::string_view s = token.text;
    while (end < s.size() && (text::IsDigit(s[end]) || s[end] == '.' || IsExponentAt(s, end))) {
      end += s[end] == 'e' ? 2 : 1;  // with its sign or first digit
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
  static bool IsExponentAt(std::string_view s, size_t i) {
    if (s[i] != 'e' || i + 1 >= s.size()) return false;
    return text::IsDigit(s[i + 1]) ||
           ((s[i + 1] == '-' || s[i + 1] == '+') && i + 2 < s.size() && text::IsDigit(s[i + 2]));
  }

  // inf, -inf_f64, nan, nan_f16, nan_fff8000000000000_f64 (the bits as f64)
  Expr ParseFloatWord(const Token& token, bool negative) {
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

  Tree ParsePrimary() {
    if (tok_.kind == Kind::kNumber || AtFloatWord()) return {ParseLiteral(false), 1};
    if (Accept("(")) {
      Tree inner = ParseExpr(1);
      Expect(")");
      return inner;
    }
    if (AcceptWord("true")) return {BoolConst(true), 1};
    if (AcceptWord("false")) return {BoolConst(false), 1};
    if (tok_.kind == Kind::kWord && (At(next_) == '(' || tok_.text == "reinterpret")) return ParseCall();
    if (!AtName()) {
      if (tok_.kind == Kind::kWord) {
        ParseName("");  // says that it is reserved
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

  std::vector<Expr> ParseIndices(int& height) {  // after '['
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

  Tree ParseCall() {
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
        return bad("select(condition, a, b) takes a bool and two values of one dtype, not " + c.Text() + ", " +
                   a.Text() + ", " + args[2].dtype().Text());
      }
      return grown(MakeSelect(args[0], args[1], args[2]));
    }
    if (name.text == "ramp" || name.text == "broadcast") {
      bool ramp = name.text == "ramp";
      if (!arity(ramp ? 3 : 2)) return {};
      const int64_t* lanes = AsInt(args.back());
      if (!lanes || *lanes < 2 || *lanes > kMaxLanes) return bad("lanes are a constant from 2 to 1024");
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
      if (arg.dtype() != args[0].dtype()) return bad("arguments of '" + std::string(name.text) + "' differ in dtype");
    }
    if (given) {
      if (given->bits != args[0].dtype().bits || given->lanes != args[0].dtype().lanes) {
        return bad("reinterpret keeps the number of bits and lanes");
      }
      return grown(MakeExpr(*given, Call{*op, std::move(args)}));
    }
    return grown(MakeCall(*op, std::move(args)));
  }

  // --- statements
  Annotations ParseAnnotations() {
    Annotations annotations;
    if (!Accept("@")) return annotations;
    Expect("{");
    while (ok() && !Is("}")) {
      std::string key = tok_.kind == Kind::kWord ? std::string(tok_.text) : ParseNameText("an annotation");
      if (tok_.kind == Kind::kWord) Advance();
      Expect("=");
      annotations[key] = ParseInt("an integer", INT64_MIN, INT64_MAX);
      if (!Accept(",")) break;
    }
    Expect("}");
    return annotations;
  }

  Buffer ParseBuffer() {
    size_t pos = tok_.pos;
    auto* cell = new BufferCell;
    Buffer buffer(cell);
    cell->name = ParseName("a buffer's name");
    Expect(":");
    cell->dtype = ParseDType();
    int height = 0;
    Expect("[");
    if (ok()) cell->shape = ParseIndices(height);
    while (ok()) {
      if (AcceptWord("strides")) {
        Expect("[");
        if (ok()) cell->strides = ParseIndices(height);
      } else if (AcceptWord("align")) {
        cell->alignment = ParseInt("an alignment", 1, int64_t{1} << 30);
      } else if (tok_.kind == Kind::kWord && EnumFromText<Scope>(tok_.text)) {
        cell->scope = *EnumFromText<Scope>(tok_.text);
        Advance();
      } else {
        break;
      }
    }
    if (ok() && !buffers_.emplace(cell->name, buffer).second) {
      Fail(pos, "buffer " + cell->name.str() + " is declared twice");
    }
    return buffer;
  }

  Stmt ParseBraces() {
    Expect("{");
    Stmt s = ParseStmts();
    Expect("}");
    return s;
  }

  // Binds a variable for the statements that `body` parses.
  template <class F>
  Stmt WithVar(Name name, DType dtype, F&& body) {
    Expr outer = Rebind(name, VarOf(name, dtype));
    Stmt result = body();
    Rebind(name, std::move(outer));
    return result;
  }
  Expr Rebind(Name name, Expr var) { return std::exchange(vars_[name], std::move(var)); }

  // A `let` or `local` of a list, and the statements before it; its body is the rest of the list.
  struct Open {
    std::vector<Stmt> before;
    Name var;
    Expr value, outer;
    Buffer local;
  };

  Stmt ParseStmts() {
    DepthGuard guard(*this);
    std::vector<Open> open;  // not by recursion: lists of many lets are common
    std::vector<Stmt> stmts;
    while (ok() && tok_.kind != Kind::kEnd && !Is("}")) {
      bool let = IsWord("let");
      if (!let && !IsWord("local")) {
        stmts.push_back(ParseStmt());
        continue;
      }
      if (++depth_ > kMaxDepth) Fail("nested too deeply (more than " + std::to_string(kMaxDepth) + " levels)");
      Advance();
      Open& o = open.emplace_back();
      o.before = std::exchange(stmts, {});
      if (let) {
        o.var = ParseName("a variable");
        Expect("=");
        o.value = ParseExpr();
        if (ok()) o.outer = Rebind(o.var, VarOf(o.var, o.value.dtype()));
      } else {
        o.local = ParseBuffer();
      }
    }
    depth_ -= static_cast<int>(open.size());
    if (!ok()) return {};
    Stmt s = ListOf(std::move(stmts));
    for (size_t i = open.size(); i-- > 0;) {
      Open& o = open[i];
      if (o.local) {
        buffers_.erase(o.local->name);
        s = MakeStmt(Alloc{std::move(o.local), std::move(s)});
      } else {
        Rebind(o.var, std::move(o.outer));
        s = MakeStmt(Let{o.var, std::move(o.value), std::move(s)});
      }
      o.before.push_back(std::move(s));
      s = ListOf(std::move(o.before));
    }
    return s;
  }
  static Stmt ListOf(std::vector<Stmt> stmts) {
    if (stmts.size() == 1) return std::move(stmts[0]);
    return MakeStmt(Seq{std::move(stmts)});
  }

  Stmt ParseStmt() {
    DepthGuard guard(*this);
    if (!ok()) return {};
    if (Is("{")) return ParseBraces();
    if (AcceptWord("for")) return ParseFor();
    if (AcceptWord("block")) return ParseBlock();
    if (AcceptWord("if")) return ParseIf();
    if (AcceptWord("evaluate")) return MakeStmt(Evaluate{ParseExpr()});
    if (!AtName()) {
      Expected("a statement");
      return {};
    }
    size_t pos = tok_.pos;
    Name name = ParseName("a buffer");
    auto it = buffers_.find(name);
    if (it == buffers_.end()) return Fail(pos, "unknown buffer " + name.str()), Stmt();
    Buffer buffer = it->second;
    Expect("[");
    int height = 0;
    std::vector<Expr> indices;
    if (ok()) indices = ParseIndices(height);
    Expect("=");
    size_t value_pos = tok_.pos;
    Expr value = ParseExpr();
    if (!ok()) return {};
    int lanes = 1;
    for (const Expr& i : indices) lanes = std::max<int>(lanes, i.dtype().lanes);
    DType expected = buffer->dtype.WithLanes(lanes);
    if (value.dtype() != expected) {
      return Fail(value_pos, "a value of " + value.dtype().Text() + " for an element of " + expected.Text()), Stmt();
    }
    return MakeStmt(Store{std::move(buffer), std::move(indices), std::move(value)});
  }

  Expr ParseExtent() {
    size_t pos = tok_.pos;
    Expr extent = ParseExpr();
    if (ok() && (!extent.dtype().IsInt() || extent.dtype().lanes != 1))
      Fail(pos, "an extent is " + extent.dtype().Text());
    return ok() ? extent : Expr(0);
  }

  Stmt ParseFor() {
    For loop;
    loop.var = ParseName("a variable");
    ExpectWord("in");
    loop.extent = ParseExtent();
    if (tok_.kind == Kind::kWord) {
      if (auto kind = EnumFromText<LoopKind>(tok_.text)) {
        loop.kind = *kind;
        Advance();
      }
    }
    loop.annotations = ParseAnnotations();
    loop.body = WithVar(loop.var, loop.extent.dtype(), [&] { return ParseBraces(); });
    return MakeStmt(std::move(loop));
  }

  Expr ParseCondition() {
    size_t pos = tok_.pos;
    Expr condition = ParseExpr();
    if (ok() && condition.dtype() != DType::Bool()) Fail(pos, "a condition is " + condition.dtype().Text());
    return condition;
  }

  Stmt ParseIf() {
    DepthGuard guard(*this);
    If n;
    n.condition = ParseCondition();
    n.then_body = ParseBraces();
    if (AcceptWord("else")) n.else_body = AcceptWord("if") ? ParseIf() : ParseBraces();
    return MakeStmt(std::move(n));
  }

  Stmt ParseBlock() {
    Block block;
    block.name = ParseName("a block's name");
    Expect("(");
    while (ok() && !Is(")")) {
      Iter iter;
      iter.var = ParseName("an iterator");
      Expect(":");
      auto kind = tok_.kind == Kind::kWord ? EnumFromText<IterKind>(tok_.text) : std::nullopt;
      if (!kind) {
        Expected("S or R");
        break;
      }
      iter.kind = *kind;
      Advance();
      iter.extent = ParseExtent();
      Expect("=");
      size_t pos = tok_.pos;
      iter.binding = ParseExpr();
      if (ok() && iter.binding.dtype() != iter.extent.dtype()) {
        Fail(pos, "a binding of " + iter.binding.dtype().Text() + " for an iterator of " + iter.extent.dtype().Text());
      }
      block.iters.push_back(std::move(iter));
      if (!Accept(",")) break;
    }
    Expect(")");
    if (!ok()) return {};
    std::vector<Expr> outer;
    for (const Iter& iter : block.iters) outer.push_back(Rebind(iter.var, VarOf(iter.var, iter.extent.dtype())));
    if (AcceptWord("where")) block.predicate = ParseCondition();
    block.annotations = ParseAnnotations();
    Expect("{");
    if (AcceptWord("init")) block.init = ParseBraces();
    block.body = ParseStmts();
    Expect("}");
    for (size_t i = block.iters.size(); i-- > 0;) Rebind(block.iters[i].var, std::move(outer[i]));
    return MakeStmt(std::move(block));
  }

  PrimFunc ParseFunc() {
    PrimFunc f;
    ExpectWord("func");
    f.name = ParseName("a function's name");
    Expect("(");
    while (ok() && !Is(")")) {
      Param param;
      param.buffer = ParseBuffer();
      auto role = tok_.kind == Kind::kWord ? EnumFromText<ParamRole>(tok_.text) : std::nullopt;
      if (!role) {
        Expected("input, constant or output");
        break;
      }
      param.role = *role;
      Advance();
      f.params.push_back(std::move(param));
      if (!Accept(",")) break;
    }
    Expect(")");
    f.attrs = ParseAnnotations();
    Expect("{");
    while (ok() && AcceptWord("alloc")) f.allocs.push_back(ParseBuffer());
    f.body = ParseStmts();
    Expect("}");
    return f;
  }

  std::string_view source_;
  size_t next_ = 0;
  Token tok_;
  int depth_ = 0;
  std::string error_;
  std::unordered_map<Name, Expr> vars_;
  std::unordered_map<Name, Buffer> buffers_;
};

}  // namespace

Result<PrimFunc> ParsePrimFunc(std::string_view text) { return Parser(text).Func(); }
Result<Expr> ParseExpr(std::string_view text) { return Parser(text).OneExpr(); }

}  // namespace autotune
