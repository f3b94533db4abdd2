#include "tests/schedule/workload.h"

#include <algorithm>

#include "ir/float_math.h"
#include "support/check.h"
#include "te/create_prim_func.h"
#include "tests/ir/random_program.h"
#include "topi/conv.h"
#include "topi/elementwise.h"
#include "topi/matmul.h"
#include "topi/norm.h"
#include "topi/pool.h"
#include "topi/reduce.h"
#include "topi/select.h"
#include "topi/transform.h"
#include "topi/winograd.h"

namespace autotune::zoo {
namespace {

using te::Placeholder;
using te::Shape;
using te::Tensor;
using te::TensorParam;

// The arguments of a workload by name, so that the functions of the kinds read like formulas.
class Args {
 public:
  Args(const std::vector<std::string>& names, const std::vector<int64_t>& values) : names_(names), values_(values) {}
  int64_t operator[](std::string_view name) const {
    auto it = std::find(names_.begin(), names_.end(), name);
    CHECK(it != names_.end()) << "no parameter " << name;
    return values_[it - names_.begin()];
  }

 private:
  const std::vector<std::string>& names_;
  const std::vector<int64_t>& values_;
};

// Returns the input's extent for `out` windows, at least 1.
int64_t InputOf(int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad) {
  return std::max<int64_t>((out - 1) * stride + (kernel - 1) * dilation + 1 - 2 * pad, 1);
}

PrimFunc Func(std::vector<TensorParam> params, const std::vector<Tensor>& outputs, bool use_fma = false) {
  for (const Tensor& t : outputs) params.push_back({t, ParamRole::kOutput});
  return te::CreatePrimFunc("f", params, {.use_fma = use_fma});
}

using Convolution = Tensor(const std::string&, const Tensor&, const Tensor&, const topi::ConvAttrs&);

template <Convolution* convolution>
PrimFunc ConvBy(const Args& a) {
  int64_t groups = a["groups"];
  Tensor data =
      Placeholder("data", {a["n"], InputOf(a["oh"], a["kh"], a["stride"], a["dilation"], a["pad"]),
                           InputOf(a["ow"], a["kw"], a["stride"], a["dilation"], a["pad"]), a["ic"] * groups});
  Tensor weight = Placeholder("w", {a["kh"], a["kw"], a["ic"], a["oc"] * groups});
  topi::ConvAttrs attrs;
  attrs.stride = {a["stride"], a["stride"]};
  attrs.dilation = {a["dilation"], a["dilation"]};
  attrs.pad = {a["pad"], a["pad"], a["pad"], a["pad"]};
  attrs.groups = groups;
  Tensor out = convolution("conv", data, weight, attrs);
  std::vector<TensorParam> params{{data}, {weight, ParamRole::kConstant}};
  if (a["epilogue"] >= 1) {
    Tensor bias = Placeholder("bias", {a["oc"] * groups});
    params.push_back({bias, ParamRole::kConstant});
    out = topi::Add("add", out, bias);
  }
  if (a["epilogue"] >= 2) {
    Tensor residual = Placeholder("residual", out.shape());
    params.push_back({residual});
    out = topi::Add("sum", out, residual);
  }
  if (a["epilogue"] >= 1) out = topi::Relu("relu", out);
  return Func(params, {out}, a["fma"]);
}

PrimFunc Winograd(const Args& a) {
  Tensor data = Placeholder("data", {1, a["h"], a["w"], a["ic"]}), weight = Placeholder("w", {3, 3, a["ic"], a["oc"]});
  topi::WinogradTiling tiling{.tile = 2 * a["tile"], .rows = a["rows"], .columns = a["columns"]};
  Tensor out = topi::Conv2dWinograd("conv", data, weight, {.pad = {1, 1, 1, 1}}, tiling);
  return Func({{data}, {weight, ParamRole::kConstant}}, {topi::Relu("relu", out)}, true);
}

PrimFunc Dense(const Args& a) {
  Tensor x = Placeholder("a", {a["m"], a["k"]}), b = Placeholder("b", {a["k"], a["n"]});
  std::vector<TensorParam> params{{x}, {b, ParamRole::kConstant}};
  Tensor out = topi::MatMul("dense", x, b);
  if (a["bias"]) {
    Tensor bias = Placeholder("bias", {a["n"]});
    params.push_back({bias, ParamRole::kConstant});
    out = topi::Clip("out", topi::Add("add", out, bias), -3, 6);
  }
  return Func(params, {out}, a["fma"]);
}

// A product whose operands tensor cores can multiply. `type`: 0 (f32 rounded to TF32), 1 (f16) or 2 (bf16).
PrimFunc DenseNarrow(const Args& a) {
  const DType types[] = {DType::Float(32), DType::Float(16), DType::BFloat16()};
  const DType type = types[a["type"]];
  Tensor x = Placeholder("a", {a["m"] * a["times"], a["k"] * 8}, type),
         b = Placeholder("b", {a["k"] * 8, a["n"] * 8}, type);
  const auto rounding = a["type"] == 0 ? topi::Rounding::kTf32 : topi::Rounding::kNone;
  return Func({{x}, {b}}, {topi::Relu("relu", topi::MatMul("dense", x, b, rounding))}, a["fma"]);
}

PrimFunc DenseInBlocks(const Args& a) {
  Tensor x = Placeholder("a", {a["m"], a["block"] * a["blocks"]}), b = Placeholder("b", {x.shape()[1], a["n"]});
  Tensor out = topi::MatMulInBlocks("dense", x, b, a["block"]);
  return Func({{x}, {b, ParamRole::kConstant}}, {topi::Relu("relu", out)}, true);
}

PrimFunc BatchMatMul(const Args& a) {
  Tensor x = Placeholder("a", {a["batch"], a["m"], a["k"]});
  Tensor y = Placeholder("b", {a["shared"] ? 1 : a["batch"], a["k"], a["n"]});
  return Func({{x}, {y}}, {topi::MatMul("mm", x, y)});
}

// Two layers. The hidden layer may be an output, too; then no step may remove its buffer.
PrimFunc Mlp(const Args& a) {
  Tensor x = Placeholder("x", {a["m"], a["k"]}), w0 = Placeholder("w0", {a["k"], a["h"]});
  Tensor w1 = Placeholder("w1", {a["h"], a["n"]});
  Tensor hidden = topi::Relu("hidden", topi::MatMul("fc0", x, w0)), y = topi::MatMul("fc1", hidden, w1);
  std::vector<Tensor> outputs{topi::Neg("y", y)};
  if (a["outputs"] == 2) outputs.push_back(hidden);
  return Func({{x}, {w0, ParamRole::kConstant}, {w1, ParamRole::kConstant}}, outputs);
}

PrimFunc Pool(const Args& a) {
  Tensor data = Placeholder("data", {1, InputOf(a["oh"], a["kernel"], a["stride"], a["dilation"], a["pad"]),
                                     InputOf(a["ow"], a["kernel"], a["stride"], a["dilation"], a["pad"]), a["c"]});
  topi::PoolAttrs attrs;
  attrs.kernel = {a["kernel"], a["kernel"]};
  attrs.stride = {a["stride"], a["stride"]};
  attrs.dilation = {a["dilation"], a["dilation"]};
  int64_t pad = std::min(a["pad"], a["kernel"] - 1);  // so that every window holds an element
  attrs.pad = {pad, pad, pad, pad};
  attrs.ceil_mode = a["ceil"];
  attrs.count_include_pad = a["include"];
  return Func({{data}}, {a["average"] ? topi::AvgPool("pool", data, attrs) : topi::MaxPool("pool", data, attrs)});
}

PrimFunc GlobalPool(const Args& a) {
  Tensor data = Placeholder("data", {a["n"], a["h"], a["w"], a["c"]});
  return Func({{data}}, {a["average"] ? topi::GlobalAvgPool("pool", data) : topi::GlobalMaxPool("pool", data)});
}

PrimFunc Reduce(const Args& a) {
  Tensor x = Placeholder("x", {a["a"], a["b"], a["c"]});
  std::vector<int> axes;
  for (int i = 0; i < 3; ++i) {
    if (a["axes"] >> i & 1) axes.push_back(i);
  }
  // A product of many integers would exceed the integers that floats represent exactly.
  bool long_product = a["a"] * a["b"] * a["c"] > 20;
  auto combiner = static_cast<te::Combiner>(a["combiner"] == 1 && long_product ? 0 : a["combiner"]);
  Tensor out = topi::ReduceAxes("reduce", topi::Abs("abs", x), axes, combiner);
  return Func({{x}}, {a["epilogue"] ? topi::Neg("neg", out) : out});
}

PrimFunc ArgReduce(const Args& a) {
  Tensor x = Placeholder("x", {a["a"], a["b"], a["c"]});
  return Func({{x}}, {topi::ArgReduce("arg", x, static_cast<int>(a["axis"]), a["largest"], a["last"])});
}

PrimFunc Softmax(const Args& a) {
  Tensor x = Placeholder("x", {a["rows"], a["columns"]});
  return Func({{x}}, {topi::Softmax("softmax", x, {static_cast<int>(a["axis"])})});
}

PrimFunc Attention(const Args& a) {
  Tensor q = Placeholder("q", {a["m"], a["k"]}), k = Placeholder("k", {a["k"], a["n"]}),
         v = Placeholder("v", {a["n"], a["d"]});
  Tensor p = topi::Softmax("p", topi::Mul("scaled", topi::MatMul("qk", q, k), te::Splat({1}, 0.5)), {1});
  return Func({{q}, {k}, {v}}, {topi::MatMul("y", p, v)});
}

PrimFunc Lrn(const Args& a) {
  Tensor x = Placeholder("x", {1, a["h"], a["w"], a["c"]});
  return Func({{x}}, {topi::Lrn("lrn", x, {.size = a["size"], .alpha = 0.5})});
}

// relu(2 x + row - column), where the row and the column broadcast. Up to three outputs read the sum 2 x + row.
PrimFunc Elementwise(const Args& a) {
  Tensor x = Placeholder("x", {a["rows"], a["columns"]}), row = Placeholder("row", {a["columns"]});
  Tensor column = Placeholder("column", {a["rows"], 1});
  Tensor sum = topi::Add("sum", topi::Mul("twice", x, te::Splat({1}, 2)), row);
  Tensor out = topi::Relu("out", topi::Sub("sub", sum, column));
  std::vector<Tensor> outputs{out};
  if (a["outputs"] >= 2) outputs.push_back(topi::Maximum("other", sum, column));
  if (a["outputs"] >= 3)
    outputs.push_back(topi::Where("chosen", topi::Compare("greater", x, row, BinaryOp::kGt), x, sum));
  return Func({{x}, {row, ParamRole::kConstant}, {column}}, outputs);
}

PrimFunc Concat(const Args& a) {
  int axis = static_cast<int>(a["axis"]);
  std::vector<TensorParam> params;
  std::vector<Tensor> inputs;
  for (const char* name : {"p", "q", "r"}) {
    Shape shape{a["a"], a["b"]};
    shape[axis] = a[name];
    Tensor t = Placeholder(name, shape);
    params.push_back({t});
    inputs.push_back(params.size() == 2 ? topi::Neg("neg", t) : t);
  }
  return Func(params, {topi::Relu("relu", topi::Concat("concat", inputs, axis))});
}

PrimFunc Move(const Args& a) {
  Tensor x = Placeholder("x", {a["a"], a["b"]});
  Shape interior(2, a["interior"]);
  Tensor padded = a["reflect"] && a["a"] > 2 && a["b"] > 2
                      ? topi::PadFromInside("pad", x, {a["before"], 0}, {0, a["after"]}, true)
                      : topi::Pad("pad", x, {a["before"], 0}, {0, a["after"]}, 3, interior);
  Tensor turned = topi::Transpose("turn", padded, {1, 0});
  Shape shape = turned.shape();
  int64_t step = a["step"] == 0 ? -1 : a["step"], extent = (shape[0] + a["step"]) / (a["step"] + 1);
  Tensor sliced = topi::Slice("slice", turned, {step < 0 ? shape[0] - 1 : 0, 0},
                              {std::max<int64_t>(extent, 1), shape[1]}, {step, 1});
  int64_t count = te::Product(sliced.shape());
  return Func({{x}}, {topi::Reshape("flat", sliced, {count})});
}

PrimFunc Gather(const Args& a) {
  Tensor x = Placeholder("x", {a["rows"], a["columns"]});
  Tensor at = Placeholder("at", {a["picks"]}, DType::Int(64));
  Tensor taken = topi::Gather("gather", topi::Neg("neg", x), at, static_cast<int>(a["axis"]));
  return Func({{x}, {at}}, {topi::Relu("relu", taken)});
}

PrimFunc Random(const Args& a) {
  test::RandomProgramOptions options;
  options.stages = static_cast<int>(a["stages"]);
  options.max_extent = a["extent"];
  return test::MakeRandomProgram(static_cast<uint64_t>(a["seed"]), options);
}

struct Range {
  std::string name;
  int64_t low, high;
};
// Tolerances relative to the largest element of an output. kRounded is for divisions and exponentials in single
// precision. kWinogradError is twice the error that topi/winograd.h states.
constexpr double kRounded = 1e-4, kWinogradError = 1e-5;

struct Kind {
  std::string name;
  int weight;        // relative frequency of drawing it
  double tolerance;  // for integer inputs; 0: exact
  PrimFunc (*make)(const Args&);
  std::vector<Range> ranges;
  std::vector<std::string> names = {};
};

std::vector<Range> ConvRanges(const Range& groups) {
  return {{"n", 1, 2},  {"oh", 1, 4},       {"ow", 1, 4},     {"ic", 1, 3},       {"oc", 1, 5},
          {"kh", 1, 3}, {"kw", 1, 3},       {"stride", 1, 2}, {"dilation", 1, 2}, {"pad", 0, 1},
          groups,       {"epilogue", 0, 2}, {"fma", 0, 1}};
}

const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kinds = [] {
    std::vector<Kind> list{
        {"random", 12, 0, Random, {{"seed", 0, 1 << 20}, {"stages", 1, 5}, {"extent", 1, 8}}},
        {"conv", 4, 0, ConvBy<topi::Conv>, ConvRanges({"groups", 1, 3})},
        {"conv_across_groups", 1, 0, ConvBy<topi::ConvAcrossGroups>, ConvRanges({"groups", 2, 4})},
        {"conv_skip_padding", 1, 0, ConvBy<topi::ConvSkippingPadding>, ConvRanges({"groups", 1, 1})},
        {"winograd",
         1,
         kWinogradError,
         Winograd,
         {{"tile", 1, 2}, {"rows", 0, 2}, {"columns", 1, 2}, {"h", 1, 5}, {"w", 1, 5}, {"ic", 1, 2}, {"oc", 1, 3}}},
        {"dense", 2, 0, Dense, {{"m", 1, 9}, {"n", 1, 9}, {"k", 1, 9}, {"bias", 0, 1}, {"fma", 0, 1}}},
        {"dense_in_blocks", 1, 0, DenseInBlocks, {{"m", 1, 7}, {"n", 1, 7}, {"block", 1, 4}, {"blocks", 1, 4}}},
        {"dense_narrow",
         1,
         0,
         DenseNarrow,
         {{"m", 7, 8}, {"times", 1, 2}, {"n", 1, 2}, {"k", 1, 2}, {"type", 0, 2}, {"fma", 0, 1}}},
        {"batch_matmul", 1, 0, BatchMatMul, {{"batch", 1, 3}, {"m", 1, 5}, {"n", 1, 5}, {"k", 1, 6}, {"shared", 0, 1}}},
        {"mlp", 2, 0, Mlp, {{"m", 1, 5}, {"k", 1, 5}, {"h", 1, 6}, {"n", 1, 4}, {"outputs", 1, 2}}},
        {"pool",
         2,
         0,
         Pool,
         {{"oh", 1, 4},
          {"ow", 1, 4},
          {"c", 1, 5},
          {"kernel", 1, 3},
          {"stride", 1, 2},
          {"dilation", 1, 2},
          {"pad", 0, 1},
          {"ceil", 0, 1},
          {"include", 0, 1},
          {"average", 0, 1}}},
        {"global_pool", 1, 0, GlobalPool, {{"n", 1, 2}, {"h", 1, 5}, {"w", 1, 5}, {"c", 1, 5}, {"average", 0, 1}}},
        {"reduce",
         2,
         0,
         Reduce,
         {{"a", 1, 5}, {"b", 1, 5}, {"c", 1, 20}, {"axes", 1, 7}, {"combiner", 0, 3}, {"epilogue", 0, 1}}},
        {"arg_reduce",
         1,
         0,
         ArgReduce,
         {{"a", 1, 5}, {"b", 1, 5}, {"c", 1, 7}, {"axis", 0, 2}, {"largest", 0, 1}, {"last", 0, 1}}},
        {"softmax", 1, kRounded, Softmax, {{"rows", 1, 7}, {"columns", 1, 7}, {"axis", 0, 1}}},
        {"attention", 1, kRounded, Attention, {{"m", 1, 4}, {"k", 1, 4}, {"n", 1, 4}, {"d", 1, 4}}},
        {"lrn", 1, kRounded, Lrn, {{"h", 1, 4}, {"w", 1, 4}, {"c", 1, 7}, {"size", 1, 5}}},
        {"elementwise", 2, 0, Elementwise, {{"rows", 1, 9}, {"columns", 1, 9}, {"outputs", 1, 3}}},
        {"concat", 1, 0, Concat, {{"a", 1, 5}, {"b", 1, 5}, {"p", 1, 5}, {"q", 1, 5}, {"r", 1, 5}, {"axis", 0, 1}}},
        {"move",
         1,
         0,
         Move,
         {{"a", 1, 6},
          {"b", 1, 6},
          {"before", 0, 2},
          {"after", 0, 2},
          {"interior", 0, 1},
          {"reflect", 0, 1},
          {"step", 0, 2}}},
        {"gather", 1, 0, Gather, {{"rows", 1, 5}, {"columns", 1, 5}, {"picks", 1, 5}, {"axis", 0, 1}}},
    };
    for (Kind& kind : list) {
      for (const Range& range : kind.ranges) kind.names.push_back(range.name);
    }
    return list;
  }();
  return kinds;
}

const Kind* FindKind(std::string_view name) {
  for (const Kind& kind : Kinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

const Kind& KindOf(const Workload& workload) {
  const Kind* kind = FindKind(workload.kind);
  CHECK(kind && kind->ranges.size() == workload.args.size()) << workload.kind;
  return *kind;
}

}  // namespace

std::string ToText(const Workload& workload) {
  const Kind& kind = KindOf(workload);
  std::string text = kind.name + "(";
  for (size_t i = 0; i < kind.names.size(); ++i) {
    text += (i ? ", " : "") + kind.names[i] + "=" + std::to_string(workload.args[i]);
  }
  return text + ")";
}

Result<Workload> ParseWorkload(std::string_view text) {
  size_t open = text.find('(');
  const Kind* kind = open == text.npos ? nullptr : FindKind(text.substr(0, open));
  if (!kind) return Err("there is no kind of workload in '", text, "'");
  Workload workload{kind->name, {}};
  size_t at = open + 1;
  for (const Range& range : kind->ranges) {
    size_t equals = text.find('=', at), end = text.find_first_of(",)", at);
    if (equals == text.npos || end == text.npos || equals > end || text.substr(at, equals - at) != range.name) {
      return Err("expected ", range.name, "= in '", text, "'");
    }
    std::string digits(text.substr(equals + 1, end - equals - 1));
    bool number = !digits.empty() && digits.size() < 9 && digits.find_first_not_of("0123456789") == digits.npos;
    int64_t value = number ? std::stoll(digits) : -1;
    if (value < range.low || value > range.high) {
      return Err(range.name, "=", digits, " is not between ", range.low, " and ", range.high);
    }
    const bool last = &range == &kind->ranges.back();
    if (text[end] != (last ? ')' : ',') || (last && end + 1 < text.size())) {
      return Err("expected ", last ? "')' and the end" : "','", " after ", range.name, "=", digits, " in '", text, "'");
    }
    workload.args.push_back(value);
    at = end + 1;
    while (at < text.size() && text[at] == ' ') ++at;
  }
  return workload;
}

std::vector<std::string> WorkloadKinds() {
  std::vector<std::string> names;
  for (const Kind& kind : Kinds()) names.push_back(kind.name);
  return names;
}

Workload DrawWorkload(const std::string& name, Rng& rng) {
  const Kind* kind = FindKind(name);
  CHECK(kind) << name;
  Workload workload{name, {}};
  for (const Range& range : kind->ranges) workload.args.push_back(range.low + rng.Below(range.high - range.low + 1));
  return workload;
}

Workload DrawWorkload(Rng& rng) {
  int64_t total = 0;
  for (const Kind& kind : Kinds()) total += kind.weight;
  int64_t at = rng.Below(total);
  for (const Kind& kind : Kinds()) {
    if ((at -= kind.weight) < 0) return DrawWorkload(kind.name, rng);
  }
  UNREACHABLE();
  return {};
}

PrimFunc MakeProgram(const Workload& workload) {
  const Kind& kind = KindOf(workload);
  return kind.make(Args(kind.names, workload.args));
}

double ToleranceOf(const Workload& workload) { return KindOf(workload).tolerance; }

std::vector<Workload> SmallerThan(const Workload& workload) {
  const Kind& kind = KindOf(workload);
  std::vector<Workload> smaller;
  for (size_t i = 0; i < workload.args.size(); ++i) {
    if (kind.names[i] == "seed") continue;  // another seed gives another program, not a smaller one
    int64_t low = kind.ranges[i].low, value = workload.args[i];
    for (int64_t next : {low, (low + value) / 2, value - 1}) {
      Workload other = workload;
      other.args[i] = next;
      if (next < value && next >= low && (smaller.empty() || smaller.back() != other)) smaller.push_back(other);
    }
  }
  return smaller;
}

std::vector<InterpArray> NormalArgs(const PrimFunc& f, uint64_t seed) {
  std::vector<InterpArray> args = test::RandomArgs(f, seed);
  Rng rng(seed + 77);
  for (InterpArray& array : args) {
    if (!array.dtype.IsFloat()) continue;
    for (double& x : array.data) x = RoundFloat(rng.Normal(), array.dtype);
  }
  return args;
}

}  // namespace autotune::zoo
