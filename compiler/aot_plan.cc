#include "compiler/aot_plan.h"

#include <algorithm>
#include <map>

#include "runtime/graph_json.h"
#include "runtime/kernel_context.h"
#include "runtime/stored_params.h"
#include "support/integer.h"

namespace autotune {
namespace {

constexpr int64_t kSlack = 2 * AT_ALIGNMENT;  // a kernel rounds its allocations, of which two are in use at once

int64_t BytesOf(const GraphEntry& entry) {
  return ShapeBytes(entry.shape, DataTypeFromText(entry.dtype).value()).value();  // valid, as Graph::Check has found
}

class AotPlanner {
 public:
  AotPlanner(Graph graph, Params params, const std::vector<KernelMetadata>& kernels)
      : graph_(std::move(graph)), params_(std::move(params)) {
    for (const KernelMetadata& kernel : kernels) kernels_[kernel.name] = &kernel;
  }

  Result<AotPlan> Run(const std::string& library) {
    if (!library.empty()) {
      Result<std::shared_ptr<const Artifact>> loaded = Artifact::FromBytes(library);
      if (loaded.ok()) {
        artifact_ = std::move(*loaded);
      } else {
        plan_.not_here = loaded.error().Text();
      }
    }
    FindRoots();
    PlaceValues();
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const GraphNode& node = graph_.nodes[n];
      if (!node.IsVariable() && node.func_name != kNopFunction) TRY_NOTE(AddCall(n), "node '" + node.name + "'");
    }
    for (size_t i = 0; i < graph_.heads.size(); ++i) {
      const AotAddress from = AddressOf(RootOf(graph_.heads[i])), to{AotBase::kOutput, static_cast<int64_t>(i)};
      if (from.base == to.base && from.at == to.at) continue;
      plan_.copies.push_back({from, to, BytesOf(graph_.Entry(graph_.heads[i]))});
    }
    for (const auto& [name, kernel] : kernels_) {
      plan_.scratch_bytes = std::max(plan_.scratch_bytes, kernel->workspace_bytes);
      plan_.thread_scratch_bytes = std::max(plan_.thread_scratch_bytes, kernel->thread_workspace_bytes);
    }
    for (int64_t* bytes : {&plan_.scratch_bytes, &plan_.thread_scratch_bytes})
      if (*bytes > 0) *bytes = AlignUp<int64_t>(*bytes, AT_ALIGNMENT) + kSlack;
    return std::move(plan_);
  }

 private:
  int64_t RootOf(GraphRef ref) const { return root_[row_ptr_[ref.node] + ref.index]; }

  // The root of an entry is the entry whose memory it shares: reshapes run no code.
  void FindRoots() {
    for (const GraphNode& node : graph_.nodes) {
      row_ptr_.push_back(static_cast<int64_t>(root_.size()));
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        const auto self = static_cast<int64_t>(root_.size());
        root_.push_back(node.func_name == kNopFunction ? RootOf(node.inputs[0]) : self);
      }
    }
  }

  // Decides where the value of each root lies: an input, an output, or the storage of the memory plan. Constants get
  // their place when a kernel reads them (AddressOf).
  void PlaceValues() {
    int64_t inputs = 0;
    for (int64_t node : graph_.Variables()) {
      const auto param = params_.find(graph_.nodes[node].name);
      if (param == params_.end()) {
        place_[row_ptr_[node]] = {AotBase::kInput, inputs++};
      } else {
        constants_[row_ptr_[node]] = param->second;
      }
    }
    for (size_t i = 0; i < graph_.heads.size(); ++i) {
      const int64_t root = RootOf(graph_.heads[i]);
      if (!constants_.contains(root)) place_.emplace(root, AotAddress{AotBase::kOutput, static_cast<int64_t>(i)});
    }
    plan_.input_alignment.assign(static_cast<size_t>(inputs), 1);
    plan_.output_alignment.assign(graph_.heads.size(), 1);
    std::map<int64_t, int64_t> sizes;  // by storage id
    std::vector<std::pair<int64_t, int64_t>> stored;
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      for (size_t i = 0; i < graph_.nodes[n].outputs.size(); ++i) {
        const int64_t entry = row_ptr_[n] + static_cast<int64_t>(i);
        if (root_[entry] != entry || place_.contains(entry) || constants_.contains(entry)) continue;
        const GraphEntry& value = graph_.nodes[n].outputs[i];
        sizes[value.storage_id] = std::max(sizes[value.storage_id], BytesOf(value));
        stored.emplace_back(entry, value.storage_id);
      }
    }
    for (auto& [id, size] : sizes) size = Reserve(plan_.workspace_bytes, size);  // from now on its offset
    for (auto [entry, id] : stored) place_[entry] = {AotBase::kWorkspace, sizes[id]};
  }

  // Appends `bytes` to an area of `total` bytes, and returns their offset.
  static int64_t Reserve(int64_t& total, int64_t bytes) {
    return std::exchange(total, total + AlignUp<int64_t>(bytes, AT_ALIGNMENT));
  }

  AotAddress AddData(const Tensor& tensor) {
    const int64_t at = Reserve(plan_.data_bytes, tensor.num_bytes());
    plan_.data.push_back({at, tensor});
    return {AotBase::kData, at};
  }

  AotAddress AddressOf(int64_t root) {
    auto placed = place_.find(root);
    if (placed == place_.end()) placed = place_.emplace(root, AddData(constants_.at(root))).first;
    return placed->second;
  }

  // Returns the prepared buffers of a kernel for these constants. Equal constants are prepared once.
  Result<std::vector<AotAddress>> Prepare(const KernelMetadata& kernel, const std::vector<int64_t>& constants) {
    auto [found, is_new] = prepared_.try_emplace({kernel.name, constants});
    std::vector<AotAddress>& buffers = found->second;
    if (!is_new) return buffers;
    if (artifact_) {
      std::vector<Tensor> tensors;
      const std::vector<int64_t> params = kernel.ParamsOfKind(ParamKind::kConstant);
      for (size_t i = 0; i < params.size(); ++i)
        tensors.push_back(TRY(constants_.at(constants[i]).Reshape(kernel.params[params[i]].shape)));
      for (const Tensor& buffer : TRY(PrepareConstants(*TRY(artifact_->Find(kernel.name)), context_, tensors)))
        buffers.push_back(AddData(buffer));
      return buffers;
    }
    AotCall call{.kernel = kernel.name};
    for (int64_t root : constants) call.args.push_back(AddressOf(root));
    for (int64_t bytes : kernel.prepared) {
      buffers.push_back({AotBase::kWorkspace, Reserve(plan_.workspace_bytes, bytes)});
      call.args.push_back(buffers.back());
    }
    plan_.prepare.push_back(std::move(call));
    return buffers;
  }

  void RaiseAlignment(const AotAddress& address, int64_t needed) {
    if (address.base != AotBase::kInput && address.base != AotBase::kOutput) return;
    std::vector<int64_t>& alignments = address.base == AotBase::kInput ? plan_.input_alignment : plan_.output_alignment;
    int64_t& alignment = alignments.at(static_cast<size_t>(address.at));
    alignment = std::max(alignment, needed);
  }

  Status AddCall(size_t n) {
    const GraphNode& node = graph_.nodes[n];
    const auto found = kernels_.find(node.func_name);
    if (found == kernels_.end()) return Err("there is no kernel ", node.func_name);
    const KernelMetadata& kernel = *found->second;
    AotCall call{.kernel = kernel.name};
    std::vector<int64_t> constants;
    size_t inputs = 0, outputs = 0;
    for (size_t i = 0; i < kernel.params.size(); ++i) {
      const bool output = kernel.params[i].kind == ParamKind::kOutput;
      const int64_t root =
          output ? root_[row_ptr_[n] + static_cast<int64_t>(outputs++)] : RootOf(node.inputs[inputs++]);
      if (kernel.params[i].kind == ParamKind::kConstant) constants.push_back(root);
      const auto& skipped = kernel.prepare_only;
      const bool read = std::find(skipped.begin(), skipped.end(), static_cast<int64_t>(i)) == skipped.end();
      call.args.push_back(read ? AddressOf(root) : AotAddress());
      RaiseAlignment(call.args.back(), kernel.params[i].alignment);
    }
    if (!kernel.prepared.empty()) {
      for (AotAddress buffer : TRY(Prepare(kernel, constants))) call.args.push_back(buffer);
    }
    plan_.run.push_back(std::move(call));
    return {};
  }

  Graph graph_;
  Params params_;
  std::map<std::string, const KernelMetadata*> kernels_;
  std::shared_ptr<const Artifact> artifact_;  // null: the code does not run here
  KernelContext context_{1};
  std::vector<int64_t> row_ptr_, root_;  // node -> its first entry; entry -> its root
  std::map<int64_t, AotAddress> place_;  // by root
  std::map<int64_t, Tensor> constants_;  // by root
  std::map<std::pair<std::string, std::vector<int64_t>>, std::vector<AotAddress>> prepared_;
  AotPlan plan_;
};

}  // namespace

Result<AotPlan> PlanAot(const Package& package, const std::vector<KernelMetadata>& kernels) {
  Graph graph = TRY(Graph::Parse(package.graph_json));
  Params params = TRY(Widened(graph, TRY(ParseParams(package.params))));
  AotPlanner planner(std::move(graph), std::move(params), kernels);
  return planner.Run(package.library);
}

}  // namespace autotune
