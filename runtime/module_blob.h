// Module trees as bytes: what a shared object carries beside its code, so that one file is a whole package. Stateless,
// thread-safe. Not the archive of a compiled model.
//
// Layout, little-endian: u64 number of blobs; then per module, depth first from the root (index 0), its type key and
// its bytes (each u64 length, data) - "_lib" with no bytes is the shared object itself -; then, where there is more
// than one module, the key "_import_tree" and the imports in compressed sparse rows: u64 count and u64 row pointers
// (modules + 1), u64 count and u64 child indices. The shared object holds it under the symbol kModuleBlobSymbol, after
// its length (u64).
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "runtime/module.h"

namespace autotune {

inline constexpr const char* kModuleBlobSymbol = "autotune.modules";

// An error if a module of the tree has no bytes (an executor has state; its factory has bytes).
Result<std::string> ModuleBlob(const Module& root);

// The tree that `blob` describes; "_lib" becomes `library`. Type keys that can be restored are one list in the .cc.
Result<Module> ParseModuleBlob(std::string_view blob, const Module& library);

// The tree embedded in an artifact; without one, its plain library module.
Result<Module> LoadModule(std::shared_ptr<const Artifact> artifact, std::shared_ptr<KernelContext> context);

}  // namespace autotune
