// The parser of programs, whose texts come from databases that others have written: what parses prints, and parses
// again to an equal program; the verifier says yes or no to it.
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
