#include "tools/live/tune_page.h"

#include <unistd.h>

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
constexpr int64_t kLastMs = 300;      // for readers to get the end of the run
constexpr int64_t kReportMs = 60000;  // for the report of a large database [chosen]
constexpr int kNiceness = 19;

}  // namespace

struct TunePage::Impl {
  explicit Impl(TunePageOptions given) : options(std::move(given)), view(options.version) {}

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
      Json state = view.State(WallMillis());
      if (options.report) state["report_command"] = Json(options.report_command);
      return state;
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
  // Answers by the report. All who ask while one is made share it.
  void GiveReport(http::Answer answer) {
    std::lock_guard lock(mutex);
    askers.push_back(std::move(answer));
    if (askers.size() > 1) return;
    if (maker.joinable()) maker.join();  // it has answered
    maker = std::thread([this] {
      (void)nice(kNiceness);  // of this thread: the run measures
      const Result<std::string> page = options.report();
      http::Response response =
          http::TextResponse(503, page.ok() ? "" : "no report yet: " + page.error().Text() + "\n");
      if (page.ok()) {
        response = {
            .type = "text/html; charset=utf-8", .body = std::make_shared<const std::string>(*page), .has_policy = true};
      }
      std::lock_guard answers(mutex);
      for (const http::Answer& asker : std::exchange(askers, {})) asker(response);
    });
  }
  std::string Metrics() const {
    http::MetricsText out;
    out.Begin("autotune_build_info", "gauge", "The version of this program.");
    out.Add({{"version", options.version}}, 1);
    out.Begin("autotune_trials_total", "counter", "Candidates of this run, by status.");
    for (const auto& [status, count] : latest.outcomes) out.Add({{"status", status}}, static_cast<double>(count));
    out.Begin("autotune_records_total", "counter", "Records of this run.");
    out.Add({}, static_cast<double>(latest.records));
    return out.text();
  }

  const TunePageOptions options;
  std::mutex mutex;
  std::condition_variable wake;
  bool ends = false;                                   // protected by the mutex
  std::vector<std::pair<event::Any, int64_t>> events;  // that the view lacks, with their times; protected by the mutex
  std::vector<http::Answer> askers;                    // for the report; protected by the mutex
  // Of the server's thread:
  std::thread maker;  // of the report
  TuneView view;
  event::Round latest;
  std::unique_ptr<http::Site> site;
  std::thread beat;
};

TunePage::TunePage(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<TunePage>> TunePage::Start(TunePageOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  Impl* raw = impl.get();
  http::SiteOptions site{
      .address = raw->options.address, .limits = {.answer_ms = kReportMs}, .files = TuneFiles(), .metrics = [raw] {
        return raw->Metrics();
      }};
  if (raw->options.report) site.made["/report"] = [raw](http::Answer answer) { raw->GiveReport(std::move(answer)); };
  raw->site = TRY(http::Site::Start(std::move(site)));
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
  impl_->site.reset();  // nobody asks for a report any more
  if (impl_->maker.joinable()) impl_->maker.join();
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
