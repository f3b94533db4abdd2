// CallTable: the runner's side of a session of calls (rpc/remote_device.h). It runs the functions that a client calls,
// and keeps the modules, functions, objects and large tensors of which the client has handles. Functions without a
// handle are called by name; besides those of the registry (runtime/registry.h), there are
//   remote.echo(value): the value; remote.handles(): the number of handles that are not released;
//   remote.boot(): the id of the present boot of the device's host; empty if it is not known;
//   remote.tensor(type, extents...): a new tensor; the reply is a handle, whatever its size;
//   remote.write(tensor, offset, bytes), remote.read(tensor, offset, count): part of a tensor's bytes;
//   remote.time(function, runs, seconds): calls it without arguments, at least so many times, and until so many seconds
//     are over; a tensor with the seconds of each call;
//   remote.time_pairs(first, second, half width, seconds, least pairs, visit seconds): two functions in turns
//     (runtime/paired_runs.h); an f64 tensor [pairs, 3] with the fields of each PairTime;
//   remote.get_function(module, name): the module's function; null if there is none;
//   remote.load_module(bytes, threads): the module of a shared object (runtime/module_blob.h). Its bytes are a tensor;
//   remote.load_network(library, graph, parameters, threads[, replaceable]): an executor module
//     (runtime/graph_executor.h). The parts are tensors with the bytes of a package's files. The library may be null.
//     If the graph is null, the library is a shared object with all parts (package/module_file.h), and the module
//     imports its info module.
// Kernels run on the CPU and on the device of the runner. Not thread-safe.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/library_files.h"
#include "rpc/remote_value.h"
#include "runtime/device.h"
#include "runtime/kernel_context.h"
#include "support/process_stat.h"

namespace autotune::rpc {

// Calls a function without arguments, at least `runs` times, and until `seconds` are over. Returns the seconds of each
// call.
Result<std::vector<double>> TimeEachCall(const PackedFunc& function, int64_t runs, double seconds);

// What calls need and the sandbox of a runner does not give.
struct CallSupplies {
  LibraryFiles files;  // for large libraries
  std::string boot;    // BootId of support/process_stat.h
  static CallSupplies Make() { return {LibraryFiles::Make(), BootId()}; }
};

class CallTable {
 public:
  // `device`: beside the CPU; null: none.
  explicit CallTable(DevicePtr device, CallSupplies supplies = {})
      : device_(std::move(device)), supplies_(std::move(supplies)) {}

  // Runs a call and returns its reply. The reply has the function's error, too. Errors: the call is damaged, or the
  // reply too large to be sent.
  Result<std::string> Answer(std::string_view call);
  size_t handles() const { return values_.size(); }

 private:
  Result<Value> Run(const RemoteCall& call);
  Result<Value> RunOwn(const std::string& name, std::span<const Value> args);
  Result<RemoteHandle> Export(const Value& value);
  Result<Value> Import(const RemoteHandle& handle) const;
  Result<Module> LoadLibrary(const Tensor& bytes, std::shared_ptr<KernelContext> context);
  Result<Module> LoadNetwork(const Value& library, const Value& graph, const Value& params, int64_t threads,
                             bool replaceable);

  DevicePtr device_;
  CallSupplies supplies_;
  std::map<int64_t, Value> values_;
  int64_t last_ = 0;  // handle
};

}  // namespace autotune::rpc
