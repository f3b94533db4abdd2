#include "frontend/onnx/validate.h"

#include <map>
#include <set>

#include "support/utf8.h"

namespace autotune::onnx_import {
namespace {

class StructureChecker {
 public:
  // `inner` marks a subgraph. It may read names that it does not define: they are in OnnxNode::captured of its node,
  // and are checked in the graph around it.
  StructureChecker(const OnnxGraph& graph, bool inner) : graph_(graph), inner_(inner) {
    for (const OnnxValueInfo& info : graph.inputs) known_.insert(info.name);
    for (const auto& [name, value] : graph.initializers) known_.insert(name);
    for (const OnnxNode& node : graph.nodes) {
      for (const std::string& name : node.outputs) producer_[name] = node.index;
    }
  }

  Status Run() {
    for (const OnnxNode& node : graph_.nodes) {
      if (node.outputs.empty()) return WithCause(node.Text() + " has no outputs", "a node has no outputs");
      for (const std::string& name : node.inputs) TRY(CheckKnown(node, name));
      for (const std::string& name : node.captured) TRY(CheckKnown(node, name));
      for (const auto& [name, attr] : node.attrs) {
        if (attr.graph)
          TRY_NOTE(StructureChecker(*attr.graph, true).Run(), "in " + OneLine(name) + " of " + node.Text());
      }
      known_.insert(node.outputs.begin(), node.outputs.end());
    }
    for (const OnnxValueInfo& info : graph_.outputs) {
      if (!known_.count(info.name) && !inner_)
        return WithCause("output '" + info.name + "' is " + kNowhere, "an output has no origin");
    }
    return {};
  }

 private:
  static constexpr const char* kNowhere = "computed by no node, and neither an input nor an initializer";

  Status CheckKnown(const OnnxNode& node, const std::string& name) const {
    if (name.empty() || known_.count(name)) return {};  // "" is an omitted input
    auto producer = producer_.find(name);
    if (producer == producer_.end() && inner_) return {};
    std::string reads = node.Text() + " reads '" + name + "', which ";
    if (producer == producer_.end()) return WithCause(reads + "is " + kNowhere, "a node's input has no origin");
    const OnnxNode& later = graph_.nodes[producer->second];
    if (DependsOn(later, node))
      return WithCause(reads + later.Text() + " computes from its result: a cycle", "a cycle");
    return WithCause(reads + "a later node computes, " + later.Text() + ": nodes must stand in the order of their use",
                     "nodes are not in the order of their use");
  }

  // Returns whether `node` is `other` or depends on a result of `other`, directly or through other nodes.
  bool DependsOn(const OnnxNode& node, const OnnxNode& other) const {
    std::set<int> seen = {node.index};
    std::vector<int> open = {node.index};
    while (!open.empty()) {
      const OnnxNode& at = graph_.nodes[open.back()];
      open.pop_back();
      if (at.index == other.index) return true;
      auto visit = [&](const std::string& name) {
        auto producer = producer_.find(name);
        if (!name.empty() && producer != producer_.end() && seen.insert(producer->second).second)
          open.push_back(producer->second);
      };
      for (const std::string& name : at.inputs) visit(name);
      for (const std::string& name : at.captured) visit(name);
    }
    return false;
  }

  const OnnxGraph& graph_;
  const bool inner_;
  std::set<std::string> known_;
  std::map<std::string, int> producer_;  // tensor -> index of the node that computes it
};

// Adds the functions that the graph's nodes call, including those of subgraphs.
void AddCalls(const OnnxModel& model, const OnnxGraph& graph, std::vector<const OnnxFunction*>* calls) {
  for (const OnnxNode& node : graph.nodes) {
    if (const OnnxFunction* function = model.FindFunction(node)) calls->push_back(function);
    for (const auto& [name, attr] : node.attrs) {
      if (attr.graph) AddCalls(model, *attr.graph, calls);
    }
  }
}

// Returns an error if a function calls itself. Walks the calls depth first with an explicit stack, since a file may
// hold a chain of calls of any length.
Status CheckRecursion(const OnnxModel& model) {
  enum State { kOpen, kDone };
  struct Level {
    const OnnxFunction* function;
    std::vector<const OnnxFunction*> calls;
  };
  std::map<const OnnxFunction*, State> states;
  std::vector<Level> stack;
  auto enter = [&](const OnnxFunction* function) {
    states[function] = kOpen;
    AddCalls(model, function->body, &stack.emplace_back(Level{function, {}}).calls);
  };
  for (const auto& [key, root] : model.functions) {
    if (!states.count(&root)) enter(&root);
    while (!stack.empty()) {
      Level& level = stack.back();
      if (level.calls.empty()) {
        states[level.function] = kDone;
        stack.pop_back();
        continue;
      }
      const OnnxFunction* next = level.calls.back();
      level.calls.pop_back();
      auto state = states.find(next);
      if (state == states.end()) {
        enter(next);
      } else if (state->second == kOpen) {
        return WithCause("function '" + next->Text() + "' calls itself", "a function calls itself");
      }
    }
  }
  return {};
}

}  // namespace

Status CheckStructure(const OnnxModel& model) {
  TRY(StructureChecker(model.graph, false).Run());
  for (const auto& [key, function] : model.functions)
    TRY_NOTE(StructureChecker(function.body, false).Run(), "in function '" + function.Text() + "'");
  return CheckRecursion(model);
}

}  // namespace autotune::onnx_import
