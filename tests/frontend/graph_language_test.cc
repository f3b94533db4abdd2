// A model's own functions and its control flow (If, Loop, Scan). The importer inlines and unrolls them. The tests check
// the values that the model computes, and the reasons why some models are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/onnx/import.h"
#include "tests/frontend/element_types.h"
#include "tests/frontend/outputs.h"

namespace autotune {
namespace {

using testing::HasSubstr;

const std::string kInvalid = "m.onnx is not a valid ONNX model: ";
const std::string kRefused = "m.onnx cannot be imported: ";

// Returns a scalar, for ImportOptions::fixed.
graph::TensorValue Bool(bool value) { return graph::TensorValue::FromNumbers(DType::Bool(), {}, {value ? 1.0 : 0.0}); }

// Returns the function y = x * scale.
ModelMaker ScaleBody() {
  ModelMaker f(17);
  f.Input("x", {}).Input("scale", {}).Output("y");
  f.Node("Mul", {"x", "scale"}, {"y"});
  return f;
}

TEST(Functions, AreInlined) {
  ModelMaker m(17);
  m.Input("x", {2}).Floats("w", {1}, {3}).Output("y").ImportDomain("mine");
  m.Function("mine", "Scale", ScaleBody());
  m.Node("Scale", {"x", "w"}, {"a"}).Domain("mine");
  m.Node("Scale", {"a", "w"}, {"y"}).Domain("mine");
  EXPECT_EQ(Output(m, {{1, 2}}), (Numbers{9, 18}));
}

TEST(Functions, HaveNamesOfTheirOwn) {
  // The function's "y" differs from the caller's, and a function cannot see the caller's names.
  ModelMaker inner(17), outer(17);
  inner.Input("y", {}).Output("x");
  inner.Node("Neg", {"y"}, {"t"});
  inner.Node("Add", {"t", "t"}, {"x"});
  outer.Input("x", {2}).Output("y").ImportDomain("mine").Function("mine", "F", inner);
  outer.Node("F", {"x"}, {"t"}).Domain("mine");
  outer.Node("Sub", {"t", "x"}, {"y"});
  EXPECT_EQ(Output(outer, {{1, 2}}), (Numbers{-3, -6}));
  ModelMaker leaky(17);
  leaky.Input("a", {}).Output("b");
  leaky.Node("Add", {"a", "x"}, {"b"}, "n");
  ModelMaker m(17);
  m.Input("x", {2}).Output("y").ImportDomain("mine").Function("mine", "F", leaky);
  m.Node("F", {"x"}, {"y"}).Domain("mine");
  EXPECT_EQ(ImportError(m), kInvalid +
                                "Add (node 'n') reads 'x', which is computed by no node, and neither an input nor an "
                                "initializer (in function 'mine.F')");
}

TEST(Functions, CallEachOtherButNotThemselves) {
  ModelMaker twice(17), m(17);
  twice.Input("v", {}).Output("r");
  twice.Node("Twice", {"v"}, {"u"}).Domain("inner");
  twice.Node("Twice", {"u"}, {"r"}).Domain("inner");
  ModelMaker dbl(17);
  dbl.Input("v", {}).Output("r");
  dbl.Node("Add", {"v", "v"}, {"r"});
  m.Input("x", {2}).Output("y").Function("outer", "FourTimes", twice).Function("inner", "Twice", dbl);
  m.Node("FourTimes", {"x"}, {"y"}).Domain("outer");
  EXPECT_EQ(Output(m, {{1, 2}}), (Numbers{4, 8}));
  ModelMaker a(17), b(17), loops(17);
  a.Input("v", {}).Output("r");
  a.Node("B", {"v"}, {"r"}).Domain("f");
  b.Input("v", {}).Output("r");
  b.Node("A", {"v"}, {"r"}).Domain("f");
  loops.Input("x", {2}).Output("y").Function("f", "A", a).Function("f", "B", b);
  loops.Node("Relu", {"x"}, {"y"});
  EXPECT_THAT(ImportError(loops), HasSubstr("is not a valid ONNX model: function 'f."));
  EXPECT_THAT(ImportError(loops), HasSubstr("calls itself"));
  ModelMaker doubled(17);
  doubled.Input("x", {2}).Output("y").Function("f", "A", dbl).Function("f", "A", dbl);
  doubled.Node("Relu", {"x"}, {"y"});
  EXPECT_EQ(ImportError(doubled), kInvalid + "there are two functions 'f.A'");
}

TEST(Functions, ManyCallsOfFewBytesAreBounded) {
  ModelMaker m(17);
  ModelMaker leaf(17);
  leaf.Input("v", {}).Output("r");
  leaf.Node("Neg", {"v"}, {"r"});
  m.Input("x", {2}).Output("y").Function("f", "F0", leaf);
  for (int i = 1; i <= 30; ++i) {  // each function calls the previous one twice: 2^30 nodes
    ModelMaker f(17);
    f.Input("v", {}).Output("r");
    f.Node("F" + std::to_string(i - 1), {"v"}, {"u"}).Domain("f");
    f.Node("F" + std::to_string(i - 1), {"u"}, {"r"}).Domain("f");
    m.Function("f", "F" + std::to_string(i), f);
  }
  m.Node("F30", {"x"}, {"y"}).Domain("f");
  EXPECT_THAT(ImportError(m), HasSubstr("functions and loops make more than 65536 nodes of this model"));
}

TEST(Functions, DepthIsBounded) {
  for (int depth : {60, 70}) {
    ModelMaker m(17), leaf(17);
    leaf.Input("v", {}).Output("r");
    leaf.Node("Neg", {"v"}, {"r"});
    m.Input("x", {2}).Output("y").Function("f", "F0", leaf);
    for (int i = 1; i < depth; ++i) {
      ModelMaker f(17);
      f.Input("v", {}).Output("r");
      f.Node("F" + std::to_string(i - 1), {"v"}, {"r"}).Domain("f");
      m.Function("f", "F" + std::to_string(i), f);
    }
    m.Node("F" + std::to_string(depth - 1), {"x"}, {"y"}).Domain("f");
    if (depth < 64) {
      EXPECT_EQ(Output(m, {{1, 2}}), (Numbers{-1, -2}));
    } else {
      EXPECT_THAT(ImportError(m), HasSubstr("functions and subgraphs lie more than 64 deep"));
    }
  }
}

TEST(Functions, AttributesComeFromTheCallOrTheDefault) {
  ModelMaker f(13), m(17);
  f.Input("v", {}).Output("r");
  // For output b, neither the call nor the function gives `along`, so Softmax's own default of `axis` holds, -1.
  f.Node("Softmax", {"v"}, {"s"}).Reference("axis", "along");
  f.Node("ReduceSum", {"s"}, {"r"}).Reference("keepdims", "keep");
  m.Input("x", {2, 2}).Output("a").Output("b").Function("f", "F", f, {{"keep", 1}});
  m.Node("F", {"x"}, {"a"}).Domain("f").Int("along", 0);
  m.Node("F", {"x"}, {"b"}).Domain("f").Int("keep", 0);
  Result<ImportedModel> imported = Import(m);
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  const graph::Graph& g = imported->module.main();
  EXPECT_EQ(g.Spec(g.outputs[0]).shape, (graph::Shape{1, 1})) << "keep has its default";
  EXPECT_EQ(g.Spec(g.outputs[1]).shape, graph::Shape{}) << "the call sets keep";
}

TEST(Functions, OptionalInputsMayBeLeftOut) {
  ModelMaker f(17), m(17);
  f.Input("v", {}).Input("low", {}).Input("high", {}).Output("r");
  f.Node("Clip", {"v", "low", "high"}, {"r"});
  m.Input("x", {3}).Floats("two", {}, {2}).Output("a").Function("f", "F", f);
  m.Node("F", {"x", "", "two"}, {"a"}).Domain("f");
  EXPECT_EQ(Output(m, {{-9, 1, 5}}), (Numbers{-9, 1, 2}));
  ModelMaker less(17);
  less.Input("x", {3}).Floats("two", {}, {2}).Output("a").Function("f", "F", f);
  less.Node("F", {"x", "two"}, {"a"}).Domain("f");
  EXPECT_EQ(Output(less, {{-9, 1, 5}}), (Numbers{2, 2, 5}));
  ModelMaker needs(17);
  needs.Input("x", {3}).Output("a").Function("f", "F", f);
  needs.Node("F", {"", "x"}, {"a"}, "call").Domain("f");
  EXPECT_EQ(
      ImportError(needs),
      kRefused + "Clip (node #0): lacks input 0, 'input' (--lenient ignores this), in function f.F (node 'call')");
  ModelMaker more(17);
  more.Input("x", {3}).Output("a").Function("f", "F", f);
  more.Node("F", {"x", "x", "x", "x"}, {"a"}, "call").Domain("f");
  EXPECT_EQ(ImportError(more), kRefused + "f.F (node 'call'): has 4 inputs, the function 3");
}

TEST(Functions, ImportOperatorSetsOfTheirOwn) {
  // Before operator set 13, Softmax normalizes over `axis` and all later axes: with axis 0, over all four numbers.
  for (int opset : {11, 13}) {
    ModelMaker f(opset), m(17);
    f.Input("v", {}).Output("r");
    f.Node("Softmax", {"v"}, {"r"}).Int("axis", 0);
    m.Input("x", {2, 2}).Output("y").Function("f", "F", f);
    m.Node("F", {"x"}, {"y"}).Domain("f");
    Numbers y = Output(m, {{1, 1, 1, 1}});
    EXPECT_EQ(y[0], opset == 11 ? 0.25 : 0.5);
  }
  ModelMaker f(99), m(17);
  f.Input("v", {}).Output("r");
  f.Node("Relu", {"v"}, {"r"});
  m.Input("x", {2, 2}).Output("y").Function("f", "F", f);
  m.Node("F", {"x"}, {"y"}, "call").Domain("f");
  EXPECT_EQ(ImportError(m),
            kRefused + "f.F (node 'call'): the function uses ONNX operator set 99; supported are 1 to 28");
}

TEST(Functions, OverloadsAreFunctionsApart) {
  ModelMaker negate(17), keep(17), m(17);
  negate.Input("v", {}).Output("r");
  negate.Node("Neg", {"v"}, {"r"});
  keep.Input("v", {}).Output("r");
  keep.Node("Identity", {"v"}, {"r"});
  m.Input("x", {1}).Output("y").Function("f", "F", negate, {}, "a").Function("f", "F", keep, {}, "b");
  m.Node("F", {"x"}, {"y"}).Domain("f").Overload("a");
  EXPECT_EQ(Output(m, {{1}}), Numbers{-1});
  ModelMaker other(17);
  other.Input("x", {1}).Output("y").Function("f", "F", negate, {}, "a");
  other.Node("F", {"x"}, {"y"}).Domain("f").Overload("c");
  EXPECT_EQ(ImportError(other), kRefused + "f.F (node #0) is not supported");
}

TEST(Functions, ComplaintsNameNodeAndPlaceAndComeAllAtOnce) {
  ModelMaker f(17), g(17), m(17);
  f.Input("v", {}).Output("r");
  f.Node("Unheard", {"v"}, {"t"}, "n");
  f.Node("Relu", {"t"}, {"r"});
  g.Input("v", {}).Output("r");
  g.Node("Unseen", {"v"}, {"r"}, "o");
  m.Input("x", {2}).Output("y").Function("f", "F", f).Function("f", "G", g);
  m.Node("F", {"x"}, {"a"}, "one").Domain("f");
  m.Node("G", {"a"}, {"y"}, "two").Domain("f");
  EXPECT_EQ(ImportError(m),
            kRefused +
                "Unheard (node 'n') is not supported, in function f.F (node 'one'); Unseen (node 'o') is "
                "not supported, in function f.G");
}

// Returns a model of one If whose condition is the input c.
ModelMaker Branches(const ModelMaker& yes, const ModelMaker& no, int condition_type = kBool) {
  ModelMaker m(17);
  m.Input("x", {2}).Input("c", {}, condition_type).Output("y");
  m.Node("If", {"c"}, {"y"}, "if").Graph("then_branch", yes).Graph("else_branch", no);
  return m;
}
ModelMaker Branch(const std::string& op, const std::vector<std::string>& inputs) {
  ModelMaker m(17);
  m.Output("r");
  m.Node(op, inputs, {"r"}, "b");
  return m;
}

TEST(If, TakesTheBranchOfAConstantCondition) {
  ModelMaker m = Branches(Branch("Relu", {"x"}), Branch("Neg", {"x"}));
  for (bool condition : {true, false}) {
    EXPECT_EQ(Output(m, {{-1, 2}}, {.fixed = {{"c", Bool(condition)}}}),
              condition ? (Numbers{0, 2}) : (Numbers{1, -2}));
  }
  // The branch that is not taken is not imported.
  ModelMaker odd = Branches(Branch("Relu", {"x"}), Branch("Unheard", {"x"}));
  EXPECT_EQ(Output(odd, {{-1, 2}}, {.fixed = {{"c", Bool(true)}}}), (Numbers{0, 2}));
  EXPECT_EQ(ImportError(odd, {.fixed = {{"c", Bool(false)}}}),
            kRefused + "Unheard (node 'b') is not supported, in else_branch of If (node 'if')");
}

TEST(If, BranchesOfOneShapeAreSelectedAtRunTime) {
  ModelMaker m = Branches(Branch("Relu", {"x"}), Branch("Neg", {"x"}));
  Result<ImportedModel> imported = Import(m);
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  EXPECT_THAT(imported->notes, testing::ElementsAre(HasSubstr("both branches are computed")));
  for (double condition : {1.0, 0.0}) {
    auto out = reference::Evaluate(imported->module.main(), {{{2}, {-1, 2}}, {{}, {condition}, DType::Bool()}});
    EXPECT_EQ(out[0].data, condition != 0 ? (Numbers{0, 2}) : (Numbers{1, -2}));
  }
  ModelMaker sum(17);
  sum.Output("r");
  sum.Node("ReduceSum", {"x"}, {"r"}, "b");
  EXPECT_EQ(ImportError(Branches(Branch("Relu", {"x"}), sum)),
            kRefused +
                "If (node 'if'): its condition is computed at run time, and its branches give f32[2] and f32[1]; "
                "only results of one type and shape are supported");
}

TEST(If, ReadsAndNamesAroundIt) {
  // A nested branch reads tensors of both graphs around it: t of the branch `then`, x of the model.
  ModelMaker then(17);
  then.Output("r");
  then.Node("Mul", {"x", "x"}, {"t"});
  then.Node("If", {"c"}, {"r"})
      .Graph("then_branch", Branch("Add", {"x", "t"}))
      .Graph("else_branch", Branch("Neg", {"x"}));
  ModelMaker m = Branches(then, Branch("Neg", {"x"}));
  EXPECT_EQ(Output(m, {{3, 2}}, {.fixed = {{"c", Bool(true)}}}), (Numbers{12, 6}));
  EXPECT_EQ(
      ImportError(Branches(Branch("Neg", {"z"}), Branch("Neg", {"x"}))),
      kInvalid + "If (node 'if') reads 'z', which is computed by no node, and neither an input nor an initializer");
  ModelMaker late(17);
  late.Input("x", {2}).Input("c", {}, kBool).Output("y").Output("z");
  late.Node("If", {"c"}, {"y"}, "if")
      .Graph("then_branch", Branch("Neg", {"z"}))
      .Graph("else_branch", Branch("Neg", {"x"}));
  late.Node("Relu", {"y"}, {"z"}, "r");
  EXPECT_EQ(ImportError(late),
            kInvalid + "If (node 'if') reads 'z', which Relu (node 'r') computes from its result: a cycle");
  ModelMaker doubled(17);
  doubled.Output("r");
  doubled.Node("Neg", {"x"}, {"r"}, "a");
  doubled.Node("Relu", {"x"}, {"r"}, "b");
  EXPECT_EQ(
      ImportError(Branches(doubled, then)),
      kInvalid + "tensor 'r' has two origins: Neg (node 'a') and Relu (node 'b') (in then_branch of If (node 'if'))");
}

TEST(If, SubgraphsAreNeeded) {
  ModelMaker m(17);
  m.Input("x", {2}).Input("c", {}, kBool).Output("y");
  m.Node("If", {"c"}, {"y"}, "if").Graph("then_branch", Branch("Neg", {"x"}));
  EXPECT_EQ(ImportError(m), kRefused + "If (node 'if'): lacks the attribute 'else_branch' (--lenient ignores this)");
}

// The body adds the input and the iteration number to the carried sum, and outputs the sum of each iteration.
ModelMaker LoopBody() {
  ModelMaker b(17);
  b.Input("i", {}, kInt64).Input("go", {}, kBool).Input("sum", {2}).Output("on").Output("next").Output("each");
  b.Node("Identity", {"go"}, {"on"});
  b.Node("Cast", {"i"}, {"number"}).Int("to", kFloat);
  b.Node("Add", {"sum", "number"}, {"t"});
  b.Node("Add", {"t", "x"}, {"next"});
  b.Node("Identity", {"next"}, {"each"});
  return b;
}
ModelMaker LoopOf(int64_t trips, const ModelMaker& body, const std::string& output) {
  ModelMaker m(17);
  m.Input("x", {2}).Ints("trips", {trips}).Floats("zero", {2}, {0, 0}).Output(output);
  m.Node("Loop", {"trips", "", "zero"}, {"sum", "each"}, "loop").Graph("body", body);
  return m;
}

TEST(Loop, IsUnrolled) {
  EXPECT_EQ(Output(LoopOf(3, LoopBody(), "sum"), {{1, 2}}), (Numbers{6, 9}));
  EXPECT_EQ(Output(LoopOf(3, LoopBody(), "each"), {{1, 2}}), (Numbers{1, 2, 3, 5, 6, 9}));
  Result<ImportedModel> imported = Import(LoopOf(3, LoopBody(), "each"));
  EXPECT_EQ(imported->module.main().Spec(imported->module.main().outputs[0]).shape, (graph::Shape{3, 2}));
}

TEST(Loop, MayRunNever) {
  EXPECT_EQ(Output(LoopOf(0, LoopBody(), "sum"), {{1, 2}}), (Numbers{0, 0}));
  Result<ImportedModel> imported = Import(LoopOf(0, LoopBody(), "each"));
  ASSERT_TRUE(imported.ok()) << imported.error().Text();
  EXPECT_EQ(imported->module.main().Spec(imported->module.main().outputs[0]).shape, (graph::Shape{0, 2}));
}

TEST(Loop, ThousandIterationsAreTheMost) {
  ModelMaker body(17);
  body.Input("i", {}, kInt64).Input("go", {}, kBool).Input("sum", {2}).Output("go").Output("next");
  body.Node("Identity", {"sum"}, {"next"});
  for (int64_t trips : {1000, 1001}) {
    ModelMaker m(17);
    m.Input("x", {2}).Ints("trips", {trips}).Output("y");
    m.Node("Loop", {"trips", "", "x"}, {"y"}, "loop").Graph("body", body);
    EXPECT_EQ(ImportError(m), trips == 1000 ? "no error"
                                            : kRefused +
                                                  "Loop (node 'loop'): runs more than 1000 times, too many to "
                                                  "unroll");
  }
}

TEST(Loop, EndsWhereItsConditionSaysSo) {
  // A loop without a trip count. The body ends it after four iterations.
  ModelMaker body(17);
  body.Input("i", {}, kInt64).Input("go", {}, kBool).Input("sum", {2}).Ints("four", {4}).Ints("one", {1});
  body.Output("on").Output("next");
  body.Node("Add", {"i", "one"}, {"count"});
  body.Node("Less", {"count", "four"}, {"on"});
  body.Node("Add", {"sum", "x"}, {"next"});
  ModelMaker m(17);
  m.Input("x", {2}).Output("y");
  m.Node("Loop", {"", "", "x"}, {"y"}, "loop").Graph("body", body);
  EXPECT_EQ(Output(m, {{1, 2}}), (Numbers{5, 10}));
  // A loop with a trip count of 9, whose body ends it earlier.
  ModelMaker both(17);
  both.Input("x", {2}).Ints("nine", {9}).Output("y");
  both.Node("Loop", {"nine", "", "x"}, {"y"}, "loop").Graph("body", body);
  EXPECT_EQ(Output(both, {{1, 2}}), (Numbers{5, 10}));
  // A loop whose condition depends on data is refused.
  ModelMaker data(17);
  data.Input("i", {}, kInt64).Input("go", {}, kBool).Input("sum", {2}).Output("on").Output("next");
  data.Node("ReduceMax", {"sum"}, {"most"}).Int("keepdims", 0);
  data.Node("Cast", {"most"}, {"on"}).Int("to", kBool);
  data.Node("Add", {"sum", "x"}, {"next"});
  ModelMaker open(17);
  open.Input("x", {2}).Ints("trips", {2}).Output("y");
  open.Node("Loop", {"trips", "", "x"}, {"y"}, "loop").Graph("body", data);
  EXPECT_EQ(ImportError(open), kRefused +
                                   "Loop (node 'loop'): computes at run time whether it goes on; only loops of a "
                                   "known number of iterations are supported");
  ModelMaker trips(17);
  trips.Input("x", {2}).Input("n", {}, kInt64).Output("y");
  trips.Node("Loop", {"n", "", "x"}, {"y"}, "loop").Graph("body", LoopBody());
  EXPECT_EQ(ImportError(trips),
            kRefused + "Loop (node 'loop'): its trip count is computed at run time; it must be a constant");
}

TEST(Loop, InLoops) {
  ModelMaker inner(17), outer(17), m(17);
  inner.Input("j", {}, kInt64).Input("go", {}, kBool).Input("s", {2}).Output("go").Output("next");
  inner.Node("Add", {"s", "x"}, {"next"});
  outer.Input("i", {}, kInt64).Input("go2", {}, kBool).Input("t", {2}).Output("go2").Output("u");
  outer.Node("Loop", {"i", "", "t"}, {"u"}).Graph("body", inner);  // the inner loop runs 0 + 1 + 2 + 3 times
  m.Input("x", {2}).Ints("four", {4}).Floats("zero", {2}, {0, 0}).Output("y");
  m.Node("Loop", {"four", "", "zero"}, {"y"}).Graph("body", outer);
  EXPECT_EQ(Output(m, {{1, 2}}), (Numbers{6, 12}));
  ModelMaker refused(17);
  refused.Input("s", {2}).Output("next");
  refused.Node("Add", {"s", "x"}, {"next"});
  ModelMaker wrong(17);
  wrong.Input("x", {2}).Ints("four", {4}).Output("y");
  wrong.Node("Loop", {"four", "", "x"}, {"y"}, "loop").Graph("body", refused);
  EXPECT_EQ(ImportError(wrong), kRefused + "Loop (node 'loop'): its subgraph gives 1 outputs; expected are 2 or more");
}

TEST(Scan, GoesForthAndBack) {
  ModelMaker body(17);
  body.Input("s", {}).Input("e", {}).Output("next").Output("each");
  body.Node("Add", {"s", "e"}, {"next"});
  body.Node("Identity", {"next"}, {"each"});
  for (bool backwards : {false, true}) {
    ModelMaker m(17);
    m.Input("x", {3}).Floats("zero", {}, {0}).Output("each");
    auto node = m.Node("Scan", {"zero", "x"}, {"last", "each"}, "scan").Graph("body", body);
    node.Int("num_scan_inputs", 1);
    if (backwards) node.Ints("scan_input_directions", {1}).Ints("scan_output_directions", {1});
    EXPECT_EQ(Output(m, {{1, 2, 3}}), backwards ? (Numbers{6, 5, 3}) : (Numbers{1, 3, 6}));
  }
  ModelMaker m(17);
  m.Input("x", {3}).Floats("zero", {}, {0}).Output("each");
  m.Node("Scan", {"zero", "x"}, {"last", "each"}, "scan").Graph("body", body).Int("num_scan_inputs", 3);
  EXPECT_EQ(ImportError(m), kRefused + "Scan (node 'scan'): num_scan_inputs is 3 of 2 inputs");
}

TEST(Scan, AxesAndLengths) {
  ModelMaker body(17);
  body.Input("a", {2}).Input("b", {2}).Output("each");
  body.Node("Sub", {"a", "b"}, {"each"});
  ModelMaker m(17), uneven(17);
  m.Input("x", {2, 3}).Floats("w", {3, 2}, {1, 1, 1, 1, 1, 1}).Output("each");
  m.Node("Scan", {"x", "w"}, {"each"})
      .Graph("body", body)
      .Int("num_scan_inputs", 2)
      .Ints("scan_input_axes", {1, 0})
      .Ints("scan_output_axes", {-1});
  EXPECT_EQ(Output(m, {{1, 2, 3, 4, 5, 6}}), (Numbers{0, 1, 2, 3, 4, 5}));
  uneven.Input("x", {2, 3}).Floats("w", {3, 2}, {1, 1, 1, 1, 1, 1}).Output("each");
  uneven.Node("Scan", {"x", "w"}, {"each"}, "scan").Graph("body", body).Int("num_scan_inputs", 2);
  EXPECT_EQ(ImportError(uneven), kRefused + "Scan (node 'scan'): its inputs have 2 and 3 elements to scan");
}

}  // namespace
}  // namespace autotune
