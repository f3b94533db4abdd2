// For tests: a network between threads of one process, with a queue and a mutex for each thread and without sockets, so
// that ThreadSanitizer sees every access. Messages pass the wire's encoder and decoder, and their bytes are copied, so
// two threads never share a message's contents. The clock is the steady clock, several times as fast.
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

// A queue of letters: any thread puts letters in, and one thread takes them out in order of arrival.
class Mailbox {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Letter {
    rpc::Peer from, to;
    std::vector<std::string> frames;
  };
  // kBroken: the process has died, and its peers notice. kSilent: its host has lost the network, which drops every
  // letter.
  enum class State { kOpen, kBroken, kSilent };

  bool Put(Letter letter);                 // false: the mailbox is broken
  std::optional<Letter> Take(Time until);  // none: no letter came in time, or the mailbox is closed
  void Close(State state);                 // only the first call counts
  State state() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Letter> letters_;
  State state_ = State::kOpen;
};

class InProcessNetwork {
 public:
  // Makes the mailboxes of all nodes. The list never changes, so it needs no lock.
  explicit InProcessNetwork(const std::vector<std::string>& names);
  int64_t Now() const;  // milliseconds
  Mailbox::Time When(int64_t ms) const;
  // An address is the name of a node, optionally followed by '/' and more. Returns false if that node is gone.
  bool Send(const rpc::Peer& from, const rpc::Peer& to, const rpc::Message& message);
  Mailbox& At(const rpc::Peer& address) { return *mailboxes_.at(address.substr(0, address.find('/'))); }
  static rpc::Message Open(const Mailbox::Letter& letter);

 private:
  static constexpr int kSpeed = 4;
  const Mailbox::Time start_ = std::chrono::steady_clock::now();
  std::map<std::string, std::unique_ptr<Mailbox>> mailboxes_;
};

// A thread that handles letters and timers. After Start, only this thread may call the methods, except Stop and Join.
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
  // Ends without a goodbye: from now on the node sends, calls and receives nothing.
  void Vanish(Mailbox::State how);

 private:
  struct Timer {
    int64_t at, number;  // timers for the same time run in order of their numbers
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
