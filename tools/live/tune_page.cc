#include "tools/live/tune_page.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "http/metrics_text.h"
#include "http/site.h"
#include "support/clock.h"
#include "tools/live/page_files.h"
#include "tools/live/tune_view.h"

namespace autotune::tools {
namespace {

constexpr auto kPublishEvery = std::chrono::seconds(1);
constexpr int64_t kLastMs = 300;  // for readers to get the end of the run

}  // namespace

struct TunePage::Impl {
  explicit Impl(const std::string& version) : version(version), view(version) {}

  void Publish() {
    site->Publish([this] {
      std::vector<std::pair<event::Any, int64_t>> taken;
      {
        std::lock_guard lock(mutex);
        taken = std::exchange(events, {});
      }
      for (const auto& [event, when] : taken) {
        view.Take(event, when);
        if (const auto* round = std::get_if<event::Round>(&event)) latest = *round;
      }
      return view.State(WallMillis());
    });
  }
  // Shows every second that the run is alive.
  void Beat() {
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, kPublishEvery, [this] { return ends; })) {
      lock.unlock();
      Publish();
      lock.lock();
    }
  }
  std::string Metrics() const {
    http::MetricsText out;
    out.Begin("autotune_build_info", "gauge", "The version of this program.");
    out.Add({{"version", version}}, 1);
    out.Begin("autotune_trials_total", "counter", "Candidates of this run, by status.");
    for (const auto& [status, count] : latest.outcomes) out.Add({{"status", status}}, static_cast<double>(count));
    out.Begin("autotune_records_total", "counter", "Records of this run.");
    out.Add({}, static_cast<double>(latest.records));
    return out.text();
  }

  const std::string version;
  std::mutex mutex;
  std::condition_variable wake;
  bool ends = false;                                   // protected by the mutex
  std::vector<std::pair<event::Any, int64_t>> events;  // that the view lacks, with their times; protected by the mutex
  // Of the server's thread:
  TuneView view;
  event::Round latest;
  std::unique_ptr<http::Site> site;
  std::thread beat;
};

TunePage::TunePage(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<TunePage>> TunePage::Start(const std::string& address, const std::string& version) {
  auto impl = std::make_unique<Impl>(version);
  Impl* raw = impl.get();
  raw->site =
      TRY(http::Site::Start({.address = address, .files = TuneFiles(), .metrics = [raw] { return raw->Metrics(); }}));
  raw->Publish();
  raw->beat = std::thread([raw] { raw->Beat(); });
  return std::unique_ptr<TunePage>(new TunePage(std::move(impl)));
}

TunePage::~TunePage() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->ends = true;
  }
  impl_->wake.notify_all();
  impl_->beat.join();
  if (impl_->site->server().Connections() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(kLastMs));
}

std::string TunePage::Url() const { return impl_->site->server().Url(); }

void TunePage::Take(const event::Any& event) {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->events.emplace_back(event, WallMillis());
  }
  impl_->Publish();
}

}  // namespace autotune::tools
