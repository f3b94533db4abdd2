// A compiled network that a command runs: in this process, or on a device of a farm. Not thread-safe.
#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "package/load.h"
#include "package/send.h"
#include "rpc/remote_device.h"
#include "runtime/module.h"
#include "service/tune_farm.h"
#include "support/stop_on_signals.h"
#include "tools/tracker_choice.h"

namespace autotune::tools {

// Where it runs.
struct ModelPlace {
  TrackerChoice tracker;
  std::string key;     // of the devices of a farm; empty: here
  std::string device;  // --device, of this machine (DeviceChoiceOf); empty: the first one
  int threads = 0;     // 0: one per CPU
  // Returns true for devices of the farm that may run it. Null: all of this key.
  std::function<bool(const rpc::LeaseGranted&)> fits = nullptr;

  bool OnFarm() const { return tracker.Given() || !key.empty(); }
  // Returns the options that name the farm and the device, as on a command line, with a leading space.
  std::string Words() const;
};
// Adds --tracker, --join and --key.
void AddFarmOptions(CLI::App& app, ModelPlace& place);

// Waits for a device of the place's farm and takes it. From then on, `place` fits devices like it only. `command`: as
// below. The caller gives the device back by ending FarmDevice::client.
Result<FarmDevice> TakeDevice(ModelPlace& place, const std::string& command);

class RunnableModel {
 public:
  // Errors: those of LoadModel, or of RemoteDevice; a package that cannot be sent.
  // `command`: the one that runs it, for the farm's status.
  static Result<RunnableModel> Open(const std::string& package, const ModelPlace& place, const std::string& command);
  // Runs a package that is not on disk, under this name, on a device of the place's farm.
  static Result<RunnableModel> OnFarm(Package package, const std::string& name, const ModelPlace& place,
                                      const std::string& command);
  static RunnableModel Of(LoadedModel model);  // in this process

  const PackageInfo& info() const { return info_; }
  int64_t num_outputs() const { return static_cast<int64_t>(info_.outputs.size()); }
  Result<int64_t> InputIndex(const std::string& name) const;
  Status SetInput(int64_t i, const Tensor& tensor) const;
  Status FillInput(int64_t i, uint64_t seed) const;  // with random values (runtime/fill.h)
  Status RunOnce() const;                            // for its outputs; untimed
  // Runs it at least `runs` times, and until `seconds` are over. Returns the seconds of each run, as measured where it
  // runs. On a farm, nothing else is measured on that host meanwhile; here, the caller sees to that.
  Result<rpc::RemoteDevice::Times> Run(int64_t runs = 1, double seconds = 0) const;
  // Profiles so many runs, as GraphExecutor::AddProfileSamples does. On a farm, as for Run. Returns what ran beside
  // them; empty: nothing.
  Result<std::string> AddProfileSamples(int runs, ProfileSamples& samples) const;
  // Returns the kernels with their times in these samples.
  Result<std::vector<NodeTime>> NodeTimes(const ProfileSamples& samples) const;
  Result<Tensor> Output(int64_t i) const;  // in the memory of this process

 private:
  static Result<RunnableModel> Open(SentPackage parts, const std::string& name, const ModelPlace& place,
                                    const std::string& command);

  PackageInfo info_;
  Module executor_;                            // runtime/graph_executor.h
  std::shared_ptr<rpc::RemoteDevice> device_;  // null: this process
  std::unique_ptr<StopOnSignals> signals_;     // end the session, so that the device is given back
};

}  // namespace autotune::tools
