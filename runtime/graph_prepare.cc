// The prepared constants of a GraphExecutor: runs the preparation of kernels, allocates memory for the results, and
// frees the parameters that only the preparation reads.
#include <algorithm>

#include "runtime/cpu_device.h"
#include "runtime/graph_executor.h"
#include "support/integer.h"

namespace autotune {

// Returns true if a run reads parameter `i` of a step. A copy (null kernel) reads all its entries.
bool GraphExecutor::Reads(const BoundKernel* kernel, size_t i) {
  if (!kernel) return true;
  const auto& skipped = kernel->metadata().prepare_only;
  return std::find(skipped.begin(), skipped.end(), static_cast<int64_t>(i)) == skipped.end();
}

GraphExecutor::PreparedKey GraphExecutor::PreparedKeyOf(const Step& step) const {
  PreparedKey key{step.kernel, {}};
  for (int64_t param : step.kernel->ParamsOfKind(ParamKind::kConstant))
    key.second.push_back(root_[step.entries[param]]);
  return key;
}

// Allocates a new block for the device's prepared buffers if the current block has fewer than `bytes` bytes left.
Status GraphExecutor::ReservePrepared(const DevicePtr& device, int64_t bytes) {
  PreparedMemory& memory = prepared_memory_[device.get()];
  if (bytes <= memory.free) return {};
  // Without ReplaceKernel, all buffers of a device lie in one block, which gets huge pages if it is large.
  // ReplaceKernel adds the buffers of one kernel at a time, and cuts them from blocks that are large enough for huge
  // pages.
  constexpr int64_t kReplaceableBlock = int64_t{8} << 20;
  int64_t size = options_.replaceable ? std::max(bytes, kReplaceableBlock) : bytes;
  memory.block = TRY_NOTE(device->Allocate(size), "for prepared constants");
  memory.free = memory.block_bytes = size;
  prepared_bytes_ += size;
  return {};
}

// Returns the prepared buffers of a step's kernel, as bytes.
Result<std::vector<Tensor>> GraphExecutor::PrepareStep(const Step& step) {
  const KernelMetadata& kernel = step.kernel->metadata();
  DevicePtr device = step.to->shared_from_this();
  int64_t total = 0;
  for (int64_t bytes : kernel.prepared) total += AlignUp(bytes, AT_ALIGNMENT);
  TRY(ReservePrepared(device, total));
  std::vector<void*> args;
  for (int64_t param : kernel.ParamsOfKind(ParamKind::kConstant)) args.push_back(values_[step.entries[param]].data());
  PreparedMemory& memory = prepared_memory_[step.to];
  std::vector<Tensor> buffers;
  for (int64_t bytes : kernel.prepared) {
    char* data = static_cast<char*>(memory.block.get()) + (memory.block_bytes - memory.free);
    memory.free -= AlignUp(bytes, AT_ALIGNMENT);
    CHECK(memory.free >= 0);
    constexpr DLDataType kByte = {kDLUInt, 8, 1};
    buffers.push_back(TRY(device->IsHost() ? Tensor::View(data, {bytes}, kByte, memory.block)
                                           : Tensor::OnDevice(device, data, {bytes}, kByte, memory.block)));
    args.push_back(data);
  }
  TRY(step.kernel->Prepare(args.data()));
  return buffers;
}

// Fills in the arguments of a step except its prepared buffers, which the caller appends. Drops the entries that only
// NAME.prepare reads, so the step must be prepared first.
void GraphExecutor::FillArgs(Step& step) {
  for (size_t i = 0; i < step.entries.size(); ++i) {
    if (!Reads(step.kernel, i)) step.entries[i] = -1;
    step.args.push_back(step.entries[i] < 0 ? nullptr : values_[step.entries[i]].data());
  }
}

// Returns true if there is a buffer of each size, in their order.
bool GraphExecutor::HasSizes(const std::vector<Tensor>& buffers, const std::vector<int64_t>& bytes) {
  return std::equal(buffers.begin(), buffers.end(), bytes.begin(), bytes.end(),
                    [](const Tensor& buffer, int64_t size) { return buffer.num_bytes() == size; });
}

// Takes over the prepared buffers of this executor's steps that other executors have made.
void GraphExecutor::TakeShared(const PreparedConstants& shared) {
  for (const Step& step : steps_) {
    if (!step.kernel || !step.kernel->prepares() || !step.to->IsHost()) continue;
    PreparedKey key = PreparedKeyOf(step);
    const auto found = shared.buffers.find({step.kernel->metadata().name, key.second});
    if (found == shared.buffers.end() || !HasSizes(found->second, step.kernel->metadata().prepared)) continue;
    if (!prepared_.emplace(std::move(key), found->second).second) continue;
    for (const Tensor& buffer : found->second) prepared_bytes_ += AlignUp(buffer.num_bytes(), AT_ALIGNMENT);
  }
}

// Prepares the constants of each step and fills in the step's arguments. Frees each parameter as soon as no later
// preparation and no run reads it. Holds the mutex of shared constants, so that executors that are made at once prepare
// each of them once.
Status GraphExecutor::PrepareSteps() {
  PreparedConstants* shared = options_.replaceable ? nullptr : options_.prepared.get();
  std::unique_lock<std::mutex> lock;
  if (shared) {
    lock = std::unique_lock(shared->mutex);
    if (shared->root.expired()) {
      shared->buffers.clear();
      shared->root = module_;
    }
    if (shared->root.lock() != module_) shared = nullptr;
  }
  if (shared) TakeShared(*shared);
  std::vector<int64_t> prepares(root_.size(), 0);  // root -> number of preparations that have not read it yet
  std::vector<bool> runs(root_.size(), false);     // root -> true if runs read it
  for (GraphRef head : graph_.heads) runs[root_[EntryOf(head)]] = true;
  std::map<Device*, int64_t> bytes;  // by device: size of the block for all of its prepared buffers
  for (const Step& step : steps_) {
    for (size_t i = 0; i < step.entries.size(); ++i) {
      if (Reads(step.kernel, i)) runs[root_[step.entries[i]]] = true;
    }
    if (!step.kernel || !step.kernel->prepares()) continue;
    PreparedKey key = PreparedKeyOf(step);
    for (int64_t root : key.second) ++prepares[root];
    if (!prepared_.try_emplace(std::move(key)).second) continue;
    for (int64_t buffer : step.kernel->metadata().prepared) bytes[step.to] += AlignUp(buffer, AT_ALIGNMENT);
  }
  for (auto [device, total] : bytes) TRY(ReservePrepared(device->shared_from_this(), total));
  std::vector<std::vector<size_t>> entries_of(root_.size());  // by root
  for (size_t entry = 0; entry < root_.size(); ++entry) entries_of[root_[entry]].push_back(entry);
  auto release = [&](int64_t root) {
    if (options_.replaceable || !is_param_[root] || runs[root] || prepares[root] > 0) return;
    for (size_t entry : entries_of[root]) values_[entry] = Tensor();
  };
  for (Step& step : steps_) {
    std::vector<Tensor> buffers;
    if (step.kernel && step.kernel->prepares()) {
      PreparedKey key = PreparedKeyOf(step);
      std::vector<Tensor>& made = prepared_.at(key);
      if (made.empty()) {
        if (options_.all_prepared)
          return Err(NodeText(step.node), ": the prepared constants of its kernel are missing");
        made = TRY_NOTE(PrepareStep(step), NodeText(step.node));
        if (shared && step.to->IsHost()) shared->buffers[{step.kernel->metadata().name, key.second}] = made;
      }
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

Params GraphExecutor::HeldParams() const {
  Params params;
  for (int64_t node : graph_.Variables()) {
    const int64_t entry = row_ptr_[node];
    if (is_param_[entry] && values_[entry].defined()) params.emplace(graph_.nodes[node].name, values_[entry]);
  }
  return params;
}

void GraphExecutor::SetSerial(bool serial) {
  for (const auto& [type, device] : devices_)
    if (auto* cpu = dynamic_cast<CpuDevice*>(device.get())) cpu->context().SetSerial(serial);
}

Status GraphExecutor::ReplaceKernel(int64_t node, const std::string& func_name) {
  if (!options_.replaceable)
    return Err("the executor cannot replace kernels: it was created without the option `replaceable`");
  auto place = std::find_if(steps_.begin(), steps_.end(), [&](const Step& step) { return step.node == node; });
  if (place == steps_.end() || !place->kernel) return Err(NodeText(node), " runs no kernel");
  if (place->kernel->metadata().name == func_name) return {};
  Step step{.node = node};
  TRY_NOTE(FindKernel(func_name, step), NodeText(node));
  TRY_NOTE(FitKernel(graph_.nodes[node], step), NodeText(node));
  std::vector<Tensor> buffers;
  if (step.kernel->prepares()) {
    std::vector<Tensor>& made = prepared_[PreparedKeyOf(step)];
    if (made.empty()) made = TRY_NOTE(PrepareStep(step), NodeText(node));
    buffers = made;
  }
  FillArgs(step);
  for (const Tensor& buffer : buffers) step.args.push_back(buffer.data());
  *place = std::move(step);
  FindUsers();
  ForgetReplays();
  return {};
}

}  // namespace autotune
