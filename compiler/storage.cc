#include "compiler/storage.h"

#include <algorithm>

#include "runtime/tensor.h"
#include "support/integer.h"

namespace autotune {
namespace {

constexpr int64_t kAlignment = 64;  // bytes

int64_t StorageBytes(const GraphEntry& entry) {
  const int64_t bytes = ShapeBytes(entry.shape, DataTypeFromText(entry.dtype).value()).value();
  return AlignUp(std::max<int64_t>(bytes, 1), kAlignment);
}

class Planner {
 public:
  explicit Planner(Graph& graph) : graph_(graph) {
    for (const GraphNode& node : graph.nodes) {
      row_ptr_.push_back(entries_.size());
      for (size_t i = 0; i < node.outputs.size(); ++i) entries_.push_back({row_ptr_.size() - 1, i});
    }
    FindRootsAndUses();
  }

  StoragePlan Run() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (graph_.nodes[n].IsVariable()) Entry(row_ptr_[n]).storage_id = NewStorage(row_ptr_[n]);
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!graph_.nodes[n].IsVariable()) PlanNode(n);
    }
    // All shared storages are free now, since only pinned values are needed after the last node.
    for (const auto& [device, ids] : free_) {
      for (int64_t id : ids) plan_.workspace_bytes[device] += plan_.bytes[id];
    }
    return std::move(plan_);
  }

 private:
  size_t IndexOf(GraphRef ref) const { return row_ptr_[ref.node] + ref.index; }
  GraphEntry& Entry(size_t index) { return graph_.nodes[entries_[index].first].outputs[entries_[index].second]; }

  // The root of an entry is the entry whose storage it uses.
  void FindRootsAndUses() {
    root_.resize(entries_.size());
    pinned_.resize(entries_.size());
    last_use_.resize(entries_.size());
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const GraphNode& node = graph_.nodes[n];
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        const size_t entry = row_ptr_[n] + i;
        root_[entry] = node.func_name == kNopFunction ? root_[IndexOf(node.inputs[0])] : entry;
        pinned_[entry] = node.IsVariable();
        last_use_[root_[entry]] = n;  // stays the last use if no later node reads the value
      }
      for (GraphRef ref : node.inputs) last_use_[root_[IndexOf(ref)]] = n;
    }
    for (GraphRef head : graph_.heads) pinned_[root_[IndexOf(head)]] = true;
  }

  int64_t NewStorage(size_t entry) {
    plan_.bytes.push_back(StorageBytes(Entry(entry)));
    return static_cast<int64_t>(plan_.bytes.size()) - 1;
  }

  // Takes the smallest free storage that is large enough. If none is, enlarges the largest free one.
  int64_t Take(size_t entry) {
    std::vector<int64_t>& free = free_[Entry(entry).device];
    if (free.empty()) return NewStorage(entry);
    const int64_t bytes = StorageBytes(Entry(entry));
    auto better = [&](int64_t a, int64_t b) {
      int64_t x = plan_.bytes[a], y = plan_.bytes[b];
      bool fits_x = x >= bytes, fits_y = y >= bytes;
      return fits_x != fits_y ? fits_x : fits_x ? x < y : x > y;
    };
    auto best = std::min_element(free.begin(), free.end(), better);
    int64_t id = *best;
    free.erase(best);
    plan_.bytes[id] = std::max(plan_.bytes[id], bytes);
    return id;
  }

  void PlanNode(size_t n) {
    const GraphNode& node = graph_.nodes[n];
    std::vector<size_t> ended;  // roots whose last use may be this node
    for (GraphRef ref : node.inputs) ended.push_back(root_[IndexOf(ref)]);
    for (size_t entry = row_ptr_[n]; entry < row_ptr_[n] + node.outputs.size(); ++entry) {
      if (root_[entry] == entry) Entry(entry).storage_id = pinned_[entry] ? NewStorage(entry) : Take(entry);
      Entry(entry).storage_id = Entry(root_[entry]).storage_id;
      ended.push_back(root_[entry]);
    }
    std::sort(ended.begin(), ended.end());
    ended.erase(std::unique(ended.begin(), ended.end()), ended.end());
    for (size_t root : ended) {
      if (!pinned_[root] && last_use_[root] == n) free_[Entry(root).device].push_back(Entry(root).storage_id);
    }
  }

  Graph& graph_;
  StoragePlan plan_;
  std::vector<size_t> row_ptr_;                     // node -> its first entry
  std::vector<std::pair<size_t, size_t>> entries_;  // entry -> node and output
  std::vector<size_t> root_, last_use_;             // by entry; `last_use_` is the last node that needs it
  std::vector<bool> pinned_;                        // by entry: keeps a storage of its own for the whole run
  std::map<int64_t, std::vector<int64_t>> free_;    // by device: ids of free storages
};

}  // namespace

StoragePlan AssignStorage(Graph& graph) { return Planner(graph).Run(); }

}  // namespace autotune
