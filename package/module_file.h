// A compiled network as one shared object: its kernels, and in the embedded module tree (runtime/module_blob.h) the
// graph executor's factory with graph and parameters, and the package's info. Stateless.
#pragma once
#include <string>

#include "package/package.h"
#include "runtime/module.h"

namespace autotune {

// Writes the relocatable object that the package's objects are linked with to make such a file: it has the symbol
// kModuleBlobSymbol, a library that imports factory and info. Of the parameters it makes no copy. The library need not
// be one that this machine can load. Errors: a damaged graph or damaged parameters; a model whose name is that of a
// kernel or of a function of the tree, by which it could not be found; those of writing to `fd`.
Status WriteModuleObject(const Package& package, int fd);

// What the info module of a loaded tree says; empty if the tree has none.
Result<PackageInfo> InfoOf(const Module& root);

}  // namespace autotune
