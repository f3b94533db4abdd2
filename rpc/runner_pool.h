// RunnerPool: the parent's side of the runners: one active runner, and one warm spare that takes its place when it dies
// or is killed. The pool hands out the next runner only after it has verified that the last one, its process group and
// its orphans are dead; the loop goes on meanwhile. A runner that does not die makes the device unavailable until it is
// dead. Belongs to its loop's thread.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rpc/message.h"
#include "rpc/server_session.h"
#include "support/loop.h"

namespace autotune::rpc {

class RunnerPool {
 public:
  struct Options {
    std::vector<std::string> argv;  // the runner's command line
    bool wrapped = false;           // argv begins with a foreign program (--runner-prefix)
    bool adopt_orphans = false;     // this process is a device server's and has no other children than runners
    int runners = 2;
    int64_t start_ms = 10000;      // to say hello
    int64_t unkillable_ms = 5000;  // time to die after SIGKILL, before a report
    std::function<int64_t()> oom_kills = OomKills;
  };
  struct Handlers {
    std::function<void()> on_ready;                  // there is an active runner
    std::function<void(const Message&)> on_message;  // of the active one
    std::function<void(const RunnerEnd&)> on_end;    // of the active one, unless Replace ended it
    // Several runners failed to start, or one does not die. The pool goes on trying; on_ready follows a success.
    std::function<void(const std::string&)> on_unavailable;
    std::function<void()> on_all_dead = [] {};  // every killed runner is dead
  };
  // Returns how many processes the operating system has killed for lack of memory.
  static int64_t OomKills();
  RunnerPool(Loop& loop, Options options, Handlers handlers);
  ~RunnerPool();  // kills all

  void Send(const Message& message);  // to the active one
  void Replace();                     // kills the active one; on_ready follows
  // True if a killed runner may still run. on_all_dead follows, or on_unavailable if it does not die in time.
  bool KillPending() const { return !dying_.empty() && !unkillable_; }

 private:
  struct Runner;
  void Fill();
  void Start();
  void Promote();
  void OnEnd(Runner* runner, const std::string& nonsense);
  void Kill(Runner* runner);
  void CleanUp();
  bool AllDead();
  void Report(Runner& runner);
  void ReportUnkillable();
  void Failed(const std::string& why);

  Loop& loop_;
  Options options_;
  Handlers handlers_;
  std::vector<std::unique_ptr<Runner>> runners_;
  std::vector<std::unique_ptr<Runner>> dying_;  // killed, but they or their orphans may still run
  std::vector<std::unique_ptr<Runner>> dead_;   // destroyed when no callback of theirs is on the stack
  bool unkillable_ = false;                     // a runner has outlived unkillable_ms, and this was reported
  Runner* active_ = nullptr;
  int failures_ = 0;
  Loop::Watch retry_, clean_up_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace autotune::rpc
