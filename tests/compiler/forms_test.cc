// The output formats of a compiled network: Model Library Format, checked by a validator that shares no code with the
// product; objects that the system's compiler links; one shared object; and a network split over two devices.
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "compiler/kernels.h"
#include "compiler/plan.h"
#include "ir/text.h"
#include "package/load.h"
#include "runtime/cpu_device.h"
#include "runtime/device_module.h"
#include "runtime/fill.h"
#include "runtime/module_blob.h"
#include "support/file.h"
#include "support/rng.h"
#include "tests/read.h"
#include "tests/runtime/test_device.h"

namespace autotune {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

const std::string kSource = AUTOTUNE_SOURCE_DIR;

struct Shared {
  Target target = Target::Parse("cpu").value();
  std::unique_ptr<Builder> builder;
  Network network;
  CompileResult compiled;
  std::string folder;
};

class FormsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new Shared;
    shared_->builder =
        MakeBuildWorkers(
            {.workers = 2, .command = {std::string(AUTOTUNE_BINARY_DIR) + "/tools/autotune", "--build-worker"}})
            .value();
    shared_->network = LoadNetwork(kSource + "/examples/resnet20.onnx", {}, shared_->target, *shared_->builder).value();
    shared_->compiled = Compile(shared_->network, shared_->target, nullptr, *shared_->builder).value();
    shared_->folder = ::testing::TempDir() + "forms-XXXXXX";
    ASSERT_TRUE(mkdtemp(shared_->folder.data()));
  }
  static void TearDownTestSuite() {
    fs::remove_all(shared_->folder);
    delete shared_;
  }

  static const Package& package() { return shared_->compiled.package; }
  static std::string File(const std::string& name) { return shared_->folder + "/" + name; }
  static Builder& builder() { return *shared_->builder; }

  static std::string Write(const std::string& name) {
    Status written = WriteCompiled(package(), File(name), builder());
    EXPECT_TRUE(written.ok()) << written.error().Text();
    return File(name);
  }

  static Tensor Image() {
    Tensor image = Tensor::Empty({1, 3, 32, 32}, "f32").value();
    FillRandom(image, 3);
    return image;
  }

  static std::string Run(Result<LoadedModel> model) {
    EXPECT_TRUE(model.ok()) << (model.ok() ? "" : model.error().Text());
    if (!model.ok()) return "";
    EXPECT_TRUE(model->executor->SetInput(0, Image()).ok());
    EXPECT_TRUE(model->executor->Run().ok());
    return std::string(model->executor->Output(0).bytes());
  }
  static std::string Expected() { return Run(LoadModel(package(), 1)); }

  // Returns the exit code of a command and its output.
  static std::pair<int, std::string> Shell(const std::string& command) {
    std::string text;
    FILE* pipe = popen(("cd " + shared_->folder + " && (" + command + ") 2>&1").c_str(), "r");
    for (char line[512]; fgets(line, sizeof line, pipe);) text += line;
    return {WEXITSTATUS(pclose(pipe)), text};
  }

  static Shared* shared_;
};
Shared* FormsTest::shared_ = nullptr;

TEST_F(FormsTest, TheValidatorFindsNothing) {
  const std::string validator = "python3 " + kSource + "/tests/package/validate_mlf.py ";
  auto [code, text] = Shell(validator + Write("net.tar"));
  EXPECT_EQ(code, 0) << text;
  // The validator must find the errors that this package now gets.
  Package wrong = package();
  wrong.memory[0].io_size_bytes += 4;
  wrong.functions.erase(wrong.functions.begin());
  wrong.objects.pop_back();
  ASSERT_TRUE(WritePackage(wrong, File("wrong.tar")).ok());
  std::tie(code, text) = Shell(validator + "wrong.tar");
  EXPECT_EQ(code, 1);
  EXPECT_THAT(text, HasSubstr("memory.main[0].io_size_bytes"));
  EXPECT_THAT(text, HasSubstr("operator_functions"));
}

// Executors of one tree share what they prepare, and run independently.
TEST_F(FormsTest, ExecutorsOfOneTreeSharePreparedConstants) {
  for (const std::string& path : {Write("shared.tar"), Write("shared.so")}) {
    const Module tree = LoadModuleTree(path, 1).value();
    const std::shared_ptr<PreparedConstants> prepared = CopyExecutorParts(tree)->prepared;
    EXPECT_TRUE(prepared->buffers.empty());
    std::vector<LoadedModel> models;
    models.push_back(MakeExecutor(tree, 1).value());
    ASSERT_FALSE(prepared->buffers.empty());
    const Tensor& buffer = prepared->buffers.begin()->second.at(0);
    const long uses = buffer.use_count();
    models.push_back(MakeExecutor(tree, 2).value());
    EXPECT_EQ(buffer.use_count(), uses + 1) << path;
    EXPECT_EQ(models[0].executor->constant_bytes(), models[1].executor->constant_bytes());
    for (LoadedModel& model : models) EXPECT_EQ(Run(std::move(model)), Expected());
    // An executor whose kernels are in another tree prepares its own.
    const Module other = LoadModuleTree(path, 1).value();
    ExecutorParts parts = *CopyExecutorParts(tree);
    GraphExecutorOptions options;
    options.prepared = parts.prepared;
    const long before = buffer.use_count();
    const auto executor =
        GraphExecutor::Create(parts.graph, other, parts.params, {std::make_shared<CpuDevice>(1)}, options);
    ASSERT_TRUE(executor.ok());
    EXPECT_EQ(buffer.use_count(), before);
  }
}

// A damaged file of either form is refused in one line, or the byte is of no importance (padding).
TEST_F(FormsTest, AFlippedByteIsRefusedOrChangesNothing) {
  const std::string expected = Expected();
  for (const std::string& path : {Write("flipped.tar"), Write("flipped.so")}) {
    const std::string bytes = test::ReadAll(path);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    auto put = [&](size_t at, char byte) {
      file.seekp(static_cast<std::streamoff>(at)).put(byte).flush();
      ASSERT_TRUE(file.good());
    };
    Rng rng(39);
    int refused = 0;
    for (int i = 0; i < 1000; ++i) {
      const size_t at = rng.Below(bytes.size());
      put(at, static_cast<char>(bytes[at] ^ (1 + rng.Below(255))));
      Result<LoadedModel> model = LoadModel(path, 1);
      if (model.ok()) {
        EXPECT_EQ(Run(std::move(model)), expected) << path << " byte " << at;
      } else {
        ++refused;
        EXPECT_THAT(model.error().Text(), AllOf(HasSubstr(path), Not(HasSubstr("\n"))));
      }
      put(at, bytes[at]);
    }
    EXPECT_GT(refused, 900) << path;
    EXPECT_EQ(Run(LoadModel(path, 1)), expected) << path << " is whole again";
  }
}

TEST_F(FormsTest, TwoBuildsAreEqualByteForByte) {
  setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
  for (const char* suffix : {".tar", ".so"}) {
    const std::string first = test::ReadAll(Write(std::string("first") + suffix));
    const Package again = Compile(shared_->network, shared_->target, nullptr, builder()).value().package;
    ASSERT_TRUE(WriteCompiled(again, File(std::string("second") + suffix), builder()).ok());
    EXPECT_TRUE(test::ReadAll(File(std::string("second") + suffix)) == first) << suffix;
  }
  const std::string dated = test::ReadAll(File("first.tar"));
  setenv("SOURCE_DATE_EPOCH", "1700000001", 1);
  EXPECT_FALSE(test::ReadAll(Write("later.tar")) == dated);
  unsetenv("SOURCE_DATE_EPOCH");
}

TEST_F(FormsTest, SizesAreThoseOfWhatRuns) {
  ASSERT_EQ(package().memory.size(), 1u);
  const MemoryEntry& memory = package().memory[0];
  int64_t scratch = 0;
  for (const auto& [name, entries] : package().functions)
    scratch = std::max(scratch, entries.at(0).workspace_size_bytes);
  LoadedModel model = LoadModel(package(), 1).value();
  EXPECT_EQ(model.executor->memory_bytes(), memory.workspace_size_bytes - scratch + 3 * 32 * 32 * 4 + 64)
      << "ten outputs take 64 bytes";
  EXPECT_EQ(memory.io_size_bytes, 3 * 32 * 32 * 4 + 10 * 4);
  int64_t constants = 0;
  for (const auto& [name, tensor] : ParseParams(package().params).value()) constants += tensor.num_bytes();
  EXPECT_EQ(memory.constants_size_bytes, constants);
}

// A kernel's workspace includes the scratch memory of the calling thread. Each further thread of a parallel loop adds
// thread_workspace_bytes.
TEST(KernelMetadata, WorkspaceByThreads) {
  KernelMetadata metadata{.workspace_bytes = 1000, .thread_workspace_bytes = 300};
  EXPECT_EQ(metadata.WorkspaceOf(1), 1000);
  EXPECT_EQ(metadata.WorkspaceOf(4), 1900);
}

TEST_F(FormsTest, ParametersAreReadAndWrittenByAnIndependentProgram) {
  ASSERT_TRUE(WriteFile(File("net.params"), package().params).ok());
  auto [code, text] = Shell("PYTHONPATH=" + kSource +
                            "/tests/package python3 -c 'import params; "
                            "open(\"again.params\", \"wb\").write(params.write(params.read(open(\"net.params\", "
                            "\"rb\").read())))'");
  EXPECT_EQ(code, 0) << text;
  EXPECT_EQ(test::ReadAll(File("again.params")), package().params);
}

TEST_F(FormsTest, TheSystemsCompilerLinksTheObjects) {
  Package unlinked = package();
  unlinked.library.clear();
  EXPECT_EQ(Run(LoadModel(unlinked, 1)), Expected());
  unlinked.objects[0] = "no object";
  EXPECT_THAT(LoadModel(unlinked, 1).error().Text(), HasSubstr("`cc` exited with code"));
  unlinked.objects.clear();
  EXPECT_THAT(LoadModel(unlinked, 1).error().Text(), HasSubstr("it has no kernels: neither a linked library"));

  // Links the objects from the tar, without our tools, as a user would.
  Write("net.tar");
  auto [code, text] = Shell("mkdir t && tar xf net.tar -C t && gcc -shared -o linked.so t/codegen/host/lib/*.o");
  ASSERT_EQ(code, 0) << text;
  unlinked.library = test::ReadAll(File("linked.so"));
  EXPECT_EQ(Run(LoadModel(unlinked, 1)), Expected());
}

TEST_F(FormsTest, APackageWithoutOurPrivateKeys) {
  Write("net.tar");
  const std::string strip =
      "mkdir s && tar xf net.tar -C s && cd s && rm codegen/host/lib/*.so src/relay.txt autotune.seal && echo x > "
      "extra && "
      "python3 -c 'import json; m = json.load(open(\"metadata.json\")); del m[\"autotune\"]; json.dump(m, "
      "open(\"metadata.json\", \"w\"))' && tar cf ../foreign.tar *";
  auto [code, text] = Shell(strip);
  ASSERT_EQ(code, 0) << text;
  EXPECT_EQ(Run(LoadModel(File("foreign.tar"), 1)), Expected());
  LoadedModel model = LoadModel(File("foreign.tar"), 1).value();
  EXPECT_EQ(model.info.model_name, "resnet20");
  EXPECT_EQ(model.info.inputs.at(0).name, "image");
  EXPECT_EQ(model.info.outputs.at(0).shape, (std::vector<int64_t>{1, 10}));
}

TEST_F(FormsTest, OneSharedObjectHoldsEverything) {
  const std::string path = Write("net.so");
  EXPECT_EQ(Run(LoadModel(path, 1)), Expected());
  EXPECT_EQ(LoadModel(path, 1)->info.kernels.size(), package().info.kernels.size());

  Module root = LoadModule(path).value();
  EXPECT_EQ(root->TypeKey(), "library");
  for (const char* name : {"resnet20", "default"}) {
    Module executor = root->GetFunction(name).value()(DLDevice{kDLCPU, 0})->As<Module>().value();
    ASSERT_TRUE(executor->GetFunction("set_input").value()("image", Image()).ok());
    ASSERT_TRUE(executor->GetFunction("run").value()().ok());
    EXPECT_EQ(executor->GetFunction("get_output").value()(0)->As<Tensor>()->bytes(), Expected());
  }
  // A network must not have the name of one of its kernels.
  Package named = package();
  named.info.model_name = named.info.kernels[0].name;
  EXPECT_THAT(WriteCompiled(named, File("named.so"), builder()).error().Text(), HasSubstr("is that of a kernel"));
  // A library that holds no network is refused by name.
  ASSERT_TRUE(WriteFile(File("kernels.so"), package().library).ok());
  EXPECT_THAT(LoadModel(File("kernels.so"), 1).error().Text(), HasSubstr("it holds kernels, but no network"));
  const Module kernels = LoadModuleTree(File("kernels.so"), 1).value();
  EXPECT_THAT(MakeExecutor(kernels, 1).error().Text(), HasSubstr("it holds kernels, but no network"));
  Status unwritable = WriteCompiled(package(), "/no/such/folder/net.so", builder());
  EXPECT_THAT(unwritable.error().Text(), HasSubstr("/no/such/folder/net.so"));
}

// The object with the module tree is made for the machine of the kernels, whatever it is.
TEST_F(FormsTest, SharedObjectsForOtherMachines) {
  for (auto [options, machine] : {std::pair("-mtriple=aarch64-linux-gnu -mcpu=cortex-a72", EM_AARCH64),
                                  std::pair("-mtriple=riscv64-linux-gnu -mcpu=sifive-u74", EM_RISCV)}) {
    const Target target = Target::Parse(std::string("llvm -num-cores=1 ") + options).value();
    Network network = LoadNetwork(kSource + "/examples/resnet20.onnx", {}, target, builder()).value();
    Package other = Compile(network, target, nullptr, builder()).value().package;
    Status written = WriteCompiled(other, File("other.so"), builder());
    ASSERT_TRUE(written.ok()) << options << ": " << written.error().Text();
    Elf64_Ehdr header, linked;
    std::memcpy(&header, test::ReadAll(File("other.so")).data(), sizeof header);
    std::memcpy(&linked, other.library.data(), sizeof linked);
    EXPECT_EQ(header.e_machine, machine);
    EXPECT_EQ(header.e_flags, linked.e_flags);
    EXPECT_THAT(Shell("readelf -W --dyn-syms other.so").second, HasSubstr("__tvm_dev_mblob"));
    EXPECT_THAT(LoadModel(File("other.so"), 1).error().Text(), HasSubstr("compiled for"));
  }
}

TEST_F(FormsTest, DamagedCodeIsRefused) {
  Package damaged = package();
  damaged.library[damaged.library.size() / 2] ^= 1;
  Result<LoadedModel> model = LoadModel(damaged, 1);
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.error().Text(), HasSubstr("the file is damaged"));
  std::string bytes = test::ReadAll(Write("net.so"));
  bytes[bytes.size() / 2] ^= 1;
  ASSERT_TRUE(WriteFile(File("damaged.so"), bytes).ok());
  model = LoadModel(File("damaged.so"), 1);
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(model.error().Text(), HasSubstr("the file is damaged"));
  // A stripped library has lost its checksum; it loads like a library that other tools made.
  ASSERT_EQ(Shell("strip -o stripped.so net.so").first, 0);
  EXPECT_EQ(Run(LoadModel(File("stripped.so"), 1)), Expected());
}

TEST_F(FormsTest, MetadataThatLieAreRefused) {
  Package lie = package();
  lie.info.outputs[0].dtype = "i8";
  EXPECT_THAT(LoadModel(lie, 1).error().Text(), HasSubstr("output probabilities is i8[1, 10], in its graph it is f32"));
  lie = package();
  lie.info.inputs[0].name = "other";
  EXPECT_THAT(LoadModel(lie, 1).error().Text(), HasSubstr("input 0 is other, in its graph it is image"));
}

// With target `c`, the package holds C sources in place of objects.
TEST_F(FormsTest, TheSystemsCompilerCompilesTheSources) {
  const Target target = Target::Parse("c").value();
  Network network = LoadNetwork(kSource + "/examples/resnet20.onnx", {}, target, builder()).value();
  Package sources = Compile(network, target, nullptr, builder()).value().package;
  ASSERT_GT(sources.sources.size(), sources.info.kernels.size() - 1);
  ASSERT_TRUE(WritePackage(sources, File("c.tar")).ok());
  auto [valid, problems] = Shell("python3 " + kSource + "/tests/package/validate_mlf.py c.tar");
  EXPECT_EQ(valid, 0) << problems;
  auto [code, text] =
      Shell("mkdir c && tar xf c.tar -C c && gcc -O2 -shared -fPIC -o sources.so c/codegen/host/src/*.c");
  ASSERT_EQ(code, 0) << text;
  const std::string expected = Run(LoadModel(sources, 1));
  sources.library = test::ReadAll(File("sources.so"));
  EXPECT_EQ(Run(LoadModel(sources, 1)), expected);
}

// Compiles all kernels for the CPU, and each again under the name far_NAME as one launch of the same code on the test
// device.
Module SplitLibrary(const Network& network, const CompileResult& compiled, const Target& target, Builder& builder) {
  std::vector<BuildRequest> requests;
  const std::vector<TuneTask> tasks = MakeTuneTasks(network);
  for (size_t i = 0; i < tasks.size(); ++i) {
    const KernelChoice& choice = compiled.choices[i];
    BuildRequest request{.kernel = compiled.package.info.kernels[i].name, .target = target.Text()};
    request.trace = choice.trace;
    for (const TaskAlternative& alternative : tasks[i].alternatives) {
      if (alternative.name == choice.alternative) request.func = ToText(alternative.func);
    }
    requests.push_back(request);
  }
  std::vector<CompiledKernel> kernels = builder.Compile(requests, Patience::kNeeded);
  auto args = [](LaunchArgKind kind, size_t count) {
    std::vector<LaunchArg> list;
    for (size_t i = 0; i < count; ++i) list.push_back({kind, static_cast<int64_t>(i)});
    return list;
  };
  std::vector<KernelObject> far;
  DeviceCode code{.format = "elf", .image = compiled.package.library};
  for (const CompiledKernel& kernel : kernels) {
    KernelMetadata metadata = kernel.object.metadata;
    auto launch = [&](const std::string& entry, size_t params) {
      Launch made{.entry = entry, .grid = {1}, .block = {1}, .args = args(LaunchArgKind::kParam, params)};
      for (const LaunchArg& arg : args(LaunchArgKind::kPrepared, metadata.prepared.size())) made.args.push_back(arg);
      code.functions[entry] = {std::vector<DLDataType>(made.args.size(), {kDLOpaqueHandle, 64, 1}), {}};
      return made;
    };
    metadata.device = "ext_dev";
    metadata.launches = {launch(metadata.name + ".raw", metadata.params.size())};
    if (!metadata.prepared.empty()) {
      metadata.prepare = {launch(metadata.name + ".prepare", metadata.ParamsOfKind(ParamKind::kConstant).size())};
    }
    metadata.name = "far_" + metadata.name;
    far.push_back({.metadata = metadata});
  }
  std::vector<const KernelObject*> objects;
  for (const CompiledKernel& kernel : kernels) objects.push_back(&kernel.object);
  for (const KernelObject& kernel : far) objects.push_back(&kernel);
  BuiltLibrary library = builder.Link(objects, target.Text()).value();
  Module root =
      MakeLibraryModule(Artifact::FromBytes(library.artifact.data).value(), std::make_shared<KernelContext>(1));
  CHECK(root->Import(MakeDeviceModule("ext_dev", std::move(code))).ok());
  return root;
}

TEST_F(FormsTest, ANetworkIsSplitOverTwoDevices) {
  const Network& network = shared_->network;
  Module root = SplitLibrary(network, shared_->compiled, shared_->target, builder());
  const std::string expected = Expected();
  for (int split : {0, 1, 2, 3}) {  // all on the CPU, all on the device, alternating, in halves
    SCOPED_TRACE(split);
    const std::vector<int> task_of_node = TaskOfNodes(network);
    std::vector<NodeCode> code(task_of_node.size());
    for (size_t i = 0; i < code.size(); ++i) {
      const bool far = split == 1 || (split == 2 && i % 2) || (split == 3 && i < code.size() / 2);
      if (far) code[i].device = kDLExtDev;
      if (task_of_node[i] >= 0) code[i].kernel = (far ? "far_" : "") + package().info.kernels[task_of_node[i]].name;
    }
    ExecutionPlan plan = MakePlan(network.main(), code).value();
    int in = 0, out = 0;
    for (const GraphNode& node : plan.graph.nodes) {
      if (node.func_name == kCopyFunction) ++(node.outputs[0].device == kDLCPU ? out : in);
    }
    EXPECT_EQ(in + out > 0, split >= 2);
    auto device = std::make_shared<test::TestDevice>();
    auto made = GraphExecutor::Create(plan.graph, root, plan.params, {std::make_shared<CpuDevice>(1), device});
    ASSERT_TRUE(made.ok()) << made.error().Text();
    GraphExecutor& executor = **made;
    ASSERT_TRUE(executor.SetInput(0, Image()).ok());
    const test::TestDevice::Counts before = device->counts();
    Status run = executor.Run();
    ASSERT_TRUE(run.ok()) << run.error().Text();
    EXPECT_EQ(device->counts().copies_in - before.copies_in, in);
    EXPECT_EQ(device->counts().copies_out - before.copies_out, out);
    EXPECT_EQ(ToHost(executor.Output(0)).value().bytes(), expected);
    int64_t stated = 0;
    for (const auto& [type, memory] : plan.memory) stated += memory.workspace;
    EXPECT_EQ(executor.memory_bytes(), stated + 3 * 32 * 32 * 4 + 64);
  }
}

}  // namespace
}  // namespace autotune
