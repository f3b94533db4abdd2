#include "runtime/graph_executor.h"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/fill.h"
#include "support/check.h"
#include "support/integer.h"

namespace autotune {
namespace {

int64_t EntryBytes(const GraphEntry& entry) {
  return ShapeBytes(entry.shape, DataTypeFromText(entry.dtype).value()).value();  // valid, as Graph::Check has found
}

std::string EntryText(const GraphEntry& entry) { return entry.dtype + ShapeText(entry.shape); }

}  // namespace

GraphExecutor::~GraphExecutor() = default;

const GraphEntry& GraphExecutor::EntryAt(int64_t entry) const {
  int64_t node = node_of_[entry];
  return graph_.nodes[node].outputs[entry - row_ptr_[node]];
}

std::string GraphExecutor::NodeText(int64_t node) const {
  return "node " + std::to_string(node) + " '" + graph_.nodes[node].name + "'";
}

Result<std::unique_ptr<GraphExecutor>> GraphExecutor::Create(Graph graph, Module module, Params params,
                                                             std::vector<DevicePtr> devices,
                                                             const GraphExecutorOptions& options) {
  TRY_NOTE(graph.Check(), "graph");
  std::unique_ptr<GraphExecutor> executor(new GraphExecutor);
  executor->options_ = options;
  executor->graph_ = std::move(graph);
  executor->module_ = std::move(module);
  for (DevicePtr& device : devices) {
    if (!device->IsHost()) executor->others_.push_back(device.get());
    int type = device->dl().device_type;
    if (!executor->devices_.emplace(type, std::move(device)).second)
      return Err("two devices of kind ", DeviceTypeName(type));
  }
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
  executor->FindUsers();
  return executor;
}

Result<DevicePtr> GraphExecutor::DeviceAt(int64_t entry) const {
  auto place = devices_.find(EntryAt(entry).device);
  if (place != devices_.end()) return place->second;
  return Err(NodeText(node_of_[entry]), " lies on a device of kind ",
             DeviceTypeName(static_cast<int>(EntryAt(entry).device)), ", but the executor was given none");
}

Status GraphExecutor::BindParams(Params params) {
  for (int64_t node : graph_.Variables()) {
    int64_t entry = row_ptr_[node];
    auto it = params.find(graph_.nodes[node].name);
    if (it == params.end()) {
      inputs_.push_back(node);
      continue;
    }
    Tensor tensor = std::move(it->second);
    params.erase(it);
    if (tensor.defined()) tensor = TRY_NOTE(ToDevice(tensor, TRY(DeviceAt(entry))), NodeText(node));
    TRY(CheckTensor(tensor, {node, 0}, "parameter", AT_ALIGNMENT));
    is_param_[entry] = true;
    values_[entry] = std::move(tensor);
  }
  if (!params.empty()) return Err("the graph has no variable for parameter '", params.begin()->first, "'");
  return {};
}

// The root of an entry is the entry whose memory it shares. A reshape whose output has its input's storage, or that
// reshapes a parameter on its device, runs no code: its output is a view of the root.
void GraphExecutor::FindRoots() {
  root_.resize(node_of_.size());
  for (size_t entry = 0; entry < root_.size(); ++entry) {
    root_[entry] = static_cast<int64_t>(entry);
    const GraphNode& node = graph_.nodes[node_of_[entry]];
    if (node.func_name != kNopFunction || node.inputs.size() != 1 || node.outputs.size() != 1) continue;
    int64_t source = root_[EntryOf(node.inputs[0])];
    if (EntryAt(source).device != node.outputs[0].device) continue;
    if (is_param_[source] || EntryAt(source).storage_id == node.outputs[0].storage_id) root_[entry] = source;
  }
}

// Walks the plan in the order of a run. Returns an error if a node reads a value whose storage another node has
// overwritten.
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

// Allocates one block of memory per device for all of its storages. On entry `offsets` holds the size of each storage
// id; on return it holds the storage's offset in its block.
Result<std::map<Device*, std::shared_ptr<void>>> GraphExecutor::AllocateArenas(std::map<int64_t, int64_t>& offsets) {
  constexpr int64_t kMaxBytes = int64_t{1} << 39;
  std::map<int64_t, DevicePtr> device_of;  // by storage id
  for (size_t entry = 0; entry < root_.size(); ++entry) {
    if (root_[entry] != static_cast<int64_t>(entry) || is_param_[entry]) continue;
    device_of[EntryAt(entry).storage_id] = TRY(DeviceAt(entry));
    int64_t& size = offsets[EntryAt(entry).storage_id];
    size = std::max(size, EntryBytes(EntryAt(entry)));
  }
  std::map<DevicePtr, int64_t> bytes;
  for (auto& [id, size] : offsets) {
    int64_t& total = bytes[device_of.at(id)];
    if (size > kMaxBytes || total > kMaxBytes) return Err("the graph needs too much memory: storage ", id);
    total += AlignUp<int64_t>(std::exchange(size, total), AT_ALIGNMENT);
  }
  std::map<Device*, std::shared_ptr<void>> arenas;
  for (auto& [device, total] : bytes) {
    // Check the total here: Linux would grant more memory than the machine has, and kill the process later, when it
    // accesses the pages.
    const int64_t most = device->limits().memory_bytes;
    if (total > most) {
      return OutOfMemory("intermediate values take ", total, " bytes, and ",
                         device->IsHost() ? "this machine" : DeviceText(device->dl()), " has ", most);
    }
    arenas[device.get()] = TRY_NOTE(device->Allocate(total), "for intermediate values");
    memory_bytes_ += total;
  }
  return arenas;
}

Status GraphExecutor::AllocateMemory() {
  std::map<int64_t, int64_t> offsets;
  std::map<Device*, std::shared_ptr<void>> arenas = TRY(AllocateArenas(offsets));
  for (size_t entry = 0; entry < root_.size(); ++entry) {
    if (is_param_[entry]) continue;
    const GraphEntry& plan = EntryAt(entry);
    const int64_t root = root_[entry];
    if (root != static_cast<int64_t>(entry) && EntryBytes(plan) != EntryBytes(EntryAt(root))) {
      return Err(NodeText(node_of_[entry]), ": reshape of ", EntryText(EntryAt(root)), " to ", EntryText(plan));
    }
    if (is_param_[root]) {
      values_[entry] = TRY(values_[root].Reshape(plan.shape));
      continue;
    }
    DevicePtr device = TRY(DeviceAt(entry));
    std::shared_ptr<void> memory = arenas.at(device.get());
    void* data = static_cast<char*>(memory.get()) + offsets.at(EntryAt(root).storage_id);
    DLDataType type = DataTypeFromText(plan.dtype).value();
    values_[entry] = TRY(device->IsHost() ? Tensor::View(data, plan.shape, type, memory)
                                          : Tensor::OnDevice(device, data, plan.shape, type, memory));
  }
  for (int64_t node : inputs_) {  // zero the inputs, so that a run without set_input is deterministic
    const Tensor& input = values_[row_ptr_[node]];
    TRY(TRY(DeviceAt(row_ptr_[node]))->Zero(input.data(), input.num_bytes()));
  }
  return {};
}

// Matches the kernel's parameters with the inputs and outputs of the node, and checks their types and shapes.
Status GraphExecutor::FitKernel(const GraphNode& node, Step& step) const {
  const KernelMetadata& kernel = step.kernel->metadata();
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
    if (plan.device != EntryAt(row_ptr_[step.node]).device) {
      return Err("kernel ", kernel.name, " runs on ", DeviceText(step.to->dl()), ", but ", NodeText(node_of_[entry]),
                 " lies on ", DeviceTypeName(static_cast<int>(plan.device)));
    }
    if (spec.kind == ParamKind::kConstant && step.kernel->prepares() && !IsParam(entry)) {
      return Err("kernel ", kernel.name, " prepares its constant ", spec.name, ", but ", NodeText(node_of_[entry]),
                 " is no parameter");
    }
    step.entries.push_back(entry);
  }
  return {};
}

// Makes the step of a reshape between storages of one device, or of a copy between devices.
Status GraphExecutor::AddCopy(const GraphNode& node, Step& step) const {
  const bool reshape = node.func_name == kNopFunction;
  if (node.inputs.size() != 1 || node.outputs.size() != 1)
    return Err(node.func_name, " must have one input and one output");
  int64_t from = EntryOf(node.inputs[0]), to = row_ptr_[step.node];
  if (EntryAt(from).dtype != EntryAt(to).dtype || EntryBytes(EntryAt(from)) != EntryBytes(EntryAt(to))) {
    return Err(reshape ? "reshape" : "copy", " of ", EntryText(EntryAt(from)), " to ", EntryText(EntryAt(to)));
  }
  step.from = TRY(DeviceAt(from)).get();
  step.to = TRY(DeviceAt(to)).get();
  if (reshape && step.from != step.to) {
    return Err("a reshape from ", DeviceText(step.from->dl()), " to ", DeviceText(step.to->dl()), "; ", kCopyFunction,
               " copies between devices");
  }
  step.copy_bytes = EntryBytes(EntryAt(to));
  step.entries = {from, to};
  return {};
}

Status GraphExecutor::AddStep(int64_t index) {
  const GraphNode& node = graph_.nodes[index];
  Step step{.node = index};
  if (node.func_name == kNopFunction || node.func_name == kCopyFunction) {
    TRY(AddCopy(node, step));
    if (root_[step.entries[0]] == root_[step.entries[1]]) return {};
  } else {
    TRY(FindKernel(node.func_name, step));
    TRY(FitKernel(node, step));
  }
  steps_.push_back(std::move(step));
  return {};
}

// Gives a new kernel scratch memory. Kernels run one at a time, so the kernels of a device share one block. Its size is
// the largest size that a kernel needs.
Status GraphExecutor::ShareScratch(BoundKernel& kernel, const DevicePtr& device) {
  if (kernel.ScratchBytes() == 0) return {};
  Scratch& scratch = scratch_[device.get()];
  if (kernel.ScratchBytes() > scratch.bytes) {
    scratch.memory = TRY_NOTE(device->Allocate(kernel.ScratchBytes()), "for the scratch memory of kernels");
    scratch.bytes = kernel.ScratchBytes();
    for (BoundKernel* other : scratch.kernels) other->SetScratch(scratch.memory);
  }
  kernel.SetScratch(scratch.memory);
  scratch.kernels.push_back(&kernel);
  return {};
}

// Binds the kernel to the device of the node's outputs.
Status GraphExecutor::FindKernel(const std::string& func_name, Step& step) {
  if (!module_) return Err("there is no library with kernel '", func_name, "'");
  DevicePtr device = TRY(DeviceAt(row_ptr_[step.node]));
  for (const GraphEntry& output : graph_.nodes[step.node].outputs) {
    if (output.device != device->dl().device_type) return Err("its outputs lie on different devices");
  }
  std::shared_ptr<BoundKernel>& kernel = kernels_[{func_name, device.get()}];
  if (!kernel) {
    kernel = TRY(module_->BindKernel(func_name, device));
    TRY(ShareScratch(*kernel, device));
  }
  step.kernel = kernel.get();
  step.to = device.get();
  return {};
}

Status GraphExecutor::RunStep(const Step& step) {
  Status status = step.kernel ? step.kernel->Run(step.args.data())
                              : CopyBytes(*step.to, step.args[1], *step.from, step.args[0], step.copy_bytes);
  if (!status.ok()) return std::move(status).error().Note(NodeText(step.node));
  return {};
}

Status GraphExecutor::Run() {
  if (runs_++ == 1) TRY(RecordReplays());
  size_t next = 0;
  for (const Replay& replay : replays_) {
    TRY(RunSteps(next, replay.begin));
    TRY_NOTE(replay.graph->Launch(), NodeText(steps_[replay.begin].node) + " and those after it");
    next = replay.end;
  }
  TRY(RunSteps(next, steps_.size()));
  for (Device* device : others_) TRY(device->Synchronize());
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

Status GraphExecutor::CheckTensor(const Tensor& tensor, GraphRef ref, const std::string& what,
                                  int64_t alignment) const {
  const GraphEntry& plan = graph_.Entry(ref);
  const std::string& name = graph_.nodes[ref.node].name;
  if (!tensor.defined()) return Err(what, " '", name, "': no tensor");
  if (DataTypeText(tensor.dtype()) != plan.dtype || tensor.shape() != plan.shape) {
    return Err(what, " '", name, "' is ", EntryText(plan), ", got ", tensor.TypeText());
  }
  const DevicePtr device = TRY(DeviceAt(EntryOf(ref)));
  if (tensor.device() != (device->IsHost() ? nullptr : device.get())) {
    return Err(what, " '", name, "' lies on ", DeviceText(device->dl()), ", and the tensor on ",
               DeviceText(tensor.dl()->device), tensor.device() ? ", which is another device" : "");
  }
  if (reinterpret_cast<uintptr_t>(tensor.data()) % static_cast<uint64_t>(alignment) != 0) {
    return Err(what, " '", name, "': its memory is not aligned to ", alignment, " bytes");
  }
  return {};
}

// Notes the users of each root, so that binding other memory costs no search. Callers with caches of many layers bind
// other memory for each run.
void GraphExecutor::FindUsers() {
  users_.assign(root_.size(), {});
  for (size_t entry = 0; entry < root_.size(); ++entry)
    users_[root_[entry]].entries.push_back(static_cast<int64_t>(entry));
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    for (size_t i = 0; i < step.entries.size(); ++i) {
      if (step.entries[i] < 0) continue;
      Users& users = users_[root_[step.entries[i]]];
      users.args.emplace_back(s, i);
      if (step.kernel) users.alignment = std::max(users.alignment, step.kernel->metadata().params[i].alignment);
    }
  }
}

int64_t GraphExecutor::InputAlignment(int64_t i) const { return users_[row_ptr_[inputs_.at(i)]].alignment; }
int64_t GraphExecutor::OutputAlignment(int64_t i) const { return users_[root_[EntryOf(graph_.heads.at(i))]].alignment; }

// Makes the entry `root` and all reshapes of it use the memory of `tensor` from now on.
Status GraphExecutor::SetMemory(int64_t root, const Tensor& tensor) {
  const Users& users = users_[root];
  for (int64_t entry : users.entries) values_[entry] = TRY(tensor.Reshape(EntryAt(entry).shape));
  ForgetReplays();
  for (auto [step, arg] : users.args) steps_[step].args[arg] = tensor.data();
  return {};
}

Status GraphExecutor::SetInput(int64_t i, const Tensor& tensor) {
  if (i < 0 || i >= num_inputs()) return Err("there is no input ", i, "; the graph has ", num_inputs());
  if (!tensor.defined()) return Err("input ", i, ": no tensor");
  Tensor input = Input(i);
  if (!(tensor.dtype() == input.dtype()) || tensor.shape() != input.shape()) {
    return Err("input '", input_name(i), "' is ", input.TypeText(), ", got ", tensor.TypeText());
  }
  return CopyTensor(tensor, input);
}

Status GraphExecutor::BindInput(int64_t i, Tensor tensor) {
  if (i < 0 || i >= num_inputs()) return Err("there is no input ", i, "; the graph has ", num_inputs());
  TRY(CheckTensor(tensor, {inputs_[i], 0}, "input", InputAlignment(i)));
  return SetMemory(row_ptr_[inputs_[i]], tensor);
}

bool GraphExecutor::CanBindOutput(int64_t i) const {
  return !graph_.nodes[node_of_[root_[EntryOf(graph_.heads.at(i))]]].IsVariable();
}

Status GraphExecutor::BindOutput(int64_t i, Tensor tensor) {
  if (i < 0 || i >= num_outputs()) return Err("there is no output ", i, "; the graph has ", num_outputs());
  TRY(CheckTensor(tensor, graph_.heads[i], "output", OutputAlignment(i)));
  if (tensor.read_only()) return Err("output '", output_name(i), "': the tensor is read-only");
  if (!CanBindOutput(i)) return Err("output '", output_name(i), "' is an input or parameter: it cannot be bound");
  return SetMemory(root_[EntryOf(graph_.heads[i])], tensor);
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

Status FillInput(GraphExecutor& executor, int64_t i, uint64_t seed) {
  const Tensor input = executor.Input(i);
  const Tensor host = TRY(Tensor::Empty(input.shape(), input.dtype()));
  FillRandom(host, seed);
  return executor.SetInput(i, host);
}

Status FillInput(const Module& network, int64_t i, const std::vector<int64_t>& shape, const std::string& dtype,
                 uint64_t seed) {
  const Tensor host = TRY(Tensor::Empty(shape, dtype));
  FillRandom(host, seed);
  TRY(TRY(network->GetFunction("set_input"))(i, host));
  return {};
}

Status FillInputs(GraphExecutor& executor, uint64_t seed) {
  for (int64_t i = 0; i < executor.num_inputs(); ++i) TRY(FillInput(executor, i, seed));
  return {};
}

}  // namespace autotune
