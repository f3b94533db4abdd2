// RunnerPool: the parent's side of the runners: one active, one warm spare that takes its place at once when it dies or
// is killed. A runner is verified dead, its whole process group and its orphans with it, before the next one is handed
// out. Belongs to its loop's thread.
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
    int64_t start_ms = 10000;  // to say hello
  };
  struct Handlers {
    std::function<void()> on_ready;                          // there is an active runner
    std::function<void(const Message&)> on_message;          // of the active one
    std::function<void(const RunnerEnd&)> on_end;            // of the active one, unless Replace ended it
    std::function<void(const std::string&)> on_unavailable;  // several failed to start; it goes on trying
  };
  RunnerPool(Loop& loop, Options options, Handlers handlers);
  ~RunnerPool();  // kills all

  void Send(const Message& message);  // to the active one
  void Replace();                     // kills the active one; on_ready follows

 private:
  struct Runner;
  void Fill();
  void Start();
  void Promote();
  void OnEnd(Runner* runner, const std::string& nonsense);
  void Remove(Runner* runner);
  void Failed(const std::string& why);

  Loop& loop_;
  Options options_;
  Handlers handlers_;
  std::vector<std::unique_ptr<Runner>> runners_;
  std::vector<std::unique_ptr<Runner>> dead_;  // destroyed when no callback of theirs is on the stack
  Runner* active_ = nullptr;
  int failures_ = 0;
  Loop::Watch retry_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace autotune::rpc
