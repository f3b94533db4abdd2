// ArtifactMetadata: what a compiled shared object says of itself, stored inside it as JSON (symbol
// `autotune.metadata`; runtime/abi.h). Plain values.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "support/fields.h"

namespace autotune {

enum class ParamKind { kInput, kConstant, kOutput };
AUTOTUNE_ENUM(ParamKind, "input", "constant", "output")

struct TensorSpec {
  std::string name;
  std::string dtype;  // "f32", "i64", ...; ir/dtype.h's text
  std::vector<int64_t> shape;
  ParamKind kind = ParamKind::kInput;
  AUTOTUNE_FIELDS(name, dtype, shape, kind)
};

struct KernelMetadata {
  std::string name;
  std::vector<TensorSpec> params;
  std::vector<int64_t> prepared;   // bytes of each prepared buffer
  int64_t workspace_bytes = 0;     // most scratch memory in use at once, by one thread
  double flops = 0;                // arithmetic operations of one run; 0 when unknown
  AUTOTUNE_FIELDS(name, params, prepared, workspace_bytes, flops)
};

struct ArtifactMetadata {
  int abi_version = 0;
  std::string target;
  std::vector<KernelMetadata> kernels;
  AUTOTUNE_FIELDS(abi_version, target, kernels)
};

}  // namespace autotune
