// Walker imports the nodes of a graph one by one. It expands functions and subgraphs in place, so that the result has
// no functions and no control flow. Internal to frontend/onnx; not thread-safe.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "frontend/onnx/importer.h"

namespace autotune::onnx_import {

constexpr int kMinOpset = 1, kMaxOpset = 28;  // limits for models and functions; each operator has its own limits

class Walker {
 public:
  // Both must outlive the walker.
  Walker(const OnnxModel& model, ImportContext* context);

  // Returns the scope of the network. The caller adds the network's inputs to it.
  Scope Outermost(const FunctionCall& call) { return {&model_.graph, &call, nullptr, Initializers(model_.graph)}; }
  // Imports the nodes of the scope's graph. If a node cannot be imported, adds a problem and goes on.
  void Walk(Scope& scope);
  // Adds a note if the file states other shapes of tensors than the computed ones. The scope is the network's, walked.
  void NoteDeclaredShapes(Scope& scope);
  void Complain(Error problem) { problems_.push_back(std::move(problem)); }
  const std::vector<Error>& problems() const { return problems_; }
  // Return the operators of the nodes walked so far, and for each node of the graph the index of the model's node that
  // it comes from.
  const std::vector<std::string>& node_operators() const { return node_operators_; }
  const std::vector<int32_t>& origins() const { return origins_; }

 private:
  void ImportNode(const OnnxNode& node);
  Status CheckVersion(const OperatorRow& row) const;
  // Checks the types of the inputs of a node that has been imported: import functions complain in more detail.
  Status CheckOperandTypes(const OnnxNode& node, Scope& scope);
  // Returns an error that lists the faults, or adds notes if the import is lenient.
  Status Judge(const std::vector<std::string>& faults, const std::string& what);
  // Adds a problem, or a note, for each tensor of the scope's graph that contradicts its declaration.
  void CheckDeclarations(Scope& scope);
  Status CallFunction(const OnnxNode& node, const OnnxFunction& function);
  Result<std::vector<Operand>> Inline(const OnnxGraph& body, std::vector<Operand> inputs);
  // Add a problem for each unsupported operator in the subgraphs and the function of a node, or in a graph, that is not
  // walked because an earlier node failed.
  void ComplainOfOperators(const OnnxNode& node);
  void ComplainOfOperators(const OnnxGraph& graph);
  // Walks the graph of a function or a subgraph. Returns an error if that adds problems.
  Status Enter(Scope& scope, std::string place);
  std::map<std::string, Operand>* Initializers(const OnnxGraph& graph);
  // Describes the function or subgraph of the current node: ", in then_branch of If (node 'x')".
  std::string Place() const;
  std::string PlaceOf(const OnnxGraph& body) const;

  const OnnxModel& model_;
  ImportContext& context_;
  std::vector<Error> problems_;
  std::vector<std::string> places_;  // the functions and subgraphs around the current node, outermost first
  int64_t nodes_ = 0;                // number of nodes from functions and subgraphs so far
  // The initializers of each graph. All runs of a subgraph use the same operands, so they share one constant of the
  // graph.
  std::map<const OnnxGraph*, std::map<std::string, Operand>> initializers_;
  std::set<const OnnxGraph*> complained_;
  std::set<std::string> noted_;  // a fault in a loop is noted once
  std::vector<std::string> node_operators_;
  std::vector<int32_t> origins_;
};

}  // namespace autotune::onnx_import
