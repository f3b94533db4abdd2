// StatusAnswers: answers requests for the status of a tracker. For a thousand devices, an answer takes milliseconds, so
// a thread of its own makes it. The loop only copies the state, at most once for all who have asked until then, and
// sends the finished bytes, which all askers of one key share. Copies take at most 2 % of the loop's time, and answers
// at most a quarter of the thread's; whoever asks sooner waits for the next copy. No answer is older than its request.
// Belongs to the thread of the loop.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rpc/from.h"
#include "rpc/message.h"
#include "support/loop.h"

namespace autotune {

struct StatusQuestion {
  rpc::Peer peer;
  std::string identity;  // of the member who asks; empty: not authenticated
  rpc::Id request;
  std::string key;
};

class StatusAnswers {
 public:
  static constexpr size_t kMostWaiting = 4096;  // [chosen] askers; a further one gets no answer, and asks again

  struct Calls {
    std::function<rpc::StatusReply()> look;  // copies the state, of all keys
    std::function<void(const StatusQuestion& question, const rpc::Frames& answer)> send;
  };
  StatusAnswers(Loop& loop, Calls calls);
  ~StatusAnswers();
  StatusAnswers(const StatusAnswers&) = delete;
  void Ask(StatusQuestion question);
  int64_t Memory() const;  // about how much the answers under way take, in bytes

 private:
  struct Thread;
  void Begin();
  void Finish(const std::vector<rpc::Frames>& answers, double cpu_ms);
  void BeginSoon();

  Loop& loop_;
  Calls calls_;
  std::vector<StatusQuestion> waiting_, asked_;  // for the next copy, of the present one
  bool is_busy_ = false;                         // answers are being made
  double began_ = 0, next_ = 0;                  // of the latest copy, and of the next one, in seconds
  double look_ms_ = 0;                           // processor time that the latest copy took
  int64_t memory_ = 0;
  Loop::Watch timer_;
  std::unique_ptr<Thread> thread_;  // null before the first request
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace autotune
