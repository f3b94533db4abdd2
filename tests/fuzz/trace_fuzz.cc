// Traces, which may come from other users' databases. A trace that parses must print, and the text must parse to an
// equal trace. Replayed on a program, each step is legal or gives an error.
#include "ir/text.h"
#include "ir/verify.h"
#include "schedule/replay.h"
#include "schedule/trace.h"
#include "support/check.h"
#include "tests/fuzz/target.h"

namespace autotune {
namespace {

// A matrix product with an epilogue, which has the blocks and loops that steps of real traces name.
constexpr char kProgram[] = R"(func dense(a: f32[6, 10] input, b: f32[10, 8] constant, out: f32[6, 8] output) {
  alloc c: f32[6, 8]
  for c_m in 6 {
    for c_n in 8 {
      for c_k in 10 {
        block c(v_m: S 6 = c_m, v_n: S 8 = c_n, v_k: R 10 = c_k) {
          init {
            c[v_m, v_n] = 0.0
          }
          c[v_m, v_n] = fma(a[v_m, v_k], b[v_k, v_n], c[v_m, v_n])
        }
      }
    }
  }
  for relu_m in 6 {
    for relu_n in 8 {
      block relu(w_m: S 6 = relu_m, w_n: S 8 = relu_n) {
        out[w_m, w_n] = max(c[w_m, w_n], 0.0)
      }
    }
  }
}
)";

const PrimFunc& Program() {
  static const PrimFunc func = ParsePrimFunc(kProgram).value();
  return func;
}

}  // namespace

FUZZ_TARGET(trace) {
  auto trace = ParseTrace(input);
  if (!trace.ok()) return;
  auto again = ParseTrace(ToText(*trace));
  CHECK(again.ok()) << again.error().Text() << "\n" << ToText(*trace);
  CHECK(Equal(*trace, *again)) << ToText(*trace);
  if (trace->size() > 30) return;  // a limit on the time of the replay
  Rng rng(1);
  auto schedule = Replay(Program(), *trace, {.rng = &rng});
  if (!schedule.ok()) return;
  Status valid = Verify(schedule->func());
  CHECK(valid.ok()) << valid.error().Text() << "\n" << ToText(*trace);
}

}  // namespace autotune
