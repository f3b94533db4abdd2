#include "tools/autotune/runnable_model.h"

#include <filesystem>

#include "package/load.h"
#include "package/module_file.h"
#include "rpc/call_table.h"
#include "runtime/device.h"
#include "runtime/fill.h"
#include "support/hint.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"

namespace autotune::tools {

void AddFarmOptions(CLI::App& app, ModelPlace& place) {
  AddTrackerOptions(app, place.tracker);
  app.add_option("--key", place.key, "run it on a device of a farm that has this key");
}

Result<RunnableModel> RunnableModel::Open(const std::string& package, const ModelPlace& place,
                                          const std::string& command) {
  RunnableModel network;
  if (!place.OnFarm()) {
    LoadedModel model = TRY(LoadModel(package, place.threads, place.device));
    network.info_ = std::move(model.info);
    network.executor_ = MakeGraphExecutorModule(std::move(model.executor));
    return network;
  }
  if (!place.device.empty()) return Err("--device chooses a device of this machine; --key chooses one of a farm");
  if (TRY(IsSharedObject(package)))
    return WithHint(Err(package, " is a shared object, which only this machine can run"), "give the package as M.tar");
  Package parts = TRY_NOTE(ReadPackage(package), "while loading " + package);
  if (parts.library.empty() && (!parts.objects.empty() || !parts.sources.empty()))
    return Err(package, " has no linked library, which a device of a farm needs");
  rpc::RemoteDevice::Options options;
  options.farm.tracker = TRY(place.tracker.Find());
  options.farm.key = place.key;
  options.farm.job = command + " " + std::filesystem::path(package).filename().string();
  std::stop_source stop;
  options.stop = stop.get_token();
  network.signals_ = std::make_unique<StopOnSignals>(stop, kExitInterrupted);
  options.on_wait = [](const rpc::DeviceWait& wait) { Console::Get().Note("waiting for a device: " + wait.text); };
  network.device_ = TRY(rpc::RemoteDevice::Connect(options));
  network.executor_ =
      TRY_NOTE(network.device_->LoadNetwork({parts.library, parts.graph_json, parts.params}, place.threads),
               "while loading " + package);
  network.info_ = std::move(parts.info);
  return network;
}

Result<int64_t> RunnableModel::InputIndex(const std::string& name) const {
  return TRY(TRY(executor_->GetFunction("get_input_index"))(name)).As<int64_t>();
}

Status RunnableModel::SetInput(int64_t i, const Tensor& tensor) const {
  TRY(TRY(executor_->GetFunction("set_input"))(i, tensor));
  return {};
}

Status RunnableModel::FillInput(int64_t i, uint64_t seed) const {
  const TensorSpec& spec = info_.inputs[static_cast<size_t>(i)];
  const Tensor tensor = TRY(Tensor::Empty(spec.shape, spec.dtype));
  FillRandom(tensor, seed);
  return SetInput(i, tensor);
}

Result<rpc::RemoteDevice::Times> RunnableModel::Run(int64_t runs, double seconds) const {
  const PackedFunc run = TRY(executor_->GetFunction("run"));
  if (device_) return device_->Time(run, runs, seconds);
  std::vector<double> times = TRY(rpc::TimeEachCall(run, runs, seconds));
  return rpc::RemoteDevice::Times{std::move(times), ""};
}

Result<Tensor> RunnableModel::Output(int64_t i) const {
  return ToHost(TRY(TRY(TRY(executor_->GetFunction("get_output"))(i)).As<Tensor>()));
}

}  // namespace autotune::tools
