// Module trees as bytes. A shared object holds such bytes besides its code, so that one file is a complete package.
// Stateless, thread-safe. The archive of a compiled model is in package/.
//
// The shared object exports the bytes under kModuleBlobSymbol, in this layout (vectors: runtime/byte_stream.h):
//   u64 length of the rest; u64 number of blobs: one per module, and one for the import tree; then
//   for each module, depth first from the root (index 0): its type key and its own bytes. The key "_lib", without
//   bytes, stands for the shared object itself;
//   the key "_import_tree", then the imports in compressed sparse rows: a vector of row pointers (modules + 1), a
//   vector of child indices.
// A library without imports has no such symbol. Trees are limited to kMaxModules modules and kMaxModuleDepth levels. At
// most one module of the tree imports a given module.
//
// A module of type KEY is restored by the registry's function "runtime.module.loadbinary_KEY"(reader). It reads exactly
// the module's bytes from a ByteReader and returns the module. Other programs register such functions for their own
// types.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "runtime/byte_stream.h"
#include "runtime/module.h"

namespace autotune {

inline constexpr const char* kModuleBlobSymbol = "__tvm_dev_mblob";
inline constexpr uint64_t kMaxModules = 4096;
inline constexpr int kMaxModuleDepth = 64;  // levels of imports; limits the recursion of look-ups

// Writes the bytes that begin with the number of blobs. Returns an error if a module of the tree cannot be saved (such
// as an executor, since it has state), if the tree holds two libraries, or if two modules import the same one.
Status WriteModuleBlob(const Module& root, ByteWriter& out);

// Restores the tree that `blob` describes. `library` takes the place of "_lib".
Result<Module> ParseModuleBlob(std::string_view blob, const Module& library);

// Returns the tree embedded in an artifact, or the plain library module if the artifact has no tree. The root of a
// shared object that `autotune compile -o m.so` writes is the library: its functions are the kernels, and it imports
// the factory of the executor.
Result<Module> LoadModule(std::shared_ptr<const Artifact> artifact, std::shared_ptr<KernelContext> context);
// Loads a file; kernels run on all CPUs.
Result<Module> LoadModule(const std::string& path);

}  // namespace autotune
