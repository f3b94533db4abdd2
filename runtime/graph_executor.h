// GraphExecutor: runs the execution plan of a network. It runs the kernels of modules in the plan's order, each on the
// device of its outputs, in the memory that the plan assigns. Constants are prepared once, at load. One thread at a
// time; several executors may share a module and parameters. It neither compiles nor reorders anything.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/bound_kernel.h"
#include "runtime/device.h"
#include "runtime/device_timing.h"
#include "runtime/graph_json.h"
#include "runtime/module.h"
#include "runtime/params.h"
#include "runtime/tensor.h"
#include "support/fields.h"

namespace autotune {

// The timings behind a profile, in seconds.
struct ProfileSamples {
  std::vector<double> network;               // time of the whole network, by run
  std::vector<std::vector<double>> kernels;  // time of each kernel in order of execution, then by run as in `network`
};

// When the parts of one run worked, in seconds since its begin.
struct RunTrace {
  struct Span {
    double begin = 0, seconds = 0;
  };
  double seconds = 0;                      // duration of the run
  std::vector<Span> kernels;               // in order of execution; on a GPU, the duration is by the GPU's clock
  std::vector<std::vector<Span>> threads;  // by thread of the host, the caller first: its parts of parallel loops
};

struct NodeTime {
  int64_t node = 0;  // of the graph
  std::string name, func_name;
  double seconds = 0;  // median time of a run
  double least = 0;    // least time of a run, in seconds
  double flops = 0;    // arithmetic operations of one run, from the library's metadata; 0 if unknown
  double bytes = 0;    // bytes of the inputs, constants and outputs, each counted once
  AUTOTUNE_FIELDS(name, func_name, seconds, least, flops, bytes)
};

// The prepared constants of the kernels of a module tree on the host, for all executors of a network. They are written
// once, under the mutex, and only read after that.
struct PreparedConstants {
  std::mutex mutex;
  std::weak_ptr<ModuleNode>
      root;  // the tree with the kernels; executors whose kernels are in another tree do not share
  // By the kernel's name and the parameters' entries in the graph.
  std::map<std::pair<std::string, std::vector<int64_t>>, std::vector<Tensor>> buffers;
};

struct GraphExecutorOptions {
  bool replaceable = false;  // true: keep every parameter, which ReplaceKernel requires
  // Where executors of one graph and one module share prepared constants; null: the executor has its own. Without
  // effect on other devices than the host, and if the executor is `replaceable`.
  std::shared_ptr<PreparedConstants> prepared;
  // True: `prepared` has the constants of all kernels, and parameters that only their preparation reads have no data
  // (their tensors may point anywhere). A kernel whose prepared constants are missing is an error.
  bool all_prepared = false;
};

class GraphExecutor {
 public:
  // Kernels are looked up in `module`, which may be null if the graph calls none. `devices` has one device for each
  // device type of the graph. Parameters bind to the graph's variables by name and are copied to their devices; the
  // other variables are the inputs. A parameter that only NAME.prepare reads is freed after the preparation. Errors
  // name the node: a missing kernel or device, a kernel whose parameters do not match or are on another device, a
  // memory plan in which a value is overwritten before it is read.
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
  // Returns the devices other than the host's own processor.
  const std::vector<Device*>& others() const { return others_; }

  // Copies `tensor` into input i. The tensor must have the input's type and shape; it may be on any device.
  Status SetInput(int64_t i, const Tensor& tensor);
  // Return the alignment in bytes that the kernels need of input or output i: one element's, unless a kernel is for
  // another device than the CPU or comes from an older compiler.
  int64_t InputAlignment(int64_t i) const;
  int64_t OutputAlignment(int64_t i) const;
  // Makes the executor read input i from `tensor` itself from now on. The tensor must be aligned to InputAlignment(i)
  // and be on the input's device. The executor keeps a reference to it.
  Status BindInput(int64_t i, Tensor tensor);
  // Returns false if output i is an input or a parameter, whose memory BindOutput cannot replace.
  bool CanBindOutput(int64_t i) const;
  // Makes the executor write output i into `tensor` itself from now on, which must be aligned to OutputAlignment(i).
  // Returns an error if the output is an input or a parameter.
  Status BindOutput(int64_t i, Tensor tensor);

  // Runs the network. Returns when all devices have finished. From the second run on, devices with command graphs
  // (Device::Capture) replay recorded steps. A call of BindInput, BindOutput or ReplaceKernel discards the recordings.
  Status Run();

  // Times the steps that run on the one device other than the host (runtime/device_timing.h): its kernels, without
  // copies from and to the host. A run must have come before. Returns nothing if there is no such device, or if there
  // are several.
  Result<std::optional<DeviceTiming>> TimeDevice(const TimeOptions& options);

  // Makes node `node` run kernel `func_name` of the module from now on. The kernel must take the same parameters.
  // Its constants are prepared at the first use and kept. The executor must be `replaceable`. After an error the node
  // keeps its previous kernel.
  Status ReplaceKernel(int64_t node, const std::string& func_name);

  // While `serial` is set, kernels of the host run on the calling thread alone.
  void SetSerial(bool serial);

  // Returns the parameters that runs read, by name. Those that only NAME.prepare reads were freed.
  Params HeldParams() const;

  // Return the tensor that holds input or output i, on its device. The next run overwrites the outputs.
  Tensor Input(int64_t i) const;
  Tensor Output(int64_t i) const;

  // `memory_bytes` counts intermediate values, inputs and outputs. `constant_bytes` counts the parameters and prepared
  // buffers that the executor holds.
  int64_t memory_bytes() const { return memory_bytes_; }
  int64_t constant_bytes() const;

  // Times `runs` runs of the whole network and as many runs kernel by kernel, and adds the times to `samples`. The two
  // kinds of runs alternate, so that both meet the same states of the machine. Their order reverses every time, so that
  // neither kind always comes first.
  Status AddProfileSamples(int runs, ProfileSamples& samples);
  // Returns the time of each kernel, in order of execution. `samples` must not be empty.
  Result<std::vector<NodeTime>> NodeTimes(const ProfileSamples& samples) const;
  // Runs the network kernel by kernel, and notes when each kernel and each thread worked. Notes take time, so such a
  // run is no measurement.
  Result<RunTrace> TraceRun();
  // Samples `runs` runs and returns their NodeTimes.
  Result<std::vector<NodeTime>> Profile(int runs);

 private:
  struct Step {
    int64_t node = 0;
    BoundKernel* kernel = nullptr;          // null: copy_bytes from args[0] of `from` to args[1] of `to`
    Device *from = nullptr, *to = nullptr;  // a kernel runs on `to`
    int64_t copy_bytes = 0;
    std::vector<int64_t> entries;  // entry of each parameter; -1 if runs do not read it
    std::vector<void*> args;       // addresses of the parameters, then of the prepared buffers
  };

  // A recording of the steps [begin, end), which run on one device, with the arguments that they had then.
  struct Replay {
    size_t begin = 0, end = 0;
    std::shared_ptr<DeviceGraph> graph;
  };

  // What uses the memory of a root: the entries that are views of it, itself included, and arguments of steps.
  struct Users {
    std::vector<int64_t> entries;
    std::vector<std::pair<size_t, size_t>> args;  // number of the step, and of its argument
    int64_t alignment = 1;                        // that the kernels need, in bytes
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
  static bool HasSizes(const std::vector<Tensor>& buffers, const std::vector<int64_t>& bytes);
  void TakeShared(const PreparedConstants& shared);
  void FillArgs(Step& step);
  Status RunSteps(size_t begin, size_t end);
  Status RecordReplays();
  void ForgetReplays();
  // A kernel and the parameters that it prepares. Steps with equal keys share their prepared buffers.
  using PreparedKey = std::pair<const BoundKernel*, std::vector<int64_t>>;
  PreparedKey PreparedKeyOf(const Step& step) const;
  Status RunStep(const Step& step);
  Status SetMemory(int64_t entry, const Tensor& tensor);
  Status CheckTensor(const Tensor& tensor, GraphRef ref, const std::string& what, int64_t alignment) const;
  void FindUsers();

  Graph graph_;
  Module module_;
  std::map<int64_t, DevicePtr> devices_;  // by device type
  std::vector<Device*> others_;           // devices that are not the host; a run waits for them
  std::map<std::pair<std::string, Device*>, std::shared_ptr<BoundKernel>> kernels_;
  std::vector<int64_t> inputs_;   // nodes of the inputs
  std::vector<int64_t> row_ptr_;  // node -> its first entry
  std::vector<int64_t> node_of_;  // entry -> its node
  std::vector<int64_t> root_;     // entry -> the entry whose memory it shares (by reshapes), or itself
  std::vector<bool> is_param_;    // entry -> true if it is a parameter, not a reshape of one
  std::vector<Tensor> values_;    // entry -> its data; undefined after a parameter was freed
  std::vector<Step> steps_;
  std::vector<Users> users_;     // by entry; of roots only
  int64_t runs_ = 0;             // number of runs since an argument of a step changed
  std::vector<Replay> replays_;  // recordings, in the order of steps; made at the begin of the second of these runs
  std::map<PreparedKey, std::vector<Tensor>> prepared_;
  std::map<Device*, Scratch> scratch_;
  std::map<Device*, PreparedMemory> prepared_memory_;
  int64_t prepared_bytes_ = 0;  // bytes of all blocks for prepared buffers
  GraphExecutorOptions options_;
  int64_t memory_bytes_ = 0;
};

// The executor as a module, type key "graph_executor": set_input(index|name, tensor), set_input_zero_copy,
// set_output_zero_copy(index, tensor), run(), get_output(index[, tensor to copy into]), get_input(index|name),
// get_num_inputs(), get_num_outputs(), get_input_index(name), get_input_name(index), profile(runs) -> JSON text, the
// NodeTimes of so many runs; profile_samples(runs) -> their times in seconds, a tensor [1 + number of NodeTimes, runs]
// of f64: in its first row those of the network, then those of each kernel;
// time_variants(tasks, variants, serial, seconds) -> TimeVariants (runtime/network_variants.h) of one visit after the
// other, until `seconds` are over: `tasks` is a list of TaskVariants as JSON text, `variants` an i64 tensor
// [visits, tasks], `serial` an i64 tensor [visits]; the result is an f64 tensor [visits that were made, 1 + tasks],
// with the duration of each visit first;
// time_evaluator(function name, number, repeat) -> a function that calls that function number * repeat times and
// returns JSON text: {"mean", "median", "min", "max": seconds of one call, "results": seconds of one call in each
// repeat}.
Module MakeGraphExecutorModule(std::unique_ptr<GraphExecutor> executor);

// The parts from which the factory makes executors. The executors share the parameters and the prepared constants.
struct ExecutorParts {
  std::string model_name;
  Graph graph;
  Params params;
  std::shared_ptr<PreparedConstants> prepared = std::make_shared<PreparedConstants>();
};

// Makes a module of type "GraphExecutorFactory". Its functions MODEL_NAME(devices...) and "default"(devices...) make a
// graph executor module on these devices and the CPU, with `num_threads` threads (0: one per CPU). Its function
// get_graph_json() returns the plan's text. Kernels are looked up in the module whose GetFunction returned the
// function: the library that imports the factory, or the factory with its own imports.
Module MakeGraphExecutorFactory(ExecutorParts parts, int num_threads = 0);
// Restores a factory from the bytes that its Save wrote: the graph's text, the number, the names and the tensors of the
// parameters (runtime/params.h), and the model's name.
Result<Module> LoadGraphExecutorFactory(ByteReader& in);
// Sets the number of threads of the executors that the first factory in the tree will make. No call of the factory may
// be in progress.
void SetExecutorThreads(const Module& root, int num_threads);
// Moves the parts out of the first factory in the tree and returns them; returns nothing if there is no factory. The
// factory makes no executors after that. So an executor that keeps the tree alive can free parameters after their
// preparation.
std::optional<ExecutorParts> TakeExecutorParts(const Module& root);
// Returns the parts of the first factory in the tree, which share its tensors; nothing if there is no factory, or if
// its parts were moved out.
std::optional<ExecutorParts> CopyExecutorParts(const Module& root);

// Fill input i, or every input, with random values (runtime/fill.h). Equal seeds give equal values.
Status FillInput(GraphExecutor& executor, int64_t i, uint64_t seed);
// The same through the module of a network, here or on a device of a farm.
Status FillInput(const Module& network, int64_t i, const std::vector<int64_t>& shape, const std::string& dtype,
                 uint64_t seed);
Status FillInputs(GraphExecutor& executor, uint64_t seed);

}  // namespace autotune
