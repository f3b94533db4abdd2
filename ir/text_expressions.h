// The parser of expressions of the IR text. Internal to ir/: a base of the parser of statements (parser.cc).
#pragma once
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/stmt.h"
#include "ir/text_lexer.h"

namespace autotune::text {

// Recursive descent, limited in depth. It builds exactly the nodes that the text shows (no folding), and refuses what
// the builders of ir/expr.h would CHECK.
class ExprParser : protected Lexer {
 public:
  explicit ExprParser(std::string_view source) : Lexer(source) {}

  Result<Expr> OneExpr();  // the whole text

 protected:
  struct DepthGuard {  // one level of nesting; fails when there are too many
    explicit DepthGuard(ExprParser& parser) : p(parser) { p.Deeper(); }
    ~DepthGuard() { --p.depth_; }
    ExprParser& p;
  };
  void Deeper();

  Expr ParseExpr() { return ParseExpr(1).e; }
  std::vector<Expr> ParseIndices() {  // after '['
    int height = 0;
    return ParseIndices(height);
  }

  int depth_ = 0;
  std::unordered_map<Name, Expr> vars_;  // in scope; a name that is not bound is a variable of dtype index
  std::unordered_map<Name, Buffer> buffers_;

 private:
  // An expression and the height of its tree. The height is limited, so that a long chain of operators in hostile text
  // cannot overflow the stack of a recursive function.
  struct Tree {
    Expr e;
    int height = 0;
  };
  Tree ParseExpr(int min_precedence);
  Tree MakeTree(size_t pos, BinaryOp op, const Tree& a, const Tree& b);
  Tree Grown(size_t pos, Expr e, int height);
  Tree ParseUnary();
  Tree ParsePrimary();
  Tree ParseCall();
  std::vector<Expr> ParseIndices(int& height);
  bool AtFloatWord() const;
  Expr ParseLiteral(bool negative);
  Expr ParseFloatWord(const Token& token, bool negative);
};

}  // namespace autotune::text
