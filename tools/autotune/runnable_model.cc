#include "tools/autotune/runnable_model.h"

#include <algorithm>
#include <filesystem>

#include "package/module_file.h"
#include "package/prepared_model.h"
#include "package/send.h"
#include "rpc/call_table.h"
#include "runtime/device.h"
#include "runtime/graph_executor.h"
#include "support/file.h"
#include "support/json.h"
#include "support/shell.h"
#include "support/statistics.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"

namespace autotune::tools {

void AddFarmOptions(CLI::App& app, ModelPlace& place) {
  AddTrackerOptions(app, place.tracker);
  app.add_option("--key", place.key, "run it on a device of a farm that has this key");
}

std::string ModelPlace::Words() const {
  return OnFarm()         ? tracker.Words() + " --key " + ShellWord(key)
         : device.empty() ? ""
                          : " --device " + ShellWord(device);
}

namespace {

void NoteWait(const rpc::DeviceWait& wait) {
  Console::Get().Note((wait.has_device ? "waiting to measure: " : "waiting for a device: ") + wait.text);
}

// Returns the farm's options for a command that runs `name`.
Result<rpc::FarmOptions> FarmOf(const ModelPlace& place, const std::string& command, const std::string& name) {
  rpc::FarmOptions farm;
  farm.tracker = TRY(place.tracker.Find());
  farm.key = place.key;
  farm.job = command + (name.empty() ? "" : " " + std::filesystem::path(name).filename().string());
  return farm;
}

// Returns the description that a shared object has of its network.
Result<PackageInfo> InfoThere(const Module& executor) {
  const Result<PackedFunc> get = executor->GetFunction("get_info");
  if (!get.ok()) return PackageInfo();
  return FromJson<PackageInfo>(TRY(Json::Parse(TRY(TRY((*get)()).As<std::string>()))));
}

}  // namespace

Result<FarmDevice> TakeDevice(ModelPlace& place, const std::string& command) {
  FarmDevice device;
  device.farm = TRY(FarmOf(place, command, ""));
  device.client = TRY(rpc::FarmClient::Connect(device.farm));
  std::stop_source stop;
  const StopOnSignals signals(stop, kExitInterrupted);
  const std::stop_callback cancel(stop.get_token(), [&] { device.client->Cancel(); });
  TRY(AcquireDevice(device, [](const event::Any& event) {
    if (const auto* note = std::get_if<event::Note>(&event)) Console::Get().Note(note->text);
    const auto* wait = std::get_if<event::Waiting>(&event);
    if (wait && !wait->reason.empty()) Console::Get().Note("waiting for " + wait->what + ": " + wait->reason);
  }));
  place.fits = device.fits;
  return device;
}

Result<RunnableModel> RunnableModel::Open(const std::string& package, const ModelPlace& place,
                                          const std::string& command) {
  if (!place.OnFarm()) return Of(TRY(LoadFile(package, place.threads, place.device, UsePrepared::kIfAsked)));
  if (!place.device.empty()) return Err("--device chooses a device of this machine; --key chooses one of a farm");
  return Open(TRY_NOTE(PackageToSend(package), "while loading " + package), package, place, command);
}

Result<RunnableModel> RunnableModel::OnFarm(Package package, const std::string& name, const ModelPlace& place,
                                            const std::string& command) {
  return Open(TRY_NOTE(PackageToSend(std::move(package)), "while loading " + name), name, place, command);
}

Result<RunnableModel> RunnableModel::Open(SentPackage parts, const std::string& name, const ModelPlace& place,
                                          const std::string& command) {
  const std::string loading = "while loading " + name;
  rpc::RemoteDevice::Options options;
  options.farm = TRY(FarmOf(place, command, name));
  options.fits = place.fits;
  RunnableModel network;
  std::stop_source stop;
  options.stop = stop.get_token();
  network.signals_ = std::make_unique<StopOnSignals>(stop, kExitInterrupted);
  options.on_wait = NoteWait;
  network.device_ = TRY(rpc::RemoteDevice::Connect(options));
  Result<Module> loaded = network.device_->LoadNetwork({parts.library, parts.graph_json, parts.params}, place.threads);
  if (!loaded.ok() && parts.linked_here)
    return std::move(loaded)
        .error()
        .Note("the package has no linked library, so `cc` of this machine has linked it")
        .Note(loading);
  network.executor_ = TRY_NOTE(std::move(loaded), loading);
  network.info_ = std::move(parts.info);
  if (parts.graph_json.empty()) network.info_ = TRY_NOTE(InfoThere(network.executor_), loading);
  if (network.info_.outputs.empty())
    return Err(name, " does not describe its inputs and outputs, so it can run on this machine only");
  return network;
}

RunnableModel RunnableModel::Of(LoadedModel model) {
  RunnableModel network;
  network.info_ = std::move(model.info);
  network.executor_ = MakeGraphExecutorModule(std::move(model.executor));
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
  return autotune::FillInput(executor_, i, spec.shape, spec.dtype, seed);
}

Status RunnableModel::RunOnce() const {
  TRY(TRY(executor_->GetFunction("run"))());
  return {};
}

Result<rpc::RemoteDevice::Times> RunnableModel::Run(int64_t runs, double seconds) const {
  const PackedFunc run = TRY(executor_->GetFunction("run"));
  if (device_) return device_->Time(run, runs, seconds);
  std::vector<double> times = TRY(rpc::TimeEachCall(run, runs, seconds));
  return rpc::RemoteDevice::Times{std::move(times), ""};
}

Result<std::string> RunnableModel::AddProfileSamples(int runs, ProfileSamples& samples) const {
  const PackedFunc profile = TRY(executor_->GetFunction("profile_samples"));
  rpc::RemoteDevice::Measured measured;
  if (device_) {
    measured = TRY(device_->Measure(profile, {Value(runs)}));
  } else {
    measured.value = TRY(profile(runs));
  }
  const Tensor rows = TRY(measured.value.As<Tensor>());
  const std::vector<int64_t>& shape = rows.shape();
  if (!(rows.dtype() == DLDataType{kDLFloat, 64, 1}) || shape.size() != 2 || shape[0] < 1 || shape[1] != runs)
    return Err("the device has answered with other times than were asked for");
  samples.kernels.resize(static_cast<size_t>(shape[0] - 1));
  for (size_t row = 0; row <= samples.kernels.size(); ++row) {
    const double* seconds = rows.Data<double>() + row * static_cast<size_t>(runs);
    std::vector<double>& to = row == 0 ? samples.network : samples.kernels[row - 1];
    to.insert(to.end(), seconds, seconds + runs);
  }
  return measured.disturbed;
}

Result<std::vector<NodeTime>> RunnableModel::NodeTimes(const ProfileSamples& samples) const {
  const std::string text = TRY(TRY(TRY(executor_->GetFunction("profile"))(1)).As<std::string>());
  auto nodes = TRY(FromJson<std::vector<NodeTime>>(TRY(Json::Parse(text))));
  if (nodes.size() != samples.kernels.size()) return Err("the device has answered with other kernels than it timed");
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].seconds = Median(samples.kernels[i]);
    nodes[i].least = *std::ranges::min_element(samples.kernels[i]);
  }
  return nodes;
}

Result<Tensor> RunnableModel::Output(int64_t i) const {
  return ToHost(TRY(TRY(TRY(executor_->GetFunction("get_output"))(i)).As<Tensor>()));
}

}  // namespace autotune::tools
