// Sessions on graphs whose outputs are unusual: one value twice, an input, a parameter. Whatever memory the caller
// gives, every output is written, and the caller's memory is not touched after the call.
#include "api/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/cpu_device.h"
#include "tests/runtime/c_artifact.h"
#include "tests/runtime/ramp.h"

namespace autotune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kFloats = 8;
const std::vector<int64_t> kShape = {2, 4};

GraphNode Node(std::string name, int64_t storage, std::string kernel = "", std::vector<GraphRef> inputs = {}) {
  GraphNode node;
  node.name = std::move(name);
  if (!kernel.empty()) node.func_name = std::move(kernel);
  node.inputs = std::move(inputs);
  node.outputs = {{"f32", kShape, storage}};
  return node;
}

// Makes a session with the inputs a and b, the parameter p, and the outputs copy(a), copy(a) again, b and p.
Session MakeSession() {
  Graph graph;
  graph.nodes = {Node("a", 0), Node("b", 1), Node("p", 2), Node("c", 3, "copy", {{0, 0}})};
  graph.heads = {{3, 0}, {3, 0}, {1, 0}, {2, 0}};
  LoadedModel model;
  model.executor = GraphExecutor::Create(graph, MakeLibraryModule(SampleLibrary(), std::make_shared<KernelContext>(1)),
                                         {{"p", Ramp(kShape, 300)}}, {std::make_shared<CpuDevice>(1)})
                       .value();
  model.info.outputs.resize(4);
  return Session(std::move(model));
}

// Memory of the caller for one tensor, at a distance from a multiple of 64.
struct Memory {
  explicit Memory(float start, int64_t floats_off = 0)
      : block(AllocateAligned(256)),
        tensor(
            Tensor::View(static_cast<float*>(block.get()) + floats_off, kShape, {kDLFloat, 32, 1}, nullptr).value()) {
    for (int64_t i = 0; i < kFloats; ++i) data()[i] = start + static_cast<float>(i);
  }
  float* data() const { return tensor.Data<float>(); }
  std::shared_ptr<void> block;
  Tensor tensor;
};

TEST(Session, EveryOutputIsWrittenIntoAnyMemory) {
  Session session = MakeSession();
  for (int off = 0; off < 64; ++off) {  // each bit: whether one of the six tensors is not aligned
    const Memory a(100, off & 1), b(200, off >> 1 & 1);
    std::vector<Memory> results;
    for (int i = 0; i < 4; ++i) results.emplace_back(-1, off >> (2 + i) & 1);
    const Tensor* inputs[] = {&a.tensor, &b.tensor};
    const Tensor* outputs[] = {&results[0].tensor, &results[1].tensor, &results[2].tensor, &results[3].tensor};
    ASSERT_TRUE(session.RunWith(inputs, outputs).ok());
    for (int64_t i = 0; i < kFloats; ++i) {
      const auto x = static_cast<float>(i);
      EXPECT_THAT(
          (std::vector<float>{results[0].data()[i], results[1].data()[i], results[2].data()[i], results[3].data()[i]}),
          ElementsAre(100 + x, 100 + x, 200 + x, 300 + x))
          << off;
    }
  }
}

// The kernel `places` writes the addresses of its input and of its output into its output. Its metadata state the
// alignments of both, or none if they are 0, as older packages do.
Session MakeSessionThatTellsPlaces(int x_alignment, int y_alignment) {
  const auto stated = [](int bytes) { return bytes ? ",\"alignment\":" + std::to_string(bytes) : std::string(); };
  const std::string metadata =
      R"({"abi_version":1,"target":"test","kernels":[
    {"name":"places","params":[{"name":"x","dtype":"f32","shape":[2,4],"kind":"input")" +
      stated(x_alignment) + R"(},{"name":"y","dtype":"f32","shape":[2,4],"kind":"output")" + stated(y_alignment) +
      "}]}]}";
  constexpr char kBody[] = R"(
    int32_t places_raw(AtContext* c, void* const* a) ENTRY("places.raw");
    int32_t places_raw(AtContext* c, void* const* a) {
      void** y = a[1];
      y[0] = a[0], y[1] = a[1];
      return 0;
    }
    int32_t places(AtContext* c, const DLTensor* const* a, int32_t n) {
      void* raw[2] = {a[0]->data, a[1]->data};
      return places_raw(c, raw);
    })";
  Graph graph;
  graph.nodes = {Node("a", 0), Node("y", 1, "places", {{0, 0}})};
  graph.heads = {{1, 0}};
  LoadedModel model;
  const auto library = Artifact::FromBytes(CompileArtifact(metadata, kBody)).value();
  model.executor = GraphExecutor::Create(graph, MakeLibraryModule(library, std::make_shared<KernelContext>(1)), {},
                                         {std::make_shared<CpuDevice>(1)})
                       .value();
  model.info.outputs.resize(1);
  return Session(std::move(model));
}

TEST(Session, KernelsWorkOnMemoryOfTheCallerThatIsAlignedForThem) {
  for (const auto& [x_alignment, y_alignment] : {std::pair{0, 0}, {4, 4}, {16, 4}, {4, 64}}) {
    Session session = MakeSessionThatTellsPlaces(x_alignment, y_alignment);
    for (int off = 0; off < 16; ++off) {  // two bits for each tensor: its distance from a multiple of 64
      const int64_t distances[] = {0, 1, 4, 15}, x_off = distances[off % 4], y_off = distances[off / 4];
      const Memory a(100, x_off), y(-1, y_off);
      const Tensor* inputs[] = {&a.tensor};
      const Tensor* outputs[] = {&y.tensor};
      ASSERT_TRUE(session.RunWith(inputs, outputs).ok());
      const void* places[2];
      std::memcpy(places, y.data(), sizeof places);
      const auto fits = [](int64_t floats, int alignment) { return floats * 4 % (alignment ? alignment : 64) == 0; };
      EXPECT_EQ(places[0] == a.data(), fits(x_off, x_alignment)) << x_alignment << ", " << x_off;
      EXPECT_EQ(places[1] == y.data(), fits(y_off, y_alignment)) << y_alignment << ", " << y_off;
    }
  }
}

TEST(Session, MemoryThatIsNotAlignedToItsElementsIsCopied) {
  Session session = MakeSessionThatTellsPlaces(4, 4);
  const Memory a(100), y(-1);
  const Tensor odd = Tensor::View(reinterpret_cast<char*>(a.data()) + 1, kShape, a.tensor.dtype(), nullptr).value();
  const Tensor* inputs[] = {&odd};
  const Tensor* outputs[] = {&y.tensor};
  ASSERT_TRUE(session.RunWith(inputs, outputs).ok());
  const void* places[2];
  std::memcpy(places, y.data(), sizeof places);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(places[0]) % AT_ALIGNMENT, 0u);
  EXPECT_EQ(places[1], y.data());
}

TEST(Session, TensorsMayOverlap) {
  Session session = MakeSession();
  const Memory a(100), b(200);
  const Tensor* inputs[] = {&a.tensor, &b.tensor};
  const Tensor* outputs[] = {&b.tensor, nullptr, &a.tensor, nullptr};  // swaps a and b
  ASSERT_TRUE(session.RunWith(inputs, outputs).ok());
  EXPECT_EQ(b.data()[7], 107);
  EXPECT_EQ(a.data()[7], 207);
  const Tensor* in_place[] = {&a.tensor, nullptr, nullptr, nullptr};
  ASSERT_TRUE(session.RunWith(inputs, in_place).ok());
  EXPECT_EQ(a.data()[7], 207);
  const Tensor shifted = Tensor::View(a.data() + 1, kShape, a.tensor.dtype(), nullptr).value();
  const Tensor* by_one[] = {&shifted, nullptr, nullptr, nullptr};
  ASSERT_TRUE(session.RunWith(inputs, by_one).ok());
  EXPECT_EQ(a.data()[8], 207);
  EXPECT_EQ(a.data()[0], 200);
}

TEST(Session, TheCallersMemoryIsNotUsedAfterTheCall) {
  Session session = MakeSession();
  ASSERT_TRUE(session.SetInput(0, Ramp(kShape, 10)).ok());
  Memory a(100), result(-1);
  const Tensor* inputs[] = {&a.tensor, nullptr};
  const Tensor* outputs[] = {&result.tensor, nullptr, nullptr, nullptr};
  ASSERT_TRUE(session.RunWith(inputs, outputs).ok());
  EXPECT_EQ(result.data()[0], 100);
  EXPECT_EQ(result.block.use_count(), 1);
  std::fill_n(a.data(), kFloats, -5.0f);
  std::fill_n(result.data(), kFloats, -6.0f);
  ASSERT_TRUE(session.Run().ok());
  EXPECT_EQ(session.outputs()[0].own.Data<float>()[0], 10) << "the input that was set, not the caller's";
  EXPECT_EQ(result.data()[0], -6);
  const Tensor* none[] = {nullptr, nullptr};
  ASSERT_TRUE(session.RunWith(none, outputs).ok());
  EXPECT_EQ(result.data()[0], 10);
}

TEST(Session, WrongTensorsAreTheCallersFault) {
  Session session = MakeSession();
  const Tensor good = Ramp(kShape), flat = Ramp({8}), constant = good.ReadOnly();
  const Tensor* inputs[] = {&good, &constant};  // inputs may be read-only
  const Tensor* outputs[] = {&good, nullptr, nullptr, nullptr};
  EXPECT_TRUE(session.RunWith(inputs, outputs).ok());
  auto expect_refused = [&](std::span<const Tensor* const> from, std::span<const Tensor* const> to, const char* words) {
    const Status status = session.RunWith(from, to);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(status.error().Text(), HasSubstr(words));
  };
  inputs[1] = &flat;
  expect_refused(inputs, outputs, "input 'b' is f32[2, 4], got f32[8]");
  inputs[1] = &good;
  outputs[3] = &flat;
  expect_refused(inputs, outputs, "output 'p' is f32[2, 4], got f32[8]");
  outputs[3] = &constant;
  expect_refused(inputs, outputs, "output 'p': the tensor is read-only");
  expect_refused(std::span(inputs).first(1), outputs, "the network has 2 inputs and 4 outputs, got 1 and 4");
  EXPECT_FALSE(session.SetInput(1, flat).ok());
}

}  // namespace
}  // namespace autotune
