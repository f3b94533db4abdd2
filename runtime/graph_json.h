// Graph: the static execution plan of a network: the order of its kernels and the memory of their values. Its text is
// graph JSON (docs/package.md). Plain values. A Graph holds no tensors; GraphExecutor (runtime/graph_executor.h) runs
// it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/result.h"

namespace autotune {

inline constexpr std::string_view kNopFunction = "__nop";    // func_name of a reshape: output and input are one memory
inline constexpr std::string_view kCopyFunction = "__copy";  // func_name of a copy from one device to another

// A reference to output `index` of node `node`.
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
  bool flatten_data = false;  // true: the kernel's tensors have other shapes of the same size
  std::string hash;           // hash of the task, by which records name it; empty if unknown
  std::vector<GraphEntry> outputs;
  bool IsVariable() const { return func_name.empty(); }
  bool operator==(const GraphNode&) const = default;
};

struct Graph {
  std::vector<GraphNode> nodes;  // each node comes after the nodes that it reads
  std::vector<GraphRef> heads;   // outputs of the network

  const GraphEntry& Entry(GraphRef ref) const { return nodes[ref.node].outputs[ref.index]; }
  std::vector<int64_t> Variables() const;  // arg_nodes: indices of inputs and parameters, in order
  std::string ToText() const;              // graph JSON
  // Parses graph JSON, also that of other programs: unknown members are ignored, and device_index and the version of a
  // reference may be absent. Errors: malformed text; bad references, order, counts, types, shapes or devices.
  static Result<Graph> Parse(std::string_view text);
  Status Check() const;  // makes the checks of Parse that do not concern the text
  bool operator==(const Graph&) const = default;
};

}  // namespace autotune
