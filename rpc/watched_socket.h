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
// after every wake-up and every send, Drain receives messages until there is none; otherwise a message could wait
// forever. A receive that finds no message has carried out all commands before.
class Watched : public std::enable_shared_from_this<Watched> {
 public:
  Watched(Loop& loop, void* socket) : loop_(loop), socket_(socket) {}
  virtual ~Watched() { Close(); }
  void Close() {
    watch_.reset();
    if (socket_) zmq_close(std::exchange(socket_, nullptr));
  }
  // `collects_ms`: time from a signal until the messages are received, so that many cost one wake-up.
  void Start(int64_t collects_ms = 0) {
    Watch(collects_ms);
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
    for (int n = 0; n < 128; ++n) {
      if (!socket_ || !ReceiveFrames(socket_, frames, &origin)) return true;
      Receive(std::move(frames), origin);
    }
    return false;
  }
  void Watch(int64_t collects_ms) {
    watch_ = loop_.OnReadable(Descriptor(socket_), [this, collects_ms] {
      if (collects_ms == 0) return Drain();
      watch_ = loop_.After(collects_ms, [this, collects_ms] {
        auto self = shared_from_this();
        Drain();
        if (socket_) Watch(collects_ms);
      });
    });
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
  static Result<std::shared_ptr<Monitor>> Start(Loop& loop, void* socket, int events, OnSocketEvent on_event,
                                                int64_t collects_ms = 0) {
    std::string address = "inproc://monitor-" + RandomId();
    if (zmq_socket_monitor(socket, address.c_str(), events)) return Err("cannot watch a socket: ", ZeroMqError());
    void* pair = zmq_socket(ZeroMqContext(), ZMQ_PAIR);
    if (!pair) {
      Error error = Err("cannot make a ZeroMQ socket: ", ZeroMqError());
      zmq_socket_monitor(socket, nullptr, 0);
      return error;
    }
    SetOption(pair, ZMQ_LINGER, 0);
    SetOption(pair, ZMQ_RCVHWM, 0);  // the io thread, which reports, must not wait for this thread
    CHECK(zmq_connect(pair, address.c_str()) == 0) << ZeroMqError();
    auto monitor = std::make_shared<Monitor>(loop, pair, socket, std::move(on_event));
    monitor->Watched::Start(collects_ms);
    return monitor;
  }
  Monitor(Loop& loop, void* pair, void* observed, OnSocketEvent on_event)
      : Watched(loop, pair), observed_(observed), on_event_(std::move(on_event)) {}
  ~Monitor() override { Stop(); }
  void ReceiveNow() { Drain(); }  // what is collected
  // Stops the monitor. Must be called before the observed socket is closed.
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
    on_event_({event, static_cast<int>(value), std::string(frames.size() > 1 ? std::string_view(*frames[1]) : "")});
  }
  void* observed_;
  OnSocketEvent on_event_;
};

}  // namespace autotune::rpc
