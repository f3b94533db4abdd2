// C99: the dialect for targets of kind c. It uses the vector extensions of GCC (12 and newer) and Clang, or no vectors
// if the target has no vector types. Immutable; thread-safe. Internal to codegen/c.
#pragma once
#include "codegen/c/dialect.h"
#include "target/target.h"

namespace autotune::c {

class C99 : public Dialect {
 public:
  explicit C99(const Target& target) : target_(target) {}

  int MaxLanes() const override;
  std::string Type(DType dtype) const override;
  std::string MemoryType(DType element) const override;
  std::string Pointer(DType element, bool written) const override;
  std::string Parameter(const PointerParam& p, const std::string& id) const override;
  std::string Local() const override { return "static __attribute__((noinline))"; }
  std::string Inlined() const override { return "static inline"; }
  std::string Shared() const override { return "static"; }
  std::string Infinity(DType type) const override { return type.bits == 64 ? "__builtin_inf()" : "__builtin_inff()"; }
  std::string Vector(DType type, std::span<const std::string> lanes) const override;
  std::string Lane(const std::string& vector, const std::string& lane) const override;
  std::string Convert(const std::string& value, DType to) const override;
  std::string Reinterpret(const std::string& value, DType to) const override;
  std::string Load(DType type, const std::string& pointer) const override;
  std::string Store(DType type, const std::string& pointer, const std::string& value) const override;
  std::string HalfConversion(DType to) const override;
  std::string Call(Op op, DType type) const override;
  Body VectorBody(std::string_view function, DType type) const override;
  std::string Prefetch(Op op, const std::string& pointer, const std::string& index) const override;
  std::string Barrier() const override;
  std::string MarkLoop(const std::string& name) const override;

  // Returns the beginning of a source whose functions are `body`: type definitions, and pragmas that enable the
  // instruction sets `features` (names in support/cpu_features.h), so that the compiler needs no options for them.
  std::string Prelude(const std::string& body, const std::vector<std::string>& features) const;
  // Returns the end of a source.
  std::string Epilogue() const;

 private:
  Body MaskedLoadBody(DType type) const;
  bool IsX86() const { return target_.triple.starts_with("x86_64"); }

  const Target& target_;
};

// MarkLoop writes this text and the name of a loop as a comment into the assembly, where CountSpills finds the loop.
inline constexpr std::string_view kLoopMark = "register loop ";

}  // namespace autotune::c
