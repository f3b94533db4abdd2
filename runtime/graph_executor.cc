#include "runtime/graph_executor.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <set>

#include "runtime/kernel_context.h"
#include "support/check.h"
#include "support/statistics.h"

namespace autotune {
namespace {

int64_t Align(int64_t bytes) { return (bytes + AT_ALIGNMENT - 1) / AT_ALIGNMENT * AT_ALIGNMENT; }

int64_t EntryBytes(const GraphEntry& entry) {
  return ShapeBytes(entry.shape, DataTypeFromText(entry.dtype).value()).value();  // Graph::Check has seen both
}

std::string EntryText(const GraphEntry& entry) { return entry.dtype + ShapeText(entry.shape); }

// Returns whether NAME.raw reads parameter `i`. A copy (null kernel) reads all its entries.
bool Reads(const Kernel* kernel, size_t i) {
  if (!kernel) return true;
  const auto& skipped = kernel->metadata.prepare_only;
  return std::find(skipped.begin(), skipped.end(), static_cast<int64_t>(i)) == skipped.end();
}

}  // namespace

GraphExecutor::~GraphExecutor() = default;

const GraphEntry& GraphExecutor::EntryAt(int64_t entry) const {
  int64_t node = node_of_[entry];
  return graph_.nodes[node].outputs[entry - row_ptr_[node]];
}

std::string GraphExecutor::NodeText(int64_t node) const {
  return "node " + std::to_string(node) + " '" + graph_.nodes[node].name + "'";
}

Result<std::unique_ptr<GraphExecutor>> GraphExecutor::Create(Graph graph,
                                                             std::vector<std::shared_ptr<const Artifact>> libraries,
                                                             Params params, std::shared_ptr<KernelContext> context,
                                                             const GraphExecutorOptions& options) {
  TRY_NOTE(graph.Check(), "graph");
  std::unique_ptr<GraphExecutor> executor(new GraphExecutor);
  executor->options_ = options;
  executor->graph_ = std::move(graph);
  executor->libraries_ = std::move(libraries);
  executor->context_ = std::move(context);
  const auto& nodes = executor->graph_.nodes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    executor->row_ptr_.push_back(static_cast<int64_t>(executor->node_of_.size()));
    executor->node_of_.insert(executor->node_of_.end(), nodes[i].outputs.size(), static_cast<int64_t>(i));
  }
  executor->values_.resize(executor->node_of_.size());
  executor->is_param_.resize(executor->node_of_.size());
  TRY(executor->BindParams(std::move(params)));
  executor->FindRoots();
  TRY_NOTE(executor->CheckMemoryPlan(), "memory plan");
  TRY(executor->AllocateMemory());
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].IsVariable()) TRY_NOTE(executor->AddStep(i), executor->NodeText(i));
  }
  TRY(executor->PrepareSteps());
  return executor;
}

Status GraphExecutor::BindParams(Params params) {
  for (int64_t node : graph_.Variables()) {
    int64_t entry = row_ptr_[node];
    auto it = params.find(graph_.nodes[node].name);
    if (it == params.end()) {
      inputs_.push_back(node);
      continue;
    }
    TRY(CheckTensor(it->second, {node, 0}, "parameter"));
    is_param_[entry] = true;
    values_[entry] = std::move(it->second);
    params.erase(it);
  }
  if (!params.empty()) return Err("the graph has no variable for parameter '", params.begin()->first, "'");
  return {};
}

// A reshape within one memory, or of a parameter, costs nothing: its output is another view of the root.
void GraphExecutor::FindRoots() {
  root_.resize(node_of_.size());
  for (size_t entry = 0; entry < root_.size(); ++entry) {
    root_[entry] = static_cast<int64_t>(entry);
    const GraphNode& node = graph_.nodes[node_of_[entry]];
    if (node.func_name != kNopFunction || node.inputs.size() != 1 || node.outputs.size() != 1) continue;
    int64_t source = root_[EntryOf(node.inputs[0])];
    if (is_param_[source] || EntryAt(source).storage_id == node.outputs[0].storage_id) root_[entry] = source;
  }
}

// Walks the plan as a run would: each memory must hold the value that is read from it.
Status GraphExecutor::CheckMemoryPlan() const {
  std::map<int64_t, int64_t> holds;     // storage id -> root entry
  std::map<int64_t, int64_t> reserved;  // storage ids of inputs
  for (int64_t node : inputs_) {
    int64_t id = graph_.nodes[node].outputs[0].storage_id;
    if (!reserved.emplace(id, node).second) return Err(NodeText(node), " shares storage ", id, " with another input");
    holds[id] = row_ptr_[node];
  }
  auto check_read = [&](GraphRef ref, const std::string& reader) -> Status {
    int64_t root = root_[EntryOf(ref)];
    if (is_param_[root]) return {};
    int64_t id = EntryAt(root).storage_id, held = holds.at(id);
    if (held != root) {
      return Err(reader, " reads ", NodeText(node_of_[root]), ", whose storage ", id, " was overwritten by ",
                 NodeText(node_of_[held]));
    }
    return {};
  };
  for (size_t n = 0; n < graph_.nodes.size(); ++n) {
    const GraphNode& node = graph_.nodes[n];
    if (node.IsVariable()) continue;
    std::string text = NodeText(n);
    std::set<int64_t> used;
    for (GraphRef ref : node.inputs) {
      TRY(check_read(ref, text));
      int64_t root = root_[EntryOf(ref)];
      if (!is_param_[root]) used.insert(EntryAt(root).storage_id);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      int64_t entry = row_ptr_[n] + static_cast<int64_t>(i), id = node.outputs[i].storage_id;
      if (root_[entry] != entry) continue;
      auto input = reserved.find(id);
      if (input != reserved.end()) return Err(text, " writes storage ", id, " of input ", NodeText(input->second));
      if (!used.insert(id).second) return Err(text, " uses storage ", id, " for two of its inputs and outputs");
      holds[id] = entry;
    }
  }
  for (GraphRef head : graph_.heads) TRY(check_read(head, "the graph's output"));
  return {};
}

Status GraphExecutor::AllocateMemory() {
  std::map<int64_t, int64_t> bytes;  // storage id -> size, then offset
  auto owns_memory = [&](size_t entry) { return root_[entry] == static_cast<int64_t>(entry) && !is_param_[entry]; };
  for (size_t entry = 0; entry < root_.size(); ++entry) {
    if (!owns_memory(entry)) continue;
    int64_t& size = bytes[EntryAt(entry).storage_id];
    size = std::max(size, EntryBytes(EntryAt(entry)));
  }
  for (auto& [id, size] : bytes) {
    constexpr int64_t kMaxBytes = int64_t{1} << 39;
    if (size > kMaxBytes || memory_bytes_ > kMaxBytes) return Err("the graph needs too much memory: storage ", id);
    memory_bytes_ += Align(std::exchange(size, memory_bytes_));
  }
  // Asked for, it would be granted, and the process killed once the pages are touched.
  int64_t machine_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  if (memory_bytes_ > machine_bytes) {
    return OutOfMemory("intermediate values take ", memory_bytes_, " bytes, and this machine has ", machine_bytes);
  }
  std::shared_ptr<void> memory = AllocateAligned(memory_bytes_);
  if (!memory) return OutOfMemory("cannot allocate ", memory_bytes_, " bytes for intermediate values");
  for (size_t entry = 0; entry < root_.size(); ++entry) {
    const GraphEntry& plan = EntryAt(entry);
    void* data = is_param_[root_[entry]]
                     ? values_[root_[entry]].data()
                     : static_cast<char*>(memory.get()) + bytes.at(EntryAt(root_[entry]).storage_id);
    if (is_param_[entry]) continue;
    if (root_[entry] != static_cast<int64_t>(entry) && EntryBytes(plan) != EntryBytes(EntryAt(root_[entry]))) {
      return Err(NodeText(node_of_[entry]), ": reshape of ", EntryText(EntryAt(root_[entry])), " to ", EntryText(plan));
    }
    values_[entry] =
        TRY(Tensor::View(data, plan.shape, DataTypeFromText(plan.dtype).value(),
                         is_param_[root_[entry]] ? std::make_shared<Tensor>(values_[root_[entry]]) : memory));
  }
  for (int64_t node : inputs_) {  // a run without set_input is at least deterministic
    const Tensor& input = values_[row_ptr_[node]];
    if (input.num_bytes() > 0) std::memset(input.data(), 0, input.num_bytes());
  }
  return {};
}

// Which of the node's tensors each parameter of the kernel is.
Status GraphExecutor::FitKernel(const GraphNode& node, Step& step) const {
  const KernelMetadata& kernel = step.kernel->metadata;
  size_t next_input = 0, next_output = 0, outputs = step.kernel->ParamsOfKind(ParamKind::kOutput).size();
  if (kernel.params.size() - outputs != node.inputs.size() || outputs != node.outputs.size()) {
    return Err("kernel ", kernel.name, " has ", kernel.params.size() - outputs, " inputs and ", outputs,
               " outputs, the node ", node.inputs.size(), " and ", node.outputs.size());
  }
  for (const TensorSpec& spec : kernel.params) {
    int64_t entry = spec.kind == ParamKind::kOutput
                        ? EntryOf({node_of_[row_ptr_[step.node]], static_cast<int64_t>(next_output++)})
                        : EntryOf(node.inputs[next_input++]);
    const GraphEntry& plan = EntryAt(entry);
    int64_t bytes = ShapeBytes(spec.shape, TRY(DataTypeFromText(spec.dtype))).value();
    bool fits = spec.dtype == plan.dtype && (node.flatten_data ? bytes == EntryBytes(plan) : spec.shape == plan.shape);
    if (!fits) {
      return Err("kernel ", kernel.name, ": parameter ", spec.name, " is ", spec.dtype, ShapeText(spec.shape),
                 ", the graph has ", EntryText(plan));
    }
    if (spec.kind == ParamKind::kConstant && step.kernel->prepare && !IsParam(entry)) {
      return Err("kernel ", kernel.name, " prepares its constant ", spec.name, ", but ", NodeText(node_of_[entry]),
                 " is no parameter");
    }
    step.entries.push_back(entry);
  }
  return {};
}

Status GraphExecutor::AddStep(int64_t index) {
  const GraphNode& node = graph_.nodes[index];
  Step step;
  step.node = index;
  if (node.func_name == kNopFunction) {
    if (node.inputs.size() != 1 || node.outputs.size() != 1) return Err(kNopFunction, " has one input and one output");
    int64_t from = EntryOf(node.inputs[0]), to = row_ptr_[index];
    if (EntryAt(from).dtype != EntryAt(to).dtype || EntryBytes(EntryAt(from)) != EntryBytes(EntryAt(to))) {
      return Err("reshape of ", EntryText(EntryAt(from)), " to ", EntryText(EntryAt(to)));
    }
    if (root_[from] == root_[to]) return {};
    step.copy_bytes = EntryBytes(EntryAt(to));
    step.entries = {from, to};
  } else {
    TRY(FindKernel(node.func_name, step));
    if (node.prepare && !step.kernel->prepare) {
      return Err("it asks for prepare, but kernel ", node.func_name, " has no entry point ", node.func_name,
                 ".prepare");
    }
    TRY(FitKernel(node, step));
  }
  steps_.push_back(std::move(step));
  return {};
}

Status GraphExecutor::FindKernel(const std::string& func_name, Step& step) const {
  for (const auto& library : libraries_) {
    Result<const Kernel*> found = library->Find(func_name);
    if (!found.ok()) continue;
    step.kernel = *found;
    return {};
  }
  return Err("the library has no kernel '", func_name, "'");
}

GraphExecutor::PreparedKey GraphExecutor::PreparedKeyOf(const Step& step) const {
  PreparedKey key{step.kernel, {}};
  for (int64_t param : step.kernel->ParamsOfKind(ParamKind::kConstant))
    key.second.push_back(root_[step.entries[param]]);
  return key;
}

// Ensures that the current block has `bytes` left for prepared buffers; else allocates a new block.
Status GraphExecutor::ReservePrepared(int64_t bytes) {
  if (bytes <= prepared_free_) return {};
  // Kernels that are replaced one by one share a large block, so that their buffers also lie in huge pages.
  constexpr int64_t kReplaceableBlock = int64_t{8} << 20;
  int64_t size = options_.replaceable ? std::max(bytes, kReplaceableBlock) : bytes;
  std::shared_ptr<void> block = AllocateAligned(size);
  if (!block) return OutOfMemory("cannot allocate ", size, " bytes for prepared constants");
  prepared_memory_ = std::move(block);
  prepared_free_ = prepared_block_bytes_ = size;
  prepared_bytes_ += size;
  return {};
}

Result<std::vector<Tensor>> GraphExecutor::PrepareStep(const Step& step) {
  int64_t total = 0;
  for (int64_t bytes : step.kernel->metadata.prepared) total += Align(bytes);
  TRY(ReservePrepared(total));
  std::vector<Tensor> constants;
  for (int64_t param : step.kernel->ParamsOfKind(ParamKind::kConstant)) {
    constants.push_back(TRY(values_[step.entries[param]].Reshape(step.kernel->metadata.params[param].shape)));
  }
  return PrepareConstants(*step.kernel, *context_, constants, [&](int64_t bytes) {
    char* data = static_cast<char*>(prepared_memory_.get()) + (prepared_block_bytes_ - prepared_free_);
    prepared_free_ -= Align(bytes);
    CHECK(prepared_free_ >= 0);
    return Tensor::View(data, {bytes}, {kDLUInt, 8, 1}, prepared_memory_);
  });
}

// Fills in the arguments of a step except its prepared buffers, which the caller appends. Drops the entries that only
// NAME.prepare reads, so the step must be prepared first.
void GraphExecutor::FillArgs(Step& step) {
  for (size_t i = 0; i < step.entries.size(); ++i) {
    if (!Reads(step.kernel, i)) step.entries[i] = -1;
    step.args.push_back(step.entries[i] < 0 ? nullptr : values_[step.entries[i]].data());
  }
}

// Prepares constants, lets go of parameters that nothing reads any more as it goes, and fills in the arguments.
Status GraphExecutor::PrepareSteps() {
  std::vector<int64_t> prepares(root_.size(), 0);  // parameter -> prepares that are still to read it
  std::vector<bool> runs(root_.size(), false);     // read by runs
  for (GraphRef head : graph_.heads) runs[root_[EntryOf(head)]] = true;
  int64_t bytes = 0;  // of all prepared buffers, which share one block
  for (const Step& step : steps_) {
    for (size_t i = 0; i < step.entries.size(); ++i) {
      if (Reads(step.kernel, i)) runs[root_[step.entries[i]]] = true;
    }
    if (!step.kernel || !step.kernel->prepare) continue;
    PreparedKey key = PreparedKeyOf(step);
    for (int64_t root : key.second) ++prepares[root];
    if (!prepared_.try_emplace(std::move(key)).second) continue;
    for (int64_t buffer : step.kernel->metadata.prepared) bytes += Align(buffer);
  }
  TRY(ReservePrepared(bytes));
  auto release = [&](int64_t root) {
    if (options_.replaceable || !is_param_[root] || runs[root] || prepares[root] > 0) return;
    for (size_t entry = 0; entry < root_.size(); ++entry) {
      if (root_[entry] == root) values_[entry] = Tensor();
    }
  };
  for (Step& step : steps_) {
    std::vector<Tensor> buffers;
    if (step.kernel && step.kernel->prepare) {
      PreparedKey key = PreparedKeyOf(step);
      std::vector<Tensor>& made = prepared_.at(key);
      if (made.empty()) made = TRY_NOTE(PrepareStep(step), NodeText(step.node));
      buffers = made;
      for (int64_t root : key.second) {
        --prepares[root];
        release(root);
      }
    }
    FillArgs(step);
    for (const Tensor& buffer : buffers) step.args.push_back(buffer.data());
  }
  for (size_t entry = 0; entry < root_.size(); ++entry) release(root_[entry]);
  return {};
}

Status GraphExecutor::ReplaceKernel(int64_t node, const std::string& func_name) {
  if (!options_.replaceable) return Err("the executor was not made for kernels to be replaced");
  auto place = std::find_if(steps_.begin(), steps_.end(), [&](const Step& step) { return step.node == node; });
  if (place == steps_.end() || !place->kernel) return Err(NodeText(node), " runs no kernel");
  if (place->kernel->metadata.name == func_name) return {};
  Step step{.node = node};
  TRY_NOTE(FindKernel(func_name, step), NodeText(node));
  TRY_NOTE(FitKernel(graph_.nodes[node], step), NodeText(node));
  std::vector<Tensor> buffers;
  if (step.kernel->prepare) {
    std::vector<Tensor>& made = prepared_[PreparedKeyOf(step)];
    if (made.empty()) made = TRY_NOTE(PrepareStep(step), NodeText(node));
    buffers = made;
  }
  FillArgs(step);
  for (const Tensor& buffer : buffers) step.args.push_back(buffer.data());
  *place = std::move(step);
  return {};
}

Status GraphExecutor::RunStep(const Step& step) {
  if (!step.kernel) {
    if (step.copy_bytes > 0) std::memcpy(step.args[1], step.args[0], step.copy_bytes);
    return {};
  }
  if (step.kernel->raw(context_->abi(), step.args.data()) == 0) return {};
  return context_->TakeError(NodeText(step.node) + ": kernel " + step.kernel->metadata.name + " failed");
}

Status GraphExecutor::Run() {
  for (const Step& step : steps_) TRY(RunStep(step));
  return {};
}

Result<int64_t> GraphExecutor::InputIndex(std::string_view name) const {
  std::string known;
  for (int64_t i = 0; i < num_inputs(); ++i) {
    if (input_name(i) == name) return i;
    known += (i ? ", " : "") + input_name(i);
  }
  return Err("the graph has no input '", name, "'; its inputs are: ", known);
}

Status GraphExecutor::CheckTensor(const Tensor& tensor, GraphRef ref, const std::string& what) const {
  const GraphEntry& plan = graph_.Entry(ref);
  const std::string& name = graph_.nodes[ref.node].name;
  if (!tensor.defined()) return Err(what, " '", name, "': no tensor");
  if (DataTypeText(tensor.dtype()) != plan.dtype || tensor.shape() != plan.shape) {
    return Err(what, " '", name, "' is ", EntryText(plan), ", got ", tensor.TypeText());
  }
  if (reinterpret_cast<uintptr_t>(tensor.data()) % AT_ALIGNMENT != 0) {
    return Err(what, " '", name, "': its memory is not aligned to ", AT_ALIGNMENT, " bytes");
  }
  return {};
}

// The memory of `entry`, a root, and of all its reshapes is `tensor`'s from now on.
Status GraphExecutor::SetMemory(int64_t root, const Tensor& tensor) {
  for (size_t entry = 0; entry < root_.size(); ++entry) {
    if (root_[entry] == root) values_[entry] = TRY(tensor.Reshape(EntryAt(entry).shape));
  }
  for (Step& step : steps_) {
    for (size_t i = 0; i < step.entries.size(); ++i) {
      if (step.entries[i] >= 0 && root_[step.entries[i]] == root) step.args[i] = tensor.data();
    }
  }
  return {};
}

Status GraphExecutor::SetInput(int64_t i, const Tensor& tensor) {
  if (i < 0 || i >= num_inputs()) return Err("there is no input ", i, "; the graph has ", num_inputs());
  if (!tensor.defined()) return Err("input ", i, ": no tensor");
  Tensor input = Input(i);
  if (!(tensor.dtype() == input.dtype()) || tensor.shape() != input.shape()) {
    return Err("input '", input_name(i), "' is ", input.TypeText(), ", got ", tensor.TypeText());
  }
  if (input.num_bytes() > 0) std::memmove(input.data(), tensor.data(), input.num_bytes());
  return {};
}

Status GraphExecutor::BindInput(int64_t i, Tensor tensor) {
  if (i < 0 || i >= num_inputs()) return Err("there is no input ", i, "; the graph has ", num_inputs());
  TRY(CheckTensor(tensor, {inputs_[i], 0}, "input"));
  return SetMemory(row_ptr_[inputs_[i]], tensor);
}

Status GraphExecutor::BindOutput(int64_t i, Tensor tensor) {
  if (i < 0 || i >= num_outputs()) return Err("there is no output ", i, "; the graph has ", num_outputs());
  TRY(CheckTensor(tensor, graph_.heads[i], "output"));
  int64_t root = root_[EntryOf(graph_.heads[i])];
  if (graph_.nodes[node_of_[root]].IsVariable()) {
    return Err("output '", output_name(i), "' is an input or parameter: it cannot be bound");
  }
  return SetMemory(root, tensor);
}

Tensor GraphExecutor::Input(int64_t i) const { return values_[row_ptr_[inputs_.at(i)]]; }
Tensor GraphExecutor::Output(int64_t i) const { return values_[EntryOf(graph_.heads.at(i))]; }

int64_t GraphExecutor::constant_bytes() const {
  int64_t bytes = 0;
  for (size_t entry = 0; entry < is_param_.size(); ++entry) {
    if (is_param_[entry] && values_[entry].defined()) bytes += values_[entry].num_bytes();
  }
  return bytes + prepared_bytes_;
}

}  // namespace autotune
