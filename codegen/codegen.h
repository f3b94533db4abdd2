// Generates machine code for lowered kernels: relocatable objects, and shared objects that runtime/ loads
// (runtime/abi.h). The kind of the target selects the generator: LLVM (codegen/llvm), or C source for a C compiler
// (codegen/c). A kernel for a GPU consists of a program in OpenCL C (codegen/c/gpu) or PTX (codegen/llvm/gpu), which
// the driver compiles, and a list of launches. A library of such kernels has no code for the CPU. Code can be generated
// for other machines than this one. Equal kernels and targets give equal bytes, for kind c with the same C compiler.
// LLVM and LLD have global state, so only one build at a time may run in a process. No LLVM type leaves this folder.
//
// A candidate is rejected if it breaks the register contract, spills in a register-tiled innermost loop, or exceeds a
// limit of a GPU. CompileKernel then returns no error and no code, but the reason in `rejected`.
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
  bool keep_spills = false;    // accept spills, so that a report can show the code of a rejected candidate
  bool keep_assembly = false;  // also return the assembly and, if LLVM generated it, the LLVM IR
  AUTOTUNE_FIELDS(keep_spills, keep_assembly)
};

// Measurements of a build and of its code.
struct BuildFacts {
  int64_t spills_in_register_loops = 0;  // spills and reloads in register-tiled innermost loops
  int64_t spills = 0;                    // in all functions
  int64_t code_bytes = 0;
  std::map<std::string, double> times_ms;  // CPU time by stage, such as emit, optimize, machine_code, compile, link
  PassTimes passes;  // times of the lowering passes if the request asks for them, also of a rejected candidate
  AUTOTUNE_FIELDS(spills_in_register_loops, spills, code_bytes, times_ms, passes)
};

struct KernelObject {
  KernelMetadata metadata;
  // Relocatable objects that define NAME, NAME.raw and, if the kernel prepares constants, NAME.prepare.
  std::vector<Json::Bytes> objects;
  std::string rejected;  // reason why no code was made; empty if the kernel is accepted
  std::string assembly, llvm_ir;
  std::string source;       // the translation unit for kind c, the program for GPUs, else empty
  bool uses_tiles = false;  // it has instructions on registers of two dimensions (ir/tile_product.h)
  BuildFacts facts;
  AUTOTUNE_FIELDS(metadata, objects, rejected, assembly, llvm_ir, source, uses_tiles, facts)
};

// Compiles one kernel. Errors: LLVM does not know the target; for kind c, there is no C compiler or it fails.
Result<KernelObject> CompileKernel(const LoweredKernel& kernel, const Target& target,
                                   const CodegenOptions& options = {});

// Returns the source of a kernel in C or OpenCL C without compiling it. CompileKernel makes the same source for targets
// of the kinds c and opencl. Errors: the program breaks a contract; LLVM does not know the target; kernels for the
// target's kind are PTX.
Result<std::string> SourceOf(const LoweredKernel& kernel, const Target& target);

struct LinkedKernels {
  Json::Bytes artifact;              // shared object
  std::vector<Json::Bytes> support;  // relocatable objects for all kernels together: metadata, checks of arguments
  std::string support_source;        // C source of `support`; empty unless the target is of kind c
  Json::Bytes device_blob;  // modules with the code for a GPU (runtime/module_blob.h); `artifact` holds them, too
  AUTOTUNE_FIELDS(artifact, support, support_source, device_blob)
};

// Links accepted objects and adds their metadata. Errors: undefined symbols, two kernels with the same name.
Result<LinkedKernels> LinkKernels(const std::vector<const KernelObject*>& objects, const Target& target,
                                  BuildFacts* facts = nullptr);

// Links the relocatable objects of a library again, together with the object in the file `data`. Writes the shared
// object to `output`, an existing empty file.
Status LinkWithData(const std::vector<Json::Bytes>& objects, const std::string& data, const std::string& output);

// Returns the metadata that follow from the kernel and the kind of the target alone. The generators for GPUs add the
// launches to them (codegen/launches.h).
KernelMetadata MetadataOf(const LoweredKernel& kernel, const Target& target);
// Returns the metadata of a library. Errors: a rejected kernel, a target that LLVM does not know.
Result<ArtifactMetadata> ArtifactMetadataOf(const std::vector<const KernelObject*>& objects, const Target& target);
// For targets of kind c: returns a translation unit that defines `autotune.metadata`. Together with the sources of the
// objects it is the source of a whole library.
Result<std::string> MetadataSource(const std::vector<const KernelObject*>& objects, const Target& target);
// Returns the command of the C compiler for a target: that which AUTOTUNE_CC in the environment names, `cc`, or for
// another architecture TRIPLE-gcc.
std::string CCompilerOf(const Target& target);
// Returns the reason for rejecting a kernel with `spills` spills in a register-tiled loop.
std::string SpillsMessage(int64_t spills);
// Returns the reason for rejecting a kernel whose register buffer `buffer` could not be kept in registers.
std::string NotInRegistersMessage(const std::string& buffer, const std::string& why);

}  // namespace autotune
