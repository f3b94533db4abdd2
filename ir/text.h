// Text of the tensor-program language. Printed text parses to an Equal program. docs/ir.md has the grammar. The text
// is stored in records; kIrTextVersion changes when old text would no longer parse or mean the same. Thread-safe.
#pragma once
#include <string>
#include <string_view>

#include "ir/stmt.h"
#include "support/result.h"

namespace autotune {

inline constexpr int kIrTextVersion = 1;

std::string ToText(const Expr& e);
std::string ToText(const Stmt& s, int indent = 0);
std::string ToText(const PrimFunc& f);

// Errors name line and column, and what was expected. Hostile text is an error, never a crash.
Result<PrimFunc> ParsePrimFunc(std::string_view text);
Result<Expr> ParseExpr(std::string_view text);  // without Loads; variables are `index` unless written x:f32

}  // namespace autotune
