// `autotune run` runs a package, `autotune bench` measures it.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>

#include "frontend/onnx/tensor_pb.h"
#include "package/load.h"
#include "runtime/fill.h"
#include "runtime/npy.h"
#include "support/cpus.h"
#include "support/json.h"
#include "support/shell.h"
#include "support/statistics.h"
#include "support/utf8.h"
#include "tools/autotune/alone.h"
#include "tools/autotune/command.h"
#include "tools/autotune/host.h"
#include "tools/autotune/profile.h"
#include "tools/autotune/usage.h"

namespace autotune::tools {
namespace {

struct RunOptions {
  std::string package;
  std::vector<std::string> inputs;
  std::string output_dir;
  int threads = 0;
  int repeat = 1;
};

Result<Tensor> ReadTensor(const std::string& path) {
  if (path.ends_with(".npy")) return ReadNpy(path);
  if (!path.ends_with(".pb")) return Err("input file ", path, " is neither .npy nor .pb");
  NamedTensor read = TRY(ReadTensorPb(path));
  DLDataType type = TRY(DataTypeFromText(read.value.spec.dtype.Text()));
  return Tensor::FromBytes(read.value.spec.shape, type, read.value.bytes.view());
}

// Sets the inputs from the options "name=file", or only "file" if the model has one input. Fills all other inputs with
// random numbers.
Status BindInputs(const RunOptions& options, LoadedModel& model) {
  std::vector<bool> given(model.info.inputs.size(), false);
  for (const std::string& item : options.inputs) {
    size_t equals = item.find('=');
    for (const TensorSpec& input : model.info.inputs) {  // names may contain '='
      if (item.starts_with(input.name + "=")) equals = input.name.size();
    }
    std::string name = equals == std::string::npos ? "" : item.substr(0, equals);
    std::string file = equals == std::string::npos ? item : item.substr(equals + 1);
    int64_t index = 0;
    if (!name.empty()) {
      index = TRY(model.executor->InputIndex(name));
    } else if (given.size() != 1) {
      return Err("the model has ", given.size(), " inputs: say --input NAME=", file);
    }
    TRY(model.executor->SetInput(index, TRY(ReadTensor(file))));
    given[index] = true;
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i]) continue;
    std::printf("input %s %s%s: random (seed 0); give --input %s=FILE.npy for your own\n",
                OneLine(model.info.inputs[i].name).c_str(), model.info.inputs[i].dtype.c_str(),
                ShapeText(model.info.inputs[i].shape).c_str(), OneLine(model.info.inputs[i].name).c_str());
    TRY(FillInput(*model.executor, static_cast<int64_t>(i), 0));
  }
  return {};
}

// Returns a valid file name for an output, different from the names in `taken`, and adds it to them.
std::string FileName(const std::string& name, std::set<std::string>& taken) {
  constexpr size_t kMaxLength = 200;  // bytes; file systems allow 255, including a number and the extension
  std::string safe;
  for (char c : name) safe += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.' ? c : '_';
  safe = safe.substr(0, kMaxLength);
  std::string unique = safe;
  for (int i = 2; !taken.insert(unique).second; ++i) unique = safe + "_" + std::to_string(i);
  return unique;
}

void PrintSummary(const TensorSpec& spec, const Tensor& tensor) {
  std::printf("output %s %s%s", OneLine(spec.name).c_str(), spec.dtype.c_str(), ShapeText(spec.shape).c_str());
  if (spec.dtype == "f32" && tensor.num_elements() > 0) {
    const float* data = tensor.Data<float>();
    int64_t n = tensor.num_elements(), best = 0;
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      sum += data[i];
      if (data[i] > data[best]) best = i;
    }
    std::printf(": mean %.6g, max %.6g at %lld, first", sum / static_cast<double>(n), data[best],
                static_cast<long long>(best));
    for (int64_t i = 0; i < std::min<int64_t>(n, 5); ++i) std::printf(" %.6g", data[i]);
  }
  std::printf("\n");
}

// Prints the first run apart from the others, since its caches are cold and its threads sleep.
void PrintTimes(const std::vector<double>& ms, const std::string& package) {
  std::printf("first run: %.3f ms, with cold caches", ms[0]);
  if (ms.size() == 1) {
    std::printf("; for the latency: autotune bench %s\n", package.c_str());
    return;
  }
  std::vector<double> later(ms.begin() + 1, ms.end());
  std::printf("; %zu more: min %.3f ms, median %.3f ms\n", later.size(), *std::min_element(later.begin(), later.end()),
              Median(later));
}

Result<int> Run(const RunOptions& options) {
  LoadedModel model = TRY(LoadModel(options.package, options.threads));
  TRY(BindInputs(options, model));
  std::vector<double> ms;
  for (int i = 0; i < options.repeat; ++i) {
    double begin = MonotonicSeconds();
    TRY(model.executor->Run());
    ms.push_back((MonotonicSeconds() - begin) * 1e3);
  }
  if (!options.output_dir.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.output_dir, error);
    if (error) return Err("cannot create ", options.output_dir, ": ", error.message());
  }
  std::set<std::string> taken;
  for (int64_t i = 0; i < model.executor->num_outputs(); ++i) {
    const TensorSpec& spec = model.info.outputs[i];
    const Tensor output = TRY(ToHost(model.executor->Output(i)));
    PrintSummary(spec, output);
    if (options.output_dir.empty()) continue;
    std::string path = options.output_dir + "/" + FileName(spec.name, taken) + ".npy";
    TRY(WriteNpy(path, output));
    std::printf("wrote %s\n", path.c_str());
  }
  PrintTimes(ms, options.package);
  return kExitOk;
}

struct BenchOptions {
  std::string package;
  int threads = 0;
  double seconds = 3;
  double wait = 30;
  bool json = false;
  bool profile = false;
  bool serve = false;
};

// Returns latencies in ms, sorted: at least `runs` of them, and more until `seconds` have passed.
Result<std::vector<double>> Measure(GraphExecutor& executor, double seconds, int runs, Alone& alone) {
  std::vector<double> ms;
  TRY(RunInTurns(seconds, runs, alone, [&]() -> Status {
    const double begin = MonotonicSeconds();
    TRY(executor.Run());
    ms.push_back((MonotonicSeconds() - begin) * 1e3);
    return {};
  }));
  std::sort(ms.begin(), ms.end());
  return ms;
}

void PrintLine(const BenchOptions& options, const LoadedModel& model, const std::vector<double>& ms, Alone& alone) {
  if (options.json) {
    Json line;
    line["package"] = options.package;
    line["model"] = model.info.model_name;
    line["threads"] = options.threads > 0 ? options.threads : AvailableCpus();  // the default of ThreadPool
    line["n"] = static_cast<int64_t>(ms.size());
    line["min_ms"] = ms[0];
    line["median_ms"] = Median(ms);
    line["undisturbed"] = alone.TakeUndisturbed();
    std::printf("%s\n", line.Dump().c_str());
  } else {
    std::printf("%s: min %.3f ms, median %.3f ms over %zu runs\n", model.info.model_name.c_str(), ms[0], Median(ms),
                ms.size());
  }
  std::fflush(stdout);
}

// Prints the kernels' times as JSON, for --serve.
void PrintKernels(const std::vector<NodeTime>& times, Alone& alone) {
  Json::Array kernels;
  for (const NodeTime& t : times) {
    Json& kernel = kernels.emplace_back();
    kernel["name"] = t.name;
    kernel["median_us"] = t.seconds * 1e6;
    kernel["min_us"] = t.least * 1e6;
  }
  Json line(Json::Object{{"kernels", std::move(kernels)}});
  line["undisturbed"] = alone.TakeUndisturbed();
  std::printf("%s\n", line.Dump().c_str());
  std::fflush(stdout);
}

// Names the command that explains the slowest kernel.
void PrintHint(const std::string& package, const std::vector<ProfileRow>& rows) {
  const auto slowest = std::ranges::max_element(rows, {}, &ProfileRow::seconds);
  if (slowest == rows.end() || slowest->task.empty()) return;
  std::printf("why the slowest kernel takes its time: autotune explain %s %s\n", ShellWord(package).c_str(),
              slowest->task.c_str());
}

// Measures the network's latency and its kernels' times in turns. Prints the same line as without --profile, and then
// the kernels.
Result<int> Profile(const BenchOptions& options, LoadedModel& model, Alone& alone) {
  std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
  Target host = TRY(Target::Parse("cpu"));
  if (options.threads > 0) host.num_cores = options.threads;
  constexpr int kPatienceMs = 500;  // longest wait for the host's lock, for each part of the roofline
  Roofline roofline = TRY(MeasureRoofline(host, *builder, kPatienceMs));
  ProfileSamples samples = TRY(MeasureProfile(*model.executor, options.seconds, alone));
  std::vector<double> ms;
  for (double seconds : samples.network) ms.push_back(seconds * 1e3);
  std::sort(ms.begin(), ms.end());
  PrintLine(options, model, ms, alone);
  std::vector<ProfileRow> rows = TRY(ProfileRows(model, samples, roofline));
  ProfileBalance balance = BalanceOf(samples, ClockSeconds());
  std::string text = options.json ? ProfileJson(rows, balance, roofline).Dump() + "\n"
                                  : ProfileTable(rows, balance, roofline, host.num_cores);
  std::fputs(text.c_str(), stdout);
  if (!options.json) PrintHint(options.package, rows);
  return kExitOk;
}

// Answers each line "run N" or "profile N" of standard input with a measurement of N runs. The answer is one line: JSON
// for a profile or with --json, else text. So a script can alternate between this program and another one.
Result<int> Serve(const BenchOptions& options, const LoadedModel& model, Alone& alone) {
  char line[64];
  while (std::fgets(line, sizeof line, stdin)) {
    int n = 0;
    if (std::sscanf(line, "run %d", &n) == 1 && n > 0) {
      PrintLine(options, model, TRY(Measure(*model.executor, 0, n, alone)), alone);
    } else if (std::sscanf(line, "profile %d", &n) == 1 && n > 0) {
      std::optional<HostLock> lock = alone.Take();
      PrintKernels(TRY(model.executor->Profile(n)), alone);
    } else {
      return Err("expected 'run N' or 'profile N' on standard input");
    }
  }
  return kExitOk;
}

Result<int> Bench(const BenchOptions& options) {
  LoadedModel model = TRY(LoadModel(options.package, options.threads));
  TRY(FillInputs(*model.executor, 0));
  for (int i = 0; i < 2; ++i) TRY(model.executor->Run());
  Alone alone(options.wait);
  if (options.serve) return Serve(options, model, alone);
  if (options.profile) return Profile(options, model, alone);
  constexpr int kLeastRuns = 5;
  PrintLine(options, model, TRY(Measure(*model.executor, options.seconds, kLeastRuns, alone)), alone);
  return kExitOk;
}

}  // namespace

Command RunCommand(CLI::App& root) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* app = root.add_subcommand("run", "Runs a package once (or --repeat times) and prints its outputs.");
  app->add_option("package", options->package, "a compiled network, M.tar or M.so, as `autotune compile -o` writes it")
      ->required();
  app->add_option("--input", options->inputs, "NAME=FILE.npy or NAME=FILE.pb, once for each input; others are random");
  app->add_option("--output-dir", options->output_dir, "write each output to DIR/NAME.npy");
  app->add_option("--threads", options->threads, "threads of the kernels; 0: one per CPU")
      ->check(AtLeastZero())
      ->capture_default_str();
  app->add_option("--repeat", options->repeat, "number of runs")->check(AtLeastOne())->capture_default_str();
  return {app, [options] { return Run(*options); }};
}

Command BenchCommand(CLI::App& root) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* app = root.add_subcommand("bench", "Measures the latency of a package on random inputs.");
  app->add_option("package", options->package, "a compiled network, M.tar or M.so, as `autotune compile -o` writes it")
      ->required();
  app->add_option("--threads", options->threads, "threads of the kernels; 0: one per CPU")
      ->check(AtLeastZero())
      ->capture_default_str();
  app->add_option("--seconds", options->seconds, "seconds to measure; there are at least 5 runs")
      ->check(Seconds())
      ->capture_default_str();
  app->add_option("--wait", options->wait, "longest wait, in seconds, for other builds and measurements on this host")
      ->check(Seconds())
      ->capture_default_str();
  app->add_flag("--json", options->json,
                "one line of JSON: min_ms, median_ms, n, undisturbed; with --profile another one: kernels");
  app->add_flag(
      "--profile", options->profile,
      "also each kernel's time, task and distance to the machine's roofline, measured in turns with the network");
  app->add_flag("--serve", options->serve,
                "answer each line 'run N' or 'profile N' (each kernel) on standard input with a measurement of N runs, "
                "so that a script can alternate with another program");
  return {app, [options] { return Bench(*options); }};
}

}  // namespace autotune::tools
