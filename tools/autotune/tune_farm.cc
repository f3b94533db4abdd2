#include "tools/autotune/tune_farm.h"

#include <set>

#include "runtime/device.h"
#include "support/clock.h"
#include "support/host_lock.h"
#include "tools/autotune/device_target.h"
#include "tools/autotune/events.h"
#include "tools/autotune/peak.h"
#include "tools/autotune/text.h"
#include "tools/error_lines.h"

namespace autotune::tools {

std::function<void(const std::string& reason)> EmitWaits(EventPrinter& events) {
  auto since = std::make_shared<int64_t>(0);  // BootMillis at the begin of the present wait; 0: not waiting
  return [&events, since](const std::string& reason) {
    if (reason.empty() && *since == 0) return;
    if (*since == 0) *since = BootMillis();
    events.Print(event::Waiting{"a device", reason, static_cast<double>(BootMillis() - *since) / 1e3});
    if (reason.empty()) *since = 0;
  };
}

namespace {

// Names devices that a run does not use, each once.
class UnlikeDevices {
 public:
  UnlikeDevices(rpc::DeviceInfo first, EventPrinter& events) : first_(std::move(first)), events_(events) {}
  bool IsLike(const rpc::LeaseGranted& granted) {
    const std::string difference = Difference(first_, granted.device);
    if (!difference.empty()) Name(rpc::PublicId(granted.server), granted.device, difference);
    return difference.empty();
  }
  // Names those of which the tracker's status shows that they differ: a run may never be granted them.
  void NameAllOf(const rpc::StatusReply& status) {
    for (const rpc::DeviceStatus& other : status.devices) {
      std::string difference;
      if (other.model != first_.model) difference = "another model";
      if (other.cores.size() != first_.cores.size())
        difference += (difference.empty() ? "" : ", ") + Counted(static_cast<int64_t>(other.cores.size()), "core") +
                      " instead of " + std::to_string(first_.cores.size());
      if (!difference.empty()) Name(other.server, {.key = other.key, .model = other.model}, difference);
    }
  }

 private:
  void Name(const std::string& server, const rpc::DeviceInfo& device, const std::string& difference) {
    if (!named_.insert(server).second) return;
    events_.Print(event::Note{NameOf(device) + " of server " + server + " is not used, since it differs from " +
                              NameOf(first_) + ", which this run has got first: " + difference});
  }

  rpc::DeviceInfo first_;
  EventPrinter& events_;
  std::set<std::string> named_;  // public ids of servers
};

// Emits why the peak is unknown. Returns it.
std::optional<double> UnknownPeak(const std::string& why, EventPrinter& events) {
  events.Print(event::Note{why + ", so the peak is unknown: the table has no % peak, and a run that begins now "
                                 "searches every task until its trials are spent"});
  return std::nullopt;
}

}  // namespace

Status AcquireDevice(FarmDevice& device, EventPrinter& events) {
  const auto wait = EmitWaits(events);
  device.info = TRY(device.client->Acquire([&](const rpc::DeviceWait& its) { wait(its.text); }));
  wait("");
  auto unlike = std::make_shared<UnlikeDevices>(device.info, events);
  if (IsStated(device.info))
    if (const auto status = rpc::QueryStatus(device.farm.tracker, device.farm.key); status.ok())
      unlike->NameAllOf(*status);
  device.fits = [unlike](const rpc::LeaseGranted& granted) { return unlike->IsLike(granted); };
  device.client->UseOnly(device.fits);
  return {};
}

Result<std::unique_ptr<LocalFarm>> StartLocalFarm(const ModelOptions& model, const Target& target) {
  LocalFarmOptions local;
  if (target.IsGpu()) {
    const int kind = TRY(DeviceTypeFromName(ToText(target.kind)));
    const DeviceChoice device = TRY(DeviceChoiceOf(kind, model.device));
    local.server_arguments = {"--device", DeviceText(device)};
  }
  return TRY_NOTE(LocalFarm::Start(local), "while starting the local device server");
}

void LimitCores(Target& target, int64_t cores, EventPrinter& events) {
  if (target.IsGpu() || cores == 0 || target.num_cores <= cores) return;
  events.Print(event::Note{"the target has " + Counted(target.num_cores, "core") + ", but the device has " +
                           std::to_string(cores) +
                           ": this run tunes, stores and compiles for -num-cores=" + std::to_string(cores)});
  target.num_cores = static_cast<int>(cores);
}

Result<std::optional<double>> PeakOfThisMachine(const Target& target, Builder& builder, EventPrinter& events) {
  const MeasuredPeak peak = TRY(MeasurePeakFlops(target, builder));
  if (peak.alone) return std::optional<double>(peak.flops);
  return UnknownPeak("other processes held " + HostLock::Path() + " while the machine's peak was measured", events);
}

std::optional<double> PeakOfDevice(rpc::FarmClient& farm, const Target& target, Builder& builder,
                                   const std::stop_token& stop, EventPrinter& events) {
  std::stop_callback cancel(stop, [&] { farm.Cancel(); });
  const auto wait = EmitWaits(events);
  const Result<MeasuredPeak> peak =
      MeasurePeakFlopsOn(farm, target, builder, {.on_wait = [&](const rpc::DeviceWait& its) { wait(its.text); }});
  wait("");
  if (stop.stop_requested()) return std::nullopt;
  if (!peak.ok()) return UnknownPeak(SentenceOf(peak.error()), events);
  if (!peak->alone) return UnknownPeak("other processes disturbed the device while its peak was measured", events);
  return peak->flops;
}

}  // namespace autotune::tools
