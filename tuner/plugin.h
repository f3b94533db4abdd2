// Plugin: a process of the user that makes decisions of the tuner: it chooses candidates (tuner/plugin_search.h) or
// scores them (tuner/plugin_model.h). Both sides write lines of JSON; docs/plugins.md has every message. This class
// knows the exchange of messages, not what they mean: the greeting, numbered requests and their answers, the deadline,
// and the words of errors. Not thread-safe, and the thread that starts a plug-in must live as long as it.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/json.h"
#include "support/result.h"
#include "tuner/line_process.h"

namespace autotune {

inline constexpr int kPluginProtocol = 1;

struct PluginOptions {
  std::string role;                // "strategy" or "cost model"
  std::string command;             // for the shell
  std::vector<std::string> guard;  // LineProcess::Options::guard
  double deadline = 60;            // seconds for each answer
  uint64_t seed = 0;               // of the run
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const std::string&)> on_note;  // hears what a user must know, from any thread; null: nobody does
};

// What a plug-in says about itself.
struct PluginGreeting {
  std::string name, version;
  bool features = false;  // a strategy wants the features of candidates in its history
  AUTOTUNE_FIELDS(name, version, features)
};

class Plugin {
 public:
  // Starts the command and greets it. Errors: it does not start or does not answer in time.
  static Result<std::shared_ptr<Plugin>> Start(PluginOptions options);

  const PluginGreeting& greeting() const { return greeting_; }
  // Returns what a run's key has of it: its command and its version.
  std::string Identity() const;

  // Sends a message that needs no answer. `object` is the text of a JSON object.
  void Tell(const std::string& object) { process_->Send(object); }
  // Sends a request, the text of a JSON object, and returns its answer. Returns nothing if there is none at the
  // deadline; the answer is dropped when it comes. Until it comes, further calls send nothing and return nothing at
  // once, so that a plug-in that hangs costs the run one deadline. Errors: the plug-in has ended, or its answer is no
  // object with the number of a request.
  Result<std::optional<Json>> Ask(const std::string& object);
  // Returns the error of an answer that makes no sense: "the strategy 'python3 mine.py' answered nonsense: WHAT".
  Error Nonsense(const std::string& what) const;

  int late() const { return late_; }    // number of requests without an answer in time
  int asked() const { return asked_; }  // number of requests, without the greeting
  // Returns what to say at the end about late answers; empty if there were none.
  std::string LateText() const;

 private:
  explicit Plugin(PluginOptions options) : options_(std::move(options)) {}
  Status Greet();
  Result<std::optional<Json>> Answer(int64_t id, double seconds);
  void CountLate();
  std::string Name() const;  // "the strategy 'python3 mine.py'"

  const PluginOptions options_;
  std::unique_ptr<LineProcess> process_;
  PluginGreeting greeting_;
  int64_t last_id_ = 0;
  bool owes_answer_ = false;  // the answer to the last request is late, and has not come yet
  int late_ = 0, asked_ = 0;
};

}  // namespace autotune
