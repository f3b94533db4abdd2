// Models made from valid ones by random changes (tests/frontend/mutator.h). Each model is refused in one line, or it
// passes import, graph passes and the split into tasks, and gives the outputs that its graph defines. Some are compiled
// and run. scripts/mutated_models.sh sets AUTOTUNE_MUTANTS, AUTOTUNE_MUTANTS_COMPILED, AUTOTUNE_MUTANTS_SEED,
// AUTOTUNE_MUTANTS_FIRST and AUTOTUNE_MUTANTS_MODELS (folders with further models, separated by colons).
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "compiler/compile.h"
#include "frontend/onnx/import.h"
#include "graph/extract.h"
#include "graph/pipeline.h"
#include "graph/to_te.h"
#include "package/load.h"
#include "support/sanitized.h"
#include "te/reference.h"
#include "tests/frontend/model_maker.h"
#include "tests/frontend/mutator.h"
#include "tests/graph/reference.h"
#include "tests/read.h"

namespace autotune {
namespace {

namespace fs = std::filesystem;

int64_t FromEnvironment(const char* name, int64_t fallback) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : fallback;
}

// Appends the small models below a folder that can be imported, in the order of their paths.
void ReadModels(const fs::path& folder, std::vector<std::string>& models) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path().extension() != ".pb") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  constexpr uintmax_t kMostBytes = 100'000;  // size limit of a model, since there are many mutants
  for (const fs::path& path : paths) {
    if (fs::file_size(path) > kMostBytes) continue;
    std::string bytes = test::ReadAll(path.string());
    if (IsModel(bytes) && ImportOnnxBytes(bytes, "m.onnx").ok()) models.push_back(std::move(bytes));
  }
}

std::vector<std::string> Models() {
  std::vector<std::string> models;
  ReadModels(AUTOTUNE_SOURCE_DIR "/tests/fuzz/corpus/onnx", models);   // single operators
  ReadModels(AUTOTUNE_SOURCE_DIR "/tests/frontend/networks", models);  // made by scripts/random_network.py
  if (const char* folders = std::getenv("AUTOTUNE_MUTANTS_MODELS")) {
    std::istringstream list(folders);
    for (std::string folder; std::getline(list, folder, ':');) ReadModels(folder, models);
  }
  return models;
}

// The outputs of a graph by its definition (`exact`), and with a small error added to every rounded result (`shaken`).
// If both agree, a kernel in the graph's own types must agree with them, too.
struct Expected {
  std::vector<reference::Tensor> exact, shaken;
  bool ordinary = true;  // all values are finite and well within the range of their types
};

bool Rounds(graph::Op op) {
  using graph::Op;
  static constexpr Op kExact[] = {Op::kRelu,      Op::kAbs,           Op::kNeg,       Op::kFloor,    Op::kCeil,
                                  Op::kRound,     Op::kMax,           Op::kMin,       Op::kWhere,    Op::kMaxPool2d,
                                  Op::kMaxPool3d, Op::kGlobalMaxPool, Op::kReduceMax, Op::kReduceMin};
  graph::OpKind kind = graph::KindOf(op);
  return kind != graph::OpKind::kInjective && kind != graph::OpKind::kAlias &&
         std::find(std::begin(kExact), std::end(kExact), op) == std::end(kExact);
}

// Returns whether the numbers are well within the range of a type, so that sums neither wrap nor overflow.
bool Holds(DType type, const std::vector<double>& numbers) {
  const int bits = std::min<int>(type.bits, 53);
  const double most = type.IsFloat() ? 1e15 : type.IsBool() ? 1 : std::ldexp(1.0, bits - 1) - 1;
  const double least = type.code == TypeCode::kUInt || type.IsBool() ? 0 : -most;
  return std::all_of(numbers.begin(), numbers.end(), [&](double x) { return x >= least && x <= most; });
}

std::vector<reference::Tensor> Evaluate(const graph::Graph& g, const std::vector<reference::Tensor>& inputs,
                                        double noise, bool& ordinary) {
  Rng rng(1);
  std::vector<reference::Tensor> values(g.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[g.inputs[i]] = inputs[i];
  for (const graph::Constant& c : g.constants) values[c.value] = reference::FromValue(g.ConstantValue(c));
  for (const graph::Node& node : g.nodes) {
    std::vector<const reference::Tensor*> in;
    for (graph::ValueId v : node.inputs) in.push_back(&values[v]);
    reference::Tensor& out = values[node.output];
    out = reference::EvaluateNode(g, node, in);
    out.dtype = g.Spec(node.output).dtype;
    // Converting a number to an integer type that cannot represent it is undefined.
    if (node.op == graph::Op::kCast) ordinary = ordinary && Holds(out.dtype, in[0]->data);
    ordinary = ordinary && Holds(out.dtype, out.data);
    for (double& x : out.data) {
      if (out.dtype.IsFloat() && Rounds(node.op)) x *= 1 + noise * (2 * rng.Uniform() - 1);
      if (out.dtype.IsInt()) x = reference::ToType(x, out.dtype);
    }
  }
  std::vector<reference::Tensor> outputs;
  for (graph::ValueId v : g.outputs) outputs.push_back(values[v]);
  return outputs;
}

Expected Expect(const graph::Graph& g, const std::vector<reference::Tensor>& inputs) {
  constexpr double kNoise = 2e-6;  // relative; well above the rounding error of floats
  Expected expected;
  expected.exact = Evaluate(g, inputs, 0, expected.ordinary);
  expected.shaken = Evaluate(g, inputs, kNoise, expected.ordinary);
  return expected;
}

enum class Verdict { kRight, kWrong, kUnknown };

Verdict Judge(const std::vector<reference::Tensor>& got, const Expected& expected) {
  if (!expected.ordinary) return Verdict::kUnknown;
  Verdict verdict = Verdict::kRight;
  for (size_t i = 0; i < got.size(); ++i) {
    constexpr Tolerance kStable = {.rtol = 3e-5, .atol = 3e-5};
    if (!reference::Mismatch(expected.shaken[i], expected.exact[i], kStable).empty()) {
      verdict = Verdict::kUnknown;
    } else if (!reference::Mismatch(got[i], expected.exact[i], Tolerance()).empty()) {
      return Verdict::kWrong;
    }
  }
  return verdict;
}

std::vector<reference::Tensor> RandomInputs(const graph::Graph& g, Rng& rng) {
  bool positive = rng.Below(2) == 0;  // for logarithms, roots and powers
  std::vector<reference::Tensor> inputs;
  for (graph::ValueId v : g.inputs) {
    inputs.push_back(reference::Random(g.Spec(v).shape, rng, g.Spec(v).dtype));
    if (!positive || !g.Spec(v).dtype.IsFloat()) continue;
    for (double& x : inputs.back().data) x = static_cast<float>(std::abs(x) + 0.5);
  }
  return inputs;
}

// Returns whether the graph is small enough for the reference, which is slow.
bool IsSmall(const graph::Graph& g) {
  double elements = 0;
  for (const graph::Value& value : g.values) elements += static_cast<double>(value.spec.NumElements());
  if (elements >= 1e5) return false;
  auto flops = graph::FlopsOf(g, *Target::Parse("cpu"));
  return flops.ok() && *flops < 3e6;
}

Result<std::vector<graph::TensorValue>> EvaluateByReference(const graph::Graph& g) {
  if (!IsSmall(g)) return Err("too much work for the reference");
  std::vector<graph::TensorValue> out;
  for (const auto& t : reference::Evaluate(g, {})) out.push_back(reference::ToValue(t));
  return out;
}

struct Counts {
  int imported = 0, judged = 0, compiled = 0, compiled_judged = 0;
  std::map<std::string, int> refusals;
};

// Imports, optimizes and lowers models, and compiles and runs some of them. Check returns a description of the first
// failure, or "".
class MutantChecker {
 public:
  explicit MutantChecker(int to_compile) : to_compile_(to_compile) {}

  std::string Check(const std::string& bytes, Rng& rng, bool compile) {
    try {
      return CheckModel(bytes, rng, compile);
    } catch (const std::exception& error) {
      return std::string("throws ") + error.what();
    }
  }

  Counts counts;

 private:
  std::string Refused(const Error& error) {
    std::string text = error.Text(), cause;
    for (char c : error.Cause()) {  // causes that differ only in numbers count as one
      bool digit = (c >= '0' && c <= '9') || c == '-';
      if (!digit) cause += c;
      if (digit && !cause.ends_with('#')) cause += '#';
    }
    ++counts.refusals[cause];
    return text.find('\n') == std::string::npos ? "" : "an error of several lines: " + text;
  }

  std::string CheckModel(const std::string& bytes, Rng& rng, bool compile) {
    Result<ImportedModel> imported = ImportOnnxBytes(bytes, "m.onnx");
    if (!imported.ok()) {  // most mutants break a rule that a lenient import ignores, and go on from there
      std::string failure = Refused(imported.error());
      imported = ImportOnnxBytes(bytes, "m.onnx", {.lenient = true});
      if (!failure.empty() || !imported.ok()) return failure;
    }
    ++counts.imported;
    const graph::Graph& g = imported->module.main();
    bool small = IsSmall(g);
    graph::PassEnv env;
    if (small) env.evaluate = EvaluateByReference;
    Result<IRModule> optimized = graph::Optimize(imported->module, env);
    if (!optimized.ok()) return Refused(optimized.error());
    const graph::Graph& fused = optimized->main();
    for (const graph::Task& task : graph::ExtractTasks(fused)) {
      auto alternatives = graph::LowerSubgraph(*task.subgraph, target_);
      if (!alternatives.ok()) return Refused(alternatives.error());
      (void)te::ToReference(alternatives->front().func);
    }
    if (!small || !IsSmall(fused)) return "";
    std::vector<reference::Tensor> inputs = RandomInputs(g, rng);
    Expected expected = Expect(g, inputs);
    bool ordinary = true;
    Verdict verdict = Judge(Evaluate(fused, inputs, 0, ordinary), expected);
    if (verdict == Verdict::kWrong) return "the passes changed what it computes: " + graph::GraphText(fused);
    counts.judged += verdict == Verdict::kRight;
    if (!compile || counts.compiled >= to_compile_) return "";
    return CompileAndRun(g, inputs, expected);
  }

  std::string CompileAndRun(const graph::Graph& g, const std::vector<reference::Tensor>& inputs,
                            const Expected& expected) {
    if (!builder_) {
      std::string autotune = AUTOTUNE_BINARY_DIR "/tools/autotune";
      builder_ = MakeBuildWorkers({.workers = 2, .command = {autotune, "--build-worker"}}).value();
    }
    Result<Network> network = MakeNetwork(IRModule(g), {}, host_, *builder_);
    if (!network.ok()) return "optimizing fails: " + network.error().Text();
    Result<CompileResult> compiled = Compile(*network, host_, nullptr, *builder_);
    if (!compiled.ok()) return "compiling fails: " + compiled.error().Text();
    Result<LoadedModel> model = LoadModel(std::move(compiled->package), 2);
    if (!model.ok()) return "loading fails: " + model.error().Text();
    ++counts.compiled;
    for (size_t i = 0; i < inputs.size(); ++i) {
      graph::TensorValue value = reference::ToValue(inputs[i]);
      DLDataType type = DataTypeFromText(value.spec.dtype.Text()).value();
      Tensor tensor = Tensor::FromBytes(value.spec.shape, type, value.bytes.view()).value();
      if (Status set = model->executor->SetInput(static_cast<int64_t>(i), tensor); !set.ok())
        return "an input is refused: " + set.error().Text();
    }
    if (Status ran = model->executor->Run(); !ran.ok()) return "running fails: " + ran.error().Text();
    std::vector<reference::Tensor> got;
    for (size_t i = 0; i < g.outputs.size(); ++i) {
      graph::SharedBytes out = graph::SharedBytes::Copy(model->executor->Output(static_cast<int64_t>(i)).bytes());
      if (static_cast<int64_t>(out.size()) != g.Spec(g.outputs[i]).Bytes()) return "an output has another size";
      got.push_back(reference::FromValue({g.Spec(g.outputs[i]), out}));
    }
    Verdict verdict = Judge(got, expected);
    counts.compiled_judged += verdict == Verdict::kRight;
    return verdict == Verdict::kWrong ? "the compiled model computes something else:\n" + graph::GraphText(g) : "";
  }

  const int to_compile_;
  const Target target_ = Target::Parse("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3 -num-cores=2").value();
  const Target host_ = Target::Parse("cpu").value();
  std::unique_ptr<Builder> builder_;
};

// Limits the address space of this process to 8 GiB during its lifetime. Allocations beyond that throw.
class MemoryLimit {
 public:
  MemoryLimit() {
    getrlimit(RLIMIT_AS, &before_);
    constexpr rlim_t kMostBytes = rlim_t{8} << 30;
    rlimit limit{std::min(kMostBytes, before_.rlim_max), before_.rlim_max};
    if (!kSanitized) setrlimit(RLIMIT_AS, &limit);  // sanitizers reserve terabytes
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

// The current mutant. A crash or a hang ends the process, so the signal handler prints it.
char current_mutant[64] = "";
void SayWhichMutant(int signal) {
  (void)!write(STDERR_FILENO, current_mutant, sizeof current_mutant);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

TEST(MutatedModels, AreRefusedOrComputeWhatTheySay) {
  const int64_t count = FromEnvironment("AUTOTUNE_MUTANTS", 400), seed = FromEnvironment("AUTOTUNE_MUTANTS_SEED", 1),
                first = FromEnvironment("AUTOTUNE_MUTANTS_FIRST", 0),
                to_compile = FromEnvironment("AUTOTUNE_MUTANTS_COMPILED", 12);
  constexpr unsigned kMostSeconds = kSanitized ? 600 : 60;  // time limit of one mutant
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) std::signal(signal, SayWhichMutant);
  const MemoryLimit limit;
  const std::vector<std::string> models = Models();
  ASSERT_GT(models.size(), 100u);
  MutantChecker checker(static_cast<int>(to_compile));
  int failures = 0;
  for (int64_t i = first; i < first + count; ++i) {
    Rng rng = Rng(seed * 1'000'003 + i).Fork();
    Mutant mutant = Mutate(models[rng.Below(static_cast<int64_t>(models.size()))], rng);
    std::snprintf(current_mutant, sizeof current_mutant, "mutant %lld of seed %lld\n", static_cast<long long>(i),
                  static_cast<long long>(seed));
    alarm(kMostSeconds);
    // Only about half of the mutants can be compiled, so more are drawn than needed.
    bool compile = rng.Below(count) < 5 * to_compile;
    std::string failure = checker.Check(mutant.bytes, rng, compile);
    alarm(0);
    if (failure.empty()) continue;
    ++failures;
    std::string file = "mutant-" + std::to_string(seed) + "-" + std::to_string(i) + ".onnx";
    std::ofstream(file, std::ios::binary) << mutant.bytes;
    ADD_FAILURE() << file << " (" << mutant.what << "): " << failure;
  }
  const Counts& counts = checker.counts;
  std::vector<std::pair<int, std::string>> refusals;
  for (const auto& [cause, times] : counts.refusals) refusals.emplace_back(-times, cause);
  std::sort(refusals.begin(), refusals.end());
  constexpr size_t kMostPrinted = 40;
  for (size_t i = 0; i < std::min(refusals.size(), kMostPrinted); ++i)
    std::printf("%6d refused: %s\n", -refusals[i].first, refusals[i].second.c_str());
  std::printf(
      "%lld mutants of %zu models: %d imported, %d of them compared after the passes; %d compiled and run, %d of "
      "them compared; %d failures\n",
      static_cast<long long>(count), models.size(), counts.imported, counts.judged, counts.compiled,
      counts.compiled_judged, failures);
  constexpr int64_t kEnough = 100;  // fewest mutants for which the shares below are checked
  if (count < kEnough) return;
  EXPECT_GT(counts.imported, count * 3 / 10);
  EXPECT_GT(counts.judged, counts.imported / 3);
  if (to_compile == 0) return;
  EXPECT_GT(counts.compiled, std::min(to_compile, count) / 2);
  EXPECT_GT(counts.compiled_judged, 0);
}

TEST(MutatedModels, AreTheSameForTheSameSeed) {
  const std::string model = Models().back();
  Rng a(7), b(7), c(8);
  bool differs = false;
  for (int i = 0; i < 20; ++i) {
    Mutant first = Mutate(model, a), again = Mutate(model, b);
    EXPECT_EQ(first.bytes, again.bytes);
    EXPECT_EQ(first.what, again.what);
    EXPECT_FALSE(first.what.empty());
    differs = differs || first.bytes != Mutate(model, c).bytes;
  }
  EXPECT_TRUE(differs);
}

TEST(MutatedModels, WrongAnswersAreNoticed) {
  ModelMaker m;
  m.Input("x", {4}).Output("y").Node("Exp", {"x"}, {"y"});
  graph::Graph g = Import(m)->module.main();
  std::vector<reference::Tensor> inputs = {{{4}, {0, 1, 2, 3}}};
  Expected expected = Expect(g, inputs);
  std::vector<reference::Tensor> got = expected.exact;
  EXPECT_EQ(Judge(got, expected), Verdict::kRight);
  got[0].data[1] *= 1.01;
  EXPECT_EQ(Judge(got, expected), Verdict::kWrong);
  got[0].data[1] = std::nan("");
  EXPECT_EQ(Judge(got, expected), Verdict::kWrong);
  inputs[0].data[3] = 1e4;  // its exponential overflows a float
  EXPECT_EQ(Judge(got, Expect(g, inputs)), Verdict::kUnknown);
}

}  // namespace
}  // namespace autotune
