#include "support/loop.h"

#include <fcntl.h>
#include <poll.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <cerrno>
#include <cstring>

#include "support/check.h"

namespace autotune {
namespace asio = boost::asio;

struct Loop::Impl {
  asio::io_context context{1};
  // Posts go through a strand, which keeps the order of the calls. Without a strand, asio would keep the functions that
  // a handler posts in a private queue until the handler returns. Functions that other threads post meanwhile would run
  // first.
  asio::strand<asio::io_context::executor_type> posted = asio::make_strand(context);
};

namespace {

// A callback may end its own watch, so the state outlives the handle until Asio has dropped it.
template <class State>
class Owner : public Loop::Handle {
 public:
  explicit Owner(std::shared_ptr<State> state) : state_(std::move(state)) { state_->Arm(state_); }
  ~Owner() override { state_->End(); }

 private:
  std::shared_ptr<State> state_;
};

struct DescriptorState {
  using Waits = asio::posix::stream_descriptor::wait_type;
  DescriptorState(asio::io_context& context, int fd, Waits waits, std::function<void()> f)
      : descriptor(context, fd), waits(waits), f(std::move(f)) {}
  void Arm(std::shared_ptr<DescriptorState> self) {
    // async_wait re-arms the epoll entry every time, so a condition that still holds is reported again.
    descriptor.async_wait(waits, [self](const boost::system::error_code& error) {
      if (error || self->ended) return;
      self->f();
      if (!self->ended) self->Arm(self);
    });
  }
  void End() {
    ended = true;
    boost::system::error_code ignored;
    descriptor.close(ignored);
  }
  asio::posix::stream_descriptor descriptor;
  Waits waits;
  std::function<void()> f;
  bool ended = false;
};

struct TimerState {
  TimerState(asio::io_context& context, int64_t milliseconds, bool repeats, std::function<void()> f)
      : timer(context), interval(milliseconds), repeats(repeats), f(std::move(f)) {}
  void Arm(std::shared_ptr<TimerState> self) {
    timer.expires_after(interval);
    timer.async_wait([self](const boost::system::error_code& error) {
      if (error || self->ended) return;
      self->f();
      if (!self->ended && self->repeats) self->Arm(self);
    });
  }
  void End() {
    ended = true;
    timer.cancel();
  }
  asio::steady_timer timer;
  std::chrono::milliseconds interval;
  bool repeats;
  std::function<void()> f;
  bool ended = false;
};

struct SignalState {
  SignalState(asio::io_context& context, const std::vector<int>& signals, std::function<void(int)> f)
      : set(context), f(std::move(f)) {
    for (int signal : signals) set.add(signal);
  }
  void Arm(std::shared_ptr<SignalState> self) {
    set.async_wait([self](const boost::system::error_code& error, int signal) {
      if (error || self->ended) return;
      self->f(signal);
      if (!self->ended) self->Arm(self);
    });
  }
  void End() {
    ended = true;
    boost::system::error_code ignored;
    set.cancel(ignored);
    set.clear(ignored);
  }
  asio::signal_set set;
  std::function<void(int)> f;
  bool ended = false;
};

// Watches a descriptor without a duplicate: polls it every kPollMs, as long as the watch lives.
Loop::Watch PollDescriptor(asio::io_context& context, int fd, DescriptorState::Waits waits, std::function<void()> f) {
  constexpr int64_t kPollMs = 10;
  short events = waits == DescriptorState::Waits::wait_read ? POLLIN : POLLOUT;
  auto look = [fd, events, f = std::move(f)] {
    pollfd p{fd, events, 0};
    if (poll(&p, 1, 0) > 0) f();
  };
  return std::make_unique<Owner<TimerState>>(std::make_shared<TimerState>(context, kPollMs, true, std::move(look)));
}

Loop::Watch WatchDescriptor(asio::io_context& context, int fd, DescriptorState::Waits waits, std::function<void()> f) {
  // Epoll takes each descriptor once; a duplicate lets one descriptor have several watches.
  int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0 && errno == EMFILE) return PollDescriptor(context, fd, waits, std::move(f));
  CHECK(copy >= 0) << "cannot watch descriptor " << fd << ": " << strerror(errno);
  auto state = std::make_shared<DescriptorState>(context, copy, waits, std::move(f));
  return std::make_unique<Owner<DescriptorState>>(std::move(state));
}

}  // namespace

Loop::Loop() : impl_(std::make_unique<Impl>()) {}
Loop::~Loop() = default;

void Loop::Run() {
  auto keep_going = asio::make_work_guard(impl_->context);
  impl_->context.run();
  impl_->context.restart();
}
void Loop::Stop() { impl_->context.stop(); }
void Loop::Post(std::function<void()> f) { asio::post(impl_->posted, std::move(f)); }

Loop::Watch Loop::OnReadable(int fd, std::function<void()> f) {
  return WatchDescriptor(impl_->context, fd, asio::posix::stream_descriptor::wait_read, std::move(f));
}
Loop::Watch Loop::OnWritable(int fd, std::function<void()> f) {
  return WatchDescriptor(impl_->context, fd, asio::posix::stream_descriptor::wait_write, std::move(f));
}
Loop::Watch Loop::Every(int64_t milliseconds, std::function<void()> f) {
  auto state = std::make_shared<TimerState>(impl_->context, milliseconds, true, std::move(f));
  return std::make_unique<Owner<TimerState>>(std::move(state));
}
Loop::Watch Loop::After(int64_t milliseconds, std::function<void()> f) {
  auto state = std::make_shared<TimerState>(impl_->context, milliseconds, false, std::move(f));
  return std::make_unique<Owner<TimerState>>(std::move(state));
}
Loop::Watch Loop::OnSignals(const std::vector<int>& signals, std::function<void(int)> f) {
  auto state = std::make_shared<SignalState>(impl_->context, signals, std::move(f));
  return std::make_unique<Owner<SignalState>>(std::move(state));
}

}  // namespace autotune
