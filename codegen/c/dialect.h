// Dialect: the spelling of one language of the C family: C99 (codegen/c/c99.h) or OpenCL C (codegen/c/gpu/opencl.h).
// The emitters walk programs and use a dialect for the text. A dialect knows nothing of programs. Immutable;
// thread-safe. Internal to codegen/c.
//
// Values in the source: a number has the C type that corresponds to its DType. A bool is an int, 0 or 1. A vector of
// bools is a mask, a vector of i32 whose lanes are 0 or -1.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "codegen/memory.h"
#include "ir/op.h"

namespace autotune::c {

class Dialect {
 public:
  virtual ~Dialect() = default;

  // Returns the largest number of lanes of a vector of any element type. The number of lanes of a vector is a power of
  // two. If the result is 1, the language has no vectors, and a vector statement becomes a loop over its lanes.
  virtual int MaxLanes() const = 0;

  // Return the type of a value, and the type of an element in memory. They differ for bool.
  virtual std::string Type(DType dtype) const = 0;
  virtual std::string MemoryType(DType element) const = 0;
  // `Pointer` returns the type of a pointer to elements in memory. `Parameter` returns the declaration of a function's
  // parameter `id` that points to a buffer; no other parameter points to the same memory.
  virtual std::string Pointer(DType element, bool written) const = 0;
  virtual std::string Parameter(const PointerParam& p, const std::string& id) const = 0;

  // Return the qualifiers of a function. All functions are private to their source. `Local` is for a function of the
  // kernel (its body, or the iterations of a parallel loop), which C99 never inlines. `Inlined` is for a small helper.
  // `Shared` is for a larger helper that is called from many places; the compiler decides whether to inline it.
  virtual std::string Local() const = 0;
  virtual std::string Inlined() const = 0;
  virtual std::string Shared() const = 0;

  // Returns the positive infinity of a floating-point type.
  virtual std::string Infinity(DType type) const = 0;

  // Vectors: `type` has more than one lane. The operators of the language work on vectors as they do on numbers.
  // Comparisons of vectors with 32-bit elements give masks.
  virtual std::string Vector(DType type, std::span<const std::string> lanes) const = 0;
  virtual std::string Lane(const std::string& vector, const std::string& lane) const = 0;
  virtual std::string Convert(const std::string& value, DType to) const = 0;      // converts the number in each lane
  virtual std::string Reinterpret(const std::string& value, DType to) const = 0;  // keeps the bits
  // `Load` returns an expression that loads the vector of elements at `pointer`. `Store` returns a statement that
  // stores a vector there. `pointer` has the alignment of one element.
  virtual std::string Load(DType type, const std::string& pointer) const = 0;
  virtual std::string Store(DType type, const std::string& pointer, const std::string& value) const = 0;

  // Returns the body of a function that converts the f16 with the bits a to f32, or the f32 a to the bits of the
  // nearest f16. Only for targets with has_f16.
  virtual std::string HalfConversion(DType to) const = 0;

  // Returns an expression for the function `op` (ir/op.h) of the numbers a, b and c.
  virtual std::string Call(Op op, DType type) const = 0;
  // The dialect's body of a helper that computes `function` on vectors, if the dialect has better code than the generic
  // body, which works lane by lane. `function` is the name of an op, "min", "max" or "load_masked". The preprocessor
  // selects `lines` if `condition` holds, else the generic body. An empty condition always holds. If `lines` is empty,
  // the helper has the generic body only.
  struct Body {
    std::string condition, lines;
  };
  virtual Body VectorBody(std::string_view function, DType type) const = 0;

  // Return statements. `Prefetch` prefetches pointer[index] by the kind of prefetch `op`; the element need not exist.
  // `Barrier` is the barrier of a block of threads.
  virtual std::string Prefetch(Op op, const std::string& pointer, const std::string& index) const = 0;
  virtual std::string Barrier() const = 0;
  // Returns a statement for the beginning of a loop over register buffers, which marks the loop in the assembly, so
  // that spills in it are counted. Returns an empty text if the dialect does not count spills.
  virtual std::string MarkLoop(const std::string& name) const = 0;
};

}  // namespace autotune::c
