#include "runtime/module.h"

#include <gmock/gmock.h>

#include <fstream>

#include "runtime/kernel_context.h"
#include "runtime/registry.h"
#include "support/json.h"
#include "tests/runtime/c_artifact.h"

namespace autotune {
namespace {

using testing::HasSubstr;

TEST(PackedFunc, TypedFunctionsCheckTheirArguments) {
  PackedFunc f = PackedFunc::Of([](int32_t a, double b, std::string c) { return c + std::to_string(a + b); });
  EXPECT_EQ(f(1, 2.5, "x")->As<std::string>().value(), "x3.500000");
  EXPECT_EQ(f(1, 2, "x")->As<std::string>().value(), "x3.000000");
  EXPECT_EQ(f(1, 2).error().Text(), "expected 3 arguments, got 2");
  EXPECT_EQ(f(1.5, 2, "x").error().Text(), "expected an integer in range, got float (argument 0)");
  EXPECT_EQ(f(int64_t{1} << 40, 2, "x").error().Text(), "expected an integer in range, got int (argument 0)");
  EXPECT_EQ(f(1, 2, nullptr).error().Text(), "expected string, got null (argument 2)");
  EXPECT_FALSE(PackedFunc()(1).ok());
  EXPECT_TRUE(PackedFunc::Of([] {})()->IsNull());
  EXPECT_EQ(PackedFunc::Of([](int) -> Status { return Err("no"); })(1).error().Text(), "no");
}

struct Thing : Object {
  std::string_view TypeKey() const override { return "thing"; }
};

TEST(PackedFunc, EveryKindOfValueGoesThrough) {
  PackedFunc echo = PackedFunc::Of([](Value v) { return v; });
  EXPECT_EQ(echo(42)->As<int>().value(), 42);
  EXPECT_EQ(echo(2.5)->As<double>().value(), 2.5);
  EXPECT_EQ(echo("s")->As<std::string>().value(), "s");
  EXPECT_EQ(echo(Bytes{std::string("\0z", 2)})->As<Bytes>()->data.size(), 2u);
  EXPECT_EQ(echo(DLDataType{kDLFloat, 32, 1})->As<DLDataType>()->bits, 32);
  EXPECT_EQ(echo(DLDevice{kDLCPU, 3})->As<DLDevice>()->device_id, 3);
  Tensor tensor = Tensor::Zeros({2}, "f32").value();
  EXPECT_TRUE(echo(tensor)->As<Tensor>()->SameHandle(tensor));
  EXPECT_EQ(echo(echo)->TypeName(), "function");
  EXPECT_EQ(echo(ObjectRef(std::make_shared<Thing>()))->As<ObjectRef>().value()->TypeKey(), "thing");
  EXPECT_EQ(echo(Module())->TypeName(), "module");
  EXPECT_TRUE(echo(nullptr)->IsNull());
  EXPECT_EQ(echo(true)->As<bool>().value(), true);
  EXPECT_FALSE(echo(2)->As<bool>().ok());
}

Module SampleModule() {
  return MakeLibraryModule(Artifact::FromBytes(SampleArtifact()).value(), std::make_shared<KernelContext>(1));
}

TEST(Module, ALibrarysKernelsAreFunctions) {
  Module module = SampleModule();
  EXPECT_EQ(module->TypeKey(), "library");
  EXPECT_THAT(module->FunctionNames(),
              testing::ElementsAre("shift", "shift.prepare", "shift3", "shift3.prepare", "copy", "fails", "range"));
  Tensor x = Tensor::Zeros({2, 4}, "f32").value(), w = Tensor::Zeros({8}, "f32").value(), y = x.Copy().value();
  w.Data<float>()[3] = 5;
  PackedFunc shift = module->GetFunction("shift").value(), prepare = module->GetFunction("shift.prepare").value();
  PackedFunc fails = module->GetFunction("fails").value();
  EXPECT_FALSE(module->GetFunction("shift.raw").ok());
  module = nullptr;  // functions keep their module alive
  Value prepared = prepare(w).value();
  auto done = shift(x, w, y, prepared);
  ASSERT_TRUE(done.ok()) << done.error().Text();
  EXPECT_EQ(y.Data<float>()[3], 10);
  EXPECT_EQ(shift(x, w, y).error().Text(), "kernel shift failed with code -1: expected 4 arguments");
  EXPECT_FALSE(shift(x, w, 3, prepared).ok());
  EXPECT_FALSE(shift(x, w, Tensor(), prepared).ok());
  EXPECT_FALSE(prepare(x).ok());
  EXPECT_THAT(fails(x, y).error().Text(), HasSubstr("division by zero"));
}

struct Fake : ModuleNode {
  explicit Fake(std::string name) : name(std::move(name)) {}
  std::string name;
  std::string_view TypeKey() const override { return "fake"; }
  PackedFunc GetOwnFunction(std::string_view function, const Module&) override {
    if (function != "who" && function != name) return {};
    return PackedFunc::Of([name = name] { return name; });
  }
};

TEST(Module, ImportsAreSearchedAfterTheModuleItself) {
  Module a = std::make_shared<Fake>("a"), b = std::make_shared<Fake>("b"), c = std::make_shared<Fake>("c");
  ASSERT_TRUE(a->Import(b).ok());
  ASSERT_TRUE(b->Import(c).ok());
  EXPECT_EQ(a->GetFunction("who").value()()->As<std::string>().value(), "a");
  EXPECT_EQ(a->GetFunction("c").value()()->As<std::string>().value(), "c");
  EXPECT_FALSE(b->GetFunction("a").ok());
  EXPECT_THAT(c->Import(a).error().Text(), HasSubstr("cycle"));
  EXPECT_FALSE(a->Import(a).ok());
  EXPECT_FALSE(a->Import(nullptr).ok());
}

TEST(Registry, AddGetRemove) {
  Registry registry;
  ASSERT_TRUE(registry.Add("f", PackedFunc::Of([] { return 1; })).ok());
  EXPECT_EQ(registry.Get("f").value()()->As<int>().value(), 1);
  EXPECT_THAT(registry.Add("f", PackedFunc::Of([] { return 2; })).error().Text(), HasSubstr("exists already"));
  ASSERT_TRUE(registry.Add("f", PackedFunc::Of([] { return 2; }), true).ok());
  EXPECT_EQ(registry.Get("f").value()()->As<int>().value(), 2);
  EXPECT_FALSE(registry.Add("g", PackedFunc()).ok());
  EXPECT_TRUE(registry.Remove("f"));
  EXPECT_FALSE(registry.Remove("f"));
  EXPECT_THAT(registry.Get("f").error().Text(), HasSubstr("no global function 'f'"));
}

TEST(Registry, TheRuntimesOwnFunctions) {
  Registry& global = Registry::Global();
  EXPECT_THAT(global.Names(), testing::Contains("runtime.module.load"));
  EXPECT_EQ(global.Get("runtime.tensor.empty").value()("f32", 2, 3)->As<Tensor>()->TypeText(), "f32[2, 3]");
  EXPECT_FALSE(global.Get("runtime.tensor.empty").value()("f32", -2).ok());
  std::string path = TempDir() + "/module.so";
  std::ofstream(path, std::ios::binary) << SampleArtifact();
  Module module = global.Get("runtime.module.load").value()(path)->As<Module>().value();
  EXPECT_TRUE(module->GetFunction("copy").ok());
  EXPECT_FALSE(global.Get("runtime.module.load").value()(path + ".gone").ok());
}

TEST(Registry, ATimeEvaluatorCallsAFunctionWithItsArguments) {
  const PackedFunc evaluator = Registry::Global().Get("runtime.time_evaluator").value();
  int64_t calls = 0, sum = 0;
  const PackedFunc add = PackedFunc::Of([&](int64_t number) { ++calls, sum += number; });
  const PackedFunc timed = evaluator(add, 3, 2)->As<PackedFunc>().value();
  EXPECT_EQ(calls, 0);
  Json times = Json::Parse(timed(5)->As<std::string>().value()).value();
  EXPECT_EQ(calls, 1 + 3 * 2) << "and one to warm up";
  EXPECT_EQ(sum, calls * 5);
  EXPECT_EQ(times["results"].As<Json::Array>()->size(), 2u);
  EXPECT_FALSE(timed("text").ok()) << "the function's error";
  EXPECT_THAT(evaluator(add, 0, 1).error().Text(), HasSubstr("at least 1"));
  EXPECT_THAT(evaluator(PackedFunc(), 1, 1).error().Text(), HasSubstr("takes a function"));
}

}  // namespace
}  // namespace autotune
