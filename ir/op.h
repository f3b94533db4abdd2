// The op table: all operations that a Call can name. Each row has the op's name in the text, its arity, and the rule
// for its dtype. The interpreter has a rule for each op. lower/math.cc rewrites the `expanded` ops into plain
// arithmetic, so that no code generator needs a math library.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace autotune {

enum class Op : uint8_t {
  kExp,
  kExpOfNegative,
  kLog,
  kTanh,
  kSigmoid,
  kErf,
  kPow,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kSqrt,
  kAbs,
  kFloor,
  kCeil,
  kRound,
  kFma,
  kLdexp,
  kReinterpret,
  kIsNan,
  kTf32,
  kPrefetch,
  kPrefetchFar,
  kPrefetchWrite,
  kBarrier,
  kAsync,
  kAsyncCommit,
  kAsyncWait,
  kMma,
  kDot,
};

// kGiven: the maker states the dtype (reinterpret). kNone: no value (its dtype is bool); only as Evaluate.
enum class OpType : uint8_t { kSameAsFirst, kBool, kGiven, kNone };

// The largest f64 argument of sin, cos and tan; beyond it the result is NaN. The remainder of a larger one by pi/2
// needs more bits than f64 arithmetic has. These functions take every f32.
inline constexpr double kMostAngle = 0x1p31;

// The limit below which exp_neg and sigmoid are 0, for a float type of `bits` bits. Below it exp would be denormal, and
// arithmetic on denormal numbers takes some hundred cycles on x86.
constexpr double LeastExponent(int bits) { return bits == 64 ? -708.396418532264 : double{-87.33654F}; }

struct OpRow {
  std::string_view name;
  int arity;
  OpType type;
  bool expanded;
};

inline constexpr OpRow kOps[] = {
    {"exp", 1, OpType::kSameAsFirst, true},
    {"exp_neg", 1, OpType::kSameAsFirst, true},
    {"log", 1, OpType::kSameAsFirst, true},
    {"tanh", 1, OpType::kSameAsFirst, true},
    {"sigmoid", 1, OpType::kSameAsFirst, true},
    {"erf", 1, OpType::kSameAsFirst, true},
    {"pow", 2, OpType::kSameAsFirst, true},
    {"sin", 1, OpType::kSameAsFirst, true},
    {"cos", 1, OpType::kSameAsFirst, true},
    {"tan", 1, OpType::kSameAsFirst, true},
    {"asin", 1, OpType::kSameAsFirst, true},
    {"acos", 1, OpType::kSameAsFirst, true},
    {"atan", 1, OpType::kSameAsFirst, true},
    {"sinh", 1, OpType::kSameAsFirst, true},
    {"cosh", 1, OpType::kSameAsFirst, true},
    {"asinh", 1, OpType::kSameAsFirst, true},
    {"acosh", 1, OpType::kSameAsFirst, true},
    {"atanh", 1, OpType::kSameAsFirst, true},
    {"sqrt", 1, OpType::kSameAsFirst, false},
    {"abs", 1, OpType::kSameAsFirst, false},
    {"floor", 1, OpType::kSameAsFirst, false},
    {"ceil", 1, OpType::kSameAsFirst, false},
    {"round", 1, OpType::kSameAsFirst, false},  // half to even
    {"fma", 3, OpType::kSameAsFirst, false},
    {"ldexp", 2, OpType::kSameAsFirst, false},  // x * 2^floor(n), n finite, rounded once
    {"reinterpret", 1, OpType::kGiven, false},  // the same bits, another dtype of that width
    {"isnan", 1, OpType::kBool, false},
    {"tf32", 1, OpType::kSameAsFirst, false},            // rounds an f32 to 10 bits of fraction, ties away from 0
    {"prefetch", 1, OpType::kSameAsFirst, false},        // of a Load: a hint; only as Evaluate
    {"prefetch_far", 1, OpType::kSameAsFirst, false},    // a prefetch long before the access, not into the L1 cache
    {"prefetch_write", 1, OpType::kSameAsFirst, false},  // a prefetch of memory that will be written
    {"barrier", 0, OpType::kNone, false},                // waits until all threads of the block have arrived
    {"async", 1, OpType::kSameAsFirst, false},  // a store to shared memory that completes at the latest at the wait
    {"async_commit", 0, OpType::kNone, false},  // groups the thread's asynchronous stores since the last commit
    {"async_wait", 1, OpType::kNone, false},    // waits for all groups of the thread except the last N
    {"mma", 3, OpType::kSameAsFirst, false},  // mma(c, a, b) = c + a b, for matrices in the lanes of a warp (ir/mma.h)
    {"dot", 3, OpType::kSameAsFirst, false},  // dot(c, a, b): adds the products of groups of lanes (ir/dot.h)
};
constexpr bool IsAsyncGroup(Op op) { return op == Op::kAsyncCommit || op == Op::kAsyncWait; }
constexpr bool IsPrefetch(Op op) { return op == Op::kPrefetch || op == Op::kPrefetchFar || op == Op::kPrefetchWrite; }

constexpr const OpRow& Row(Op op) { return kOps[static_cast<int>(op)]; }
constexpr std::optional<Op> OpByName(std::string_view name) {
  for (int i = 0; i < static_cast<int>(sizeof(kOps) / sizeof(kOps[0])); ++i) {
    if (kOps[i].name == name) return static_cast<Op>(i);
  }
  return std::nullopt;
}

}  // namespace autotune
