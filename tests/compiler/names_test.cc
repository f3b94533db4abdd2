// Names that are not identifiers pass unchanged through import, compilation, package and execution.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "compiler/compile.h"
#include "package/load.h"
#include "tests/frontend/model_maker.h"

namespace autotune {
namespace {

TEST(OddNames, FromTheModelToTheRun) {
  std::string folder = ::testing::TempDir() + "names-XXXXXX";
  ASSERT_TRUE(mkdtemp(folder.data()));
  Target target = Target::Parse("cpu").value();
  auto builder = MakeBuildWorkers({.workers = 1,
                                   .command = {std::string(AUTOTUNE_BINARY_DIR) + "/tools/autotune", "--build-worker"}})
                     .value();
  for (const std::string& name :
       {std::string("a \"quoted\" 'name'"), std::string("line\nbreak\ttab\r"), std::string(10000, 'n'),
        std::string("../../etc/passwd"), std::string("\\x00 \\u0041 %s %n {} ${HOME}"),
        std::string("\xe2\x82\xac \xf0\x9f\x90\x9f"), std::string("func block @{} \x01\x7f")}) {
    SCOPED_TRACE(name.substr(0, 40));
    ModelMaker m;
    m.Input(name, {1, 4}).Floats(name + "w", {4, 2}, {1, 0, 0, 1, 1, 0, 0, 1}).Output(name + "y");
    m.Node("MatMul", {name, name + "w"}, {name + "t"}, name);
    m.Node("Relu", {name + "t"}, {name + "y"}, name);  // nodes may share a name
    std::string path = folder + "/odd \"model\"\n.onnx";
    std::ofstream(path, std::ios::binary) << m.Bytes();
    auto network = LoadNetwork(path, {}, target, *builder);
    ASSERT_TRUE(network.ok()) << network.error().Text();
    auto compiled = Compile(*network, target, nullptr, *builder);
    ASSERT_TRUE(compiled.ok()) << compiled.error().Text();
    ASSERT_TRUE(WritePackage(compiled->package, folder + "/p.tar").ok());
    auto model = LoadModel(folder + "/p.tar", 1);
    ASSERT_TRUE(model.ok()) << model.error().Text();
    EXPECT_EQ(model->info.inputs[0].name, name);
    EXPECT_EQ(model->info.outputs[0].name, name + "y");
    auto index = model->executor->InputIndex(name);
    ASSERT_TRUE(index.ok()) << index.error().Text();
    EXPECT_FALSE(model->executor->InputIndex(name + "?").ok());
    const float data[] = {1, -2, 3, 4};
    auto input = Tensor::FromBytes({1, 4}, {kDLFloat, 32, 1}, {reinterpret_cast<const char*>(data), sizeof data});
    ASSERT_TRUE(model->executor->SetInput(*index, input.value()).ok());
    ASSERT_TRUE(model->executor->Run().ok());
    const float* y = model->executor->Output(0).Data<float>();
    EXPECT_EQ(y[0], 4);
    EXPECT_EQ(y[1], 2);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace autotune
