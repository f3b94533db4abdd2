// Expressions: the text of expressions, loads included. An expression that is used more than once, or that is long,
// becomes a constant of its own (t1, t2 ...) before the statement.
//
// A vector statement is emitted in chunks (registers.h). The caller selects a chunk, and vector expressions then give
// its lanes. A chunk of one lane is a number; its lane may be the variable of a loop.
//
// A select computes both of its sides, as the LLVM generator does; loads and divisions of the side that is not chosen
// are guarded: they touch no memory outside of their buffer and divide by no 0.
//
// Borrows all that it is made of, which must outlive it. Not thread-safe. Internal to codegen/c.
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

  // Forgets all values, and learns what the next statement uses several times. To be called before each statement.
  void StartStatement(std::initializer_list<Expr> roots);

  // Selects the lanes that vector expressions stand for from now on. `lane`: the one lane of a chunk of one, as an
  // expression.
  void SelectLanes(Chunk chunk, Expr lane);
  void SelectLanes(Chunk chunk) { SelectLanes(chunk, Expr(chunk.begin)); }

  Code Value(const Expr& e);
  Code Whole(const Expr& e);  // however long it is: for what stands in no other expression
  Code Atom(const Expr& e);   // as a name or a number
  // A variable of its own for a value: a constant of a dialect's type, or of the whole `declared` type.
  Code Temporary(const Code& code, const std::string& type) { return Named(code, "const " + type); }
  Code Named(const Code& code, const std::string& declared);
  // The type of the selected lanes of `e`.
  DType TypeOf(const Expr& e) const { return e.dtype().lanes == 1 ? e.dtype() : e.dtype().WithLanes(chunk_.count); }
  std::string PointerTo(const Buffer& buffer, const Expr& index);  // index: a number

 private:
  // The condition under which what is being computed is used: a name; an int, or a mask of `lanes` > 1.
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
  int temporaries_ = 0;
  const ExprCell* whole_ = nullptr;  // the expression that stands in no other one
  std::unordered_map<const ExprCell*, int> uses_;
  // The values that this statement has computed, by expression, guard, first lane and number of lanes (-1: one number
  // for all lanes). A memo holds its expression: otherwise the address of a freed cell could become that of another
  // expression.
  struct Memo {
    Expr expr;
    Code code;
  };
  using Key = std::tuple<const ExprCell*, std::string, int, int>;
  std::map<Key, Memo> memo_;
};

// A constant of the language.
Code NumberOf(int64_t value, DType type);
Code NumberOf(double value, DType type, const Dialect& dialect, Helpers& helpers);

}  // namespace autotune::c
