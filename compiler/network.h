// Network: an ONNX model made ready for tuning and compiling: imported, optimized, fused, and split into tasks. A
// value. Not compiled: compiler/compile.h.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "codegen/builder.h"
#include "graph/graph.h"
#include "target/target.h"
#include "tuner/task.h"

namespace autotune {

struct NetworkOptions {
  std::map<std::string, graph::Shape> shapes;  // of inputs whose dimensions the model leaves open
  std::vector<std::string> extra_outputs;      // further tensors to expose
  bool winograd = true;                        // offer convolutions that round otherwise than the direct sum
  // Inputs that are no inputs but these values: what shapes and axes are computed from.
  std::map<std::string, graph::TensorValue> fixed;
};

struct Network {
  std::string name;                // of the model file, without folder and extension
  Hash128 digest;                  // of the model file's bytes and the options
  graph::Graph graph;              // every node a fused call or a reshape
  std::vector<TuneTask> tasks;     // distinct ones, heaviest first
  std::vector<int> task_of_node;   // parallel to graph.nodes; -1 for reshapes
  std::vector<std::string> notes;  // what was assumed, for the user
  double flops = 0;                // of one run
};

// Returns a hash of the network's structure, in 32 hex digits. The hash covers the tasks of all nodes, their
// alternatives, and the values that connect the nodes. It covers neither names nor constants, so networks that differ
// only in weights have equal hashes.
std::string StructureHash(const Network& network);

// Returns the bytes that one run of the network touches: the constants, the inputs and the results of all kernels, each
// counted once.
int64_t WorkingSetBytes(const Network& network);

// `builder` compiles the kernels that fold constants. Errors: as of ImportOnnx; a task that cannot be expressed.
// The first is for graphs that come from elsewhere; of the options it heeds `winograd`, and leaves name and digest
// empty.
Result<Network> MakeNetwork(const graph::Graph& graph, const NetworkOptions& options, const Target& target,
                            Builder& builder);
Result<Network> LoadNetwork(const std::string& path, const NetworkOptions& options, const Target& target,
                            Builder& builder);

}  // namespace autotune
