// A device of a farm that is used like one of this process: values, modules and tensors there, and how a session ends.
#include <future>
#include <optional>

#include "rpc/library_files.h"
#include "rpc/remote_device.h"
#include "rpc/remote_value.h"
#include "runtime/fill.h"
#include "runtime/graph_json.h"
#include "runtime/params.h"
#include "tests/draws.h"
#include "tests/tracker/farm.h"

namespace autotune {
namespace {

using rpc::RemoteDevice;
using testing::HasSubstr;

class FarmCalls : public FarmTest {
 protected:
  void SetUp() override {
    FarmTest::SetUp();
    tracker_ = StartTracker();
    server_ = StartServer("cpu");
    ASSERT_TRUE(Soon([&] { return Count("cpu") == 1; }));
  }
  std::shared_ptr<RemoteDevice> Connect(double call_seconds = 60) {
    auto device = RemoteDevice::Connect({.farm = {.tracker = Endpoint(), .key = "cpu"}, .call_seconds = call_seconds});
    EXPECT_TRUE(device.ok()) << device.error().Text();
    return device.ok() ? *device : nullptr;
  }
  std::optional<Subprocess> tracker_, server_;
};

TEST_F(FarmCalls, EveryKindOfValueComesBack) {
  const auto device = Connect();
  ASSERT_TRUE(device);
  const auto echo = [&](const Value& value) { return device->Call("remote.echo", {value}).value(); };
  EXPECT_TRUE(echo(Value()).IsNull());
  EXPECT_EQ(*echo(Value(INT64_MIN)).If<int64_t>(), INT64_MIN);
  EXPECT_EQ(*echo(Value(0.1)).If<double>(), 0.1);
  EXPECT_EQ(*echo(Value("text")).If<std::string>(), "text");
  EXPECT_EQ(echo(Value(Bytes{std::string("\0\xff", 2)})).If<Bytes>()->data, std::string("\0\xff", 2));
  EXPECT_EQ(echo(Value(DLDevice{kDLCPU, 2})).If<DLDevice>()->device_id, 2);
  // Whole, in one piece, and in several.
  for (const int64_t size : {int64_t{10}, rpc::kInlineTensorBytes / 4 + 1, 2 * rpc::kTensorPieceBytes + 3}) {
    const Tensor tensor = Tensor::Empty({size}, "i32").value();
    for (int64_t i = 0; i < size; ++i) tensor.Data<int32_t>()[i] = static_cast<int32_t>(i * 7919);
    const Value back = echo(Value(tensor));
    ASSERT_TRUE(back.If<Tensor>());
    EXPECT_EQ(back.If<Tensor>()->bytes(), tensor.bytes()) << size;
  }
  const Module module = device->LoadModule(*Compile(kDouble), 1).value();
  EXPECT_EQ(module->TypeKey(), "library");
  EXPECT_EQ((*echo(Value(module)).If<Module>())->TypeKey(), "library");
  const PackedFunc function = module->GetFunction("k").value();
  EXPECT_TRUE(*echo(Value(function)).If<PackedFunc>());
  EXPECT_FALSE(module->GetFunction("nothing").ok());
  // What has no copy on the device is refused here, and the session goes on.
  const PackedFunc local = PackedFunc::Of([] { return 1; });
  EXPECT_THAT(device->Call("remote.echo", {Value(local)}).error().Text(), HasSubstr("of another process"));
  EXPECT_THAT(device->Call("nothing", {}).error().Text(), HasSubstr("nothing"));
  EXPECT_TRUE(echo(Value()).IsNull());
}

// With all draws, the tensor has more than 2 GiB, and there are 10^5 calls.
TEST_F(FarmCalls, LargeTensorsAndManyCallsComeBackWhole) {
  const auto device = Connect();
  ASSERT_TRUE(device);
  const int64_t size = test::DrawsAll() ? (int64_t{2} << 30) + 12345 : (int64_t{8} << 20) + 12345;
  const Tensor tensor = Tensor::Empty({size}, "u8").value();
  FillWholeRange(tensor, 1);
  const Value back = device->Call("remote.echo", {Value(tensor)}).value();
  ASSERT_TRUE(back.If<Tensor>());
  EXPECT_TRUE(back.If<Tensor>()->bytes() == tensor.bytes());
  const int64_t calls = test::DrawsAll() ? 100000 : 1000;
  for (int64_t i = 0; i < calls; ++i) ASSERT_EQ(*device->Call("remote.echo", {Value(i)}).value().If<int64_t>(), i);
  EXPECT_EQ(*device->Call("remote.handles", {}).value().If<int64_t>(), 0);
}

TEST_F(FarmCalls, AKernelRunsOnTensorsOfTheDevice) {
  const auto device = Connect();
  ASSERT_TRUE(device);
  const PackedFunc kernel = device->LoadModule(*Compile(kDouble), 1).value()->GetFunction("k").value();
  const Tensor x = Tensor::Empty({64}, "f32").value(), w = Tensor::Zeros({256}, "f32").value();
  for (int i = 0; i < 64; ++i) x.Data<float>()[i] = static_cast<float>(i);
  const ObjectRef y = device->NewTensor(Tensor::Zeros({64}, "f32").value()).value();
  ASSERT_TRUE(kernel(Value(x), Value(w), Value(y)).ok());
  const Tensor result = device->Read(y).value();
  for (int i = 0; i < 64; ++i) ASSERT_EQ(result.Data<float>()[i], 2 * static_cast<float>(i));
  EXPECT_FALSE(device->Read(ObjectRef()).ok());
}

// A runner may make files of 8 MiB only.
TEST_F(FarmCalls, LargeLibrariesAreLoadedUpToANumber) {
  const auto device = Connect();
  ASSERT_TRUE(device);
  const Blob large = Compile(kDouble, "const char filler[9 << 20] = {1};");
  ASSERT_GT(static_cast<int64_t>(large->size()), 9 << 20);
  for (int i = 0; i < rpc::LibraryFiles::kMost; ++i) {
    const auto module = device->LoadModule(*large, 1);
    ASSERT_TRUE(module.ok()) << module.error().Text();
    const Value x = Value(Tensor::Zeros({64}, "f32").value()), w = Value(Tensor::Zeros({256}, "f32").value());
    EXPECT_TRUE((*module)->GetFunction("k").value()(x, w, x).ok());
  }
  EXPECT_THAT(device->LoadModule(*large, 1).error().Text(), HasSubstr("loads at most 4 libraries of more than"));
  EXPECT_TRUE(device->LoadModule(*Compile(kDouble), 1).ok()) << "a small one needs no such file";
}

TEST_F(FarmCalls, TwoFunctionsAreTimedInTurns) {
  const auto device = Connect();
  ASSERT_TRUE(device);
  // An executor of a network that only copies its input: no library is needed.
  Graph graph;
  graph.nodes = {{.name = "x", .outputs = {{"f32", {64}, 0}}}};
  graph.heads = {{0, 0}};
  const std::string text = graph.ToText(), params = ParamsBytes({});
  const Module network = device->LoadNetwork({"", text, params}, 1).value();
  const PackedFunc one = network->GetFunction("run").value(), two = one;
  const auto paired = device->TimeInPairs(one, two, {.half_width = 0, .max_seconds = 0, .min_pairs = 7}).value();
  ASSERT_EQ(paired.times.pairs.size(), 7u);
  for (const PairTime& pair : paired.times.pairs)
    EXPECT_TRUE(pair.first > 0 && pair.second > 0 && pair.seconds > pair.first + pair.second);
  const PackedFunc local = PackedFunc::Of([] { return 1; });
  EXPECT_THAT(device->TimeInPairs(one, local, {}).error().Text(), HasSubstr("of another process"));
  EXPECT_THAT(device->Measure(local, {}).error().Text(), HasSubstr("of another process"));
  const PackedFunc fails = network->GetFunction("get_output").value();
  EXPECT_FALSE(device->TimeInPairs(one, fails, {.max_seconds = 0}).ok()) << "it takes arguments";
  EXPECT_FALSE(device->Measure(one, {Value(1)}).ok()) << "run takes none";
  const auto again = device->Measure(one, {});
  EXPECT_TRUE(again.ok()) << again.error().Text();
}

TEST_F(FarmCalls, ASessionGetsOnlyWhatFits) {
  std::atomic<int> offers = 0;
  RemoteDevice::Options options{.farm = {.tracker = Endpoint(), .key = "cpu", .wait_seconds = 3}};
  options.fits = [&](const rpc::LeaseGranted&) { return ++offers, false; };
  EXPECT_FALSE(RemoteDevice::Connect(options).ok());
  EXPECT_GT(offers, 0);
  options.fits = [&](const rpc::LeaseGranted& granted) { return !granted.server.empty(); };
  EXPECT_TRUE(RemoteDevice::Connect(options).ok());
}

TEST_F(FarmCalls, HandlesThatNobodyReleasesDoNotPileUp) {
  const auto device = Connect();
  ASSERT_TRUE(device);
  const Module module = device->LoadModule(*Compile(kDouble), 1).value();
  const auto count = [&] { return *device->Call("remote.handles", {}).value().If<int64_t>(); };
  const int64_t before = count();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(module->GetFunction("k").ok());
  EXPECT_EQ(count(), before);
  EXPECT_EQ(before, 1) << "the module; tensors were released";
}

TEST_F(FarmCalls, TheEndOfTheProcessEndsTheSessionWithOneLine) {
  for (const auto& [body, why] :
       {std::pair{"*(volatile int*)0 = 0;", "was ended by signal 11"}, {"for (;;) __asm__(\"\");", "took longer"}}) {
    const auto device = Connect(/*call_seconds=*/1);
    ASSERT_TRUE(device);
    const PackedFunc kernel = device->LoadModule(*Compile(body), 1).value()->GetFunction("k").value();
    const Value x = Value(Tensor::Zeros({64}, "f32").value()), w = Value(Tensor::Zeros({256}, "f32").value());
    const auto crashed = kernel(x, w, x);
    ASSERT_FALSE(crashed.ok());
    EXPECT_THAT(crashed.error().Text(), HasSubstr(why));
    EXPECT_FALSE(device->IsLost()) << "the kernel is at fault";
    EXPECT_EQ(device->Call("remote.echo", {Value()}).error().Text(), crashed.error().Text());
  }
  EXPECT_TRUE(Connect()) << "the device serves the next client";
}

TEST_F(FarmCalls, AKilledServerEndsTheSession) {
  const auto device = Connect();
  ASSERT_TRUE(device);
  ASSERT_TRUE(device->Call("remote.echo", {Value(1)}).ok());
  EXPECT_FALSE(device->IsLost());
  kill(server_->pid(), SIGKILL);
  server_->Wait(5000);
  const int64_t began = BootMillis();
  const auto lost = device->Call("remote.echo", {Value(1)});
  ASSERT_FALSE(lost.ok());
  EXPECT_THAT(lost.error().Text(), HasSubstr("lost"));
  EXPECT_TRUE(device->IsLost());
  EXPECT_LT(BootMillis() - began, 10000);
}

TEST_F(FarmCalls, ACancelledCallGivesTheDeviceBack) {
  const auto device = Connect();
  ASSERT_TRUE(device);
  const PackedFunc kernel =
      device->LoadModule(*Compile("for (;;) __asm__(\"\");"), 1).value()->GetFunction("k").value();
  auto endless = std::async(std::launch::async, [&] {
    const Value x = Value(Tensor::Zeros({64}, "f32").value()), w = Value(Tensor::Zeros({256}, "f32").value());
    return kernel(x, w, x);
  });
  usleep(300000);
  device->Cancel();
  EXPECT_FALSE(endless.get().ok());
  EXPECT_TRUE(Soon([&] { return Count("cpu", "free") == 1; }, 5));
}

}  // namespace
}  // namespace autotune
