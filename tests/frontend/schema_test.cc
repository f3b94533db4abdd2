// Models are read strictly: every operator of the importer, in every operator set, refuses attributes, inputs and
// outputs that it does not have there.
#include "frontend/onnx/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "frontend/onnx/import.h"
#include "frontend/onnx/importer.h"
#include "frontend/onnx/walker.h"
#include "support/join.h"
#include "tests/frontend/element_types.h"
#include "tests/frontend/outputs.h"

namespace autotune::onnx_import {
namespace {

using testing::Contains;
using testing::HasSubstr;

struct Parsed {
  std::vector<std::string> inputs, outputs;
  std::map<std::string, std::string> attributes;  // name -> type, with "!" if it is required
};

Parsed Parse(const SchemaRow& row) {
  Parsed parsed;
  std::istringstream inputs(row.inputs), outputs(row.outputs), attributes(row.attributes);
  for (std::string word; inputs >> word;) parsed.inputs.push_back(word);
  for (std::string word; outputs >> word;) parsed.outputs.push_back(word);
  for (std::string word; attributes >> word;)
    parsed.attributes[word.substr(0, word.find(':'))] = word.substr(word.find(':') + 1);
  return parsed;
}

OnnxAttr Value(char type) {
  OnnxAttr attr;
  if (type == 'i') attr.i = 1;
  if (type == 'f') attr.f = 1;
  if (type == 's') attr.s = "a";
  if (type == 'I') attr.ints = {1};
  if (type == 'F') attr.floats = {1};
  if (type == 'S') attr.strings = {"a"};
  if (type == 't') attr.tensor = graph::TensorValue::Of<int64_t>({}, {1});
  if (type == 'g') attr.graph = std::make_shared<OnnxGraph>();
  return attr;
}

// Returns a node that has everything that the row allows.
OnnxNode FullNode(const SchemaRow& row, bool microsoft) {
  const Parsed parsed = Parse(row);
  OnnxNode node{.op_type = row.op,
                .domain = microsoft ? "com.microsoft" : "",
                .inputs = parsed.inputs,
                .outputs = parsed.outputs};
  for (const auto& [name, type] : parsed.attributes) node.attrs[name] = Value(type[0]);
  return node;
}

// Checks the nodes that differ from a full one by a surplus or an absent operand. `operands` are the node's inputs or
// outputs.
void ExpectStrictOperands(const OnnxNode& full, std::vector<std::string> OnnxNode::*operands,
                          const std::vector<std::string>& own, int64_t opset, const std::string& where) {
  const bool variadic = !own.empty() && own.back().find("...") != std::string::npos;
  OnnxNode surplus = full, trailing = full;
  (surplus.*operands).push_back("surplus");
  (trailing.*operands).push_back("");
  EXPECT_EQ(SchemaFaults(surplus, opset).size(), variadic ? 0 : 1) << where;
  EXPECT_EQ(SchemaFaults(trailing, opset), std::vector<std::string>()) << where;
  for (size_t i = 0; i < own.size(); ++i) {
    const bool optional = own[i].ends_with("?"), repeated = variadic && i + 1 == own.size();
    OnnxNode absent = full, fewer = full;
    (absent.*operands)[i].clear();
    (fewer.*operands).resize(i);
    EXPECT_EQ(SchemaFaults(absent, opset).size(), optional || repeated ? 0 : 1) << where << ", " << own[i];
    size_t lacking = 0;
    for (size_t j = i; j < own.size(); ++j) lacking += own[j].ends_with("?") ? 0 : 1;
    EXPECT_EQ(SchemaFaults(fewer, opset).size(), lacking) << where << ", " << i;
  }
}

// Checks the nodes that differ from a full one by one fault. `others` are the operator's rows.
void ExpectStrict(const SchemaRow& row, int64_t opset, bool microsoft, const std::vector<const SchemaRow*>& others) {
  const OnnxNode full = FullNode(row, microsoft);
  const Parsed own = Parse(row);
  const std::string where = std::string(row.op) + " in set " + std::to_string(opset);
  EXPECT_EQ(SchemaFaults(full, opset), std::vector<std::string>()) << where;
  OnnxNode bogus = full;
  bogus.attrs["bogus"] = Value('i');
  EXPECT_THAT(SchemaFaults(bogus, opset), Contains(HasSubstr("has no attribute 'bogus'"))) << where;
  OnnxNode hidden = full;
  hidden.attrs["__private"] = Value('i');
  EXPECT_EQ(SchemaFaults(hidden, opset), std::vector<std::string>()) << where;
  ExpectStrictOperands(full, &OnnxNode::inputs, own.inputs, opset, where);
  ExpectStrictOperands(full, &OnnxNode::outputs, own.outputs, opset, where);
  for (const SchemaRow* other : others) {
    for (const auto& [name, type] : Parse(*other).attributes) {
      OnnxNode mixed = full;
      mixed.attrs[name] = Value(type[0]);
      const auto mine = own.attributes.find(name);
      const bool allowed = mine != own.attributes.end() && (mine->second[0] == type[0] || mine->second[0] == 'x');
      EXPECT_EQ(SchemaFaults(mixed, opset).size(), allowed ? 0 : 1) << where << ", " << name;
    }
  }
  for (const auto& [name, type] : own.attributes) {
    OnnxNode wrong = full;
    wrong.attrs[name] = Value(type[0] == 'f' ? 'i' : 'f');
    EXPECT_EQ(SchemaFaults(wrong, opset).size(), type[0] == 'x' ? 0 : 1) << where << ", " << name;
    OnnxNode absent = full;
    absent.attrs.erase(name);
    EXPECT_EQ(SchemaFaults(absent, opset).size(), type.ends_with("!") ? 1 : 0) << where << ", " << name;
  }
}

TEST(Schema, EveryRowIsStrict) {
  for (bool microsoft : {false, true}) {
    const std::span<const SchemaRow> rows = microsoft ? MicrosoftSchemas() : OnnxSchemas();
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<const SchemaRow*> all;
      for (const SchemaRow& other : rows) {
        if (std::string(other.op) == rows[i].op) all.push_back(&other);
      }
      const bool last = i + 1 == rows.size() || std::string(rows[i + 1].op) != rows[i].op;
      const int end = microsoft ? 1 : last ? kMaxOpset : rows[i + 1].since - 1;
      for (int opset = rows[i].since; opset <= end; ++opset) ExpectStrict(rows[i], opset, microsoft, all);
    }
  }
}

TEST(Schema, CoversTheOperatorsOfTheImporter) {
  for (bool microsoft : {false, true}) {
    std::set<std::string> known, listed;
    std::map<std::string, int> first;
    for (const OperatorRow& row : AllOperators(microsoft)) known.insert(row.name), first[row.name] = row.min_opset;
    std::string before;
    int since = 0;
    for (const SchemaRow& row : microsoft ? MicrosoftSchemas() : OnnxSchemas()) {
      listed.insert(row.op);
      EXPECT_TRUE(before < row.op || (before == row.op && since < row.since)) << row.op << ": rows are not in order";
      before = row.op, since = row.since;
    }
    EXPECT_EQ(known, listed);
  }
}

// The table must be that of ONNX, not only of itself.
TEST(Schema, SomeRowsOfOnnx) {
  auto faults = [](const std::string& op, int64_t opset, size_t inputs, std::map<std::string, OnnxAttr> attrs) {
    OnnxNode node{.op_type = op, .inputs = std::vector<std::string>(inputs, "x"), .outputs = {"y"}, .attrs = attrs};
    return Joined(SchemaFaults(node, opset), "; ");
  };
  EXPECT_EQ(faults("Clip", 6, 1, {{"min", Value('f')}}), "");
  EXPECT_EQ(faults("Clip", 13, 1, {{"min", Value('f')}}),
            "has 'min' as an attribute; it is an input since operator set 11");
  EXPECT_EQ(faults("Split", 13, 1, {{"split", Value('I')}}),
            "has 'split' as an attribute; it is an input since operator set 13");
  EXPECT_EQ(faults("Pad", 13, 2, {{"value", Value('f')}}),
            "has no attribute 'value' in operator set 13; it was withdrawn after 10");
  EXPECT_EQ(faults("Add", 7, 2, {{"axis", Value('i')}}),
            "has no attribute 'axis' in operator set 7; it was withdrawn after 6");
  EXPECT_EQ(faults("AveragePool", 11, 1, {{"kernel_shape", Value('I')}, {"dilations", Value('I')}}),
            "has no attribute 'dilations' in operator set 11; it came with 19");
  EXPECT_EQ(faults("Conv", 13, 2, {{"stride", Value('I')}}),
            "has no attribute 'stride' in operator set 13; did you mean strides?");
  EXPECT_EQ(faults("ReduceMax", 13, 2, {}),
            "has 2 inputs; the most are 1 in operator set 13; 'axes' is an input since 18, and an attribute before");
  EXPECT_EQ(faults("Relu", 13, 2, {}), "has 2 inputs; the most are 1 in operator set 13");
  EXPECT_EQ(faults("LeakyRelu", 13, 1, {{"alpha", Value('i')}}),
            "attribute 'alpha' must be a float, but is an integer");
  EXPECT_EQ(faults("Concat", 13, 1, {}), "lacks the attribute 'axis'");
  EXPECT_EQ(faults("LayerNormalization", 12, 2, {{"axis", Value('i')}}), "") << "ONNX Runtime writes it in any set";
  EXPECT_EQ(faults("DynamicQuantizeLinear", 13, 1, {}), "lacks output 1, 'y_scale'; lacks output 2, 'y_zero_point'");
  EXPECT_EQ(faults("TopK", 13, 2, {}), "lacks output 1, 'Indices'");
  EXPECT_EQ(faults("GRU", 1, 3, {}), "lacks output 1, 'Y_h'") << "optional since set 3";
  EXPECT_EQ(faults("GRU", 3, 3, {}), "");
  EXPECT_EQ(faults("NoSuchOperator", 13, 9, {{"alpha", Value('i')}}), "");
}

TEST(StrictModels, FaultsAreErrorsOrNotes) {
  ModelMaker m;
  m.Input("x", {2}).Output("y").Node("Softmax", {"x", "x"}, {"y"}, "s").Int("axes", 0);
  EXPECT_EQ(ImportError(m),
            "m.onnx cannot be imported: Softmax (node 's'): has no attribute 'axes' in operator set 13; did you mean "
            "axis?; has 2 inputs; the most are 1 in operator set 13 (--lenient ignores this)");
  Result<ImportedModel> lenient = Import(m, {.lenient = true});
  ASSERT_TRUE(lenient.ok()) << lenient.error().Text();
  ASSERT_EQ(lenient->notes.size(), 2u);
  EXPECT_EQ(lenient->notes[0],
            "Softmax (node 's') has no attribute 'axes' in operator set 13; did you mean axis?; "
            "ignored (--lenient)");
}

TEST(StrictModels, RequiredOutputsHaveNames) {
  auto quantize = [](const std::vector<std::string>& outputs, bool lenient = false) {
    ModelMaker m;
    m.Input("x", {2}).TypedOutput("y", {2}, kUInt8).Node("DynamicQuantizeLinear", {"x"}, outputs, "q");
    return ImportError(m, {.lenient = lenient});
  };
  EXPECT_EQ(quantize({"y", "s", "z"}), "no error");
  EXPECT_EQ(quantize({"y", "s"}),
            "m.onnx cannot be imported: DynamicQuantizeLinear (node 'q'): lacks output 2, 'y_zero_point' (--lenient "
            "ignores this)");
  EXPECT_THAT(quantize({"y", "", "z"}), HasSubstr("lacks output 1, 'y_scale'"));
  EXPECT_EQ(quantize({"y", "s"}, true), "no error");
  ModelMaker optional;
  optional.Input("x", {1, 1, 4}).Output("i").Node("MaxPool", {"x"}, {"p", ""}).Ints("kernel_shape", {2});
  optional.Node("Split", {"x"}, {"", "i"}).Int("axis", 2);
  EXPECT_EQ(ImportError(optional), "no error") << "optional and repeated outputs may be omitted";
}

TEST(StrictModels, NodesOfFunctionsAndSubgraphs) {
  ModelMaker body(17), m(17);
  body.Input("v", {}).Output("r").Node("LeakyRelu", {"v"}, {"r"}).Reference("alpha", "slope").Int("bogus", 1);
  m.Input("x", {2}).Output("y").Function("f", "F", body).Node("F", {"x"}, {"y"}, "call").Domain("f");
  EXPECT_THAT(ImportError(m), HasSubstr("LeakyRelu (node #0): has no attribute 'bogus' in operator set 17 (--lenient "
                                        "ignores this), in function f.F (node 'call')"));
  ModelMaker sound(17), call(17);
  sound.Input("v", {}).Output("r").Node("LeakyRelu", {"v"}, {"r"}).Reference("alpha", "slope");
  call.Input("x", {2}).Output("y").Function("f", "F", sound);
  call.Node("F", {"x"}, {"y"}, "call").Domain("f").Float("slop", 0.5f);
  EXPECT_THAT(ImportError(call), HasSubstr("f.F (node 'call'): has an attribute 'slop', which the function has not"));
  ModelMaker step(17), loop(17);
  step.Input("i", {}, kInt64).Input("go", {}, 9).Input("v", {2}).Output("go").Output("r");
  step.Node("Relu", {"v"}, {"r"}).Float("alpha", 1);
  loop.Input("x", {2}).Ints("n", {3}).Output("y").Node("Loop", {"n", "", "x"}, {"y"}).Graph("body", step);
  EXPECT_THAT(ImportError(loop), HasSubstr("Relu (node #0): has no attribute 'alpha' in operator set 17"));
  Result<ImportedModel> lenient = Import(loop, {.lenient = true});
  ASSERT_TRUE(lenient.ok()) << lenient.error().Text();
  EXPECT_EQ(lenient->notes.size(), 1u) << "a fault in a loop is noted once";
}

TEST(StrictModels, AnAttributeStandsOnce) {
  ModelMaker m;
  m.Input("x", {2}).Output("y").Node("LeakyRelu", {"x"}, {"y"}).Float("alpha", 1).Float("alpha", 2);
  EXPECT_THAT(ImportError(m), HasSubstr("has two attributes 'alpha'"));
}

TEST(StrictModels, DeclaredTypesAreTheComputedOnes) {
  ModelMaker m;
  m.Input("x", {2}).TypedOutput("y", {2}, kInt64).Node("Relu", {"x"}, {"y"});
  EXPECT_THAT(ImportError(m), HasSubstr("tensor 'y' is declared int64, but is computed as float32"));
  Result<ImportedModel> lenient = Import(m, {.lenient = true});
  ASSERT_TRUE(lenient.ok()) << lenient.error().Text();
  EXPECT_THAT(lenient->notes, Contains(HasSubstr("tensor 'y' is declared int64")));
  ModelMaker text, inner;
  text.Input("x", {2}).TypedOutput("y", {2}, kString).Node("Relu", {"x"}, {"y"});
  EXPECT_THAT(ImportError(text), HasSubstr("tensor 'y' is declared string, but is computed as float32"));
  inner.Input("x", {2}).Output("y").Declared("z", {2}, kInt64).Node("Relu", {"x"}, {"z"});
  inner.Node("Neg", {"z"}, {"y"});
  EXPECT_THAT(ImportError(inner), HasSubstr("tensor 'z' is declared int64, but is computed as float32"));
}

TEST(StrictModels, InputsAreDeclaredAsTheirInitializers) {
  auto model = [](const std::vector<int64_t>& shape, int type) {
    ModelMaker m;
    m.Input("x", {2}).Input("w", shape, type).Floats("w", {2}, {1, 2}).Output("y").Node("Add", {"x", "w"}, {"y"});
    return m;
  };
  EXPECT_THAT(ImportError(model({2}, kInt64)),
              HasSubstr("tensor 'w' is declared int64, but its initializer is float32 (--lenient ignores this)"));
  EXPECT_EQ(ImportError(model({2}, kInt64), {.lenient = true}), "no error");
  EXPECT_THAT(ImportError(model({3}, kFloat)),
              HasSubstr("tensor 'w' is declared [3], but its initializer has the shape [2] (--lenient ignores this)"));
  EXPECT_THAT(ImportError(model({2, 1}, kFloat)), HasSubstr("tensor 'w' is declared [2,1]"));
  EXPECT_EQ(ImportError(model({3}, kFloat), {.lenient = true}), "no error");
  EXPECT_EQ(ImportError(model({2}, kFloat)), "no error");
  EXPECT_EQ(ImportError(model({-1}, kFloat)), "no error") << "a symbolic extent";
}

TEST(StrictModels, DeclaredShapesAreNoted) {
  auto notes = [](const std::vector<int64_t>& declared, const ImportOptions& options = {}) {
    ModelMaker m;
    m.Input("x", {2, 3}).TypedOutput("y", declared, kFloat).Declared("z", {3, 3}, kFloat);
    m.Node("Relu", {"x"}, {"z"});
    m.Node("Neg", {"z"}, {"y"});
    Result<ImportedModel> imported = Import(m, options);
    EXPECT_TRUE(imported.ok()) << imported.error().Text();
    return imported->notes;
  };
  EXPECT_EQ(notes({3, 2}), std::vector<std::string>{"tensor 'y' has the shape [2,3]; the model declares [3,2] (and so "
                                                    "for 1 other tensors)"});
  EXPECT_EQ(notes({-1, 3}), std::vector<std::string>{"tensor 'z' has the shape [2,3]; the model declares [3,3]"});
  // The user changed the shapes, so those that the model declares do not hold.
  EXPECT_EQ(notes({3, 2}, {.shapes = {{"x", {4, 3}}}}),
            std::vector<std::string>{"--shape changes dimension 0 of input 'x', which the model fixes, from 2 to 4"});
}

// Returns why a model of one node is refused, or "" if it is not. `types` are those of its inputs.
std::string RefusalOf(const char* op, const std::vector<int>& types, int opset, bool lenient = false) {
  ModelMaker m(opset);
  std::vector<std::string> names;
  for (int type : types) {
    names.push_back("x" + std::to_string(names.size()));
    m.Input(names.back(), {3, 3}, type);
  }
  m.Output("y").Node(op, names, {"y"});
  const Result<ImportedModel> imported = Import(m, {.lenient = lenient});
  return imported.ok() ? "" : imported.error().Text();
}

TEST(OperandTypes, AreThoseOfTheOperatorSet) {
  constexpr int kInt16 = 5, kHalf = 10;
  EXPECT_THAT(RefusalOf("Relu", {kInt32}, 13), HasSubstr("input 0 is int32; in operator set 13 it may be float32, "));
  EXPECT_EQ(RefusalOf("Relu", {kInt32}, 14), "");
  EXPECT_EQ(RefusalOf("Relu", {kFloat}, 13), "");
  EXPECT_THAT(RefusalOf("And", {kInt64, kInt64}, 13), HasSubstr("input 1 is int64; in operator set 13 it may be bool"));
  EXPECT_EQ(RefusalOf("And", {kBool, kBool}, 13), "");
  EXPECT_THAT(RefusalOf("MatMul", {kInt16, kInt16}, 13), HasSubstr("input 1 is int16; in operator set 13 it may be "));
  EXPECT_EQ(RefusalOf("MatMul", {kInt64, kInt64}, 13), "");
  EXPECT_THAT(RefusalOf("LayerNormalization", {kFloat, kHalf}, 17),
              HasSubstr("inputs 0 and 1 must have one type, but are float32 and float16"));
  EXPECT_EQ(RefusalOf("LayerNormalization", {kHalf, kHalf}, 17), "");
  EXPECT_EQ(RefusalOf("Max", {kInt64, kInt64, kInt64}, 13), "");
}

TEST(OperandTypes, LenientImportIgnoresThem) {
  EXPECT_NE(RefusalOf("Relu", {kInt32}, 13), "");
  EXPECT_EQ(RefusalOf("Relu", {kInt32}, 13, true), "");
}

// The rows of an operator stand together, oldest first, and each variable has its types where it first occurs.
TEST(OperandTypes, RowsAreWellFormed) {
  for (bool microsoft : {false, true}) {
    std::set<std::string> done;
    std::string op;
    int since = 0;
    for (const OperandTypesRow& row : microsoft ? MicrosoftOperandTypes() : OnnxOperandTypes()) {
      if (op != row.op) {
        EXPECT_TRUE(done.insert(row.op).second) << row.op;
        since = 0;
      }
      op = row.op;
      EXPECT_GT(row.since, since) << op;
      since = row.since;
      std::set<std::string> known;
      std::istringstream words(row.inputs);
      for (std::string word; words >> word;) {
        const std::string variable = word.substr(0, word.find('='));
        EXPECT_EQ(variable.empty() || known.insert(variable).second, word != variable) << op << " " << since;
      }
    }
    // ONNX Runtime does not state the types of its two normalizations.
    const std::set<std::string> absent = {"Constant", "Scan", "SimplifiedLayerNormalization"};
    for (const OperatorRow& row : AllOperators(microsoft)) {
      const bool unknown = absent.contains(row.name) || (microsoft && row.name == std::string("LayerNormalization"));
      EXPECT_NE(done.contains(row.name), unknown) << row.name;
    }
  }
}

const std::vector<std::pair<char, DType>> kTypes = {
    {'f', DType::Float(32)}, {'d', DType::Float(64)}, {'h', DType::Float(16)}, {'y', DType::BFloat16()},
    {'b', DType::Bool()},    {'c', DType::Int(8)},    {'s', DType::Int(16)},   {'i', DType::Int(32)},
    {'l', DType::Int(64)},   {'C', DType::UInt(8)},   {'S', DType::UInt(16)},  {'I', DType::UInt(32)},
    {'L', DType::UInt(64)}};

// Returns what is wrong with inputs of the types that the letters mean. An operator of com.microsoft has no set.
std::string TypesRefused(const std::string& op, int64_t opset, const std::string& letters) {
  OnnxNode node{.op_type = op, .domain = opset == 0 ? "com.microsoft" : "", .outputs = {"y"}};
  for (size_t i = 0; i < letters.size(); ++i) node.inputs.push_back(std::to_string(i));
  auto type_of = [&](const std::string& name) -> std::optional<DType> {
    for (const auto& [letter, type] : kTypes) {
      if (letter == letters[std::stoul(name)]) return type;
    }
    return std::nullopt;
  };
  return Joined(TypeFaults(node, std::max<int64_t>(opset, 1), type_of), "; ");
}

// Gives each input of a row each type. The inputs before it have their first types.
void ExpectOtherTypesAreRefused(const OperandTypesRow& row, int64_t opset) {
  std::map<std::string, std::string> allowed;
  std::istringstream words(row.inputs);
  std::string before;
  for (std::string word; words >> word; before += allowed[word.substr(0, word.find('='))][0]) {
    const std::string variable = word.substr(0, word.find('='));
    if (variable != word) allowed[variable] = word.substr(variable.size() + 1);
    if (allowed[variable] == "*") allowed[variable] = "fdhybcsilCSIL";
    const std::string input = "input " + std::to_string(before.size()) + " is ";
    for (const auto& [letter, type] : kTypes) {
      const bool refused = TypesRefused(row.op, opset, before + letter).find(input) != std::string::npos;
      EXPECT_EQ(refused, allowed[variable].find(letter) == std::string::npos)
          << row.op << " in set " << opset << ", " << input << letter;
    }
  }
}

TEST(OperandTypes, EveryRowRefusesOtherTypes) {
  const std::span<const OperandTypesRow> rows = OnnxOperandTypes();
  for (size_t r = 0; r < rows.size(); ++r) {
    const bool last = r + 1 == rows.size() || std::string(rows[r + 1].op) != rows[r].op;
    for (int opset = rows[r].since; opset <= (last ? kMaxOpset : rows[r + 1].since - 1); ++opset)
      ExpectOtherTypesAreRefused(rows[r], opset);
  }
  for (const OperandTypesRow& row : MicrosoftOperandTypes()) ExpectOtherTypesAreRefused(row, 0);
}

// The table must be that of ONNX, not only of itself.
TEST(OperandTypes, SomeRowsOfOnnx) {
  struct Row {
    const char* op;
    int opset;
    const char* types;
    const char* refusal = "";
  };
  const Row rows[] = {
      {"Transpose", 12, "y", "input 0 is bfloat16; in operator set 12"},
      {"Transpose", 13, "y"},
      {"DequantizeLinear", 18, "ch", "input 1 is float16"},
      {"DequantizeLinear", 19, "ch"},
      {"DequantizeLinear", 20, "sf", "input 0 is int16"},
      {"DequantizeLinear", 21, "sf"},
      {"QuantizeLinear", 19, "fh", "inputs 0 and 1 must have one type"},
      {"QuantizeLinear", 23, "fh"},
      {"ReduceMax", 19, "b", "input 0 is bool"},
      {"ReduceMax", 20, "b"},
      {"IsInf", 19, "h", "input 0 is float16"},
      {"IsInf", 20, "h"},
      {"HardSwish", 21, "y", "input 0 is bfloat16"},
      {"HardSwish", 22, "y"},
      {"TopK", 23, "yl", "input 0 is bfloat16"},
      {"TopK", 24, "yl"},
      {"GridSample", 20, "if"},
      {"GridSample", 20, "ii", "input 1 is int32"},
      {"BitwiseAnd", 18, "ff", "input 0 is float32"},
      {"Attention", 24, "fdf", "inputs 0 and 1 must have one type"},
      {"Attention", 24, "ffhb"},
      {"LinearAttention", 28, "ddd", "input 0 is float64"},
      {"If", 16, "l", "input 0 is int64; in operator set 16 it may be bool"},
      {"Loop", 16, "lbfi"},
      {"Loop", 16, "ibf", "input 0 is int32"},
      {"MultiHeadAttention", 0, "fffdi", "input 3 is float64; it may be float32"},
      {"MultiHeadAttention", 0, "ffffi"},
      {"BiasGelu", 0, "fh", "inputs 0 and 1 must have one type"},
      {"Celu", 28, "h"},  // the table does not know the types of set 28
  };
  for (const Row& row : rows) {
    const std::string refused = TypesRefused(row.op, row.opset, row.types);
    EXPECT_EQ(refused.empty(), std::string(row.refusal).empty()) << row.op << " " << row.opset << ": " << refused;
    EXPECT_THAT(refused, HasSubstr(row.refusal)) << row.op << " " << row.opset;
  }
}

}  // namespace
}  // namespace autotune::onnx_import
