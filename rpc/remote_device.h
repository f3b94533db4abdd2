// RemoteDevice: a device of a farm whose functions, modules and networks are used as those of this process are
// (runtime/module.h). A session of calls gets a process of the device's server that nobody else uses, in its sandbox.
// What the process makes stays there: modules and functions of this side are handles, which are released when they are
// destroyed. Tensors are copied, but for those of NewTensor. If the process ends, the device is lost, or goes to a
// client that waits, the session is over: each later call returns an error. Thread-safe; calls run one at a time.
#pragma once
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/client.h"
#include "runtime/module.h"
#include "runtime/paired_runs.h"

namespace autotune::rpc {

// A compiled network as the parts that its package has (package/package.h). Borrowed bytes.
struct NetworkParts {
  std::string_view library;     // shared object with the kernels; empty: there are none
  std::string_view graph_json;  // the plan; empty: the library holds all parts (package/module_file.h)
  std::string_view params;      // runtime/params.h
};

class RemoteDevice : public std::enable_shared_from_this<RemoteDevice> {
 public:
  struct Options {
    FarmOptions farm;
    double call_seconds = 120;  // longest duration of one call
    // The session gets only devices for which this returns true. Called on another thread, also more than once for a
    // device. Null: any device.
    std::function<bool(const LeaseGranted&)> fits = nullptr;
    std::stop_token stop = {};  // a request to stop is a Cancel, also while the session waits for a device
    // Called on another thread while the session waits for a device (see MeasureCallbacks::on_wait), and while a call
    // that measures waits for its turn on the device's host (DeviceWait::has_device).
    std::function<void(const DeviceWait&)> on_wait = nullptr;
  };
  // Waits for a device. Errors: those of FarmClient::Connect; no device could be had; the server is older than 2.6.
  static Result<std::shared_ptr<RemoteDevice>> Connect(const Options& options);
  ~RemoteDevice();  // ends the process and gives the device back

  // Calls a function of the process by its name (rpc/call_table.h lists them). Functions and modules among the
  // arguments must be of this session. A function that `runtime.time_evaluator` returns measures while nothing else is
  // measured on the device's host. Errors: that of the function; the session is over.
  Result<Value> Call(const std::string& name, const std::vector<Value>& args);
  // Loads a shared object and the modules in it; `threads` as for LoadModel of package/load.h.
  Result<Module> LoadModule(std::string_view shared_object, int threads = 0);
  // Makes an executor of a network: a module with the functions of runtime/graph_executor.h. The tensors that
  // get_input and get_output return are copies, and the functions *_zero_copy have no use. `replaceable` as in
  // GraphExecutorOptions; servers of 2.6.0 do not know it.
  Result<Module> LoadNetwork(const NetworkParts& parts, int threads = 0, bool replaceable = false);
  // Makes a copy of a tensor in the memory of the process. Functions take it in the place of a tensor, and write to it.
  Result<ObjectRef> NewTensor(const Tensor& tensor);
  // Returns a copy of what NewTensor has made.
  Result<Tensor> Read(const ObjectRef& tensor);
  struct Times {
    std::vector<double> seconds;  // of each call
    std::string disturbed;        // what ran beside them; empty: nothing
  };
  struct Measured {
    Value value;
    std::string disturbed;  // what ran beside the call; empty: nothing
  };
  // Calls a function of the session while nothing else is measured on its host.
  Result<Measured> Measure(const PackedFunc& function, const std::vector<Value>& args);
  struct Paired {
    PairedTimes times;
    std::string disturbed;
  };
  // Calls two functions of the session without arguments in turns (runtime/paired_runs.h), in the same way.
  Result<Paired> TimeInPairs(const PackedFunc& first, const PackedFunc& second, const PairedOptions& options);
  // Calls a function of the session without arguments, while nothing else is measured on its host: at least `runs`
  // times, and until `seconds` are over.
  Result<Times> Time(const PackedFunc& function, int64_t runs = 1, double seconds = 0);
  // Ends the present call and all later ones. From any thread.
  void Cancel();
  // Returns true if the session is over because its device was lost or went to a client that waited. What the session
  // ran is not at fault then, so another session can begin it again.
  bool IsLost() const;

 private:
  struct Impl;
  friend struct RemoteFunction;
  friend struct RemoteModule;
  explicit RemoteDevice(std::unique_ptr<Impl> impl);
  Result<Value> PartOfPackage(std::string_view bytes);
  Result<Module> LoadParts(const NetworkParts& parts, int threads, bool replaceable);
  std::unique_ptr<Impl> impl_;
};

// Waits for a device with this key. `join` is the path of a join file; empty: the tracker is found as by the commands
// (rpc/tracker_choice.h).
Result<std::shared_ptr<RemoteDevice>> Connect(const std::string& join, const std::string& key);

}  // namespace autotune::rpc
