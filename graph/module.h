// IRModule: named functions of both languages: graph functions, which say what is computed, and PrimFuncs, which say
// how. One graph function is `main`, the network; kCall nodes call others by name. Import makes a module, graph passes
// map modules to modules, tasks add their programs to it, and compile takes it from there. A value: cheap to copy,
// since functions share constants and statements. Not a runtime module (runtime/module.h): it holds no code.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "ir/pass_context.h"
#include "ir/stmt.h"
#include "support/result.h"

namespace autotune {

class IRModule {
 public:
  using Function = std::variant<graph::Graph, PrimFunc>;
  static constexpr std::string_view kMain = "main";

  IRModule() = default;  // without functions
  explicit IRModule(graph::Graph main) { Set(std::string(kMain), std::move(main)); }

  // Adds a function, or replaces the one of that name in its place. A PrimFunc takes the name as its own.
  void Set(std::string name, Function function);
  // The function of that name; null if there is none, or one of the other language.
  const graph::Graph* FindGraph(std::string_view name) const;
  const PrimFunc* FindPrimFunc(std::string_view name) const;
  const graph::Graph& main() const;  // a module has one (CHECK)
  // In the order in which they were added.
  const std::vector<std::pair<std::string, Function>>& functions() const { return functions_; }

 private:
  const Function* Find(std::string_view name) const;

  std::vector<std::pair<std::string, Function>> functions_;
};

// Returns true if both have equal functions, with the same names and in the same order.
bool operator==(const IRModule& a, const IRModule& b);

// Readable text of all functions, in their order; constants of several elements stand as digests.
std::string ToText(const IRModule& module);
// Readable text of the graph functions only.
std::string GraphText(const IRModule& module);

// Checks every function, that there is a main, and that every call names a graph function and fits its parameters and
// its result. A failure is a bug of the pass that made the module.
Status CheckModule(const IRModule& module);

class IRModuleView final : public ProgramView {
 public:
  explicit IRModuleView(const IRModule& its_module) : module(its_module) {}
  std::string Text() const override { return ToText(module); }
  Status Verify() const override { return CheckModule(module); }

  const IRModule& module;
};

}  // namespace autotune
