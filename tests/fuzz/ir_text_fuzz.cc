// The parser of programs, which also reads texts from other users' databases. A program that parses must print, and the
// text must parse to an equal program. The verifier accepts or refuses it without a crash.
#include "ir/text.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "support/check.h"
#include "tests/fuzz/target.h"

namespace autotune {

FUZZ_TARGET(ir_text) {
  if (auto e = ParseExpr(input); e.ok()) {
    auto again = ParseExpr(ToText(*e));
    CHECK(again.ok()) << again.error().Text() << "\n" << ToText(*e);
    CHECK(Equal(*e, *again)) << ToText(*e);
  }
  auto f = ParsePrimFunc(input);
  if (!f.ok()) return;
  auto again = ParsePrimFunc(ToText(*f));
  CHECK(again.ok()) << again.error().Text() << "\n" << ToText(*f);
  CHECK(Equal(*f, *again)) << ToText(*f);
  (void)Verify(*f);
}

}  // namespace autotune
