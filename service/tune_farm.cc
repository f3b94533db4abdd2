#include "service/tune_farm.h"

#include <set>

#include "runtime/device.h"
#include "service/device_target.h"
#include "service/events.h"
#include "service/peak.h"
#include "service/text.h"
#include "support/clock.h"
#include "support/error_parts.h"
#include "support/host_lock.h"

namespace autotune {

std::function<void(const std::string& reason)> EmitWaits(const EventSink& emit) {
  auto since = std::make_shared<int64_t>(0);  // BootMillis at the begin of the present wait; 0: not waiting
  return [emit, since](const std::string& reason) {
    if (reason.empty() && *since == 0) return;
    if (*since == 0) *since = BootMillis();
    emit(event::Waiting{"a device", reason, static_cast<double>(BootMillis() - *since) / 1e3});
    if (reason.empty()) *since = 0;
  };
}

namespace {

// Names devices that a run does not use, each once.
class UnlikeDevices {
 public:
  UnlikeDevices(rpc::DeviceInfo first, const EventSink& emit) : first_(std::move(first)), emit_(emit) {}
  bool IsLike(const rpc::LeaseGranted& granted) {
    const std::string difference = Difference(first_, *granted.device);
    if (!difference.empty()) Name(rpc::PublicId(granted.server), *granted.device, difference);
    return difference.empty();
  }
  // Names those of which the tracker's status shows that they differ: a run may never be granted them.
  void NameAllOf(const rpc::StatusReply& status) {
    for (const rpc::DeviceStatus& other : status.devices) {
      std::string difference;
      if (other.model != first_.model) difference = "another model";
      if (other.cores.size() != first_.cores.size())
        difference += (difference.empty() ? "" : ", ") + CountText(static_cast<int64_t>(other.cores.size()), "core") +
                      " instead of " + std::to_string(first_.cores.size());
      if (!difference.empty()) Name(other.server, {.key = other.key, .model = other.model}, difference);
    }
  }

 private:
  void Name(const std::string& server, const rpc::DeviceInfo& device, const std::string& difference) {
    if (!named_.insert(server).second) return;
    emit_(event::Note{NameOf(device) + " of server " + server + " is not used, since it differs from " +
                      NameOf(first_) + ", which this run has got first: " + difference});
  }

  rpc::DeviceInfo first_;
  const EventSink emit_;
  std::set<std::string> named_;  // public ids of servers
};

// Emits why the peak is unknown. Returns it.
std::optional<double> UnknownPeak(const std::string& why, const EventSink& emit) {
  emit(event::Note{why + ", so the peak is unknown: the table has no % peak, and a run that begins now "
                         "searches every task until its trials are spent"});
  return std::nullopt;
}

}  // namespace

Status AcquireDevice(FarmDevice& device, const EventSink& emit) {
  const auto wait = EmitWaits(emit);
  device.info = TRY(device.client->Acquire([&](const rpc::DeviceWait& its) { wait(its.text); }));
  wait("");
  auto unlike = std::make_shared<UnlikeDevices>(device.info, emit);
  if (IsStated(device.info))
    if (const auto status = rpc::QueryStatus(device.farm.tracker, device.farm.key); status.ok())
      unlike->NameAllOf(*status);
  device.fits = [unlike](const rpc::LeaseGranted& granted) { return unlike->IsLike(granted); };
  device.client->UseOnly(device.fits);
  return {};
}

Result<std::unique_ptr<LocalFarm>> StartLocalFarm(const ModelRequest& model, const Target& target) {
  LocalFarmOptions local;
  if (!model.programs.empty()) local.server_path = model.programs + "/rpc_server";
  if (target.IsGpu()) {
    const int kind = TRY(DeviceTypeFromName(ToText(target.kind)));
    const DeviceChoice device = TRY(DeviceChoiceOf(kind, model.device));
    local.server_arguments = {"--device", DeviceText(device)};
  }
  return TRY_NOTE(LocalFarm::Start(local), "while starting the local device server");
}

void LimitCores(Target& target, int64_t cores, const EventSink& emit) {
  if (target.IsGpu() || cores == 0 || target.num_cores <= cores) return;
  emit(event::Note{"the target has " + CountText(target.num_cores, "core") + ", but the device has " +
                   std::to_string(cores) +
                   ": this run tunes, stores and compiles for -num-cores=" + std::to_string(cores)});
  target.num_cores = static_cast<int>(cores);
}

Result<std::optional<double>> PeakOfThisMachine(const Target& target, Builder& builder, const EventSink& emit) {
  const MeasuredPeak peak = TRY(MeasurePeakFlops(target, builder));
  if (peak.alone) return std::optional<double>(peak.flops);
  return UnknownPeak("other processes held " + HostLock::Path() + " while the machine's peak was measured", emit);
}

std::optional<double> PeakOfDevice(rpc::FarmClient& farm, const Target& target, Builder& builder,
                                   const std::stop_token& stop, const EventSink& emit) {
  std::stop_callback cancel(stop, [&] { farm.Cancel(); });
  const auto wait = EmitWaits(emit);
  const Result<MeasuredPeak> peak =
      MeasurePeakFlopsOn(farm, target, builder, {.on_wait = [&](const rpc::DeviceWait& its) { wait(its.text); }});
  wait("");
  if (stop.stop_requested()) return std::nullopt;
  if (!peak.ok()) return UnknownPeak(SentenceOf(peak.error()), emit);
  if (!peak->alone) return UnknownPeak("other processes disturbed the device while its peak was measured", emit);
  return peak->flops;
}

}  // namespace autotune
