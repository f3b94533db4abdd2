// A compiled network as one shared object. It has the kernels and a module tree (runtime/module_blob.h). The tree has
// the factory of the graph executor, with the graph and the parameters, and the package's info. Stateless.
#pragma once
#include <string>

#include "package/package.h"
#include "runtime/module.h"

namespace autotune {

// Writes a relocatable object to `fd`, which becomes such a shared object when it is linked with the package's objects.
// It defines the symbol kModuleBlobSymbol: the module tree, a library that imports the factory and the info. Does not
// copy the parameters. The package may be for another machine. Errors: a damaged graph or damaged parameters; a model
// with the name of a kernel or of a function of the tree, which would hide the model; those of writing to `fd`.
Status WriteModuleObject(const Package& package, int fd);

// Returns the package's info from the info module of a loaded tree; empty if the tree has no info module.
Result<PackageInfo> InfoOf(const Module& root);

}  // namespace autotune
