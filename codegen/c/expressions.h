// Expressions: emits the text of expressions, loads included. An expression that is used more than once, or that is
// long, becomes a constant (t1, t2 ...) before the statement.
//
// A vector statement is emitted in chunks (registers.h). The caller selects a chunk; the text of a vector expression
// then computes the lanes of this chunk. A chunk of one lane is a number; its lane may be the variable of a loop.
//
// A select computes both of its sides, as in the LLVM generator. Loads and divisions of the side that is not chosen are
// guarded: they access no memory outside of their buffer and do not divide by 0.
//
// Borrows the arguments of its constructor, which must outlive it. Not thread-safe. Internal to codegen/c.
#pragma once
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "codegen/c/bindings.h"
#include "codegen/c/code.h"
#include "codegen/c/helpers.h"
#include "codegen/c/writer.h"

namespace autotune::c {

class Expressions {
 public:
  Expressions(const Dialect& dialect, Helpers& helpers, const Bindings& bindings, Writer& writer)
      : dialect_(dialect), helpers_(helpers), bindings_(bindings), writer_(writer) {}
  Expressions(const Expressions&) = delete;

  // Forgets all values and finds the expressions that the next statement uses several times. `roots` are the
  // expressions of that statement. Must be called before each statement.
  void StartStatement(std::initializer_list<Expr> roots);

  // Selects the lanes that vector expressions compute from now on. `lane` is the lane of a chunk of one lane, as an
  // expression.
  void SelectLanes(Chunk chunk, Expr lane);
  void SelectLanes(Chunk chunk) { SelectLanes(chunk, Expr(chunk.begin)); }

  Code Value(const Expr& e);
  Code Whole(const Expr& e);  // the text at any length, for an expression that is no operand of another one
  Code Atom(const Expr& e);   // a name or a number
  // Both declare a variable with the value `code` and return its name. `Temporary` declares a constant of `type`.
  // `Named` declares a variable of the type `declared`, which includes its qualifiers.
  Code Temporary(const Code& code, const std::string& type) { return Named(code, "const " + type); }
  Code Named(const Code& code, const std::string& declared);
  // Returns the type of the selected lanes of `e`.
  DType TypeOf(const Expr& e) const { return e.dtype().lanes == 1 ? e.dtype() : e.dtype().WithLanes(chunk_.count); }
  std::string PointerTo(const Buffer& buffer, const Expr& index);  // `index` is a scalar

 private:
  // The condition under which the current expression is used: the name of an int, or of a mask if `lanes` > 1.
  struct Guard {
    std::string id;
    int lanes = 1;
  };

  Code Compute(const Expr& e);
  Code ComputeConstant(const Code& number, DType type);
  Code ComputeUnary(const Unary& n, DType type);
  Code ComputeBinary(const Binary& n, DType operands);
  std::optional<Code> CompareLanes(const Binary& n, int lanes);
  Code ComputeDivision(const Binary& n, DType type);
  Code ComputeCast(const Cast& n, DType to);
  Code ComputeSelect(const Select& n, DType type);
  Code ComputeCall(const autotune::Call& n, DType type);
  Code ComputeRamp(const Ramp& n, DType type);
  Code ValueUnder(const Guard& condition, const Expr& e);

  // loads.cc
  Code ComputeLoad(const Load& n, DType type);
  Code LoadNumber(const Load& n, const Expr& index);
  Code LoadRegisters(const Registers& registers, const Load& n, DType type);
  Code LoadConsecutive(const Load& n, const Expr& first, DType type);
  Code LoadLanes(const Load& n, DType type);
  Code LoadOneByOne(const Load& n, DType type);
  std::string MaskOfGuard(int lanes);

  const Dialect& dialect_;
  Helpers& helpers_;
  const Bindings& bindings_;
  Writer& writer_;
  Chunk chunk_;
  Expr lane_ = Expr(0);
  std::optional<Guard> guard_;
  std::vector<std::string> outer_guards_;  // the ids of the guards that guard_ implies, outermost first
  int temporaries_ = 0;
  const ExprCell* whole_ = nullptr;  // the current argument of Whole, which may be long
  std::unordered_map<const ExprCell*, int> uses_;
  // The values that this statement has computed, by expression, guard, first lane and number of lanes (-1: one number
  // for all lanes). A memo keeps its expression alive: otherwise another expression could get the address of a freed
  // one.
  struct Memo {
    Expr expr;
    Code code;
  };
  using Key = std::tuple<const ExprCell*, std::string, int, int>;
  std::map<Key, Memo> memo_;
};

// Return the literal for a constant.
Code NumberOf(int64_t value, DType type);
Code NumberOf(double value, DType type, const Dialect& dialect, Helpers& helpers);

}  // namespace autotune::c
