// Network: a model that is ready for tuning and compiling: imported, optimized, fused, and split into tasks. A value.
// compiler/compile.h compiles it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "codegen/builder.h"
#include "graph/module.h"
#include "target/target.h"
#include "tuner/task.h"

namespace autotune {

struct NetworkOptions {
  std::map<std::string, graph::Shape> shapes;  // shapes of inputs whose dimensions the model leaves open
  std::vector<std::string> extra_outputs;      // further tensors of the model that become outputs
  bool winograd = true;                        // true: Winograd convolutions, which round differently, are allowed
  bool bf16 = false;  // true: operands of products may be rounded to bf16, where that is faster
  bool int8 = false;  // true: data that meet weights in blocks may be rounded to 8 bits (graph/rounded_rows.h)
  // Inputs that become constants of these values. Inputs from which shapes or axes are computed need this.
  std::map<std::string, graph::TensorValue> fixed;
  std::map<std::string, int64_t> dims = {};  // sizes of the named dimensions of the model's inputs
  bool lenient = false;                      // true: faults of nodes are notes (frontend/onnx/import.h)
  // True: the network gets the input of graph/step_moves.h if it has steps.
  bool step_moves = false;
};

// A task of a network: a kernel that some nodes of main call. Its functions are in the module.
struct NetworkTask {
  std::string function;                   // name of the graph function that the nodes call, and of the kernel
  Hash128 hash;                           // hash of the function's canonical text (graph/extract.h)
  Hash128 family;                         // equal for tasks that share their schedules (graph/extract.h)
  std::string label;                      // for people: "conv2d 1x56x56x64, 3x3, 64"
  int weight = 1;                         // number of calls in main
  double flops = 0;                       // arithmetic operations of one run
  std::vector<std::string> alternatives;  // names of the ways to compute it; the first one defines the result
};

struct Network {
  std::string name;  // name of the model file without extension, or of its folder if the file is model.onnx
  Hash128 digest;    // hash of the model file's bytes and the options
  // The functions of the network: `main`, whose nodes are calls and reshapes, and for each task the graph function that
  // is called and one unscheduled PrimFunc for each alternative.
  IRModule module;
  std::vector<NetworkTask> tasks;  // distinct tasks, ordered by decreasing work
  std::vector<std::string> notes;  // assumptions of the import, for the user
  double flops = 0;                // arithmetic operations of one run

  const graph::Graph& main() const { return module.main(); }
};

// Returns the table with the one pass that makes the functions of the tasks. The pass runs after those of
// graph/pipeline.h.
const PassTable& NetworkPassTable();

// Returns the index of the task of each node of main; -1 for reshapes.
std::vector<int> TaskOfNodes(const Network& network);

// Returns the program of a task's alternative in the form of the tuner and the records: the function's name is `kernel`
// for every task.
PrimFunc ProgramOf(const Network& network, const NetworkTask& task, const std::string& alternative);

// Returns the tasks to tune, in the order of the network: one for each family, the one with the most calls, with the
// calls of the whole family as its weight. The others follow its schedules (compiler/kernels.h).
std::vector<NetworkTask> TasksToTune(const Network& network);

// Return a task, or all tasks to tune, in the form of the tuner.
TuneTask MakeTuneTask(const Network& network, const NetworkTask& task);
std::vector<TuneTask> MakeTuneTasks(const Network& network);

// Returns a hash of the network's structure, in 32 hex digits. It covers the tasks of all nodes, their alternatives,
// and which node reads which value. It covers neither names nor values of constants, so networks that differ only in
// weights have equal hashes.
std::string StructureHash(const Network& network);

// Returns the bytes that one run of the network touches: the constants, the inputs and the results of all kernels, each
// counted once.
int64_t WorkingSetBytes(const Network& network);

// Returns the name of the network in a model file (Network::name).
std::string NetworkNameOf(const std::string& path);

// LoadNetwork reads a model file, and LoadNetworkBytes takes its contents, which have no further files. A file and its
// contents give networks of one digest. MakeNetwork takes a module from elsewhere; it uses only the option `winograd`
// and leaves name and digest empty. `builder` compiles the kernels that fold constants. Errors: those of ImportOnnx; a
// task that cannot be lowered to a program.
Result<Network> MakeNetwork(const IRModule& module, const NetworkOptions& options, const Target& target,
                            Builder& builder, const PassContext& passes = {});
Result<Network> LoadNetwork(const std::string& path, const NetworkOptions& options, const Target& target,
                            Builder& builder, const PassContext& passes = {});
Result<Network> LoadNetworkBytes(const std::string& bytes, const std::string& name, const NetworkOptions& options,
                                 const Target& target, Builder& builder, const PassContext& passes = {});

}  // namespace autotune
