#include "rpc/call_table.h"

#include <cstring>
#include <limits>

#include "rpc/measure.h"
#include "runtime/cpu_device.h"
#include "runtime/graph_executor.h"
#include "runtime/info_module.h"
#include "runtime/module_blob.h"
#include "runtime/paired_runs.h"
#include "runtime/params.h"
#include "runtime/registry.h"
#include "runtime/stored_params.h"
#include "support/clock.h"
#include "support/cpus.h"

namespace autotune::rpc {
namespace {

constexpr char kNewTensor[] = "remote.tensor";

// Returns the bytes of a part of a tensor on this host.
Result<std::string_view> PartOf(const Tensor& tensor, int64_t offset, int64_t count) {
  if (!tensor.defined() || tensor.device()) return Err("expected a tensor in the memory of the host");
  if (offset < 0 || count < 0 || offset > tensor.num_bytes() || count > tensor.num_bytes() - offset)
    return Err("bytes ", offset, " to ", offset, " + ", count, " are not of a tensor of ", tensor.num_bytes(),
               " bytes");
  return tensor.bytes().substr(static_cast<size_t>(offset), static_cast<size_t>(count));
}

Status WritePart(const Tensor& tensor, int64_t offset, const Bytes& bytes) {
  const std::string_view part = TRY(PartOf(tensor, offset, static_cast<int64_t>(bytes.data.size())));
  std::memcpy(static_cast<char*>(tensor.data()) + offset, bytes.data.data(), part.size());
  return {};
}

Result<Bytes> ReadPart(const Tensor& tensor, int64_t offset, int64_t count) {
  if (count > kTensorPieceBytes) return Err("at most ", kTensorPieceBytes, " bytes can be read at a time");
  const std::string_view part = TRY(PartOf(tensor, offset, count));
  return Bytes{std::string(part)};
}

Result<Tensor> NewTensor(std::span<const Value> args) {
  if (args.empty()) return Err("expected a type and extents");
  std::vector<int64_t> shape;
  for (const Value& extent : args.subspan(1)) shape.push_back(TRY(extent.As<int64_t>()));
  return Tensor::Empty(std::move(shape), TRY(args[0].As<DLDataType>()));
}

Result<std::string_view> BytesOf(const Tensor& tensor) {
  if (!tensor.defined()) return Err("expected a tensor with bytes");
  return PartOf(tensor, 0, tensor.num_bytes());
}

Result<std::shared_ptr<KernelContext>> ContextOf(int64_t threads) {
  if (threads < 0 || threads > std::numeric_limits<int>::max()) return Err("there are no ", threads, " threads");
  TRY(CheckThreads(static_cast<int>(threads)));
  return std::make_shared<KernelContext>(ThreadPoolOptions{.num_threads = static_cast<int>(threads)});
}

Result<Tensor> TimesOf(const PackedFunc& function, int64_t runs, double seconds) {
  const std::vector<double> times = TRY(TimeEachCall(function, runs, seconds));
  const std::string_view bytes(reinterpret_cast<const char*>(times.data()), times.size() * sizeof(double));
  return Tensor::FromBytes({static_cast<int64_t>(times.size())}, {kDLFloat, 64, 1}, bytes);
}

Result<Tensor> PairTimesOf(const PackedFunc& first, const PackedFunc& second, double half_width, double seconds,
                           int64_t least, double visit_seconds) {
  const auto runner = [](const PackedFunc& function) {
    return [&function]() -> Status {
      TRY(function());
      return {};
    };
  };
  if (!first || !second) return Err("expected two functions");
  if (least < 0 || least > 1 << 20) return Err("there are no ", least, " pairs");
  const PairedTimes times = TRY(RunInPairs(runner(first), runner(second),
                                           {.half_width = half_width,
                                            .max_seconds = seconds,
                                            .min_pairs = static_cast<int>(least),
                                            .visit_seconds = visit_seconds}));
  std::vector<double> numbers;
  for (const PairTime& pair : times.pairs) numbers.insert(numbers.end(), {pair.first, pair.second, pair.seconds});
  const std::string_view bytes(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double));
  return Tensor::FromBytes({static_cast<int64_t>(times.pairs.size()), 3}, {kDLFloat, 64, 1}, bytes);
}

Result<Value> FunctionOf(const Module& module, const std::string& name) {
  if (!module) return Err("expected a module");
  Result<PackedFunc> function = module->GetFunction(name);
  return function.ok() ? Value(*function) : Value();
}

}  // namespace

Result<std::vector<double>> TimeEachCall(const PackedFunc& function, int64_t runs, double seconds) {
  constexpr size_t kMostRuns = 1 << 20;  // their times take 8 MiB
  if (!function) return Err("expected a function");
  std::vector<double> times;
  double now = SteadySeconds();
  const double end = now + seconds;
  while ((static_cast<int64_t>(times.size()) < runs || now < end) && times.size() < kMostRuns) {
    const double begin = SteadySeconds();
    TRY(function());
    now = SteadySeconds();
    times.push_back(now - begin);
  }
  return times;
}

Result<std::string> CallTable::Answer(std::string_view bytes) {
  const RemoteCall call = TRY(ReadCall(
      bytes, [this](int64_t handle) { values_.erase(handle); },
      [this](const RemoteHandle& handle) { return Import(handle); }));
  const int64_t inline_bytes = call.name == kNewTensor ? -1 : kInlineTensorBytes;
  std::string reply = TRY(WriteReply(
      Run(call), [this](const Value& value) { return Export(value); }, inline_bytes));
  if (static_cast<int64_t>(reply.size()) > kMaxBlobBytes)
    return WriteReply(Err("the result takes more than ", kMaxBlobBytes, " bytes"), nullptr);
  return reply;
}

Result<Value> CallTable::Run(const RemoteCall& call) {
  if (call.function != 0) {
    const auto at = values_.find(call.function);
    const PackedFunc* function = at == values_.end() ? nullptr : at->second.If<PackedFunc>();
    if (!function) return Err("there is no function with the handle ", call.function);
    return PackedFunc(*function).Call(call.args);
  }
  if (call.name.starts_with("remote.")) return RunOwn(call.name, call.args);
  return TRY(Registry::Global().Get(call.name)).Call(call.args);
}

Result<Value> CallTable::RunOwn(const std::string& name, std::span<const Value> args) {
  if (name == "remote.echo") return PackedFunc::Of([](Value value) { return value; }).Call(args);
  if (name == "remote.boot") return Value(supplies_.boot);
  if (name == "remote.handles") return Value(values_.size());
  if (name == kNewTensor) return Value(TRY(NewTensor(args)));
  if (name == "remote.write") return PackedFunc::Of(WritePart).Call(args);
  if (name == "remote.read") return PackedFunc::Of(ReadPart).Call(args);
  if (name == "remote.time") return PackedFunc::Of(TimesOf).Call(args);
  if (name == "remote.time_pairs") return PackedFunc::Of(PairTimesOf).Call(args);
  if (name == "remote.get_function") return PackedFunc::Of(FunctionOf).Call(args);
  if (name == "remote.load_module") {
    return PackedFunc::Of([this](Tensor bytes, int64_t threads) -> Result<Module> {
             return LoadLibrary(bytes, TRY(ContextOf(threads)));
           })
        .Call(args);
  }
  if (name == "remote.load_network") {
    const bool replaceable = args.size() == 5 && TRY(args[4].As<int64_t>()) != 0;
    return PackedFunc::Of([&](Value library, Value graph, Value params, int64_t threads) {
             return LoadNetwork(library, graph, params, threads, replaceable);
           })
        .Call(args.first(args.size() - (args.size() == 5 ? 1 : 0)));
  }
  return Err("there is no function ", name);
}

Result<Module> CallTable::LoadLibrary(const Tensor& bytes, std::shared_ptr<KernelContext> context) {
  const std::string_view elf = TRY(BytesOf(bytes));
  UniqueFd file = TRY(supplies_.files.Take(static_cast<int64_t>(elf.size())));
  auto artifact = TRY(file ? Artifact::FromBytes(elf, std::move(file)) : Artifact::FromBytes(elf));
  return LoadModule(std::move(artifact), std::move(context));
}

Result<Module> CallTable::LoadNetwork(const Value& library, const Value& graph, const Value& params, int64_t threads,
                                      bool replaceable) {
  const std::shared_ptr<KernelContext> context = TRY(ContextOf(threads));
  Module module;
  if (!library.IsNull()) module = TRY(LoadLibrary(TRY(library.As<Tensor>()), context));
  std::vector<DevicePtr> devices = {std::make_shared<CpuDevice>(context)};
  if (device_) devices.push_back(device_);
  if (!graph.IsNull()) {
    Graph parsed = TRY(Graph::Parse(TRY(BytesOf(TRY(graph.As<Tensor>())))));
    Params constants = TRY(Widened(parsed, TRY(ParseParams(TRY(BytesOf(TRY(params.As<Tensor>())))))));
    return MakeGraphExecutorModule(TRY(GraphExecutor::Create(std::move(parsed), std::move(module), std::move(constants),
                                                             std::move(devices), {.replaceable = replaceable})));
  }
  if (!module) return Err("a network has a graph or is a shared object");
  std::optional<ExecutorParts> parts = TakeExecutorParts(module);
  if (!parts) return Err("the shared object holds kernels, but no network");
  const Module info = module->FindByType(kInfoModule);
  Module executor = MakeGraphExecutorModule(TRY(
      GraphExecutor::Create(std::move(parts->graph), std::move(module), std::move(parts->params), std::move(devices))));
  if (info) TRY(executor->Import(info));
  return executor;
}

Result<RemoteHandle> CallTable::Export(const Value& value) {
  RemoteHandle handle{.number = ++last_};
  if (const auto* module = value.If<Module>()) {
    if (!*module) return Err("the result is a null module");
    handle.kind = RemoteHandle::Kind::kModule;
    handle.type_key = (*module)->TypeKey();
  } else if (value.If<PackedFunc>()) {
    handle.kind = RemoteHandle::Kind::kFunction;
  } else if (const auto* object = value.If<ObjectRef>()) {
    if (!*object) return Err("the result is a null object");
    handle.type_key = (*object)->TypeKey();
  } else if (const auto* tensor = value.If<Tensor>()) {
    if (!tensor->defined()) return Err("the result is a null tensor");
    handle.kind = RemoteHandle::Kind::kTensor;
    handle.dtype = tensor->dtype();
    handle.shape = tensor->shape();
  }
  values_.emplace(handle.number, value);
  return handle;
}

Result<Value> CallTable::Import(const RemoteHandle& handle) const {
  const auto at = values_.find(handle.number);
  if (at == values_.end()) return Err("there is no value with the handle ", handle.number);
  return at->second;
}

}  // namespace autotune::rpc
