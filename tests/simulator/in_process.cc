#include "tests/simulator/in_process.h"

#include <utility>
#include <variant>

#include "support/check.h"

namespace autotune {

using rpc::Message;
using rpc::Peer;

// --- Mailbox ---------------------------------------------------------------------------------------------------------

bool Mailbox::Put(Letter letter) {
  std::lock_guard lock(mutex_);
  if (state_ == State::kOpen) {
    letters_.push_back(std::move(letter));
    changed_.notify_one();
  }
  return state_ != State::kBroken;
}

std::optional<Mailbox::Letter> Mailbox::Take(Time until) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [this] { return !letters_.empty() || state_ != State::kOpen; });
  if (letters_.empty() || state_ != State::kOpen) return std::nullopt;
  Letter letter = std::move(letters_.front());
  letters_.pop_front();
  return letter;
}

void Mailbox::Close(State state) {
  std::lock_guard lock(mutex_);
  if (state_ == State::kOpen) state_ = state;
  changed_.notify_all();
}

Mailbox::State Mailbox::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

// --- Network ---------------------------------------------------------------------------------------------------------

InProcessNetwork::InProcessNetwork(const std::vector<std::string>& names) {
  for (const std::string& name : names) mailboxes_[name] = std::make_unique<Mailbox>();
}

int64_t InProcessNetwork::Now() const {
  auto passed = std::chrono::steady_clock::now() - start_;
  return std::chrono::duration_cast<std::chrono::milliseconds>(passed * kSpeed).count();
}

Mailbox::Time InProcessNetwork::When(int64_t ms) const {
  return start_ + std::chrono::microseconds(1000 * ms / kSpeed);
}

bool InProcessNetwork::Send(const Peer& from, const Peer& to, const Message& message) {
  Mailbox::Letter letter{from, to, {}};
  // Copies the bytes, since the encoder's frames share the message's blobs.
  for (const rpc::Blob& frame : rpc::Encode(message)) letter.frames.emplace_back(*frame);
  return At(to).Put(std::move(letter));
}

Message InProcessNetwork::Open(const Mailbox::Letter& letter) {
  rpc::Frames frames;
  for (const std::string& frame : letter.frames) frames.push_back(rpc::MakeBlob(frame));
  auto decoded = rpc::Decode(frames);
  auto* message = std::get_if<Message>(&decoded);
  CHECK(message) << "a message from " << letter.from << " to " << letter.to << " cannot be read";
  return std::move(*message);
}

// --- Nodes -----------------------------------------------------------------------------------------------------------

InProcessNode::~InProcessNode() {
  Stop();
  Join();
}

void InProcessNode::Start(std::function<void()> first, Handler on_letter) {
  on_letter_ = std::move(on_letter);
  After(0, std::move(first));
  thread_ = std::thread([this] { Run(); });
}

void InProcessNode::Join() {
  if (thread_.joinable()) thread_.join();
}

void InProcessNode::Run() {
  constexpr int64_t kLong = 1000;
  while (Running()) {
    int64_t next = timers_.empty() ? Now() + kLong : timers_.top().at;
    if (next <= Now()) {
      auto f = std::move(const_cast<Timer&>(timers_.top()).f);
      timers_.pop();
      f();
    } else if (auto letter = network_.At(name_).Take(network_.When(next))) {
      on_letter_(letter->from, letter->to, InProcessNetwork::Open(*letter));
    }
  }
}

void InProcessNode::After(int64_t delay_ms, std::function<void()> f) {
  timers_.push({Now() + delay_ms, ++timer_number_, std::move(f)});
}

void InProcessNode::Every(int64_t ms, std::function<void()> f) {
  After(ms, [this, ms, f = std::move(f)] {
    f();
    Every(ms, f);
  });
}

bool InProcessNode::Send(const Peer& to, const Message& message, const std::string& connection) {
  return Running() && network_.Send(name_ + connection, to, message);
}

void InProcessNode::Vanish(Mailbox::State how) { network_.At(name_).Close(how); }

}  // namespace autotune
