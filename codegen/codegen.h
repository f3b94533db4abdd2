// Machine code for lowered kernels: objects, and shared objects that runtime/ loads (runtime/abi.h). The kind of the
// target selects the generator: LLVM (codegen/llvm), or C source for a C compiler (codegen/c). Kernels for GPUs are
// programs in OpenCL C (codegen/c/gpu) or PTX (codegen/llvm/gpu), which the drivers compile, with lists of launches; a
// library of them holds no CPU code. Cross-compiles for any target that it knows. Equal kernels and targets give equal
// bytes (for kind c: with one compiler). Thread-compatible: LLVM and LLD have global state, so each process makes one
// build at a time (the build workers do). No LLVM type leaves this folder.
//
// A candidate that breaks the register contract, or spills in a register-tiled innermost loop, is `rejected`. That is
// no error: `rejected` says why, and there is no code.
#pragma once
#include <string>
#include <vector>

#include "lower/lower.h"
#include "runtime/artifact.h"
#include "support/json.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune {

struct CodegenOptions {
  bool keep_spills = false;    // do not reject for spills: for reports on why a candidate was rejected
  bool keep_assembly = false;  // return the assembly too, with the LLVM IR that it came from, if any
  AUTOTUNE_FIELDS(keep_spills, keep_assembly)
};

// What a build tells besides the code; features may use it.
struct BuildFacts {
  int64_t spills_in_register_loops = 0;  // spills and reloads in register-tiled innermost loops
  int64_t spills = 0;                    // in all functions
  int64_t code_bytes = 0;
  std::map<std::string, double> times_ms;  // CPU time by stage: emit, optimize, machine_code, compile, link
  PassTimes passes;                        // of lowering, if the request asks; also of what is rejected
  AUTOTUNE_FIELDS(spills_in_register_loops, spills, code_bytes, times_ms, passes)
};

struct KernelObject {
  KernelMetadata metadata;
  std::vector<Json::Bytes> objects;  // relocatable; define NAME, NAME.raw and, where it prepares, NAME.prepare
  std::string rejected;              // why no code was made; empty: accepted
  std::string assembly, llvm_ir;
  std::string source;  // kind c: the translation unit that was compiled; of a GPU: the program; else empty
  BuildFacts facts;
  AUTOTUNE_FIELDS(metadata, objects, rejected, assembly, llvm_ir, source, facts)
};

// Errors: a target that LLVM does not know; of kind c, no C compiler or one that fails.
Result<KernelObject> CompileKernel(const LoweredKernel& kernel, const Target& target,
                                   const CodegenOptions& options = {});

// Returns the C source of a kernel without compiling it. CompileKernel compiles the same source for targets of kind c.
// Errors: the program breaks a contract; LLVM does not know the target; code for the target is no C.
Result<std::string> SourceOf(const LoweredKernel& kernel, const Target& target);

struct LinkedKernels {
  Json::Bytes artifact;              // shared object
  std::vector<Json::Bytes> support;  // relocatable objects that it has beside its kernels': metadata, shared checks
  std::string support_source;        // the same in C, of the target `c`; else empty
  Json::Bytes device_blob;  // of a GPU: the modules with its code (runtime/module_blob.h); in the artifact, too
  AUTOTUNE_FIELDS(artifact, support, support_source, device_blob)
};

// Links accepted objects, adds their metadata. Errors: undefined symbols, two kernels of one name.
Result<LinkedKernels> LinkKernels(const std::vector<const KernelObject*>& objects, const Target& target,
                                  BuildFacts* facts = nullptr);

// Links the relocatable objects of a library again, with one in the file `data`. Overwrites the file `output`.
Status LinkWithData(const std::vector<Json::Bytes>& objects, const std::string& data, const std::string& output);

// What compilers of other kinds need from the metadata of one kernel.
KernelMetadata MetadataOf(const LoweredKernel& kernel);
// The metadata of a library. Errors: a rejected kernel, a target that LLVM does not know.
Result<ArtifactMetadata> ArtifactMetadataOf(const std::vector<const KernelObject*>& objects, const Target& target);
// Kind c: a translation unit that makes a library of the objects' sources: it defines `autotune.metadata`.
Result<std::string> MetadataSource(const std::vector<const KernelObject*>& objects, const Target& target);
// Why a kernel is rejected that spills so many times in a register-tiled loop.
std::string SpillsMessage(int64_t spills);
// Why a kernel is rejected that needs `buffer` in registers.
std::string NotInRegistersMessage(const std::string& buffer, const std::string& why);

}  // namespace autotune
