#include "service/farm_networks.h"

#include "rpc/library_files.h"
#include "rpc/limits.h"
#include "rpc/peer_text.h"

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

Status FarmNetworks::Connect() {
  rpc::RemoteDevice::Options options = options_;
  options.fits = [granted = granted_, fits = options_.fits](const rpc::LeaseGranted& lease) {
    if (fits && !fits(lease)) return false;
    const std::lock_guard lock(granted->mutex);
    if (granted->is_pinned) return lease.server == granted->server;
    granted->server = lease.server;
    return true;
  };
  device_ = TRY(rpc::RemoteDevice::Connect(options));
  loaded_ = 0;
  const Result<Value> boot = device_->Call("remote.boot", {});  // servers of 2.6 do not know it
  if (const auto* text = boot.ok() ? boot->If<std::string>() : nullptr) boot_ = rpc::Shown(*text, rpc::kIdBytes);
  EndWait();
  const std::lock_guard lock(granted_->mutex);
  granted_->is_pinned = true;
  return {};
}

}  // namespace autotune
