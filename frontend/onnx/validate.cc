#include "frontend/onnx/validate.h"

#include <map>
#include <set>

namespace autotune::onnx_import {
namespace {

class StructureChecker {
 public:
  explicit StructureChecker(const OnnxModel& model) : model_(model) {
    for (const OnnxValueInfo& info : model.inputs) known_.insert(info.name);
    for (const auto& [name, value] : model.initializers) known_.insert(name);
    for (const OnnxNode& node : model.nodes) {
      for (const std::string& name : node.outputs) producer_[name] = node.index;
    }
  }

  Status Run() {
    for (const OnnxNode& node : model_.nodes) {
      if (node.outputs.empty()) return WithCause(node.Text() + " has no outputs", "a node has no outputs");
      for (const std::string& name : node.inputs) {
        if (!name.empty() && !known_.count(name)) return Unknown(node, name);  // "": an omitted input
      }
      known_.insert(node.outputs.begin(), node.outputs.end());
    }
    for (const OnnxValueInfo& info : model_.outputs) {
      if (!known_.count(info.name))
        return WithCause("output '" + info.name + "' is " + kNowhere, "an output has no origin");
    }
    return {};
  }

 private:
  static constexpr const char* kNowhere = "computed by no node, and neither an input nor an initializer";

  Error Unknown(const OnnxNode& node, const std::string& name) const {
    std::string reads = node.Text() + " reads '" + name + "', which ";
    auto producer = producer_.find(name);
    if (producer == producer_.end()) return WithCause(reads + "is " + kNowhere, "a node's input has no origin");
    const OnnxNode& later = model_.nodes[producer->second];
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
      int at = open.back();
      open.pop_back();
      if (at == other.index) return true;
      for (const std::string& name : model_.nodes[at].inputs) {
        auto producer = producer_.find(name);
        if (!name.empty() && producer != producer_.end() && seen.insert(producer->second).second)
          open.push_back(producer->second);
      }
    }
    return false;
  }

  const OnnxModel& model_;
  std::set<std::string> known_;
  std::map<std::string, int> producer_;  // tensor -> index of the node that computes it
};

}  // namespace

Status CheckStructure(const OnnxModel& model) { return StructureChecker(model).Run(); }

}  // namespace autotune::onnx_import
