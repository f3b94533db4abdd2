// Dialect: the spelling of one language of the C family: C99 (codegen/c/c99.h) or OpenCL C (codegen/c/gpu/opencl.h).
// The emitters walk programs and use a dialect for the text. A dialect knows nothing of programs. Immutable;
// thread-safe. Internal to codegen/c.
//
// Values. A number has its own type, a bool is an int, 0 or 1. A vector of bools is a mask: a vector of i32, whose
// lanes are 0 or -1.
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

  // The largest number of lanes of a vector of any element type. Vectors have a power of two of lanes. 1: the language
  // has no vectors, and a vector statement becomes a loop over lanes.
  virtual int MaxLanes() const = 0;

  // The type of a value, and of an element in memory. They differ for bool.
  virtual std::string Type(DType dtype) const = 0;
  virtual std::string MemoryType(DType element) const = 0;
  // A pointer to elements in memory, and one as the parameter `id` of a function that no other parameter's reaches.
  virtual std::string Pointer(DType element, bool written) const = 0;
  virtual std::string Parameter(const PointerParam& p, const std::string& id) const = 0;

  // Qualifiers of functions: of a function that only this source calls, of a small one that should be inlined, and of
  // one that is called from many places.
  virtual std::string Local() const = 0;
  virtual std::string Inlined() const = 0;
  virtual std::string Shared() const = 0;

  // The positive infinity of a type of numbers.
  virtual std::string Infinity(DType type) const = 0;

  // Vectors: `type` has more than one lane. The operators of the language work on vectors as they do on numbers.
  // Comparisons of vectors with 32-bit elements give masks.
  virtual std::string Vector(DType type, std::span<const std::string> lanes) const = 0;
  virtual std::string Lane(const std::string& vector, const std::string& lane) const = 0;
  virtual std::string Convert(const std::string& value, DType to) const = 0;      // as numbers are converted
  virtual std::string Reinterpret(const std::string& value, DType to) const = 0;  // the same bits
  // `Load` is the vector of elements that begins at `pointer`, which has the alignment of one element. `Store` is the
  // statement that stores a vector there.
  virtual std::string Load(DType type, const std::string& pointer) const = 0;
  virtual std::string Store(DType type, const std::string& pointer, const std::string& value) const = 0;

  // The value of a call of the function `op` (ir/op.h) on numbers a, b and c.
  virtual std::string Call(Op op, DType type) const = 0;
  // How a function of vectors a, b and c computes `function` (the name of an op, "min" or "max"). Without `lines`, it
  // applies the scalar function to each lane. A dialect states `lines` where they compile to better code, such as one
  // instruction for all lanes. They are compiled if the preprocessor's `condition` holds; an empty one always holds.
  struct Body {
    std::string condition, lines;
  };
  virtual Body VectorBody(std::string_view function, DType type) const = 0;

  // Statements. `Prefetch` is a hint (`op` is one of the prefetches) at pointer[index], which need not exist. `Barrier`
  // is the barrier of a block of threads.
  virtual std::string Prefetch(Op op, const std::string& pointer, const std::string& index) const = 0;
  virtual std::string Barrier() const = 0;
  // A statement at the beginning of a loop over register buffers, by which reports find the loop in assembly. Empty:
  // there are no such reports.
  virtual std::string MarkLoop(const std::string& name) const = 0;
};

}  // namespace autotune::c
