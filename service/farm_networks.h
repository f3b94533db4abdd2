// FarmNetworks: a device of a farm as the place where the final choice loads and times networks
// (compiler/network_host.h). They run in a session of calls (rpc/remote_device.h), which begins with the first network.
// All sessions use the device that the first one got: if it is lost, or goes to a client that waits, the next one waits
// for it, up to kReturnSeconds.
#pragma once
#include <functional>
#include <memory>
#include <mutex>

#include "compiler/network_host.h"
#include "rpc/remote_device.h"

namespace autotune {

class FarmNetworks : public NetworkHost {
 public:
  // Longest wait for a device to come back. A board that the tracker switches off and on after 5 min of silence
  // (tracker/power_cycle.h) then has 5 min to start. [chosen]
  static constexpr double kReturnSeconds = 600;

  // `options.on_wait` also hears of the end of each wait, by an empty text. `device`: MeasuredOn::device.
  FarmNetworks(rpc::RemoteDevice::Options options, std::string device)
      : options_(std::move(options)), device_name_(std::move(device)) {}

  void BeginTurn() override;
  Result<Module> Load(const Package& package, int threads, bool replaceable) override;
  Result<Value> Measure(const PackedFunc& function, const std::vector<Value>& args) override;
  Result<PairedTimes> MeasureInPairs(const PackedFunc& first, const PackedFunc& second,
                                     const PairedOptions& options) override;
  bool Recover() override;
  bool undisturbed() const override { return undisturbed_; }
  MeasuredOn measured_on() const override;

 private:
  Status Connect();
  // Waits for the device of the first session, whose server has this public id.
  Result<std::shared_ptr<rpc::RemoteDevice>> ConnectAgain(rpc::RemoteDevice::Options options,
                                                          const std::string& server) const;
  void Measured(const std::string& disturbed);
  void EndWait() const;

  // The device of the first session. The client's thread fills it in.
  struct Granted {
    mutable std::mutex mutex;
    rpc::Id server;
    bool is_pinned = false;  // true: later sessions take no other one
  };

  const rpc::RemoteDevice::Options options_;
  const std::string device_name_;
  const std::shared_ptr<Granted> granted_ = std::make_shared<Granted>();
  std::shared_ptr<rpc::RemoteDevice> device_;  // null: there is no session
  std::string boot_;                           // of the device's host
  int loaded_ = 0;                             // networks of the session
  int losses_ = 0;                             // since the latest measurement
  bool undisturbed_ = true;
};

}  // namespace autotune
