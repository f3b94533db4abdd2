// GraphExecutor: runs a network's execution plan: kernels of modules in order, each on the device of its outputs, on
// memory planned beforehand. Constants are prepared once, at load. One thread at a time; several executors may share a
// module and parameters. It neither compiles nor reorders anything.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/bound_kernel.h"
#include "runtime/device.h"
#include "runtime/graph_json.h"
#include "runtime/module.h"
#include "runtime/params.h"
#include "runtime/tensor.h"

namespace autotune {

// The timings behind a profile, in seconds.
struct ProfileSamples {
  std::vector<double> network;               // of the whole network, per run
  std::vector<std::vector<double>> kernels;  // per kernel in order of execution, then per run; paired with `network`
};

struct NodeTime {
  std::string name, func_name;
  double seconds = 0;  // median of the runs
  double least = 0;    // the least of them, in seconds
  double flops = 0;    // of one run, as the library states them; 0 when unknown
  double bytes = 0;    // of its inputs, constants and outputs, each once
};

struct GraphExecutorOptions {
  bool replaceable = false;  // keep every parameter, as ReplaceKernel requires
};

class GraphExecutor {
 public:
  // Kernels are looked up in `module`, which may be null if the graph calls none. Each value lies on the device of
  // `devices` that has its device type. Parameters bind to the graph's variables by name and are copied to their
  // device; other variables are the inputs. A parameter that only NAME.prepare reads is let go after that. Errors name
  // the node: a missing kernel or device, a kernel whose parameters do not fit or lie on another device, a memory plan
  // in which a value is overwritten before it is read.
  static Result<std::unique_ptr<GraphExecutor>> Create(Graph graph, Module module, Params params,
                                                       std::vector<DevicePtr> devices,
                                                       const GraphExecutorOptions& options = {});
  ~GraphExecutor();

  int64_t num_inputs() const { return static_cast<int64_t>(inputs_.size()); }
  int64_t num_outputs() const { return static_cast<int64_t>(graph_.heads.size()); }
  const std::string& input_name(int64_t i) const { return graph_.nodes[inputs_[i]].name; }
  const std::string& output_name(int64_t i) const { return graph_.nodes[graph_.heads[i].node].name; }
  Result<int64_t> InputIndex(std::string_view name) const;  // an error lists the inputs
  const Graph& graph() const { return graph_; }

  // Copies `tensor`, which must have the input's type and shape, from whatever device it lies on.
  Status SetInput(int64_t i, const Tensor& tensor);
  // From now on input i is read from `tensor` itself (64-byte aligned, on the input's device), which the executor
  // holds.
  Status BindInput(int64_t i, Tensor tensor);
  // From now on output i is written into `tensor` itself; refused for outputs that are inputs or parameters.
  Status BindOutput(int64_t i, Tensor tensor);

  // Returns when all devices have finished. From the second run on, devices that have graphs (Device::Capture) replay
  // their steps, until an input or output is bound or a kernel is replaced.
  Status Run();

  // Makes node `node` run kernel `func_name` of the module from now on. The kernel must take the same parameters.
  // Its constants are prepared at the first use and kept. The executor must be `replaceable`. After an error the node
  // keeps its previous kernel.
  Status ReplaceKernel(int64_t node, const std::string& func_name);

  // The executor's own memory, on the value's device, overwritten by the next run.
  Tensor Input(int64_t i) const;
  Tensor Output(int64_t i) const;

  // Bytes of intermediate values, inputs and outputs, and of parameters and prepared buffers held.
  int64_t memory_bytes() const { return memory_bytes_; }
  int64_t constant_bytes() const;

  // Times `runs` runs of the whole network and as many runs kernel by kernel, and adds the times to `samples`. The two
  // alternate, so that both meet the same states of the machine. Their order reverses every time, so that neither
  // always follows the other.
  Status AddProfileSamples(int runs, ProfileSamples& samples);
  // Returns the time of each kernel, in order of execution. `samples` must not be empty.
  Result<std::vector<NodeTime>> NodeTimes(const ProfileSamples& samples) const;
  // Samples `runs` runs and returns their NodeTimes.
  Result<std::vector<NodeTime>> Profile(int runs);

 private:
  struct Step {
    int64_t node = 0;
    BoundKernel* kernel = nullptr;          // null: copy_bytes from args[0] of `from` to args[1] of `to`
    Device *from = nullptr, *to = nullptr;  // a kernel runs on `to`
    int64_t copy_bytes = 0;
    std::vector<int64_t> entries;  // of each parameter; -1 where a run does not read it
    std::vector<void*> args;       // the parameters' data, then the prepared buffers'
  };

  // Consecutive steps of one device, recorded with the arguments that they have now.
  struct Replay {
    size_t begin = 0, end = 0;
    std::shared_ptr<DeviceGraph> graph;
  };

  // Memory for prepared buffers on one device: blocks from which buffers are cut.
  struct PreparedMemory {
    std::shared_ptr<void> block;
    int64_t block_bytes = 0, free = 0;  // of the current block; free bytes lie at its end
  };

  // Scratch memory that the kernels of one device share.
  struct Scratch {
    std::shared_ptr<void> memory;
    int64_t bytes = 0;
    std::vector<BoundKernel*> kernels;
  };

  GraphExecutor() = default;
  static bool Reads(const BoundKernel* kernel, size_t param);
  int64_t EntryOf(GraphRef ref) const { return row_ptr_[ref.node] + ref.index; }
  bool IsParam(int64_t entry) const { return is_param_[root_[entry]]; }
  const GraphEntry& EntryAt(int64_t entry) const;
  std::string NodeText(int64_t node) const;
  void FindRoots();
  Status CheckMemoryPlan() const;
  Result<DevicePtr> DeviceAt(int64_t entry) const;
  Status BindParams(Params params);
  Status AllocateMemory();
  Result<std::map<Device*, std::shared_ptr<void>>> AllocateArenas(std::map<int64_t, int64_t>& offsets);
  Status AddStep(int64_t node);
  Status AddCopy(const GraphNode& node, Step& step) const;
  Status ShareScratch(BoundKernel& kernel, const DevicePtr& device);
  Status FindKernel(const std::string& func_name, Step& step);
  Status FitKernel(const GraphNode& node, Step& step) const;
  Status PrepareSteps();
  Status ReservePrepared(const DevicePtr& device, int64_t bytes);
  Result<std::vector<Tensor>> PrepareStep(const Step& step);
  void FillArgs(Step& step);
  Status RunSteps(size_t begin, size_t end);
  Status RecordReplays();
  void ForgetReplays();
  // A kernel and the parameters that it prepares. Steps with equal keys share their prepared buffers.
  using PreparedKey = std::pair<const BoundKernel*, std::vector<int64_t>>;
  PreparedKey PreparedKeyOf(const Step& step) const;
  Status RunStep(const Step& step);
  Status SetMemory(int64_t entry, const Tensor& tensor);
  Status CheckTensor(const Tensor& tensor, GraphRef ref, const std::string& what) const;

  Graph graph_;
  Module module_;
  std::map<int64_t, DevicePtr> devices_;  // by device type
  std::vector<Device*> others_;           // those that are not the host: a run waits for them
  std::map<std::pair<std::string, Device*>, std::shared_ptr<BoundKernel>> kernels_;
  std::vector<int64_t> inputs_;   // their nodes
  std::vector<int64_t> row_ptr_;  // node -> its first entry
  std::vector<int64_t> node_of_;  // entry -> its node
  std::vector<int64_t> root_;     // entry -> the entry whose memory it is, through reshapes
  std::vector<bool> is_param_;    // entry -> a parameter itself
  std::vector<Tensor> values_;    // entry -> its data; undefined once a parameter was let go
  std::vector<Step> steps_;
  int64_t runs_ = 0;             // since an argument of a step last changed
  std::vector<Replay> replays_;  // in order, from the second of these runs on
  std::map<PreparedKey, std::vector<Tensor>> prepared_;
  std::map<Device*, Scratch> scratch_;
  std::map<Device*, PreparedMemory> prepared_memory_;
  int64_t prepared_bytes_ = 0;  // of all blocks
  GraphExecutorOptions options_;
  int64_t memory_bytes_ = 0;
};

// The executor as a module, type key "graph_executor": set_input(index|name, tensor), set_input_zero_copy,
// set_output_zero_copy(index, tensor), run(), get_output(index[, tensor to copy into]), get_input(index|name),
// get_num_inputs(), get_num_outputs(), get_input_index(name), get_input_name(index), profile(runs) -> JSON text,
// time_evaluator(function name, number, repeat) -> a function that calls that function number * repeat times and
// returns JSON text: {"mean", "median", "min", "max": seconds of one call, "results": seconds of one call in each
// repeat}.
Module MakeGraphExecutorModule(std::unique_ptr<GraphExecutor> executor);

// What the factory makes executors of. Parameters are shared between the executors.
struct ExecutorParts {
  std::string model_name;
  Graph graph;
  Params params;
};

// A module of type "GraphExecutorFactory". Its functions MODEL_NAME(devices...) and "default"(devices...) make a graph
// executor module on these devices and the CPU, with `num_threads` (0: one per CPU); get_graph_json() returns the
// plan's text. Kernels are looked up where the look-up of the function began: in the library that imports the factory,
// or in the factory's own imports.
Module MakeGraphExecutorFactory(ExecutorParts parts, int num_threads = 0);
// From the bytes that the factory's Save wrote: the graph's text, the parameters' number, names and tensors
// (runtime/params.h), the model's name.
Result<Module> LoadGraphExecutorFactory(ByteReader& in);
// Moves the parts out of the first factory in the tree, which makes no executors after that; nothing if there is none.
// So an executor that keeps the tree does not keep parameters that it has prepared.
std::optional<ExecutorParts> TakeExecutorParts(const Module& root);

// Gives input i, or every input, random values (runtime/fill.h), the same for equal seeds.
Status FillInput(GraphExecutor& executor, int64_t i, uint64_t seed);
Status FillInputs(GraphExecutor& executor, uint64_t seed);

}  // namespace autotune
