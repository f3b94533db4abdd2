// OpenCL C: the dialect for OpenCL devices. It has no vectors: a vector statement becomes a loop over its lanes, which
// the driver's compiler vectorizes if the device has vectors. Immutable; thread-safe. Internal to codegen/c.
#pragma once
#include "codegen/c/dialect.h"

namespace autotune::c {

class OpenClC : public Dialect {
 public:
  int MaxLanes() const override { return 1; }
  std::string Type(DType dtype) const override;
  std::string MemoryType(DType element) const override;
  std::string Pointer(DType element, bool written) const override;
  std::string Parameter(const PointerParam& p, const std::string& id) const override;
  std::string Local() const override { return "static"; }
  std::string Inlined() const override { return "static inline"; }
  std::string Shared() const override { return "static"; }
  std::string Infinity(DType type) const override { return type.bits == 64 ? "(double)INFINITY" : "INFINITY"; }
  std::string Vector(DType type, std::span<const std::string> lanes) const override;
  std::string Lane(const std::string& vector, const std::string& lane) const override;
  std::string Convert(const std::string& value, DType to) const override;
  std::string Reinterpret(const std::string& value, DType to) const override;
  std::string Load(DType type, const std::string& pointer) const override;
  std::string Store(DType type, const std::string& pointer, const std::string& value) const override;
  std::string HalfConversion(DType to) const override;
  std::string Call(Op op, DType type) const override;
  Body VectorBody(std::string_view, DType) const override { return {}; }
  std::string Prefetch(Op op, const std::string& pointer, const std::string& index) const override;
  std::string Barrier() const override;
  std::string MarkLoop(const std::string&) const override { return ""; }

  // Returns the beginning of a program whose functions are `body`: extensions, and the types of stdint.h, which OpenCL
  // C lacks.
  std::string Prelude(const std::string& body) const;
};

}  // namespace autotune::c
