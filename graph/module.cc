#include "graph/module.h"

#include <algorithm>
#include <sstream>

#include "ir/text.h"
#include "ir/verify.h"
#include "ir/visit.h"
#include "support/check.h"

namespace autotune {
namespace {

Status CheckCalls(const IRModule& module, const graph::Graph& caller) {
  for (const graph::Node& node : caller.nodes) {
    if (node.op != graph::Op::kCall) continue;
    const std::string& name = std::get<graph::CallAttrs>(node.attrs).function;
    const graph::Graph* callee = module.FindGraph(name);
    if (!callee) return Err("node ", node.name, " calls @", name, ", which is no graph function of the module");
    TRY_NOTE(graph::CheckArguments(caller, node, *callee), "in the call of @" + name);
  }
  return {};
}

std::string FunctionText(const std::string& name, const IRModule::Function& function) {
  if (const PrimFunc* program = std::get_if<PrimFunc>(&function)) return ToText(*program);
  std::istringstream lines(graph::GraphText(std::get<graph::Graph>(function)));
  std::string text = "graph " + name + " {\n";
  for (std::string line; std::getline(lines, line);) text += "  " + line + "\n";
  return text + "}\n";
}

std::string TextOf(const IRModule& module, bool programs) {
  std::string text;
  for (const auto& [name, function] : module.functions()) {
    if (!programs && std::holds_alternative<PrimFunc>(function)) continue;
    text += (text.empty() ? "" : "\n") + FunctionText(name, function);
  }
  return text;
}

}  // namespace

void IRModule::Set(std::string name, Function function) {
  if (PrimFunc* program = std::get_if<PrimFunc>(&function)) program->name = Name(name);
  auto place = std::find_if(functions_.begin(), functions_.end(), [&](const auto& f) { return f.first == name; });
  if (place == functions_.end()) {
    functions_.emplace_back(std::move(name), std::move(function));
  } else {
    place->second = std::move(function);
  }
}

const IRModule::Function* IRModule::Find(std::string_view name) const {
  auto place = std::find_if(functions_.begin(), functions_.end(), [&](const auto& f) { return f.first == name; });
  return place == functions_.end() ? nullptr : &place->second;
}

const graph::Graph* IRModule::FindGraph(std::string_view name) const { return std::get_if<graph::Graph>(Find(name)); }

const PrimFunc* IRModule::FindPrimFunc(std::string_view name) const { return std::get_if<PrimFunc>(Find(name)); }

const graph::Graph& IRModule::main() const {
  const graph::Graph* main = FindGraph(kMain);
  CHECK(main) << "a module without a graph function " << kMain;
  return *main;
}

bool operator==(const IRModule& a, const IRModule& b) {
  auto same = [](const auto& f, const auto& g) {
    if (f.first != g.first || f.second.index() != g.second.index()) return false;
    if (const PrimFunc* program = std::get_if<PrimFunc>(&f.second))
      return Equal(*program, std::get<PrimFunc>(g.second));
    return std::get<graph::Graph>(f.second) == std::get<graph::Graph>(g.second);
  };
  return std::equal(a.functions().begin(), a.functions().end(), b.functions().begin(), b.functions().end(), same);
}

std::string ToText(const IRModule& module) { return TextOf(module, /*programs=*/true); }
std::string GraphText(const IRModule& module) { return TextOf(module, /*programs=*/false); }

Status CheckModule(const IRModule& module) {
  if (!module.FindGraph(IRModule::kMain)) return Err("the module has no graph function ", IRModule::kMain);
  for (const auto& [name, function] : module.functions()) {
    const std::string where = "in function " + name;
    if (const PrimFunc* program = std::get_if<PrimFunc>(&function)) {
      TRY_NOTE(Verify(*program), where);
    } else {
      TRY_NOTE(graph::CheckGraph(std::get<graph::Graph>(function)), where);
      TRY_NOTE(CheckCalls(module, std::get<graph::Graph>(function)), where);
    }
  }
  return {};
}

}  // namespace autotune
