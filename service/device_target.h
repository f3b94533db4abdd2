// The target for a device of a farm: from what its server states about it (rpc::DeviceInfo), or from --target, if the
// device can run code for that. Stateless; thread-safe.
#pragma once
#include <string>
#include <vector>

#include "rpc/device_info.h"
#include "support/result.h"
#include "target/target.h"

namespace autotune {

// Returns true if the server states what its device is. Servers of wire 2.5 and earlier do not.
bool IsStated(const rpc::DeviceInfo& device);

// Names a device for people: "the device `pi` (Raspberry Pi 5 Model B Rev 1.0)".
std::string NameOf(const rpc::DeviceInfo& device);

// Parses --target for a device that states what it is. The options that the text leaves out are the device's; "cpu"
// means the device, also if it is a GPU. Errors: nothing can be compiled for the device; the target is for another
// kind of device or another architecture, or needs more cores than the device has. They name target and device.
Result<Target> TargetFor(const std::string& text, const rpc::DeviceInfo& device);

// Returns an error if the device lacks CPU features that code for this target may use: `features`, those of CheckTarget
// (codegen/builder.h).
Status CheckFeatures(const Target& target, std::vector<std::string> features, const rpc::DeviceInfo& device);

// Says in what a device differs from the first one of a run, so that times and schedules of one may not hold for the
// other: "it is a Raspberry Pi 4 …, the first one a …". Empty: in nothing.
std::string Difference(const rpc::DeviceInfo& first, const rpc::DeviceInfo& other);

}  // namespace autotune
