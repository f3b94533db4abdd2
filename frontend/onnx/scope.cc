#include "frontend/onnx/scope.h"

#include <algorithm>

namespace autotune::onnx_import {

bool FunctionCall::Concerns(const OnnxNode& node) const {
  auto is_reference = [](const auto& attr) { return !attr.second.ref.empty(); };
  auto is_omitted = [&](const std::string& name) { return omitted.count(name) > 0; };
  return std::any_of(node.attrs.begin(), node.attrs.end(), is_reference) ||
         std::any_of(node.inputs.begin(), node.inputs.end(), is_omitted);
}

OnnxNode FunctionCall::Resolved(OnnxNode node) const {
  for (std::string& name : node.inputs) {
    if (omitted.count(name)) name.clear();
  }
  for (auto it = node.attrs.begin(); it != node.attrs.end();) {
    if (it->second.ref.empty()) {
      ++it;
    } else if (auto given = attrs.find(it->second.ref); given != attrs.end()) {
      (it++)->second = given->second;
    } else {  // the call and the function give no value: the operator's default applies
      it = node.attrs.erase(it);
    }
  }
  return node;
}

Operand* Scope::Find(const std::string& name) {
  for (Scope* scope = this; scope; scope = scope->outer) {
    if (auto it = scope->tensors.find(name); it != scope->tensors.end()) return &it->second;
    if (!scope->initializers) continue;
    if (auto it = scope->initializers->find(name); it != scope->initializers->end()) return &it->second;
  }
  return nullptr;
}

Error Scope::WhyAbsent(const std::string& name) const {
  for (const Scope* scope = this; scope; scope = scope->outer) {
    auto it = scope->graph->initializers.find(name);
    if (it != scope->graph->initializers.end() && !it->second.ok()) return it->second.error();
  }
  return Err("there is no tensor '", name, "'");
}

bool Scope::IsUnknown(const std::string& name) const {
  for (const Scope* scope = this; scope; scope = scope->outer) {
    if (scope->unknown.count(name)) return true;
    if (scope->tensors.count(name)) return false;
  }
  return false;
}

}  // namespace autotune::onnx_import
