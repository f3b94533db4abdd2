// Graph: the static execution plan of a network, which kernels in which order on which memory, and its text, graph
// JSON (docs/package.md). Plain values. It holds no data and runs nothing: runtime/graph_executor.h does.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace autotune {

inline constexpr std::string_view kNopFunction = "__nop";    // func_name of a reshape: output and input are one memory
inline constexpr std::string_view kCopyFunction = "__copy";  // func_name of a copy from one device to another

// Output `index` of node `node`.
struct GraphRef {
  int64_t node = 0, index = 0;
  bool operator==(const GraphRef&) const = default;
};

struct GraphEntry {   // one output of one node
  std::string dtype;  // "f32"; "float32" in the text, as other runtimes write it
  std::vector<int64_t> shape;
  int64_t storage_id = 0;  // entries with equal ids share memory; all of them lie on one device
  int64_t device = 1;      // DLPack's device type; 1: the CPU
  bool operator==(const GraphEntry&) const = default;
};

struct GraphNode {
  std::string name;
  std::string func_name;  // kernel in the library; empty: an input or a parameter
  std::vector<GraphRef> inputs;
  bool flatten_data = false;  // the kernel sees its tensors under other shapes of the same size
  std::string hash;           // of the task, as records name it; empty: not known
  std::vector<GraphEntry> outputs;
  bool IsVariable() const { return func_name.empty(); }
  bool operator==(const GraphNode&) const = default;
};

struct Graph {
  std::vector<GraphNode> nodes;  // every node after those it reads
  std::vector<GraphRef> heads;   // the outputs

  const GraphEntry& Entry(GraphRef ref) const { return nodes[ref.node].outputs[ref.index]; }
  std::vector<int64_t> Variables() const;  // arg_nodes: indices of inputs and parameters, in order
  std::string ToText() const;              // graph JSON
  // Checks everything that ToText could not have written: references, order, counts, types, shapes, devices.
  static Result<Graph> Parse(std::string_view text);
  Status Check() const;  // what Parse checks of the value
  bool operator==(const Graph&) const = default;
};

}  // namespace autotune
