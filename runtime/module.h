// Module: functions by name, imports, a type key. A library module offers the kernels of a loaded artifact; others
// (the graph executor and its factory) are written in C++. Handles are shared; GetFunction is thread-safe once imports
// are complete. Not a namespace of global functions: that is runtime/registry.h.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/artifact.h"
#include "runtime/packed_func.h"

namespace autotune {

class KernelContext;

class ModuleNode : public std::enable_shared_from_this<ModuleNode> {
 public:
  virtual ~ModuleNode() = default;
  virtual std::string_view TypeKey() const = 0;
  // A null function if this module itself has none of that name. The function keeps what it needs alive.
  virtual PackedFunc GetOwnFunction(std::string_view name) = 0;
  virtual std::vector<std::string> FunctionNames() const { return {}; }
  // The bytes from which its type's loader restores it without its imports (runtime/module_blob.h).
  virtual Result<std::string> Save() const { return Err("a module of type ", TypeKey(), " cannot be saved"); }

  // Own functions first, then those of the imports, depth first; an error that names the function if there is none.
  Result<PackedFunc> GetFunction(std::string_view name);

  // Imports form a tree: an error if `module` reaches this module.
  Status Import(Module module);
  const std::vector<Module>& imports() const { return imports_; }

 private:
  PackedFunc Search(std::string_view name);
  bool Reaches(const ModuleNode* module) const;
  std::vector<Module> imports_;
};

// The kernels of an artifact as functions. NAME takes the parameters as tensors, then the prepared buffers, and checks
// them. NAME.prepare takes the constants and returns an object of type "prepared", which may stand for the prepared
// buffers in later calls of NAME. Calls through one module are serialized: they share `context`. Type key "lib".
Module MakeLibraryModule(std::shared_ptr<const Artifact> artifact, std::shared_ptr<KernelContext> context);

// The artifact of a library module, null for others.
std::shared_ptr<const Artifact> ArtifactOf(const Module& module);

}  // namespace autotune
