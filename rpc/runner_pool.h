// RunnerPool starts and kills runners for their parent. It keeps one active runner and one warm spare. When the active
// runner dies or is killed, the spare takes its place, but only after the pool has verified that the old runner, its
// process group and its orphans are dead. The pool does not block meanwhile. A runner that does not die makes the
// device unavailable until it is dead.
// The pool does not trust runners, since candidates may have overwritten their memory. It drops whatever a runner has
// sent before it gets a request. It passes a result on when the runner asks for more work (RunnerHello); if the runner
// does not, the result is passed on as the runner's last one. It ends a runner that uses more memory than it may.
// May be used only on the thread of its loop.
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
    // Kill orphaned descendants of runners, too. Then this process may have no other children than runners.
    bool adopt_orphans = false;
    int runners = 2;  // number of runners: the active one and the spares
    // Time limit for a new runner's RunnerHello. The runner of a GPU starts the driver first, which takes up to 20 s on
    // a host of eight GPUs.
    int64_t start_ms = 25000;
    bool quiet_start = false;      // true: failed starts are not logged until a runner has started
    int64_t unkillable_ms = 5000;  // time after SIGKILL from which a runner counts as unkillable
    int64_t ask_ms = 1000;         // time limit from a result to the runner's request for more work
    int64_t memory_bytes = 0;      // limit of the memory that a runner occupies; 0: none
    std::function<int64_t()> oom_kills = OomKills;
  };
  struct Handlers {
    std::function<void()> on_ready;                  // a runner has become active
    std::function<void(const Message&)> on_message;  // the active runner has sent a message
    std::function<void(const RunnerEnd&)> on_end;    // the active runner has ended, but not through Replace
    // Several runners failed to start, or one does not die. The pool keeps trying, and calls on_ready when it succeeds.
    std::function<void(const std::string&)> on_unavailable;
    std::function<void()> on_all_dead = [] {};  // every killed runner is dead
  };
  // Returns how many processes the operating system has killed for lack of memory.
  static int64_t OomKills();
  RunnerPool(Loop& loop, Options options, Handlers handlers);
  ~RunnerPool();  // kills all runners

  void Send(const Message& message);  // sends to the active runner; drops the message if there is none
  void Replace();                     // kills the active runner; on_ready follows
  RunnerFacts Examine();              // of the active runner; empty without one
  RunnerHello ActiveHello() const;    // of the active runner; empty without one
  int64_t BufferedBytes() const;      // of messages from and to runners
  // True if a killed runner may still run. on_all_dead follows, or on_unavailable if it does not die in time.
  bool KillPending() const { return !dying_.empty() && !unkillable_; }

 private:
  struct Runner;
  void Fill();
  void Start();
  void OnMessage(Runner* runner, Message message);
  void PassResult(Runner& runner, bool last);
  void WatchWork();
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
  std::vector<std::unique_ptr<Runner>> dying_;  // killed runners that may still run, or whose orphans may
  std::vector<std::unique_ptr<Runner>> dead_;   // dead runners, to be destroyed outside their callbacks
  bool unkillable_ = false;                     // a runner has outlived unkillable_ms, and this was reported
  Runner* active_ = nullptr;
  int failures_ = 0;
  bool ever_started_ = false;
  Loop::Watch retry_, clean_up_;
  Loop::Watch work_watch_;  // while the active runner works
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace autotune::rpc
