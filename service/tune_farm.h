// The devices on which `tune` measures: one of a tracker's farm, or this machine.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "rpc/client.h"
#include "service/events.h"
#include "service/model.h"
#include "support/result.h"
#include "target/target.h"
#include "tracker/local_farm.h"

namespace autotune {

// A device of a tracker's farm that this process holds.
struct FarmDevice {
  rpc::FarmOptions farm;
  std::shared_ptr<rpc::FarmClient> client;
  rpc::DeviceInfo info;                                // of the first device; the run is for devices like it
  std::function<bool(const rpc::LeaseGranted&)> fits;  // returns true for devices like it; null: for all
};

// Waits for a device of the farm's key; emits the waits. Sets `info` and `fits`. From then on the client takes only
// devices like it; a note names each other one once.
Status AcquireDevice(FarmDevice& device, const EventSink& emit);

// Starts the farm of this machine for a target, with the device that `model` chooses.
Result<std::unique_ptr<LocalFarm>> StartLocalFarm(const ModelRequest& model, const Target& target);

// Returns a callback that emits waits for a device.
std::function<void(const std::string& reason)> EmitWaits(const EventSink& emit);

// Gives the target no more cores than the device has, since records with the times of fewer cores would pass for those
// of the target. Emits a note if this changes the target. For devices that state what they are, such a target is
// refused before.
void LimitCores(Target& target, int64_t cores, const EventSink& emit);

// Returns the peak FLOPS of this machine's CPU. Returns nothing, and emits a note, if other processes may have
// disturbed the measurement, since the measured peak may then be too low. The search would skip tasks that reach it.
Result<std::optional<double>> PeakOfThisMachine(const Target& target, Builder& builder, const EventSink& emit);
// The same for the device of a farm. Returns nothing also if the device cannot run the kernel that measures it, and
// after a stop, which ends the measurement.
std::optional<double> PeakOfDevice(rpc::FarmClient& farm, const Target& target, Builder& builder,
                                   const std::stop_token& stop, const EventSink& emit);

}  // namespace autotune
