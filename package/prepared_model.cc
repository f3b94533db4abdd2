#include "package/prepared_model.h"

#include <cstdlib>
#include <set>
#include <vector>

#include "runtime/abi.h"
#include "runtime/stored_params.h"
#include "support/cbor.h"
#include "support/cpus.h"
#include "support/integer.h"

namespace autotune {
namespace {

// A part of the data.
struct Piece {
  int64_t offset = 0, bytes = 0;
  AUTOTUNE_FIELDS(offset, bytes)
};

struct PreparedParam {
  std::string name, dtype;
  std::vector<int64_t> shape;
  std::optional<Piece> data;  // empty: runs do not read it
  AUTOTUNE_FIELDS(name, dtype, shape, data)
};

// The prepared constants of a kernel.
struct PreparedKernel {
  std::string name;
  std::vector<int64_t> entries;  // of its parameters in the graph
  std::vector<Piece> buffers;
  AUTOTUNE_FIELDS(name, entries, buffers)
};

struct PreparedIndex {
  PackageInfo info;
  std::string graph;  // graph JSON
  Piece library;
  std::vector<PreparedParam> params;
  std::vector<PreparedKernel> kernels;
  AUTOTUNE_FIELDS(info, graph, library, params, kernels)
};

// Collects the pieces of the data; each begins at a multiple of AT_ALIGNMENT. Does not copy them.
class Pieces {
 public:
  Piece Add(std::string_view bytes) {
    static constexpr char kZeros[AT_ALIGNMENT] = {};
    const Piece piece{AlignUp<int64_t>(end_, AT_ALIGNMENT), static_cast<int64_t>(bytes.size())};
    if (piece.offset > end_) list_.emplace_back(kZeros, static_cast<size_t>(piece.offset - end_));
    if (!bytes.empty()) list_.push_back(bytes);
    end_ = piece.offset + piece.bytes;
    return piece;
  }
  const std::vector<std::string_view>& list() const { return list_; }

 private:
  std::vector<std::string_view> list_;
  int64_t end_ = 0;
};

bool IsForCpu(const Graph& graph) {
  for (const GraphNode& node : graph.nodes) {
    for (const GraphEntry& output : node.outputs) {
      if (output.device != kDLCPU) return false;
    }
  }
  return true;
}

// Returns the bytes of a piece. Error: it exceeds the data.
Result<std::string_view> BytesOf(const Piece& piece, std::string_view data) {
  const auto size = static_cast<int64_t>(data.size());
  if (piece.offset < 0 || piece.bytes < 0 || piece.offset > size || piece.bytes > size - piece.offset ||
      piece.offset % AT_ALIGNMENT != 0)
    return Err("a piece lies outside of the data");
  return data.substr(static_cast<size_t>(piece.offset), static_cast<size_t>(piece.bytes));
}

// Returns a tensor over a piece, which nothing may write to.
Result<Tensor> TensorOf(std::string_view bytes, std::vector<int64_t> shape, DLDataType type,
                        const std::shared_ptr<void>& memory) {
  const Tensor tensor = TRY(Tensor::View(const_cast<char*>(bytes.data()), std::move(shape), type, memory));
  if (tensor.num_bytes() != static_cast<int64_t>(bytes.size())) return Err("a piece has another size than its tensor");
  return tensor.ReadOnly();
}

Result<LoadedModel> FromMapped(const MappedPrepared& mapped, const KernelThreads& threads) {
  PreparedIndex index;
  TRY(FromCbor(mapped.index, index));
  PreparedParts parts{.info = index.info, .graph_json = index.graph};
  parts.library = TRY(BytesOf(index.library, mapped.data));
  for (const PreparedParam& param : index.params) {
    const DLDataType type = TRY(DataTypeFromText(param.dtype));
    if (param.data) {
      parts.params[param.name] =
          TRY(TensorOf(TRY(BytesOf(*param.data, mapped.data)), param.shape, type, mapped.memory));
    } else {  // its bytes are not read, so any address will do
      parts.params[param.name] = TRY(Tensor::View(mapped.memory.get(), param.shape, type, mapped.memory));
    }
  }
  for (const PreparedKernel& kernel : index.kernels) {
    std::vector<Tensor>& buffers = parts.prepared->buffers[{kernel.name, kernel.entries}];
    for (const Piece& piece : kernel.buffers) {
      const std::string_view bytes = TRY(BytesOf(piece, mapped.data));
      buffers.push_back(TRY(TensorOf(bytes, {piece.bytes}, {kDLUInt, 8, 1}, mapped.memory)));
    }
  }
  return LoadModel(std::move(parts), threads);
}

// Writes the file of a package from an executor that was made of it. `index` has all but the pieces.
Status Store(const PreparedCache& cache, const std::string& key, PreparedIndex index, const std::string& library,
             const GraphExecutor& executor, const PreparedConstants& prepared) {
  Pieces pieces;
  index.library = pieces.Add(library);
  const Params held = executor.HeldParams();
  for (PreparedParam& param : index.params) {
    if (const auto found = held.find(param.name); found != held.end()) param.data = pieces.Add(found->second.bytes());
  }
  for (const auto& [place, buffers] : prepared.buffers) {
    PreparedKernel& kernel = index.kernels.emplace_back(PreparedKernel{place.first, place.second, {}});
    for (const Tensor& buffer : buffers) kernel.buffers.push_back(pieces.Add(buffer.bytes()));
  }
  return cache.Store(key, ToCbor(index), pieces.list());
}

}  // namespace

Result<LoadedModel> LoadPrepared(const std::string& path, const KernelThreads& threads, const PreparedCache& cache,
                                 int64_t least_bytes) {
  TRY(threads.Check());
  const std::optional<std::string> key = PreparedKeyOf(path);
  if (!key || TRY(IsSharedObject(path))) return LoadModel(path, threads);
  const auto find = [&]() -> std::optional<LoadedModel> {
    const std::optional<MappedPrepared> mapped = cache.Find(*key);
    if (!mapped) return std::nullopt;
    Result<LoadedModel> model = FromMapped(*mapped, threads);
    return model.ok() ? std::optional(std::move(*model)) : std::nullopt;
  };
  if (std::optional<LoadedModel> model = find()) return std::move(*model);
  const std::string note = "while loading " + path;
  Package package = TRY_NOTE(ReadPackage(path), note);
  const Graph graph = TRY_NOTE(Graph::Parse(package.graph_json), note);
  if (!IsForCpu(graph)) return TRY_NOTE(LoadModel(std::move(package), threads), note);
  const std::string library = TRY_NOTE(LibraryBytesOf(package), note);
  package.library = library;
  PreparedIndex index{.info = package.info, .graph = package.graph_json};
  const Params params = TRY_NOTE(ViewParams(package.params), note);
  for (const int64_t node : graph.Variables()) {
    const std::string& name = graph.nodes[node].name;
    const GraphEntry& entry = graph.nodes[node].outputs[0];
    if (IsStored(params, name)) index.params.push_back({name, entry.dtype, entry.shape, std::nullopt});
  }
  const auto prepared = std::make_shared<PreparedConstants>();
  std::optional<LoadedModel> model = TRY_NOTE(LoadModel(std::move(package), threads, "", {.prepared = prepared}), note);
  // The package must be the one that the key names still.
  if (library.empty() || model->executor->constant_bytes() < least_bytes || PreparedKeyOf(path) != key)
    return std::move(*model);
  if (!Store(cache, *key, std::move(index), library, *model->executor, *prepared).ok()) return std::move(*model);
  std::optional<LoadedModel> mapped = find();
  return mapped ? std::move(*mapped) : std::move(*model);
}

Result<LoadedModel> LoadFile(const std::string& path, const KernelThreads& threads, const std::string& device,
                             UsePrepared use) {
  const char* set = std::getenv("AUTOTUNE_CACHE");
  const std::string_view asked = set ? set : "";
  if (!device.empty() || use == UsePrepared::kNo || asked == "0" || (use == UsePrepared::kIfAsked && asked != "1"))
    return LoadModel(path, threads, device);
  const Result<PreparedCache> cache = PreparedCache::OfUser();
  return cache.ok() ? LoadPrepared(path, threads, *cache) : LoadModel(path, threads, device);
}

}  // namespace autotune
