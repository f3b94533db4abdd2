// ZeroMQ sockets that a Loop watches. Only transport.cc and dealer_socket.cc include this.
#pragma once
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "rpc/zeromq.h"
#include "support/check.h"
#include "support/loop.h"

namespace autotune::rpc {

// A ZeroMQ socket watched by a loop. ZMQ_FD is edge-triggered and signals ZeroMQ's internal commands, not messages. So
// after every wake-up and every send, Drain receives messages until ZMQ_EVENTS reports none; otherwise a message could
// wait forever.
class Watched : public std::enable_shared_from_this<Watched> {
 public:
  Watched(Loop& loop, void* socket) : loop_(loop), socket_(socket) {}
  virtual ~Watched() { Close(); }
  void Close() {
    watch_.reset();
    if (socket_) zmq_close(std::exchange(socket_, nullptr));
  }
  void Start() {
    watch_ = loop_.OnReadable(Descriptor(socket_), [this] { Drain(); });
    DrainSoon();
  }

 protected:
  virtual void Receive(Frames frames, const Origin& origin) = 0;
  void DrainSoon() {
    if (draining_ || std::exchange(drain_posted_, true)) return;
    loop_.Post([weak = weak_from_this()] {
      if (auto self = weak.lock()) {
        self->drain_posted_ = false;
        self->Drain();
      }
    });
  }
  void Drain() {
    auto self = shared_from_this();  // a handler may destroy the socket
    draining_ = true;
    const bool is_empty = ReceiveSome();
    draining_ = false;
    if (!is_empty) DrainSoon();
  }

  Loop& loop_;
  void* socket_;
  Loop::Watch watch_;

 private:
  // Returns whether no message is left. After 128 of them, timers and other sockets have their turn.
  bool ReceiveSome() {
    Frames frames;
    Origin origin;
    for (int n = 0; socket_ && (EventsOf(socket_) & ZMQ_POLLIN); ++n) {
      if (n == 128) return false;
      if (ReceiveFrames(socket_, frames, &origin)) Receive(std::move(frames), origin);
    }
    return true;
  }

  bool drain_posted_ = false;
  bool draining_ = false;  // messages that a send finds are received then
};

// What ZeroMQ reports about a connection of a socket.
struct SocketEvent {
  int event = 0;       // ZMQ_EVENT_...
  int descriptor = 0;  // of the connection; of other events, another value
  std::string endpoint;
};
using OnSocketEvent = std::function<void(const SocketEvent&)>;

// Calls a handler for each event of a socket.
class Monitor : public Watched {
 public:
  // Each of the two sockets that this takes needs a descriptor, so it fails if there is none.
  static Result<std::shared_ptr<Monitor>> Start(Loop& loop, void* socket, int events, OnSocketEvent on_event) {
    std::string address = "inproc://monitor-" + RandomId();
    if (zmq_socket_monitor(socket, address.c_str(), events)) return Err("cannot watch a socket: ", ZeroMqError());
    void* pair = zmq_socket(ZeroMqContext(), ZMQ_PAIR);
    if (!pair) {
      Error error = Err("cannot make a ZeroMQ socket: ", ZeroMqError());
      zmq_socket_monitor(socket, nullptr, 0);
      return error;
    }
    SetOption(pair, ZMQ_LINGER, 0);
    CHECK(zmq_connect(pair, address.c_str()) == 0) << ZeroMqError();
    auto monitor = std::make_shared<Monitor>(loop, pair, socket, std::move(on_event));
    monitor->Watched::Start();
    return monitor;
  }
  Monitor(Loop& loop, void* pair, void* observed, OnSocketEvent on_event)
      : Watched(loop, pair), observed_(observed), on_event_(std::move(on_event)) {}
  ~Monitor() override { Stop(); }
  // Stops the monitor. Must be called before the observed socket is closed: if ZeroMQ's io thread has a report that
  // nobody reads, the thread waits forever, and with it every socket of the process.
  void Stop() {
    if (observed_) zmq_socket_monitor(std::exchange(observed_, nullptr), nullptr, 0);
    Close();
  }

 private:
  void Receive(Frames frames, const Origin&) override {
    uint16_t event;
    uint32_t value;
    if (frames[0]->size() < sizeof event + sizeof value) return;
    memcpy(&event, frames[0]->data(), sizeof event);
    memcpy(&value, frames[0]->data() + sizeof event, sizeof value);
    on_event_({event, static_cast<int>(value), frames.size() > 1 ? *frames[1] : ""});
  }
  void* observed_;
  OnSocketEvent on_event_;
};

}  // namespace autotune::rpc
