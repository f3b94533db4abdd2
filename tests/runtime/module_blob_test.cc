#include "tests/runtime/module_blob.h"

#include <gmock/gmock.h>

#include <fstream>

#include "runtime/byte_stream.h"
#include "runtime/cpu_device.h"
#include "runtime/device_module.h"
#include "runtime/graph_executor.h"
#include "runtime/info_module.h"
#include "support/rng.h"
#include "tests/runtime/c_artifact.h"
#include "tests/runtime/test_device.h"

namespace autotune {
namespace {

using testing::HasSubstr;

Graph CopyGraph() {
  Graph graph;
  graph.nodes.resize(2);
  graph.nodes[0].name = "x";
  graph.nodes[0].outputs = {{"f32", {2, 4}, 0}};
  graph.nodes[1].name = "y";
  graph.nodes[1].func_name = "copy";
  graph.nodes[1].inputs = {{0, 0}};
  graph.nodes[1].outputs = {{"f32", {2, 4}, 1}};
  graph.heads = {{1, 0}};
  return graph;
}

Module LibraryModule() { return MakeLibraryModule(SampleLibrary(), std::make_shared<KernelContext>(1)); }

DeviceCode CodeFor(const std::string& function) {
  constexpr DLDataType kAddress = {kDLOpaqueHandle, 64, 1};
  DeviceCode code{.format = "elf", .image = SampleArtifact()};
  code.functions[function] = {{kAddress, kAddress}, {"blockIdx.x"}};
  return code;
}

// A tree: library -> device module -> device module. The library also imports a network's factory and its info.
Module Tree() {
  test::RegisterTestDevices();
  Module root = MakeUnlinkedLibrary();
  Module near = MakeDeviceModule("ext_dev", CodeFor("copy.raw")),
         far = MakeDeviceModule("ext_dev", CodeFor("fails.raw"));
  CHECK(near->Import(far).ok());
  CHECK(root->Import(near).ok());
  CHECK(root->Import(MakeGraphExecutorFactory({"net", CopyGraph(), {}}, 1)).ok());
  CHECK(root->Import(MakeInfoModule("{}")).ok());
  return root;
}

// Returns the sample artifact with a module blob. `symbol` is the contents of the blob's symbol.
std::string WithSymbol(const std::string& symbol) {
  std::string body = SampleBody() + "const unsigned char __tvm_dev_mblob[] = {";
  for (unsigned char c : symbol) body += std::to_string(static_cast<int>(c)) + ",";
  return CompileArtifact(SampleMetadata(), body + "};\n");
}

TEST(ModuleBlob, ATreeInOneSharedObject) {
  const std::string path = TempDir() + "/tree.so";
  std::ofstream(path, std::ios::binary) << WithSymbol(test::ModuleBlobSymbol(test::ModuleBlob(Tree()).value()));
  auto root = LoadModule(path);
  ASSERT_TRUE(root.ok()) << root.error().Text();
  EXPECT_EQ((*root)->TypeKey(), "library");
  ASSERT_EQ((*root)->imports().size(), 3u);
  EXPECT_EQ((*root)->imports()[0]->TypeKey(), "ext_dev");
  EXPECT_EQ((*root)->imports()[0]->imports().at(0)->TypeKey(), "ext_dev");

  // The root finds a kernel of the library, functions of both device modules, and the network.
  Tensor x = Tensor::Zeros({2, 4}, "f32").value(), y = x.Copy().value();
  x.Data<float>()[5] = 3;
  ASSERT_TRUE((*root)->GetFunction("copy").value()(x, y).ok());
  EXPECT_EQ(y.bytes(), x.bytes());
  auto device = std::make_shared<test::TestDevice>();
  Tensor from = ToDevice(x, device).value(), to = ToDevice(Tensor::Zeros({2, 4}, "f32").value(), device).value();
  ASSERT_TRUE((*root)->GetFunction("copy.raw").value()(from, to, 1).ok());
  EXPECT_EQ(ToHost(to).value().bytes(), x.bytes());
  ASSERT_TRUE((*root)->GetFunction("fails.raw").value()(from, to, 1).ok());
  EXPECT_FALSE(device->Synchronize().ok());
  EXPECT_EQ((*root)->GetFunction("get_info").value()()->As<std::string>().value(), "{}");
  for (const char* name : {"net", "default"}) {
    PackedFunc make = (*root)->GetFunction(name).value();
    Module executor = make(DLDevice{kDLCPU, 0})->As<Module>().value();
    ASSERT_TRUE(executor->GetFunction("set_input").value()("x", x).ok());
    ASSERT_TRUE(executor->GetFunction("run").value()().ok());
    EXPECT_EQ(executor->GetFunction("get_output").value()(0)->As<Tensor>()->bytes(), x.bytes());
  }
  PackedFunc keeps = (*root)->GetFunction("net").value();
  *root = nullptr;  // the function keeps the library loaded
  EXPECT_TRUE(keeps(DLDevice{kDLCPU, 0}).ok());
}

TEST(ModuleBlob, TheBytesAreTheDocuments) {
  const std::string blob = test::ModuleBlob(Tree()).value();
  ByteReader in(blob, "blob");
  EXPECT_EQ(in.Number<uint64_t>().value(), 6u);
  EXPECT_EQ(in.Text().value(), "_lib");
  EXPECT_EQ(in.Text().value(), "ext_dev");  // the tree is written depth first
  EXPECT_EQ(in.Text().value(), "elf");
  ByteWriter tree;
  tree.Text("_import_tree");
  tree.Numbers(std::vector<uint64_t>{0, 3, 4, 4, 4, 4});
  tree.Numbers(std::vector<uint64_t>{1, 3, 4, 2});
  EXPECT_TRUE(blob.ends_with(tree.Take()));
}

TEST(ModuleBlob, ASymbolThatLiesAboutItsLength) {
  const std::string blob = test::ModuleBlob(Tree()).value();
  std::string symbol = test::ModuleBlobSymbol(blob);
  ++symbol[0];
  auto lie = LoadModule(Artifact::FromBytes(WithSymbol(symbol)).value(), std::make_shared<KernelContext>(1));
  ASSERT_FALSE(lie.ok());
  EXPECT_THAT(lie.error().Text(), HasSubstr("truncated"));
}

TEST(ModuleBlob, WithoutItThereIsAPlainLibrary) {
  Module plain = LoadModule(SampleLibrary(), std::make_shared<KernelContext>(1)).value();
  EXPECT_EQ(plain->TypeKey(), "library");
  EXPECT_TRUE(plain->imports().empty());
}

TEST(ModuleBlob, ExecutorsCannotBeSaved) {
  auto executor = GraphExecutor::Create(CopyGraph(), LibraryModule(), {}, {std::make_shared<CpuDevice>(1)}).value();
  EXPECT_THAT(test::ModuleBlob(MakeGraphExecutorModule(std::move(executor))).error().Text(),
              HasSubstr("cannot be saved"));
  Module two = MakeUnlinkedLibrary();
  ASSERT_TRUE(two->Import(MakeUnlinkedLibrary()).ok());
  EXPECT_THAT(test::ModuleBlob(two).error().Text(), HasSubstr("two library modules"));
  Module a = MakeUnlinkedLibrary(), info = MakeInfoModule("{}"), other = MakeInfoModule("{}");
  ASSERT_TRUE(a->Import(info).ok() && a->Import(other).ok() && info->Import(other).ok());
  EXPECT_THAT(test::ModuleBlob(a).error().Text(), HasSubstr("two modules import the same one"));
}

TEST(ModuleBlob, DamageIsAnError) {
  const std::string blob = test::ModuleBlob(Tree()).value();
  ASSERT_TRUE(ParseModuleBlob(blob, LibraryModule()).ok());
  for (size_t size = 0; size < blob.size(); size += 97) {
    EXPECT_FALSE(ParseModuleBlob(blob.substr(0, size), LibraryModule()).ok()) << size;
  }
  EXPECT_THAT(ParseModuleBlob(blob + "x", LibraryModule()).error().Text(), HasSubstr("1 bytes too many"));
  size_t key = blob.find("GraphExecutorFactory");
  std::string unknown = blob;
  unknown[key] = 'g';
  EXPECT_THAT(ParseModuleBlob(unknown, LibraryModule()).error().Text(),
              HasSubstr("'graphExecutorFactory' cannot be loaded"));
  std::string circle = blob;
  circle[blob.size() - 8] = 0;  // makes the first device module import the root
  EXPECT_THAT(ParseModuleBlob(circle, LibraryModule()).error().Text(), HasSubstr("which comes before it"));
  std::string twice = blob;
  twice[blob.size() - 8] = 3;  // makes it import the factory, which the root also imports
  EXPECT_THAT(ParseModuleBlob(twice, LibraryModule()).error().Text(), HasSubstr("module 3 is imported twice"));

  // Trees with a long chain of imports, and with more modules than allowed.
  auto chain = [](uint64_t modules) {
    ByteWriter out;
    out.Number(modules + 1);
    out.Text("_lib");
    std::vector<uint64_t> rows = {0}, children;
    for (uint64_t i = 1; i < modules; ++i) {
      out.Text("autotune.info");
      out.Text("{}");
      children.push_back(i);
      rows.push_back(i);
    }
    rows.push_back(modules - 1);
    out.Text("_import_tree");
    out.Numbers(rows);
    out.Numbers(children);
    return ParseModuleBlob(out.Take(), LibraryModule());
  };
  EXPECT_TRUE(chain(kMaxModuleDepth).ok());
  EXPECT_THAT(chain(kMaxModuleDepth + 1).error().Text(), HasSubstr("more than 64 levels"));
  EXPECT_THAT(chain(kMaxModules + 1).error().Text(), HasSubstr("4096 modules are the most"));
}

TEST(ModuleBlob, MutatedBlobsNeverCrash) {
  constexpr int kBlobs = 100'000;
  test::RegisterTestDevices();
  // The image is short, so that most mutations change bytes that are parsed.
  Module root = MakeUnlinkedLibrary();
  DeviceCode code = CodeFor("copy.raw");
  code.image = "image";
  ASSERT_TRUE(root->Import(MakeDeviceModule("ext_dev", code)).ok());
  ASSERT_TRUE(root->Import(MakeGraphExecutorFactory({"n", CopyGraph(), {}}, 1)).ok());
  const std::string blob = test::ModuleBlob(root).value();
  Rng rng(1);
  int refused = 0;
  for (int i = 0; i < kBlobs; ++i) {
    std::string bad = blob;
    for (uint64_t n = 1 + rng.Below(3); n > 0; --n) bad[rng.Below(bad.size())] = static_cast<char>(rng.Below(256));
    auto parsed = ParseModuleBlob(bad, MakeUnlinkedLibrary());
    if (parsed.ok()) {
      EXPECT_FALSE((*parsed)->GetFunction("no such function").ok());  // a look-up walks the whole tree
      continue;
    }
    ++refused;
    ASSERT_EQ(parsed.error().Text().find('\n'), std::string::npos) << parsed.error().Text();
  }
  EXPECT_GT(refused, kBlobs / 2);
}

}  // namespace
}  // namespace autotune
