#include "rpc/remote_device.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>

#include "rpc/remote_value.h"
#include "rpc/tracker_choice.h"
#include "runtime/stored_params.h"

namespace autotune::rpc {

struct RemoteDevice::Impl {
  // What the client of a session has in common with its handles, which may outlive it.
  struct Releases {
    std::mutex mutex;
    std::vector<int64_t> numbers;  // of the handles that the next call releases
  };
  // A handle of the process, released with its last copy.
  struct Held {
    Held(std::shared_ptr<Releases> releases, int64_t number) : releases(std::move(releases)), number(number) {}
    ~Held() {
      const std::lock_guard lock(releases->mutex);
      releases->numbers.push_back(number);
    }
    Held(const Held&) = delete;
    const std::shared_ptr<Releases> releases;
    const int64_t number;
  };
  using HeldPtr = std::shared_ptr<const Held>;

  Options options;
  std::unique_ptr<FarmClient> client;
  const Id session = RandomId();
  int64_t calls = 0;
  std::optional<Error> over;  // why the session is over
  bool lost = false;          // see IsLost
  std::string disturbed;      // of the latest call that measured
  std::shared_ptr<Releases> releases = std::make_shared<Releases>();
  std::recursive_mutex mutex;  // a call may need further ones, for its tensors
  const std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
  std::optional<std::stop_callback<std::function<void()>>> on_stop;

  // Returns some of the released handles; the next call takes the rest.
  std::vector<int64_t> TakeReleased() {
    constexpr size_t kMost = 4096;
    const std::lock_guard lock(releases->mutex);
    std::vector<int64_t>& all = releases->numbers;
    const size_t count = std::min(kMost, all.size());
    std::vector<int64_t> taken(all.end() - static_cast<long>(count), all.end());
    all.resize(all.size() - count);
    return taken;
  }
  Result<Value> Call(const std::shared_ptr<RemoteDevice>& device, int64_t function, const std::string& name,
                     std::span<const Value> args, bool measures = false);
  Result<RemoteAnswer> Send(CallWork work, std::function<void(const RemoteAnswer&)> on_reply);
  Result<std::string> Send(std::string body, bool measures);
  Status MovePieces(int64_t bytes, const std::function<std::string(int64_t at, int64_t count)>& piece,
                    const std::function<Status(int64_t at, int64_t count, const Value&)>& take,
                    bool ends_with_content = false);
  Result<RemoteHandle> Export(const std::shared_ptr<RemoteDevice>& device, const Value& value,
                              std::vector<HeldPtr>& temporary);
  Result<Value> Import(const std::shared_ptr<RemoteDevice>& device, const RemoteHandle& handle, bool measures);
  Result<HeldPtr> Upload(const Tensor& tensor, bool is_package = false);
  Result<ObjectRef> NewTensor(const std::shared_ptr<RemoteDevice>& device, const Tensor& tensor, bool is_package);
  Result<Tensor> Download(const RemoteHandle& handle);
};

// A function of the process. `measures`: its calls are alone on the device's host.
struct RemoteFunction {
  std::shared_ptr<RemoteDevice> device;
  RemoteDevice::Impl::HeldPtr held;
  bool measures = false;

  Result<Value> operator()(std::span<const Value> args) const {
    return device->impl_->Call(device, held->number, "", args, measures);
  }
};

namespace {

// Returns a function of the process as one whose calls, and the functions that they return, are alone on the device's
// host.
PackedFunc Measuring(const PackedFunc& function) {
  RemoteFunction remote = *function.Target<RemoteFunction>();
  remote.measures = true;
  return PackedFunc(std::move(remote));
}

}  // namespace

struct RemoteModule : ModuleNode {
  std::shared_ptr<RemoteDevice> device;
  RemoteDevice::Impl::HeldPtr held;
  std::string type_key;

  std::string_view TypeKey() const override { return type_key; }
  PackedFunc GetOwnFunction(std::string_view name, const Module&) override {
    const std::vector<Value> args = {Value(shared_from_this()), Value(name)};
    // A profile times kernels, and so does the function that time_evaluator returns.
    const bool measures = name == "time_evaluator" || name == "profile" || name == "profile_samples";
    const Result<Value> found = device->impl_->Call(device, 0, "remote.get_function", args);
    if (!found.ok())
      return PackedFunc([error = found.error()](std::span<const Value>) -> Result<Value> { return error; });
    const auto* function = found->If<PackedFunc>();
    if (!function) return {};
    return measures ? Measuring(*function) : *function;
  }
};

namespace {

// An object or tensor of the process, of which this side knows the type alone.
struct RemoteObject : Object {
  RemoteHandle handle;
  std::shared_ptr<const void> device, held;

  std::string_view TypeKey() const override { return handle.type_key; }
};

constexpr int64_t kMostTimesBytes = 8 << 20;  // of remote.time (rpc/call_table.cc)

// Returns the call of a function whose first argument is a tensor of the process, and the others small values.
std::string CallOn(const RemoteHandle& tensor, const char* function, std::vector<Value> args) {
  RemoteCall call{.name = function, .args = std::move(args)};
  call.args.insert(call.args.begin(), Value(Tensor()));  // stands for the handle
  return WriteCall(call, [&](const Value&) -> Result<RemoteHandle> { return tensor; }).value();
}

Error NotOfThis(std::string_view what) {
  return Err("a ", what, " of another process cannot be passed to a remote function");
}

}  // namespace

Result<RemoteAnswer> RemoteDevice::Impl::Send(CallWork work, std::function<void(const RemoteAnswer&)> on_reply) {
  if (over) return *over;
  if (*cancelled) return Error("cancelled", ErrorKind::kStopped);
  work.session = session;
  work.number = calls + 1;
  work.seconds = options.call_seconds;
  work.cancelled = cancelled;
  calls += work.count;
  const auto end = [this](Error error) {
    over = std::move(error);
    return *over;
  };
  Result<RemoteAnswer> answer = client->Call(std::move(work), options.on_wait, std::move(on_reply));
  if (!answer.ok() && *cancelled) return end(Error("cancelled", ErrorKind::kStopped));
  lost = !answer.ok() || answer->reply.status == TrialStatus::kCancelled;
  if (!answer.ok()) return end(answer.error());
  if (answer->reply.status == TrialStatus::kOk) return answer;
  return end(Err("the session on the device is over: ", answer->reply.error));
}

Result<std::string> RemoteDevice::Impl::Send(std::string body, bool measures) {
  const auto bytes = MakeBlob(std::move(body));
  const RemoteAnswer answer =
      TRY(Send(CallWork{.exclusive = measures, .body = [bytes](int64_t) { return bytes; }}, nullptr));
  if (measures) disturbed = answer.reply.disturbed;
  return std::string(*answer.body);
}

// Makes calls for all pieces of a tensor of the process, several at a time. `piece` writes the call for some bytes of
// it, and `take` gets the value that this call returns. Both run on another thread. `ends_with_content`: each call
// ends with the bytes of its piece. The client then offers the server their hash first (ContentStore).
Status RemoteDevice::Impl::MovePieces(int64_t bytes, const std::function<std::string(int64_t at, int64_t count)>& piece,
                                      const std::function<Status(int64_t at, int64_t count, const Value&)>& take,
                                      bool ends_with_content) {
  const auto count_at = [bytes](int64_t at) { return std::min(kTensorPieceBytes, bytes - at); };
  int64_t taken = 0;
  Status status;  // the first error
  const auto body = [&](int64_t index) {
    const int64_t at = index * kTensorPieceBytes;
    return MakeBlob(piece(at, count_at(at)));
  };
  const auto on_reply = [&](const RemoteAnswer& answer) {
    if (answer.reply.status != TrialStatus::kOk || !status.ok()) return;
    status = [&]() -> Status {
      const Value value = TRY(TRY(ReadReply(*answer.body, nullptr)));
      return take(taken, count_at(taken), value);
    }();
    taken += kTensorPieceBytes;
  };
  const int64_t count = (bytes + kTensorPieceBytes - 1) / kTensorPieceBytes;
  if (count == 0) return {};
  CallWork work{.count = count, .body = body};
  if (ends_with_content) work.content_bytes = [&](int64_t index) { return count_at(index * kTensorPieceBytes); };
  TRY(Send(std::move(work), on_reply));
  return status;
}

Result<Value> RemoteDevice::Impl::Call(const std::shared_ptr<RemoteDevice>& device, int64_t function,
                                       const std::string& name, std::span<const Value> args, bool measures) {
  const std::lock_guard lock(mutex);
  if (over) return *over;
  std::vector<HeldPtr> temporary;  // tensors that were uploaded for this call
  RemoteCall call{.function = function, .name = name, .args = {args.begin(), args.end()}};
  const std::string rest = TRY(WriteCall(call, [&](const Value& value) { return Export(device, value, temporary); }));
  constexpr int64_t kReserved = 64 << 10;  // for the handles that this call releases
  if (static_cast<int64_t>(rest.size()) > kMaxBlobBytes - kReserved)
    return Err("the arguments of a remote function take ", rest.size(), " bytes; at most ", kMaxBlobBytes - kReserved,
               " can be sent beside large tensors");
  call.released = TakeReleased();
  ByteWriter body;
  body.Numbers(call.released);
  body.Raw(std::string_view(rest).substr(sizeof(uint64_t)));  // behind the empty list of released handles
  std::string bytes = body.Take();
  const std::string reply = TRY(Send(std::move(bytes), measures));
  return TRY(ReadReply(reply, [&](const RemoteHandle& handle) { return Import(device, handle, measures); }));
}

Result<RemoteHandle> RemoteDevice::Impl::Export(const std::shared_ptr<RemoteDevice>& device, const Value& value,
                                                std::vector<HeldPtr>& temporary) {
  if (const auto* module = value.If<Module>()) {
    const auto* remote = dynamic_cast<const RemoteModule*>(module->get());
    if (!remote || remote->device != device) return NotOfThis("module");
    return RemoteHandle{.kind = RemoteHandle::Kind::kModule, .number = remote->held->number};
  }
  if (const auto* function = value.If<PackedFunc>()) {
    const auto* remote = function->Target<RemoteFunction>();
    if (!remote || remote->device != device) return NotOfThis("function");
    return RemoteHandle{.kind = RemoteHandle::Kind::kFunction, .number = remote->held->number};
  }
  if (const auto* object = value.If<ObjectRef>()) {
    const auto* remote = dynamic_cast<const RemoteObject*>(object->get());
    if (!remote || remote->device != device) return NotOfThis("object");
    return remote->handle;
  }
  const auto* tensor = value.If<Tensor>();
  if (!tensor || !tensor->defined() || tensor->device())
    return Err("only tensors in the memory of this host can be passed to a remote function");
  temporary.push_back(TRY(Upload(*tensor)));
  return RemoteHandle{.kind = RemoteHandle::Kind::kTensor,
                      .number = temporary.back()->number,
                      .dtype = tensor->dtype(),
                      .shape = tensor->shape()};
}

Result<Value> RemoteDevice::Impl::Import(const std::shared_ptr<RemoteDevice>& device, const RemoteHandle& handle,
                                         bool measures) {
  auto held = std::make_shared<const Held>(releases, handle.number);
  switch (handle.kind) {
    case RemoteHandle::Kind::kModule: {
      auto module = std::make_shared<RemoteModule>();
      module->device = device;
      module->held = std::move(held);
      module->type_key = handle.type_key;
      return Value(Module(std::move(module)));
    }
    case RemoteHandle::Kind::kFunction:
      return Value(PackedFunc(RemoteFunction{device, std::move(held), measures}));
    case RemoteHandle::Kind::kObject: {
      auto object = std::make_shared<RemoteObject>();
      object->handle = handle;
      object->device = device;
      object->held = std::move(held);
      return Value(ObjectRef(std::move(object)));
    }
    case RemoteHandle::Kind::kTensor:
      // The times of a call are the only tensor that a measurement returns.
      if (measures && TRY(ShapeBytes(handle.shape, handle.dtype)) > kMostTimesBytes)
        return Err("the device server answered with too many times");
      return Value(TRY(Download(handle)));
  }
  return Err("a handle of an unknown kind");
}

Result<RemoteDevice::Impl::HeldPtr> RemoteDevice::Impl::Upload(const Tensor& tensor, bool is_package) {
  std::vector<Value> args = {Value(tensor.dtype())};
  for (int64_t extent : tensor.shape()) args.emplace_back(extent);
  // The reply is a handle, which must not be taken for a tensor to download.
  const std::string body = TRY(WriteCall({TakeReleased(), 0, "remote.tensor", args}, nullptr));
  const std::string reply = TRY(Send(body, false));
  HeldPtr made;
  TRY(TRY(ReadReply(reply, [&](const RemoteHandle& handle) -> Result<Value> {
    made = std::make_shared<const Held>(releases, handle.number);
    return Value();
  })));
  if (!made) return Err("the device server answered with a malformed message");
  const RemoteHandle handle{
      .kind = RemoteHandle::Kind::kTensor, .number = made->number, .dtype = tensor.dtype(), .shape = tensor.shape()};
  const std::string_view bytes = tensor.bytes();
  const auto write = [&](int64_t at, int64_t count) {
    const Value part(Bytes{std::string(bytes.substr(static_cast<size_t>(at), static_cast<size_t>(count)))});
    return CallOn(handle, "remote.write", {Value(at), part});
  };
  TRY(MovePieces(
      tensor.num_bytes(), write, [](int64_t, int64_t, const Value&) { return Status(); }, is_package));
  return made;
}

Result<ObjectRef> RemoteDevice::Impl::NewTensor(const std::shared_ptr<RemoteDevice>& device, const Tensor& tensor,
                                                bool is_package) {
  const std::lock_guard lock(mutex);
  auto made = std::make_shared<RemoteObject>();
  auto held = TRY(Upload(tensor, is_package));
  made->handle = {.kind = RemoteHandle::Kind::kTensor,
                  .number = held->number,
                  .type_key = "remote_tensor",
                  .dtype = tensor.dtype(),
                  .shape = tensor.shape()};
  made->device = device;
  made->held = std::move(held);
  return ObjectRef(std::move(made));
}

Result<Tensor> RemoteDevice::Impl::Download(const RemoteHandle& handle) {
  Tensor tensor = TRY(Tensor::Empty(handle.shape, handle.dtype));
  const auto read = [&](int64_t at, int64_t count) { return CallOn(handle, "remote.read", {Value(at), Value(count)}); };
  const auto take = [&](int64_t at, int64_t count, const Value& part) -> Status {
    const auto* bytes = part.If<Bytes>();
    if (!bytes || static_cast<int64_t>(bytes->data.size()) != count)
      return Err("the device server answered with a malformed message");
    std::memcpy(static_cast<char*>(tensor.data()) + at, bytes->data.data(), bytes->data.size());
    return {};
  };
  TRY(MovePieces(tensor.num_bytes(), read, take));
  return tensor;
}

RemoteDevice::RemoteDevice(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RemoteDevice::~RemoteDevice() = default;

Result<std::shared_ptr<RemoteDevice>> RemoteDevice::Connect(const Options& options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  // The session keeps its device until its end, or until another client waits for it.
  constexpr double kSessionSeconds = 7 * 24 * 3600;
  impl->options.farm.idle_lease_seconds = kSessionSeconds;
  impl->client = TRY(FarmClient::Connect(impl->options.farm));
  if (options.fits) impl->client->UseOnly(options.fits);
  impl->on_stop.emplace(options.stop, [client = impl->client.get(), cancelled = impl->cancelled] {
    *cancelled = true;
    client->Cancel();
  });
  std::shared_ptr<RemoteDevice> device(new RemoteDevice(std::move(impl)));
  TRY(device->Call("remote.echo", {Value()}));
  return device;
}

Result<std::shared_ptr<RemoteDevice>> Connect(const std::string& join, const std::string& key) {
  RemoteDevice::Options options;
  options.farm.tracker = TRY(TrackerChoice{.join = join}.Find());
  options.farm.key = key;
  options.farm.job = "library";
  return RemoteDevice::Connect(options);
}

Result<Value> RemoteDevice::Call(const std::string& name, const std::vector<Value>& args) {
  Value result = TRY(impl_->Call(shared_from_this(), 0, name, args));
  const auto* function = result.If<PackedFunc>();
  if (name == "runtime.time_evaluator" && function) return Value(Measuring(*function));
  return result;
}

namespace {

// Returns the parameters with the types of the graph; nothing if they have them already, or if they are damaged.
std::optional<std::string> WholeParams(const NetworkParts& parts) {
  const Result<Graph> graph = Graph::Parse(parts.graph_json);
  Result<Params> stored = ParseParams(parts.params);
  if (!graph.ok() || !stored.ok()) return std::nullopt;
  const Result<Params> whole = Widened(*graph, std::move(*stored));
  if (!whole.ok()) return std::nullopt;
  std::string bytes = ParamsBytes(*whole);
  return bytes == parts.params ? std::nullopt : std::optional(std::move(bytes));
}

}  // namespace

// Returns a part of a package as a tensor with its bytes. One that does not travel whole is in the process already.
Result<Value> RemoteDevice::PartOfPackage(std::string_view bytes) {
  const Tensor tensor = TRY(
      Tensor::View(const_cast<char*>(bytes.data()), {static_cast<int64_t>(bytes.size())}, {kDLUInt, 8, 1}, nullptr));
  if (tensor.num_bytes() <= kInlineTensorBytes) return Value(tensor);
  return Value(TRY(impl_->NewTensor(shared_from_this(), tensor, /*is_package=*/true)));
}

Result<Module> RemoteDevice::LoadModule(std::string_view shared_object, int threads) {
  const Value bytes = TRY(PartOfPackage(shared_object));
  return TRY(Call("remote.load_module", {bytes, Value(threads)})).As<Module>();
}

Result<Module> RemoteDevice::LoadNetwork(const NetworkParts& parts, int threads, bool replaceable) {
  Result<Module> loaded = LoadParts(parts, threads, replaceable);
  if (loaded.ok() || parts.graph_json.empty() || IsLost()) return loaded;
  // Servers before wire 2.10 know no constants that are stored in fewer bits than the graph has.
  const std::optional<std::string> whole = WholeParams(parts);
  return whole ? LoadParts({parts.library, parts.graph_json, *whole}, threads, replaceable) : std::move(loaded);
}

Result<Module> RemoteDevice::LoadParts(const NetworkParts& parts, int threads, bool replaceable) {
  const auto part = [this](std::string_view bytes) -> Result<Value> {
    return bytes.empty() ? Value() : PartOfPackage(bytes);
  };
  const Value library = TRY(part(parts.library)), graph = TRY(part(parts.graph_json)), params = TRY(part(parts.params));
  std::vector<Value> args = {library, graph, params, Value(threads)};
  if (replaceable) args.emplace_back(1);
  return TRY(Call("remote.load_network", args)).As<Module>();
}

Result<ObjectRef> RemoteDevice::NewTensor(const Tensor& tensor) {
  if (!tensor.defined() || tensor.device()) return Err("expected a tensor in the memory of this host");
  return impl_->NewTensor(shared_from_this(), tensor, /*is_package=*/false);
}

Result<Tensor> RemoteDevice::Read(const ObjectRef& tensor) {
  const auto* remote = dynamic_cast<const RemoteObject*>(tensor.get());
  if (!remote || remote->device != shared_from_this() || remote->handle.kind != RemoteHandle::Kind::kTensor)
    return Err("expected a tensor that NewTensor of this device has made");
  const std::lock_guard lock(impl_->mutex);
  return impl_->Download(remote->handle);
}

namespace {

// Returns the numbers of a list of times, rows of `columns` numbers.
Result<std::vector<double>> TimesIn(const Value& reply, size_t columns) {
  const auto* times = reply.If<Tensor>();
  const Error malformed = Err("the device server answered with a malformed message");
  if (!times || times->device() || !(times->dtype() == DLDataType{kDLFloat, 64, 1}) || times->num_elements() < 1)
    return malformed;
  std::vector<double> seconds(times->Data<double>(), times->Data<double>() + times->num_elements());
  if (seconds.size() % columns != 0) return malformed;
  for (double time : seconds)
    if (!std::isfinite(time) || time < 0) return malformed;
  return seconds;
}

}  // namespace

Result<RemoteDevice::Measured> RemoteDevice::Measure(const PackedFunc& function, const std::vector<Value>& args) {
  const auto* remote = function.Target<RemoteFunction>();
  if (!remote || remote->device.get() != this) return NotOfThis("function");
  const std::lock_guard lock(impl_->mutex);
  Value value = TRY(impl_->Call(shared_from_this(), remote->held->number, "", args, /*measures=*/true));
  return Measured{std::move(value), impl_->disturbed};
}

Result<RemoteDevice::Paired> RemoteDevice::TimeInPairs(const PackedFunc& first, const PackedFunc& second,
                                                       const PairedOptions& options) {
  const std::vector<Value> args = {Value(first),
                                   Value(second),
                                   Value(options.half_width),
                                   Value(options.max_seconds),
                                   Value(options.min_pairs),
                                   Value(options.visit_seconds)};
  const std::lock_guard lock(impl_->mutex);
  const Value reply = TRY(impl_->Call(shared_from_this(), 0, "remote.time_pairs", args, /*measures=*/true));
  const std::vector<double> numbers = TRY(TimesIn(reply, 3));
  Paired result{{}, impl_->disturbed};
  for (size_t i = 0; i < numbers.size(); i += 3) {
    if (numbers[i] == 0 || numbers[i + 1] == 0) return Err("the device server answered with a malformed message");
    result.times.pairs.push_back({numbers[i], numbers[i + 1], numbers[i + 2]});
  }
  return result;
}

Result<RemoteDevice::Times> RemoteDevice::Time(const PackedFunc& function, int64_t runs, double seconds) {
  const std::vector<Value> args = {Value(function), Value(runs), Value(seconds)};
  const std::lock_guard lock(impl_->mutex);
  const Value reply = TRY(impl_->Call(shared_from_this(), 0, "remote.time", args, /*measures=*/true));
  std::vector<double> times = TRY(TimesIn(reply, 1));
  return Times{std::move(times), impl_->disturbed};
}

bool RemoteDevice::IsLost() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->lost;
}

void RemoteDevice::Cancel() {
  *impl_->cancelled = true;
  impl_->client->Cancel();
}

}  // namespace autotune::rpc
