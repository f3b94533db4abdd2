// ArtifactMetadata: the description of a compiled shared object, which holds it as JSON (symbol `autotune.metadata`;
// runtime/abi.h). Plain values. Artifact: a loaded shared object and its kernels. It is immutable and thread-safe, but
// a KernelContext serves one call at a time. An Artifact is no Module; runtime/module.h wraps it.
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
#include "support/unique_fd.h"

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
  int64_t alignment = AT_ALIGNMENT;  // that the kernel needs of its data, in bytes
  AUTOTUNE_FIELDS(name, dtype, shape, kind, alignment)
};

// Kind of an argument of a launch: a parameter or a prepared buffer, by index, or scratch memory of the kernel, at a
// byte offset.
enum class LaunchArgKind { kParam, kPrepared, kWorkspace };
AUTOTUNE_ENUM(LaunchArgKind, "param", "prepared", "workspace")

struct LaunchArg {
  LaunchArgKind kind = LaunchArgKind::kParam;
  int64_t index = 0;
  AUTOTUNE_FIELDS(kind, index)
};

// One launch of a function of a device's image. Shapes are static, so the host's part of a kernel is a list of
// launches.
struct Launch {
  std::string entry;                 // function of the image
  std::vector<int64_t> grid, block;  // one to three extents each: blocks, and threads of a block
  int64_t shared_bytes = 0;          // shared memory of a block that the code itself does not declare
  std::vector<LaunchArg> args;       // addresses that the function takes
  AUTOTUNE_FIELDS(entry, grid, block, shared_bytes, args)
};

struct KernelMetadata {
  std::string name;
  std::vector<TensorSpec> params;
  std::vector<int64_t> prepared;       // bytes of each prepared buffer
  int64_t workspace_bytes = 0;         // most scratch memory in use at once, if one thread runs the kernel
  int64_t thread_workspace_bytes = 0;  // scratch memory of each further thread
  double flops = 0;                    // arithmetic operations of one run; 0 when unknown
  std::vector<int64_t> prepare_only;   // indices of the constants that only NAME.prepare reads, so they may be freed
  // The members below are for kernels on other devices than the CPU. Such a kernel has no entry points in the library.
  // Its code is in the images of device modules that the library imports.
  std::string device;            // name of the kind of device (runtime/device.h)
  std::vector<Launch> launches;  // launches of one run, in order
  std::vector<Launch> prepare;   // launches that fill the prepared buffers; `param` i is the i-th constant
  AUTOTUNE_FIELDS(name, params, prepared, workspace_bytes, thread_workspace_bytes, flops, prepare_only, device,
                  launches, prepare)

  std::vector<int64_t> ParamsOfKind(ParamKind kind) const;  // returns the indices of these parameters
  // Returns the bytes of scratch memory of a run by `threads` threads.
  int64_t WorkspaceOf(int64_t threads) const { return workspace_bytes + (threads - 1) * thread_workspace_bytes; }
};

struct ArtifactMetadata {
  int abi_version = 0;
  std::string target;
  std::vector<std::string> cpu_features;  // features that the code may use (support/cpu_features.h)
  std::vector<KernelMetadata> kernels;
  AUTOTUNE_FIELDS(abi_version, target, cpu_features, kernels)
};

// A kernel of a loaded artifact; valid as long as the artifact. Kernels for other devices have no entry points.
struct Kernel {
  KernelMetadata metadata;
  int32_t (*checked)(AtContext*, const void* const* args, int32_t num_args) = nullptr;  // args: const DLTensor*
  int32_t (*raw)(AtContext*, void* const* args) = nullptr;
  int32_t (*prepare)(AtContext*, void* const* args) = nullptr;  // null if the kernel has no prepared buffers
};

class Artifact {
 public:
  // Loads a shared object from memory or a file. Errors: a truncated or damaged file, code for another machine or for
  // CPU features that this CPU lacks, undefined symbols, missing or malformed metadata, another ABI version, a kernel
  // without its entry points.
  static Result<std::shared_ptr<const Artifact>> FromBytes(std::string_view elf);
  // The same. The bytes are held by this memory file, which must be as large, and is written through a mapping.
  static Result<std::shared_ptr<const Artifact>> FromBytes(std::string_view elf, UniqueFd file);
  // As FromBytes, but refuses code that runs while the file is loaded or unloaded. A stranger's code must run only when
  // its kernel is called. (The start files of a C compiler are such code.)
  static Result<std::shared_ptr<const Artifact>> FromStranger(std::string_view elf);
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
  // Kept open, since the loader identifies the object by its path, /proc/self/fd/N, and another artifact must not get
  // the same path.
  int fd_ = -1;
  ArtifactMetadata metadata_;
  std::vector<Kernel> kernels_;
};

// Runs NAME.prepare on the constant parameters (in order) and returns the prepared buffers. Returns none if the kernel
// has no NAME.prepare. `allocate` gets a number of bytes and returns a u8 tensor, aligned to 64 bytes. By default each
// buffer gets separate memory.
Result<std::vector<Tensor>> PrepareConstants(const Kernel& kernel, KernelContext& context,
                                             std::span<const Tensor> constants,
                                             const std::function<Result<Tensor>(int64_t)>& allocate = nullptr);

// Calls the checked entry point with all parameters in order, then the prepared buffers.
Status CallKernel(const Kernel& kernel, KernelContext& context, std::span<const Tensor> args,
                  std::span<const Tensor> prepared);

// Allocates a tensor for each parameter, uninitialised (guard bands: runtime/compare.h).
Result<std::vector<Tensor>> AllocateArgs(const KernelMetadata& metadata);

}  // namespace autotune
