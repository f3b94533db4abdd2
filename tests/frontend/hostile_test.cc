// Models made to break an importer: external data outside the folder, sizes that overflow, invalid graphs. Each is
// refused in one line that names the problem, and a similar valid model is accepted.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "frontend/onnx/import.h"
#include "frontend/onnx/tensor_pb.h"
#include "tests/frontend/model_maker.h"

namespace autotune {
namespace {

class ExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "external-XXXXXX";
    ASSERT_TRUE(mkdtemp(root_.data()));
    std::filesystem::create_directories(root_ + "/model/parts");
    std::string bytes(8, 'x');
    const float data[] = {1, 2, 3, 4};
    bytes.append(reinterpret_cast<const char*>(data), sizeof data);
    for (const char* name : {"secret.bin", "model/w.bin", "model/parts/w.bin"}) {
      std::ofstream(root_ + "/" + name, std::ios::binary) << bytes;
    }
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  Result<ImportedModel> Import(const std::map<std::string, std::string>& entries) {
    ModelMaker m;
    m.Input("x", {4}).Floats("w", {4}, {0, 0, 0, 0}).Output("y").MarkExternal("w", entries);
    m.Node("Add", {"x", "w"}, {"y"});
    std::ofstream(Path(), std::ios::binary) << m.Bytes();
    return ImportOnnx(Path());
  }
  std::string Path() const { return root_ + "/model/m.onnx"; }
  // Returns the message about tensor w.
  std::string Refusal(const std::map<std::string, std::string>& entries) {
    std::string text = ErrorOf(Import(entries));
    std::string tail = " (external data of tensor 'w'; in " + Path() + ")";
    return text.ends_with(tail) ? text.substr(0, text.size() - tail.size()) : "other: " + text;
  }

  std::string root_;
};

TEST_F(ExternalData, IsReadFromTheModelsFolder) {
  for (const char* file : {"w.bin", "parts/w.bin", "./parts/./w.bin", "./parts/../w.bin", "absent/../w.bin"}) {
    auto imported = Import({{"location", file}, {"offset", "8"}, {"length", "16"}, {"checksum", "ignored"}});
    ASSERT_TRUE(imported.ok()) << imported.error().Text();
    ASSERT_EQ(imported->module.main().constants.size(), 1u);
    const float expected[] = {1, 2, 3, 4};
    EXPECT_EQ(imported->module.main().constants[0].data.view(),
              std::string_view(reinterpret_cast<const char*>(expected), sizeof expected));
  }
  EXPECT_TRUE(Import({{"location", "w.bin"}}).ok()) << "offset and length are optional";
  std::filesystem::create_symlink("parts/w.bin", root_ + "/model/link");
  EXPECT_TRUE(Import({{"location", "link"}}).ok()) << "a link within the folder is allowed";
}

// In the cache of Hugging Face, the files of a model are links into a folder of blobs.
TEST_F(ExternalData, MayLieBesideTheFileThatTheModelLinksTo) {
  namespace fs = std::filesystem;
  ASSERT_TRUE(Import({{"location", "data"}, {"offset", "8"}}).error().Text().find("No such file") != std::string::npos);
  fs::create_directories(root_ + "/blobs");
  fs::create_directories(root_ + "/snapshots/1/onnx");
  fs::rename(Path(), root_ + "/blobs/aa");
  fs::copy(root_ + "/model/w.bin", root_ + "/blobs/bb");
  const std::string folder = root_ + "/snapshots/1/onnx";
  fs::create_symlink("../../../blobs/aa", folder + "/m.onnx");
  fs::create_symlink("../../../blobs/bb", folder + "/data");
  auto imported = ImportOnnx(folder + "/m.onnx");
  EXPECT_TRUE(imported.ok()) << imported.error().Text();
  // A link to any other folder is refused, also one that lies beside the folder of blobs.
  fs::remove(folder + "/data");
  fs::create_symlink("../../../secret.bin", folder + "/data");
  EXPECT_THAT(ErrorOf(ImportOnnx(folder + "/m.onnx")), ::testing::HasSubstr("'data' is a link to outside the model's"));
  fs::create_directories(root_ + "/blobs2");
  fs::copy(root_ + "/model/w.bin", root_ + "/blobs2/bb");
  fs::remove(folder + "/data");
  fs::create_symlink("../../../blobs2/bb", folder + "/data");
  EXPECT_THAT(ErrorOf(ImportOnnx(folder + "/m.onnx")), ::testing::HasSubstr("'data' is a link to outside the model's"));
  // The blob is not found by its own name: locations are looked up beside the link.
  fs::remove(folder + "/data");
  fs::copy(root_ + "/model/w.bin", root_ + "/blobs/data");
  EXPECT_THAT(ErrorOf(ImportOnnx(folder + "/m.onnx")), ::testing::HasSubstr("cannot open 'data'"));
}

TEST_F(ExternalData, FilesElsewhereAreRefused) {
  EXPECT_EQ(Refusal({{"location", "../secret.bin"}}), "'../secret.bin' lies outside the model's folder");
  EXPECT_EQ(Refusal({{"location", "parts/../../secret.bin"}}),
            "'parts/../../secret.bin' lies outside the model's folder");
  EXPECT_EQ(Refusal({{"location", root_ + "/model/w.bin"}}),
            "'" + root_ + "/model/w.bin' lies outside the model's folder");
  std::filesystem::create_symlink(root_ + "/secret.bin", root_ + "/model/link");
  EXPECT_EQ(Refusal({{"location", "link"}}), "'link' is a link to outside the model's folder");
  std::filesystem::create_symlink(root_, root_ + "/model/up");
  EXPECT_EQ(Refusal({{"location", "up/secret.bin"}}), "'up/secret.bin' is a link to outside the model's folder");
  ASSERT_EQ(mkfifo((root_ + "/model/pipe").c_str(), 0600), 0);
  EXPECT_EQ(Refusal({{"location", "pipe"}}), "'pipe' is no file") << "reading a pipe would never end";
  EXPECT_EQ(Refusal({{"location", "parts"}}), "'parts' is no file");
  EXPECT_EQ(Refusal({{"location", "absent.bin"}}), "cannot open 'absent.bin': No such file or directory");
  EXPECT_EQ(Refusal({{"location", ""}}), "it does not say in which file its data lies");
  EXPECT_EQ(Refusal({}), "it does not say in which file its data lies");
}

TEST_F(ExternalData, BytesThatAreNotThereAreRefused) {
  auto at = [&](const char* offset) { return Refusal({{"location", "w.bin"}, {"offset", offset}}); };
  EXPECT_EQ(at("9"), "'w.bin' has 24 bytes, too few for 16 at offset 9");
  EXPECT_EQ(at("25"), "'w.bin' has 24 bytes, too few for 16 at offset 25");
  EXPECT_EQ(at("9223372036854775807"), "'w.bin' has 24 bytes, too few for 16 at offset 9223372036854775807");
  EXPECT_EQ(at("9223372036854775808"), "its offset '9223372036854775808' is no number of bytes");
  EXPECT_EQ(at("-8"), "its offset '-8' is no number of bytes");
  EXPECT_EQ(at("8x"), "its offset '8x' is no number of bytes");
  EXPECT_EQ(Refusal({{"location", "w.bin"}, {"length", "12"}}), "its length is 12 bytes where f32[4] wants 16");
  EXPECT_EQ(Refusal({{"location", "w.bin"}, {"length", "sixteen"}}), "its length 'sixteen' is no number of bytes");
}

TEST_F(ExternalData, NeedsAFolder) {
  ModelMaker m;
  m.Input("x", {4}).Floats("w", {4}, {}).Output("y").MarkExternal("w", {{"location", "w.bin"}});
  m.Node("Add", {"x", "w"}, {"y"});
  EXPECT_EQ(ImportError(m),
            "its data lies in another file, and this model comes without a folder (external data of tensor 'w'; in "
            "m.onnx)");
}

// External data in files of more than 4 GiB: no offset is truncated to 32 bits, and only the tensor's bytes are read.
TEST_F(ExternalData, LiesBeyondFourGiBOfALargeFile) {
  const std::string path = root_ + "/model/large.bin";
  const float expected[] = {5, 6, 7, 8};
  std::string_view bytes(reinterpret_cast<const char*>(expected), sizeof expected);
  constexpr uintmax_t kSize = uintmax_t{5} << 30, kOffset = kSize - sizeof expected;
  std::ofstream(path).flush();
  std::filesystem::resize_file(path, kOffset);  // a hole, which takes no space on disk
  std::ofstream(path, std::ios::binary | std::ios::app) << bytes;
  ASSERT_EQ(std::filesystem::file_size(path), kSize);
  auto at = [](uintmax_t offset) {
    return std::map<std::string, std::string>{{"location", "large.bin"}, {"offset", std::to_string(offset)}};
  };
  auto imported = Import(at(kOffset));
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  EXPECT_EQ(imported->module.main().constants[0].data.view(), bytes);
  auto hole = Import(at(uintmax_t{3} << 30));  // an offset that would be negative as an int
  ASSERT_TRUE(hole.ok()) << hole.error().Text();
  EXPECT_EQ(hole->module.main().constants[0].data.view(), std::string(sizeof expected, '\0'));
  EXPECT_EQ(Refusal(at(kOffset + 1)), "'large.bin' has 5368709120 bytes, too few for 16 at offset 5368709105");
  EXPECT_EQ(Refusal(at(kSize * 2)), "'large.bin' has 5368709120 bytes, too few for 16 at offset 10737418240");
}

TEST_F(ExternalData, FilesAboveTwoGiBAreRefusedBeforeTheyAreRead) {
  std::string path = root_ + "/large.onnx";
  std::ofstream(path).flush();
  std::filesystem::resize_file(path, uintmax_t{1} << 31);  // a hole, which takes no space on disk or in memory
  EXPECT_EQ(ErrorOf(ImportOnnx(path)),
            path + " is larger than 2 GiB, which a file of this format cannot be; save large tensors as external data");
  EXPECT_FALSE(ReadTensorPb(path).ok());
}

TEST(HostileModel, OneNameOneTensor) {
  ModelMaker inputs;
  inputs.Input("x", {4}).Input("x", {4}).Output("y").Node("Relu", {"x"}, {"y"});
  EXPECT_EQ(ImportError(inputs), "m.onnx is not a valid ONNX model: there are two inputs 'x'");
  ModelMaker constants;
  constants.Input("x", {1}).Floats("w", {1}, {1}).Floats("w", {1}, {2}).Output("y").Node("Add", {"x", "w"}, {"y"});
  EXPECT_EQ(ImportError(constants), "m.onnx is not a valid ONNX model: there are two initializers 'w'");
  ModelMaker outputs;
  outputs.Input("x", {1}).Output("y").Output("y").Node("Relu", {"x"}, {"y"});
  EXPECT_EQ(ImportError(outputs), "m.onnx is not a valid ONNX model: there are two outputs 'y'");
  ModelMaker nodes;
  nodes.Input("x", {1}).Output("y").Node("Relu", {"x"}, {"y"});
  nodes.Node("Abs", {"x"}, {"y"});
  EXPECT_EQ(ImportError(nodes),
            "m.onnx is not a valid ONNX model: tensor 'y' has two origins: Relu (node #0) and Abs (node #1)");
  ModelMaker overwritten;
  overwritten.Input("x", {1}).Output("x").Node("Relu", {"x"}, {"x"});
  EXPECT_EQ(ImportError(overwritten),
            "m.onnx is not a valid ONNX model: tensor 'x' has two origins: an input and Relu (node #0)");
  ModelMaker listed;  // older exporters list initializers as inputs
  listed.Input("x", {1}).Input("w", {1}).Floats("w", {1}, {1}).Output("y").Node("Add", {"x", "w"}, {"y"});
  EXPECT_EQ(ImportError(listed), "no error");
}

TEST(HostileModel, CyclesAndMissingTensors) {
  const std::string invalid = "m.onnx is not a valid ONNX model: ";
  ModelMaker cycle;
  cycle.Input("x", {4}).Output("c");
  cycle.Node("Add", {"x", "b"}, {"a"}, "first");
  cycle.Node("Abs", {"a"}, {"c"}, "between");
  cycle.Node("Relu", {"c"}, {"b"}, "second");
  EXPECT_EQ(ImportError(cycle),
            invalid + "Add (node 'first') reads 'b', which Relu (node 'second') computes from its result: a cycle");
  ModelMaker self;
  self.Input("x", {4}).Output("y").Node("Add", {"x", "y"}, {"y"}, "n");
  EXPECT_EQ(ImportError(self),
            invalid + "Add (node 'n') reads 'y', which Add (node 'n') computes from its result: a cycle");
  ModelMaker late;
  late.Input("x", {4}).Output("b");
  late.Node("Add", {"x", "a"}, {"b"}, "first");
  late.Node("Relu", {"x"}, {"a"}, "second");
  EXPECT_EQ(ImportError(late), invalid +
                                   "Add (node 'first') reads 'a', which a later node computes, Relu (node "
                                   "'second'): nodes must stand in the order of their use");
  ModelMaker dangling;
  dangling.Input("x", {4}).Output("y").Node("Add", {"x", "gone"}, {"y"}, "n");
  EXPECT_EQ(ImportError(dangling), invalid +
                                       "Add (node 'n') reads 'gone', which is computed by no node, and neither an "
                                       "input nor an initializer");
  ModelMaker nowhere;
  nowhere.Input("x", {4}).Output("z").Node("Relu", {"x"}, {"y"});
  EXPECT_EQ(ImportError(nowhere),
            invalid + "output 'z' is computed by no node, and neither an input nor an initializer");
  ModelMaker missing;
  missing.Input("x", {4}).Output("y").Node("Add", {"x"}, {"y"}, "n");
  EXPECT_EQ(ImportError(missing),
            "m.onnx cannot be imported: Add (node 'n'): lacks input 1, 'B' (--lenient ignores this)");
  ModelMaker sound;
  sound.Input("x", {4}).Output("c");
  sound.Node("Relu", {"x"}, {"b"}, "second");
  sound.Node("Add", {"x", "b"}, {"c"}, "first");
  EXPECT_EQ(ImportError(sound), "no error");
}

TEST(HostileModel, SizesThatOverflow) {
  auto input = [](const std::vector<int64_t>& shape) {
    ModelMaker m;
    m.Input("x", shape).Output("y").Node("Relu", {"x"}, {"y"});
    return ImportError(m);
  };
  EXPECT_EQ(input({1, int64_t{1} << 36}), "no error");
  EXPECT_EQ(input({2, int64_t{1} << 36}), "m.onnx: input 'x': a tensor of shape [2,68719476736] is too large");
  EXPECT_EQ(input({int64_t{1} << 32, int64_t{1} << 32}),
            "m.onnx: input 'x': a tensor of shape [4294967296,4294967296] is too large");
  EXPECT_EQ(input({INT64_MAX, INT64_MAX, 2}),
            "m.onnx: input 'x': a tensor of shape [9223372036854775807,9223372036854775807,2] is too large");
  EXPECT_EQ(input({0, INT64_MAX}), "m.onnx: input 'x': a tensor of shape [0,9223372036854775807] is too large");
  EXPECT_EQ(input({0, int64_t{1} << 36}), "no error");
  ModelMaker padded;
  padded.Input("x", {2, 2}).Ints("pads", {int64_t{1} << 62, 0, int64_t{1} << 62, 0}).Output("y");
  padded.Node("Pad", {"x", "pads"}, {"y"});
  EXPECT_EQ(
      ImportError(padded),
      "m.onnx cannot be imported: Pad (node #0): pads 4611686018427387904 and 4611686018427387904 are impossible");
  ModelMaker constant;
  constant.Input("x", {1}).Floats("w", {-1, 4}, {}).Output("y").Node("Add", {"x", "w"}, {"y"});
  EXPECT_EQ(ImportError(constant), "tensor 'w' has an impossible shape [-1,4] (in m.onnx)");
  ModelMaker wide;
  wide.Input("x", {1}).Floats("w", {int64_t{1} << 32, int64_t{1} << 32, 0}, {}).Output("y");
  EXPECT_EQ(ImportError(wide), "tensor 'w' has an impossible shape [4294967296,4294967296,0] (in m.onnx)");
}

// A model of a few bytes may ask the importer to make constants of any size.
TEST(HostileModel, ConstantsMadeAtImportAreBounded) {
  auto made = [](const std::string& op, const std::vector<int64_t>& shape, int copies) {
    ModelMaker m(11);
    m.Ints("shape", shape).Input("x", {2, 2}).Floats("w", {1, 1}, {1});
    for (int i = 0; i < copies; ++i) {
      std::string name = "y" + std::to_string(i);
      m.Output(name).Node(op, {"shape"}, {name}, op + std::to_string(i));
    }
    return ImportError(m);
  };
  EXPECT_EQ(made("ConstantOfShape", {1 << 10, 1 << 10}, 2), "no error");
  EXPECT_EQ(made("ConstantOfShape", {int64_t{1} << 30, int64_t{1} << 30}, 1),
            "m.onnx cannot be imported: ConstantOfShape (node 'ConstantOfShape0'): a tensor of shape "
            "[1073741824,1073741824] is too large");
  EXPECT_EQ(
      made("ConstantOfShape", {-1}, 1),
      "m.onnx cannot be imported: ConstantOfShape (node 'ConstantOfShape0'): a tensor of shape [-1] is impossible");
  EXPECT_EQ(
      made("ConstantOfShape", {(1 << 26) + 1}, 2),
      "m.onnx cannot be imported: ConstantOfShape (node 'ConstantOfShape1'): makes a constant of shape [67108865]: "
      "more than 134217728 elements of constants that the file does not hold");
  ModelMaker mask;
  mask.Input("x", {1 << 18, 1 << 18}).Output("y").Output("kept").Node("Dropout", {"x"}, {"y", "kept"}, "drop");
  EXPECT_NE(ImportError(mask).find("Dropout (node 'drop'): makes a constant"), std::string::npos);
}

TEST(HostileModel, NumbersThatOverflow) {
  auto error = [](const char* op, const std::string& attribute, const std::vector<int64_t>& values) {
    ModelMaker m(13);
    m.Input("x", {1, 2, 4, 4}).Floats("w", {2, 1, 3, 3}, std::vector<float>(18, 1)).Output("y");
    NodeMaker node = m.Node(op, {"x", "w"}, {"y"}, "n");
    if (op == std::string("MaxPool")) node = m.Node(op, {"x"}, {"z"}, "n");
    values.size() == 1 ? node.Int(attribute, values[0]) : node.Ints(attribute, values);
    return ImportError(m);
  };
  for (int64_t huge : {INT64_MAX, INT64_MIN, int64_t{1} << 40}) {
    EXPECT_NE(error("Conv", "group", {huge}), "no error");
    EXPECT_NE(error("ConvTranspose", "group", {huge}), "no error");
    EXPECT_NE(error("ConvTranspose", "output_padding", {huge, huge}), "no error");
    EXPECT_NE(error("ConvTranspose", "output_shape", {huge, huge}), "no error");
  }
  EXPECT_EQ(error("ConvTranspose", "group", {2}), "no error");
  ModelMaker pads;
  pads.Input("x", {2}).Ints("p", {INT64_MIN, 0}).Output("y").Node("Pad", {"x", "p"}, {"y"});
  EXPECT_NE(ImportError(pads).find("are impossible"), std::string::npos) << ImportError(pads);
  ModelMaker nothing;
  nothing.Input("x", {2}).Output("x").Node("Split", {"x"}, {}, "n");
  EXPECT_EQ(ImportError(nothing), "m.onnx is not a valid ONNX model: Split (node 'n') has no outputs");
}

TEST(HostileModel, NamesAreText) {
  ModelMaker m;
  m.Input("x", {4}).Output("y").Node("Relu", {"x"}, {"y"}, "bad\xff\nname");
  EXPECT_EQ(ImportError(m), "m.onnx is not a valid ONNX model: the name of node 'bad\\xff\\x0aname' is not UTF-8 text");
  ModelMaker input;
  input.Input("\xc3", {4}).Output("y").Node("Relu", {"\xc3"}, {"y"});
  EXPECT_EQ(ImportError(input), "m.onnx is not a valid ONNX model: the name of input '\\xc3' is not UTF-8 text");
  ModelMaker odd;
  std::string name = "\n\"'\\ \xe2\x82\xac" + std::string(10000, 'n');
  odd.Input(name, {4}).Output(name + "!").Node("Relu", {name}, {name + "!"}, name);
  auto imported = ImportOnnxBytes(odd.Bytes(), "m.onnx");
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  EXPECT_EQ(imported->module.main().output_names[0], name + "!");
}

}  // namespace
}  // namespace autotune
