#include "runtime/module_blob.h"

#include <gmock/gmock.h>

#include "runtime/graph_executor.h"
#include "runtime/kernel_context.h"
#include "tests/runtime/c_artifact.h"

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

// The sample artifact with `blob` inside.
std::string WithBlob(const std::string& blob, uint64_t length) {
  std::string data(reinterpret_cast<const char*>(&length), 8);
  data += blob;
  std::string body = SampleBody() + "extern const unsigned char blob[" + std::to_string(data.size()) +
                     "] __asm__(\"autotune.modules\");\nconst unsigned char blob[] = {";
  for (unsigned char c : data) body += std::to_string(static_cast<int>(c)) + ",";
  return CompileArtifact(SampleMetadata(), body + "};\n");
}

TEST(ModuleBlob, APackageInOneSharedObject) {
  std::string blob = ModuleBlob(MakeGraphExecutorFactory(CopyGraph(), SampleLibrary(), {})).value();
  auto context = std::make_shared<KernelContext>(1);
  auto root = LoadModule(Artifact::FromBytes(WithBlob(blob, blob.size())).value(), context);
  ASSERT_TRUE(root.ok()) << root.error().Text();
  EXPECT_EQ((*root)->TypeKey(), "graph_executor_factory");
  ASSERT_EQ((*root)->imports().size(), 1u);
  EXPECT_EQ((*root)->imports()[0]->TypeKey(), "lib");
  Module executor = (*root)->GetFunction("default").value()(DLDevice{kDLCPU, 0})->As<Module>().value();
  Tensor x = Tensor::Zeros({2, 4}, "f32").value();
  x.Data<float>()[5] = 3;
  ASSERT_TRUE(executor->GetFunction("set_input").value()("x", x).ok());
  ASSERT_TRUE(executor->GetFunction("run").value()().ok());
  EXPECT_EQ(executor->GetFunction("get_output").value()(0)->As<Tensor>()->bytes(), x.bytes());

  // A length beyond the symbol's own size.
  auto lie = LoadModule(Artifact::FromBytes(WithBlob(blob, blob.size() + 1)).value(), context);
  ASSERT_FALSE(lie.ok());
  EXPECT_THAT(lie.error().Text(), HasSubstr("truncated"));
}

TEST(ModuleBlob, WithoutItThereIsAPlainLibrary) {
  EXPECT_EQ(LoadModule(SampleLibrary(), std::make_shared<KernelContext>(1)).value()->TypeKey(), "lib");
}

TEST(ModuleBlob, ExecutorsCannotBeSaved) {
  auto executor = GraphExecutor::Create(CopyGraph(), {SampleLibrary()}, {}, std::make_shared<KernelContext>(1)).value();
  EXPECT_THAT(ModuleBlob(MakeGraphExecutorModule(std::move(executor))).error().Text(), HasSubstr("cannot be saved"));
}

TEST(ModuleBlob, DamageIsAnError) {
  std::string blob = ModuleBlob(MakeGraphExecutorFactory(CopyGraph(), SampleLibrary(), {})).value();
  ASSERT_TRUE(ParseModuleBlob(blob, LibraryModule()).ok());
  for (size_t size = 0; size < blob.size(); size += 7) {
    EXPECT_FALSE(ParseModuleBlob(blob.substr(0, size), LibraryModule()).ok()) << size;
  }
  EXPECT_FALSE(ParseModuleBlob(blob + "x", LibraryModule()).ok());
  for (size_t i = 0; i < blob.size(); i += 3) {
    std::string bad = blob;
    bad[i] = static_cast<char>(bad[i] ^ 0x81);
    (void)ParseModuleBlob(bad, LibraryModule()).ok();  // must not crash
  }
  size_t key = blob.find("graph_executor_factory");
  std::string unknown = blob;
  unknown[key] = 'G';
  EXPECT_THAT(ParseModuleBlob(unknown, LibraryModule()).error().Text(),
              HasSubstr("'Graph_executor_factory' cannot be"));
  std::string circle = blob;
  circle[blob.size() - 8] = 0;  // the one import: the root itself
  EXPECT_THAT(ParseModuleBlob(circle, LibraryModule()).error().Text(), HasSubstr("circle"));
}

}  // namespace
}  // namespace autotune
