#include "tracker/job_reporter.h"

#include <thread>

#include "rpc/transport.h"
#include "support/clock.h"
#include "support/loop.h"

namespace autotune {
namespace {

constexpr int kFirstMinor = 8;  // of the version 2 that has the message
constexpr int64_t kIntervalMs = 1000, kAgainMs = 3000;
constexpr int64_t kSendMs = 100;  // for the last report

}  // namespace

struct JobReporter::Impl {
  void Send() {
    if (!knows || latest.run.empty()) return;
    const int64_t now = BootMillis();
    if (!is_new && now - sent < kAgainMs) return;
    if (!socket->Send({"", latest, {}})) return;
    is_new = false;
    sent = now;
  }

  Loop loop;
  std::unique_ptr<rpc::DealerSocket> socket;
  Loop::Watch timer, end;
  rpc::JobReport latest;  // no run: there is none yet
  bool is_new = false;
  bool knows = false;  // the tracker knows the message
  int64_t sent = 0;
  std::thread thread;
};

JobReporter::JobReporter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<JobReporter>> JobReporter::Start(const rpc::Address& tracker) {
  auto impl = std::make_unique<Impl>();
  Impl* raw = impl.get();
  const rpc::Message ping{rpc::RandomId(), rpc::Ping{}, {}};
  raw->socket = TRY(rpc::DealerSocket::Connect(raw->loop, tracker,
                                               {.on_message =
                                                    [raw](const rpc::Message& message) {
                                                      if (!message.As<rpc::Pong>()) return;
                                                      raw->knows = message.minor >= kFirstMinor;
                                                      raw->Send();
                                                    },
                                                .on_connected =
                                                    [raw, ping] {
                                                      // It may be another tracker than before.
                                                      raw->knows = false;
                                                      raw->is_new = true;
                                                      raw->socket->Send(ping);
                                                    }},
                                               rpc::DealerSocket::Peers::kTracker));
  raw->timer = raw->loop.Every(kIntervalMs, [raw] { raw->Send(); });
  raw->thread = std::thread([raw] { raw->loop.Run(); });
  return std::unique_ptr<JobReporter>(new JobReporter(std::move(impl)));
}

JobReporter::~JobReporter() {
  impl_->loop.Post([impl = impl_.get()] {
    impl->Send();
    impl->end = impl->loop.After(kSendMs, [impl] { impl->loop.Stop(); });
  });
  impl_->thread.join();
}

void JobReporter::Report(rpc::JobReport report) {
  impl_->loop.Post([impl = impl_.get(), report = std::move(report)]() mutable {
    // The end of a run is told at once.
    const bool ends = report.state != impl->latest.state;
    impl->latest = std::move(report);
    impl->is_new = true;
    if (ends) impl->Send();
  });
}

}  // namespace autotune
