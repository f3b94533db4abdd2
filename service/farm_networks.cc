#include "service/farm_networks.h"

#include <algorithm>

#include "rpc/library_files.h"
#include "rpc/limits.h"
#include "rpc/peer_text.h"
#include "support/clock_text.h"
#include "support/hint.h"

namespace autotune {

void FarmNetworks::BeginTurn() {
  // A process loads only few large libraries, and frees none of them.
  if (loaded_ + kMostNetworks > rpc::LibraryFiles::kMost) device_.reset();
}

Result<Module> FarmNetworks::Load(const Package& package, int threads, bool replaceable) {
  if (!device_) TRY(Connect());
  ++loaded_;
  return device_->LoadNetwork({package.library, package.graph_json, package.params}, threads, replaceable);
}

Result<Value> FarmNetworks::Measure(const PackedFunc& function, const std::vector<Value>& args) {
  rpc::RemoteDevice::Measured made = TRY(device_->Measure(function, args));
  Measured(made.disturbed);
  return std::move(made.value);
}

Result<PairedTimes> FarmNetworks::MeasureInPairs(const PackedFunc& first, const PackedFunc& second,
                                                 const PairedOptions& options) {
  rpc::RemoteDevice::Paired made = TRY(device_->TimeInPairs(first, second, options));
  Measured(made.disturbed);
  return std::move(made.times);
}

void FarmNetworks::Measured(const std::string& disturbed) {
  losses_ = 0;
  undisturbed_ &= disturbed.empty();
  EndWait();
}

void FarmNetworks::EndWait() const {
  if (options_.on_wait) options_.on_wait({});
}

bool FarmNetworks::Recover() {
  // A device that takes longer to load a network than other clients wait for it would be lost each time.
  constexpr int kMostLosses = 5;  // [chosen]
  if (!device_ || !device_->IsLost() || ++losses_ > kMostLosses) return false;
  device_.reset();
  return true;
}

MeasuredOn FarmNetworks::measured_on() const {
  const std::lock_guard lock(granted_->mutex);
  return {.device = device_name_, .server = rpc::PublicId(granted_->server), .boot = boot_};
}

Result<std::shared_ptr<rpc::RemoteDevice>> FarmNetworks::ConnectAgain(rpc::RemoteDevice::Options options,
                                                                      const std::string& server) const {
  const std::string device = "the device of server " + server + ", on which the networks are compared";
  options.farm.wait_seconds = std::min(options.farm.wait_seconds, kReturnSeconds);
  if (options_.on_wait) {
    options.on_wait = [on_wait = options_.on_wait, device](rpc::DeviceWait wait) {
      if (!wait.has_device) wait.text = device + ", is not free: " + wait.text;
      on_wait(wait);
    };
  }
  Result<std::shared_ptr<rpc::RemoteDevice>> again = rpc::RemoteDevice::Connect(options);
  if (again.ok() || again.error().kind == ErrorKind::kStopped) return again;
  return WithHint(Err(device, ", has not come back within ",
                      LastingText(static_cast<int64_t>(options.farm.wait_seconds * 1000)), ": ", again.error().Text()),
                  "the same command compares them once it is there");
}

Status FarmNetworks::Connect() {
  rpc::RemoteDevice::Options options = options_;
  options.fits = [granted = granted_, fits = options_.fits](const rpc::LeaseGranted& lease) {
    if (fits && !fits(lease)) return false;
    const std::lock_guard lock(granted->mutex);
    if (granted->is_pinned) return lease.server == granted->server;
    granted->server = lease.server;
    return true;
  };
  const std::string server = granted_->is_pinned ? measured_on().server : "";  // only this thread pins it
  device_ = TRY(server.empty() ? rpc::RemoteDevice::Connect(options) : ConnectAgain(std::move(options), server));
  loaded_ = 0;
  const Result<Value> boot = device_->Call("remote.boot", {});  // servers of 2.6 do not know it
  if (const auto* text = boot.ok() ? boot->If<std::string>() : nullptr) boot_ = rpc::Shown(*text, rpc::kIdBytes);
  EndWait();
  const std::lock_guard lock(granted_->mutex);
  granted_->is_pinned = true;
  return {};
}

}  // namespace autotune
