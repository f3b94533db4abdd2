// Module: functions by name, imported modules, and a type key. A library module offers the kernels of a loaded
// artifact. A device module (runtime/device_module.h) holds code for another device. Other modules (the graph executor
// and its factory) are written in C++. Handles are shared; look-ups are thread-safe after all imports are added.
// Global functions are in runtime/registry.h.
#pragma once
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/artifact.h"
#include "runtime/device.h"
#include "runtime/packed_func.h"

namespace autotune {

inline constexpr std::string_view kLibraryType = "library";  // type key of library modules

class BoundKernel;
class ByteWriter;
class KernelContext;

class ModuleNode : public std::enable_shared_from_this<ModuleNode> {
 public:
  virtual ~ModuleNode() = default;
  virtual std::string_view TypeKey() const = 0;
  // Returns the function `name` of this module itself, or a null function if the module has none. The function keeps
  // all that it needs alive. `root` is the module at which the look-up began; the function may use all modules that are
  // reached from `root`.
  virtual PackedFunc GetOwnFunction(std::string_view name, const Module& root) = 0;
  virtual std::vector<std::string> FunctionNames() const { return {}; }
  // Returns the kernel `name` of this module itself, bound to `device`, or null if the module has no such kernel for
  // this kind of device. Returns an error if it has the kernel but cannot bind it.
  virtual Result<std::shared_ptr<BoundKernel>> BindOwnKernel(std::string_view name, const DevicePtr& device);
  // Writes the bytes from which the loader of this type restores the module, without the imports
  // (runtime/module_blob.h).
  virtual Status Save(ByteWriter& out) const;

  // Returns the first function `name`, searched for in this module, then in its imports, depth first. Returns an error
  // that names the function if there is none.
  Result<PackedFunc> GetFunction(std::string_view name);
  // Returns the first kernel `name` for this device, searched for in the order of GetFunction. Returns an error that
  // names the kernel if there is none.
  Result<std::shared_ptr<BoundKernel>> BindKernel(std::string_view name, const DevicePtr& device);

  // Returns the first module with this type key: this module or one of its imports, depth first; null if there is none.
  Module FindByType(std::string_view type_key);

  // Adds an import. Returns an error if it would make a cycle of imports.
  Status Import(Module module);
  const std::vector<Module>& imports() const { return imports_; }

 private:
  PackedFunc Search(std::string_view name, const Module& root);
  Result<std::shared_ptr<BoundKernel>> SearchKernel(std::string_view name, const DevicePtr& device);
  bool Reaches(const ModuleNode* module, std::set<const ModuleNode*>& seen) const;
  std::vector<Module> imports_;
};

// Makes a module of type "library" with the kernels of an artifact as functions. NAME takes the parameters as tensors,
// then the prepared buffers, and checks them. NAME.prepare takes the constants and returns an object of type
// "prepared". Later calls of NAME accept this object in place of the prepared buffers. Calls through one module run one
// at a time, since they share `context`. Kernels for other devices are not functions of the module; its imports hold
// their code.
Module MakeLibraryModule(std::shared_ptr<const Artifact> artifact, std::shared_ptr<KernelContext> context);

// Makes a module that stands for a library before it is linked, in the module tree that the shared object will hold
// (runtime/module_blob.h). It has no functions.
Module MakeUnlinkedLibrary();

}  // namespace autotune
