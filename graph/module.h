// IRModule: named functions of both languages: graph functions, which say what is computed, and PrimFuncs, which say
// how. One graph function is `main`, the network; kCall nodes call others by name. The importer makes a module, graph
// passes map modules to modules, and compiler/network.cc adds the programs of the tasks, from which code is generated.
// A value: cheap to copy, since functions share constants and statements. Not a runtime module (runtime/module.h): it
// holds no code.
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

  IRModule() = default;  // a module without functions
  explicit IRModule(graph::Graph main) { Set(std::string(kMain), std::move(main)); }

  // Adds a function, or replaces the function of that name. Sets the name of a PrimFunc to `name`.
  void Set(std::string name, Function function);
  // Return the function of that name; null if there is none in this language.
  const graph::Graph* FindGraph(std::string_view name) const;
  const PrimFunc* FindPrimFunc(std::string_view name) const;
  const graph::Graph& main() const;  // fails a check if there is none
  // The names and functions, in the order in which they were added.
  const std::vector<std::pair<std::string, Function>>& functions() const { return functions_; }

 private:
  const Function* Find(std::string_view name) const;

  std::vector<std::pair<std::string, Function>> functions_;
};

// Returns true if both have equal functions, with the same names and in the same order.
bool operator==(const IRModule& a, const IRModule& b);

// Returns readable text of all functions, in their order. Constants are printed as in graph::GraphText.
std::string ToText(const IRModule& module);
// Returns readable text of the graph functions only.
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
