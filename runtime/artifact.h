// ArtifactMetadata: what a compiled shared object says of itself, stored inside it as JSON (symbol
// `autotune.metadata`; runtime/abi.h). Plain values. Artifact: a loaded shared object and its kernels; immutable, so
// thread-safe, but a KernelContext serves one call at a time. Not a Module (runtime/module.h wraps it).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/abi.h"
#include "support/fields.h"
#include "support/result.h"

namespace autotune {

class KernelContext;
class Tensor;

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
  std::vector<int64_t> prepared;      // bytes of each prepared buffer
  int64_t workspace_bytes = 0;        // most scratch memory in use at once, by one thread
  double flops = 0;                   // arithmetic operations of one run; 0 when unknown
  std::vector<int64_t> prepare_only;  // indices of the constants that NAME.prepare alone reads: they may be freed then
  AUTOTUNE_FIELDS(name, params, prepared, workspace_bytes, flops, prepare_only)
};

struct ArtifactMetadata {
  int abi_version = 0;
  std::string target;
  std::vector<std::string> cpu_features;  // features that the code may use (support/cpu_features.h)
  std::vector<KernelMetadata> kernels;
  AUTOTUNE_FIELDS(abi_version, target, cpu_features, kernels)
};

// A kernel of a loaded artifact; valid as long as the artifact.
struct Kernel {
  KernelMetadata metadata;
  int32_t (*checked)(AtContext*, const void* const* args, int32_t num_args) = nullptr;  // args: const DLTensor*
  int32_t (*raw)(AtContext*, void* const* args) = nullptr;
  int32_t (*prepare)(AtContext*, void* const* args) = nullptr;  // null unless metadata.prepared is not empty

  std::vector<int64_t> ParamsOfKind(ParamKind kind) const;  // their indices
};

class Artifact {
 public:
  // Loads a shared object from memory or a file. Errors: a truncated file, code for another machine or for CPU features
  // that this CPU lacks, undefined symbols, missing or malformed metadata, another ABI version, a kernel without its
  // entry points.
  static Result<std::shared_ptr<const Artifact>> FromBytes(std::string_view elf);
  static Result<std::shared_ptr<const Artifact>> FromFile(const std::string& path);
  ~Artifact();  // unloads
  Artifact(const Artifact&) = delete;

  const ArtifactMetadata& metadata() const { return metadata_; }
  const std::vector<Kernel>& kernels() const { return kernels_; }
  Result<const Kernel*> Find(std::string_view kernel) const;
  void* Symbol(const std::string& name) const;  // null if absent

 private:
  Artifact() = default;
  static Result<std::shared_ptr<const Artifact>> Open(const std::string& path, const std::string& shown, int fd);
  Status ReadKernels();

  void* handle_ = nullptr;
  int fd_ = -1;  // kept open: the loader knows the object by its path, /proc/self/fd/N, which must stay unique
  ArtifactMetadata metadata_;
  std::vector<Kernel> kernels_;
};

// Runs NAME.prepare on the constant parameters (in order) and returns the prepared buffers; none if it has no prepare.
// The buffers come from `allocate` (bytes -> u8 tensor, aligned to 64 bytes), by default each from memory of its own.
Result<std::vector<Tensor>> PrepareConstants(const Kernel& kernel, KernelContext& context,
                                             std::span<const Tensor> constants,
                                             const std::function<Result<Tensor>(int64_t)>& allocate = nullptr);

// Calls the checked entry point with all parameters in order, then the prepared buffers.
Status CallKernel(const Kernel& kernel, KernelContext& context, std::span<const Tensor> args,
                  std::span<const Tensor> prepared);

// Allocates a tensor for each parameter, uninitialised (guard bands: runtime/compare.h).
Result<std::vector<Tensor>> AllocateArgs(const KernelMetadata& metadata);

}  // namespace autotune
