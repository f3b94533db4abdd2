// A network between threads of one process: a queue for each thread, guarded by a mutex, and no socket; ThreadSanitizer
// sees all of it. Messages go through the wire's encoder and decoder, and their bytes are copied, so two threads never
// share what a message holds. The clock is the steady one, several times as fast. Only for tests.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <string>
#include <thread>
#include <vector>

#include "rpc/message.h"
#include "rpc/transport.h"

namespace autotune {

// Any thread puts letters in, one takes them out, in the order of their arrival.
class Mailbox {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Letter {
    rpc::Peer from, to;
    std::vector<std::string> frames;
  };
  // A process that has died, whose peers notice that; and a host without its network, which swallows everything.
  enum class State { kOpen, kBroken, kSilent };

  bool Put(Letter letter);                 // false: broken
  std::optional<Letter> Take(Time until);  // none: nothing came in time, or the mailbox is closed
  void Close(State state);                 // the first time counts
  State state() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Letter> letters_;
  State state_ = State::kOpen;
};

class InProcessNetwork {
 public:
  // Of all nodes; the list never changes, so that it needs no lock.
  explicit InProcessNetwork(const std::vector<std::string>& names);
  int64_t Now() const;  // milliseconds
  Mailbox::Time When(int64_t ms) const;
  // An address is the name of a node, perhaps with more behind a '/'. False: that node is gone.
  bool Send(const rpc::Peer& from, const rpc::Peer& to, const rpc::Message& message);
  Mailbox& At(const rpc::Peer& address) { return *mailboxes_.at(address.substr(0, address.find('/'))); }
  static rpc::Message Open(const Mailbox::Letter& letter);

 private:
  static constexpr int kSpeed = 4;
  const Mailbox::Time start_ = std::chrono::steady_clock::now();
  std::map<std::string, std::unique_ptr<Mailbox>> mailboxes_;
};

// A thread that lives on letters and timers. After Start all but Stop and Join belongs to it.
class InProcessNode {
 public:
  using Handler = std::function<void(const rpc::Peer& from, const rpc::Peer& to, const rpc::Message&)>;
  InProcessNode(InProcessNetwork& network, std::string name) : network_(network), name_(std::move(name)) {}
  ~InProcessNode();
  void Start(std::function<void()> first, Handler on_letter);
  void Stop() { network_.At(name_).Close(Mailbox::State::kBroken); }  // from any thread
  void Join();

  int64_t Now() const { return network_.Now(); }
  void After(int64_t delay_ms, std::function<void()> f);
  void Every(int64_t ms, std::function<void()> f);
  bool Send(const rpc::Peer& to, const rpc::Message& message, const std::string& connection = "");
  // Without a goodbye: from now on nothing is sent, called or taken.
  void Vanish(Mailbox::State how);

 private:
  struct Timer {
    int64_t at, number;  // equal times in order
    std::function<void()> f;
    bool operator<(const Timer& o) const { return at != o.at ? at > o.at : number > o.number; }
  };
  void Run();
  bool Running() const { return network_.At(name_).state() == Mailbox::State::kOpen; }

  InProcessNetwork& network_;
  const std::string name_;
  Handler on_letter_;
  std::priority_queue<Timer> timers_;
  int64_t timer_number_ = 0;
  std::thread thread_;
};

}  // namespace autotune
