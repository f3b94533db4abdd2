// Module: functions by name, imported modules, and a type key. A library module offers the kernels of a loaded
// artifact. A device module (runtime/device_module.h) holds code for another device. Other modules (the graph executor
// and its factory) are written in C++. Handles are shared; look-ups are thread-safe once the imports are complete.
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
  // A null function if this module itself has none of that name. The function keeps what it needs alive. `root` is the
  // module at which the look-up began: the function may use all that is reached from there.
  virtual PackedFunc GetOwnFunction(std::string_view name, const Module& root) = 0;
  virtual std::vector<std::string> FunctionNames() const { return {}; }
  // Null if this module itself has no such kernel for this kind of device. An error: it has, and cannot bind it.
  virtual Result<std::shared_ptr<BoundKernel>> BindOwnKernel(std::string_view name, const DevicePtr& device);
  // Writes the bytes from which its type's loader restores it without its imports (runtime/module_blob.h).
  virtual Status Save(ByteWriter& out) const;

  // Own functions first, then those of the imports, depth first; an error that names the function if there is none.
  Result<PackedFunc> GetFunction(std::string_view name);
  // The kernel for this device, searched for in the same order; an error that names it if there is none.
  Result<std::shared_ptr<BoundKernel>> BindKernel(std::string_view name, const DevicePtr& device);

  // The first module of this type key, itself or among its imports, depth first; null if there is none.
  Module FindByType(std::string_view type_key);

  // An error if `module` reaches this module, which would make a circle.
  Status Import(Module module);
  const std::vector<Module>& imports() const { return imports_; }

 private:
  PackedFunc Search(std::string_view name, const Module& root);
  Result<std::shared_ptr<BoundKernel>> SearchKernel(std::string_view name, const DevicePtr& device);
  bool Reaches(const ModuleNode* module, std::set<const ModuleNode*>& seen) const;
  std::vector<Module> imports_;
};

// The kernels of an artifact as functions. NAME takes the parameters as tensors, then the prepared buffers, and checks
// them. NAME.prepare takes the constants and returns an object of type "prepared", which may stand for the prepared
// buffers in later calls of NAME. Calls through one module are serialized: they share `context`. Kernels for other
// devices are no functions of it; its imports hold their code. Type key "library".
Module MakeLibraryModule(std::shared_ptr<const Artifact> artifact, std::shared_ptr<KernelContext> context);

// A library that is not linked yet, for the tree that its shared object will carry (runtime/module_blob.h). It has no
// functions.
Module MakeUnlinkedLibrary();

// The artifact of a library module, null for others.
std::shared_ptr<const Artifact> ArtifactOf(const Module& module);

}  // namespace autotune
