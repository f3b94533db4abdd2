#include "compiler/network_host.h"

#include <unistd.h>

#include "package/load.h"
#include "support/host_lock.h"
#include "support/process_stat.h"

namespace autotune {
namespace {

constexpr int kBetweenTurns = 20'000;  // pause in microseconds; processes that wait for the lock poll more often

class LocalHost : public NetworkHost {
 public:
  explicit LocalHost(const LocalHostOptions& options) : options_(options) {}

  Result<Module> Load(const Package& package, int threads, bool replaceable) override {
    LoadedModel model = TRY(LoadModel(package, threads, "", {.replaceable = replaceable}));
    return MakeGraphExecutorModule(std::move(model.executor));
  }

  Result<Value> Measure(const PackedFunc& function, const std::vector<Value>& args) override {
    const std::optional<HostLock> alone = TRY(Lock());
    return function.Call(args);
  }

  Result<PairedTimes> MeasureInPairs(const PackedFunc& first, const PackedFunc& second,
                                     const PairedOptions& options) override {
    const auto runner = [this](const PackedFunc& function) {
      return [this, &function]() -> Status {
        if (options_.stop && *options_.stop) return Error("stopped", ErrorKind::kStopped);
        TRY(function());
        return {};
      };
    };
    const std::optional<HostLock> alone = TRY(Lock());
    return RunInPairs(runner(first), runner(second), options);
  }

  bool undisturbed() const override { return undisturbed_; }
  MeasuredOn measured_on() const override { return {.boot = BootId()}; }

 private:
  // Returns nothing if other processes do not release the lock in time. The measurement then runs beside them.
  Result<std::optional<HostLock>> Lock() {
    if (std::exchange(has_measured_, true)) usleep(kBetweenTurns);
    std::optional<HostLock> lock = TRY(
        HostLock::AcquireWithin(HostLock::Mode::kExclusive, undisturbed_ ? options_.patience_ms : 0, options_.stop));
    undisturbed_ &= lock.has_value();
    return lock;
  }

  const LocalHostOptions options_;
  bool has_measured_ = false;
  bool undisturbed_ = true;
};

}  // namespace

std::unique_ptr<NetworkHost> MakeLocalHost(const LocalHostOptions& options) {
  return std::make_unique<LocalHost>(options);
}

}  // namespace autotune
