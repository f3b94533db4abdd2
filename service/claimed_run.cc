#include "service/claimed_run.h"

#include <chrono>
#include <utility>

#include "support/clock.h"
#include "support/hint.h"
#include "support/log.h"

namespace autotune {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kLookAgainMs = 1000;  // [chosen] time between two looks at a claim of another host

Error UnderWay(const RunOwner& owner) {
  return WithHint(Err("this run is under way in ", owner.Text()),
                  "wait for it, or begin another run with --seed N or --fresh");
}

}  // namespace

Result<std::string> ChooseRun(RecordStore& store, const std::string& command_key, bool fresh) {
  if (fresh) {
    std::string key = RunKey(std::vector<std::string>{command_key, NewRecordId()});
    RunState state{.key = command_key, .updated_at = WallMillis()};
    state.state["latest"] = key;
    TRY(store.PutRun(state));
    return key;
  }
  std::optional<RunState> known = TRY(store.GetRun(command_key));
  const std::string* latest = known ? known->state["latest"].As<std::string>() : nullptr;
  return latest ? *latest : command_key;
}

Result<std::unique_ptr<ClaimedRun>> ClaimedRun::Take(RecordStore& store, const std::string& run, Options options) {
  RunOwner self = NewRunOwner();
  std::optional<int64_t> last_wait;
  while (true) {
    const RunClaim claim = TRY(store.Claim(run, self, options.ttl_ms));
    if (claim.granted) return std::unique_ptr<ClaimedRun>(new ClaimedRun(store, run, std::move(self), options));
    // The wait becomes shorter unless the owner renews its claim.
    if (!claim.wait_ms || (last_wait && *claim.wait_ms >= *last_wait)) return UnderWay(claim.owner);
    if (!last_wait && options.on_wait) options.on_wait(claim.owner.Text(), *claim.wait_ms);
    last_wait = claim.wait_ms;
    if (options.stop && *options.stop) return Error("the wait for the run's owner was stopped", ErrorKind::kStopped);
    std::this_thread::sleep_for(milliseconds(std::min(*claim.wait_ms, kLookAgainMs)));
  }
}

ClaimedRun::ClaimedRun(RecordStore& store, std::string run, RunOwner owner, const Options& options)
    : store_(store),
      run_(std::move(run)),
      owner_(std::move(owner)),
      options_(options),
      renewer_([this](const std::stop_token& stop) { Renew(stop); }) {}

ClaimedRun::~ClaimedRun() {
  renewer_.request_stop();
  renewer_.join();
  // A claim that cannot be released ends with this process.
  (void)store_.Release(run_, owner_);
}

void ClaimedRun::Renew(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (ended_.wait_for(lock, stop, milliseconds(options_.renewal_ms), [&] { return stop.stop_requested(); })) return;
    // A lost claim needs no handling here: the store refuses the next batch, which ends the run with an error.
    const Result<RunClaim> claim = store_.Claim(run_, owner_, options_.ttl_ms);
    if (!claim.ok()) Log(LogLevel::kWarning, "cannot renew the claim on this run: ", claim.error().Text());
    if (claim.ok() && !claim->granted) return;
  }
}

}  // namespace autotune
