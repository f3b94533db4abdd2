// Passes of any language and pipeline. A pipeline declares its passes and options (PassTable), a caller configures them
// (PassConfig), an instrument observes them (PassInstrument), and every run of a pipeline gets a PassContext. Not here:
// the passes themselves, and parts that only one pipeline needs, such as the evaluator of constants (graph/pass.h).
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/stmt.h"
#include "support/fields.h"
#include "support/result.h"

namespace autotune {

// ---- Tables: a pipeline declares its passes and options once; help texts, documents and errors come from them.

struct PassRow {
  std::string_view name;         // unique over all pipelines
  std::string_view needed = "";  // why no code can be generated without the pass; empty: it may be disabled
};

struct IntOption {
  std::string_view name;  // unique over all pipelines
  int64_t fallback = 0;
  int64_t least = 0, most = 0;
  std::string_view help;
};

struct TextOption {
  std::string_view name;
  std::string_view fallback;
  std::span<const std::string_view> choices;
  std::string_view help;
};

using PassOption = std::variant<const IntOption*, const TextOption*>;

struct PassTable {
  std::string_view pipeline;        // "graph", "lowering"
  std::vector<PassRow> passes;      // in the order in which they run; a pass that runs several times appears once
  std::vector<PassOption> options;  // of the pipeline's passes
};

std::string_view NameOf(const PassOption& option);
// Returns the option with its default value: "unroll_limit=4096".
std::string DefaultText(const PassOption& option);
// Returns the values that the option takes: "1 to 4096", "all or none".
std::string ValuesText(const PassOption& option);

// ---- The request of a caller.

// Plain data: it crosses to the build workers.
struct PassConfig {
  std::map<std::string, std::string> options;  // values by name; SetOption has checked them
  std::vector<std::string> disabled;           // names of passes, sorted; Disable has checked them
  bool time = false;                           // count runs and milliseconds by pass
  bool verify = false;                         // check the program after every pass
  std::string dump;                            // folder for the program after every pass; empty: none
  AUTOTUNE_FIELDS(options, disabled, time, verify, dump)

  // Takes "NAME=VALUE". Errors: an unknown option, or a value that the option does not take. The error lists the
  // options or the values.
  Status SetOption(std::string_view assignment, std::span<const PassTable> tables);
  // Errors: an unknown pass, or a pass that is needed, with the reason.
  Status Disable(std::string_view pass, std::span<const PassTable> tables);
  // Returns the options and disabled passes as text, since these determine the code. Empty for the defaults.
  std::string CodeKey() const;
};

// ---- Instruments.

// The program as an instrument sees it before and after a pass.
class ProgramView {
 public:
  virtual ~ProgramView() = default;
  virtual std::string Text() const = 0;
  virtual Status Verify() const = 0;  // an error says in which way the program is not well-formed
  // The part of the program that the pipeline works on, such as "prepare" of a kernel. Empty: all of it, or its main
  // part.
  virtual std::string_view Part() const { return ""; }
};

class PrimFuncView final : public ProgramView {
 public:
  explicit PrimFuncView(const PrimFunc& f, std::string_view its_part = "") : func(f), part(its_part) {}
  std::string Text() const override;
  Status Verify() const override;
  std::string_view Part() const override { return part; }

  const PrimFunc& func;
  const std::string_view part;
};

// Observes passes. If an instrument returns an error, the pipeline stops with that error.
class PassInstrument {
 public:
  virtual ~PassInstrument() = default;
  virtual Status Before(std::string_view pass, const ProgramView& program);
  virtual Status After(std::string_view pass, const ProgramView& program);
};

// The number of runs of a pass and their time.
struct PassTime {
  int64_t runs = 0;
  double ms = 0;
  AUTOTUNE_FIELDS(runs, ms)
};
using PassTimes = std::map<std::string, PassTime>;  // by pass

class TimePasses;

// Options, disabled passes and instruments of a run of pipelines. Copies share the instruments. Not thread-safe: one
// thread runs the pipelines of a context and of its copies.
class PassContext {
 public:
  PassContext() = default;  // the default passes, unobserved
  // With the instruments that the configuration asks for.
  explicit PassContext(PassConfig config);

  const PassConfig& config() const { return config_; }
  // Returns a context with the same configuration and times, whose dump goes to a subfolder of this context's dump. The
  // instruments of Add are not copied.
  PassContext Within(const std::string& folder) const;
  void Add(std::shared_ptr<PassInstrument> instrument);

  bool IsDisabled(std::string_view pass) const;
  int64_t Get(const IntOption& option) const;
  std::string_view Get(const TextOption& option) const;

  // Calls the instruments. A pipeline does so around every pass that it runs.
  Status Before(std::string_view pass, const ProgramView& program) const;
  Status After(std::string_view pass, const ProgramView& program) const;

  // Times returns the times so far; AddTimes adds those of other processes. Without PassConfig::time, Times is empty
  // and AddTimes does nothing.
  PassTimes Times() const;
  void AddTimes(const PassTimes& times) const;

 private:
  PassConfig config_;
  std::vector<std::shared_ptr<PassInstrument>> instruments_;  // from the outermost to the innermost
  std::shared_ptr<TimePasses> times_;  // inside all other instruments, so that it times the pass alone
};

}  // namespace autotune
