// The parser of ir/text.h: statements and functions, over that of expressions.
#include "ir/text.h"
#include "ir/text_expressions.h"

namespace autotune {
namespace {

using text::Kind;

class Parser : text::ExprParser {
 public:
  explicit Parser(std::string_view source) : ExprParser(source) {}

  Result<PrimFunc> Func() {
    PrimFunc f = ParseFunc();
    if (ok() && tok_.kind != Kind::kEnd) Expected("the end of the text");
    if (!ok()) return TakeError();
    return f;
  }

 private:
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

  // Returns true at a scope. `shared` and `local` may also begin the next statement: a store to a buffer of this name,
  // or the declaration of a local buffer.
  bool AtScope() {
    if (tok_.kind != Kind::kWord || !EnumFromText<Scope>(tok_.text)) return false;
    if (tok_.text != "shared" && tok_.text != "local") return true;
    Mark scope = Here();
    Advance();
    bool store = Is("["), name = tok_.kind == Kind::kWord || tok_.kind == Kind::kQuoted;
    if (name) Advance();
    bool declares = name && Is(":");
    bool statement = scope.token.text == "shared" ? store : declares;
    if (!ok()) return false;
    GoBack(scope);
    return !statement;
  }

  void ParseDimAlign(BufferCell& cell) {
    DimAlign& align = cell.dim_align.emplace_back();
    align.dim = ParseInt("a dimension", 0, INT64_MAX);
    Expect(",");
    align.factor = ParseInt("a factor", 1, DimAlign::kMaxFactor);
    Expect(",");
    align.offset = ParseInt("an offset below the factor", 0, align.factor - 1);
    Expect("]");
  }

  Buffer ParseBuffer() {
    size_t pos = tok_.pos;
    auto* cell = new BufferCell;
    Buffer buffer(cell);
    cell->name = ParseName("a buffer's name");
    Expect(":");
    cell->dtype = ParseDType();
    Expect("[");
    if (ok()) cell->shape = ParseIndices();
    while (ok()) {
      if (AcceptWord("strides")) {
        Expect("[");
        if (ok()) cell->strides = ParseIndices();
      } else if (AcceptWord("align")) {
        if (Accept("[")) {
          ParseDimAlign(*cell);
        } else {
          cell->alignment = ParseInt("an alignment", 1, int64_t{1} << 30);
        }
      } else if (AtScope()) {
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
      Deeper();
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
    std::vector<Expr> indices;
    if (ok()) indices = ParseIndices();
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
      Fail(pos, "an extent must be an integer, not " + extent.dtype().Text());
    return ok() ? extent : Expr(0);
  }

  LoopKind ParseLoopKind() {
    size_t pos = tok_.pos;
    std::string word(tok_.text);
    if (IsWord("blockIdx") || IsWord("threadIdx")) {
      Advance();
      Expect(".");
      word += "." + std::string(tok_.text);
    }
    auto kind = EnumFromText<LoopKind>(word);
    if (!kind) {
      Fail(pos, "expected the kind of a loop, found '" + word.substr(0, 40) + "'");
      return LoopKind::kSerial;
    }
    Advance();
    return *kind;
  }

  Stmt ParseFor() {
    For loop;
    loop.var = ParseName("a variable");
    ExpectWord("in");
    loop.extent = ParseExtent();
    if (tok_.kind == Kind::kWord) loop.kind = ParseLoopKind();
    loop.annotations = ParseAnnotations();
    loop.body = WithVar(loop.var, loop.extent.dtype(), [&] { return ParseBraces(); });
    return MakeStmt(std::move(loop));
  }

  Expr ParseCondition() {
    size_t pos = tok_.pos;
    Expr condition = ParseExpr();
    if (ok() && condition.dtype() != DType::Bool())
      Fail(pos, "a condition must be bool, not " + condition.dtype().Text());
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
};

}  // namespace

Result<PrimFunc> ParsePrimFunc(std::string_view text) { return Parser(text).Func(); }
Result<Expr> ParseExpr(std::string_view text) { return text::ExprParser(text).OneExpr(); }

}  // namespace autotune
