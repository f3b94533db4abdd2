#include "graph/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/maker.h"
#include "tests/ir/parse.h"

namespace autotune::graph {
namespace {

using ::testing::HasSubstr;

PrimFunc Twice() {
  return test::Parse(
      "func twice(x: f32[4] input, y: f32[4] output) { for i in 4 { block b(v: S 4 = i) { y[v] = x[v] + x[v] } } }");
}

// Returns relu(c + x), where c is a constant parameter.
Graph Shifted(Shape shape = {4}) {
  GraphBuilder b;
  ValueId x = b.Input("", F32(shape));
  ValueId c = b.ConstantParameter("", F32(shape));
  b.Output(b.Must(Op::kRelu, {b.Must(Op::kAdd, {c, x})}), "");
  return b.Finish();
}

// Returns a function that calls @shifted on x and a constant.
Graph Caller(const std::string& function = "shifted", Shape shape = {4}) {
  GraphBuilder b;
  ValueId x = b.Input("x", F32({4}));
  ValueId c = b.AddConstant("c", TensorValue::Of<float>({4}, {1, 2, 3, 4}));
  b.Output(b.CallNamed(function, {x, c}, F32(std::move(shape)), "call"), "y");
  return b.Finish();
}

IRModule Example() {
  IRModule module(Caller());
  module.Set("shifted", Shifted());
  module.Set("program", Twice());
  return module;
}

std::string WrongWith(const IRModule& module) {
  Status status = CheckModule(module);
  return status.ok() ? "" : status.error().Text();
}

TEST(IRModule, NamesFunctionsOfBothLanguages) {
  IRModule module = Example();
  EXPECT_EQ(WrongWith(module), "");
  ASSERT_EQ(module.functions().size(), 3u);
  EXPECT_EQ(module.functions()[0].first, "main");
  EXPECT_EQ(module.main().inputs.size(), 1u);
  ASSERT_NE(module.FindGraph("shifted"), nullptr);
  EXPECT_EQ(module.FindPrimFunc("shifted"), nullptr);
  ASSERT_NE(module.FindPrimFunc("program"), nullptr);
  EXPECT_EQ(module.FindPrimFunc("program")->name.str(), "program")
      << "the function takes the name under which it is set";
  EXPECT_EQ(module.FindGraph("program"), nullptr);
  EXPECT_EQ(module.FindGraph("nothing"), nullptr);
  module.Set("shifted", Twice());
  EXPECT_EQ(module.functions()[1].first, "shifted") << "a replaced function keeps its position";
  EXPECT_NE(module.FindPrimFunc("shifted"), nullptr);
}

TEST(IRModule, TextHasAllFunctions) {
  const std::string graphs =
      "graph main {\n"
      "  %0 = input f32[4]  # x\n"
      "  %1 = constant f32[4] digest a82f522ec4510db4  # c\n"
      "  %2 = call @shifted(%0, %1) : f32[4]  # call\n"
      "  output %2  # y\n"
      "}\n"
      "\n"
      "graph shifted {\n"
      "  %0 = input f32[4]\n"
      "  %1 = constant f32[4]\n"
      "  %2 = add(%1, %0) : f32[4]\n"
      "  %3 = relu(%2) : f32[4]\n"
      "  output %3\n"
      "}\n";
  EXPECT_EQ(GraphText(Example()), graphs);
  EXPECT_THAT(ToText(Example()), HasSubstr(graphs + "\nfunc program(\n  x: f32[4] input,\n  y: f32[4] output\n) {\n"));
}

TEST(IRModule, EqualityCoversNamesOrderAndContent) {
  EXPECT_TRUE(Example() == Example());
  IRModule more = Example(), other = Example(), renamed(Caller()), swapped(Caller());
  more.Set("more", Twice());
  EXPECT_FALSE(more == Example());
  other.Set("program", test::Parse("func f(y: f32[4] output) { for i in 4 { block b(v: S 4 = i) { y[v] = 0.0 } } }"));
  EXPECT_FALSE(other == Example());
  renamed.Set("shifted", Shifted());
  renamed.Set("another", Twice());
  EXPECT_FALSE(renamed == Example());
  swapped.Set("program", Twice());
  swapped.Set("shifted", Shifted());
  EXPECT_FALSE(swapped == Example());
  IRModule constant = Example();
  Graph main = Caller();
  main.constants[0].data = TensorValue::Of<float>({4}, {1, 2, 3, 5}).bytes;
  constant.Set("main", main);
  EXPECT_FALSE(constant == Example());
  main.constants[0].data = TensorValue::Of<float>({4}, {1, 2, 3, 4}).bytes;  // equal bytes at another address
  constant.Set("main", main);
  EXPECT_TRUE(constant == Example());
}

TEST(IRModule, CallsAreChecked) {
  EXPECT_EQ(WrongWith(IRModule()), "the module has no graph function main");
  EXPECT_THAT(WrongWith(IRModule(Caller())), HasSubstr("calls @shifted, which is no graph function of the module"));
  auto with = [](Graph main, IRModule::Function function) {
    IRModule module(std::move(main));
    module.Set("shifted", std::move(function));
    return WrongWith(module);
  };
  EXPECT_EQ(with(Caller(), Shifted()), "");
  EXPECT_THAT(with(Caller(), Twice()), HasSubstr("which is no graph function"));
  EXPECT_THAT(with(Caller(), Shifted({2, 2})), HasSubstr("parameter 0 has another type (in the call of @shifted"));
  EXPECT_THAT(with(Caller("shifted", {2, 2}), Shifted()), HasSubstr("result has another type"));
  EXPECT_THAT(with(Caller(), Caller()), HasSubstr("passes 2 values to 1 parameters"));
  IRModule broken = Example();
  PrimFunc program = Twice();
  program.params.pop_back();
  broken.Set("program", program);
  EXPECT_THAT(WrongWith(broken), HasSubstr("in function program"));
}

// Passes transform every graph function but leave calls alone. Even a call with constant arguments is not folded, since
// the evaluator of constants cannot run it.
TEST(IRModule, PassesKeepCalls) {
  GraphBuilder b;
  ValueId x = b.Input("x", F32({4}));
  ValueId c = b.AddConstant("c", TensorValue::Of<float>({4}, {1, 2, 3, 4}));
  ValueId constant = b.CallNamed("shifted", {c, c}, F32({4}), "constant");
  ValueId y = b.Must(Op::kAdd, {b.Must(Op::kRelu, {x}), constant});
  b.Output(b.CallNamed("shifted", {y, c}, F32({4}), "last"), "y");
  IRModule module(b.Finish());
  module.Set("shifted", Shifted());
  module.Set("program", Twice());
  Counting counting;
  Result<IRModule> optimized = Optimize(module, counting.env);
  ASSERT_TRUE(optimized.ok()) << optimized.error().Text();
  EXPECT_EQ(WrongWith(*optimized), "");
  EXPECT_EQ(CountOps(optimized->main(), Op::kCall), 2) << GraphText(*optimized);
  EXPECT_EQ(CountOps(optimized->main(), Op::kFused), 1);
  EXPECT_EQ(CountOps(*optimized->FindGraph("shifted"), Op::kFused), 1);
  EXPECT_EQ(counting.calls, 0);
  EXPECT_NE(optimized->FindPrimFunc("program"), nullptr);
}

}  // namespace
}  // namespace autotune::graph
