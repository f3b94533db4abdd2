#include "tools/autotune/explain_source.h"

#include <algorithm>

#include "compiler/compile.h"
#include "ir/text.h"
#include "package/load.h"
#include "package/module_file.h"
#include "runtime/graph_json.h"
#include "runtime/module_blob.h"
#include "schedule/replay.h"
#include "support/cpus.h"
#include "support/edit_distance.h"
#include "support/file.h"
#include "support/hint.h"
#include "support/task_id.h"
#include "support/utf8.h"
#include "tools/autotune/alone.h"
#include "tools/autotune/console.h"
#include "tools/autotune/profile.h"
#include "tools/autotune/records/records.h"
#include "tools/autotune/sampler.h"
#include "tools/autotune/text.h"
#include "tools/error_lines.h"

namespace autotune::tools {
namespace {

// A package in memory, and the file from which the executor loads it, if it is a shared object.
struct OpenedPackage {
  Package package;
  std::string shared_object;  // path; empty: the package itself is loaded
};

Result<OpenedPackage> ReadCompiled(const std::string& path) {
  OpenedPackage opened;
  if (!TRY(IsSharedObject(path))) {
    opened.package = TRY(ReadPackage(path));
    return opened;
  }
  const Module module = TRY(LoadModule(path));
  opened.package.info = TRY_NOTE(InfoOf(module), "while loading " + path);
  if (!opened.package.info.kernels.empty())
    opened.package.graph_json = TRY(TRY(TRY(module->GetFunction("get_graph_json"))()).As<std::string>());
  opened.package.library = TRY(ReadFile(path));
  opened.shared_object = path;
  return opened;
}

// Returns the kernels of the package with the nodes that call them.
Result<std::vector<ExplainedKernel>> KernelsOf(const Package& package) {
  std::vector<ExplainedKernel> kernels;
  for (const PackagedKernel& kernel : package.info.kernels) kernels.push_back({.kernel = kernel});
  if (kernels.empty()) return Err("the package does not describe its kernels: autotune did not write it");
  const Graph graph = TRY_NOTE(Graph::Parse(package.graph_json), "in the package's graph");
  for (const GraphNode& node : graph.nodes) {
    for (ExplainedKernel& kernel : kernels) {
      if (kernel.kernel.name == node.func_name) kernel.nodes.push_back(node.name);
    }
  }
  return kernels;
}

// Returns the task's program for the first alternative to which the trace applies.
Result<std::pair<std::string, PrimFunc>> ProgramOfTrace(const Network& network, const NetworkTask& task,
                                                        const Trace& trace) {
  std::optional<Error> first;
  for (const std::string& alternative : task.alternatives) {
    PrimFunc program = ProgramOf(network, task, alternative);
    Result<Schedule> schedule = Replay(program, trace);
    if (schedule.ok()) return std::pair(alternative, std::move(program));
    if (!first) first = schedule.error();
  }
  return Err("--trace does not apply to ", task.label, ": ", first->Text());
}

// Replaces the kernel of one task by that of a trace, even if its code spills.
Status UseTrace(const ExplainOptions& options, const Network& network, size_t index, Builder& builder,
                Package& package) {
  const NetworkTask& task = network.tasks[index];
  PackagedKernel& kernel = package.info.kernels[index];
  const std::string text = TRY(ReadFile(options.trace));
  const Trace trace = TRY_NOTE(ParseTrace(text), "in " + options.trace);
  const auto [alternative, program] = TRY(ProgramOfTrace(network, task, trace));
  kernel.alternative = alternative;
  kernel.program = ToText(program);
  kernel.trace = text;
  kernel.tuned = false;
  std::vector<BuildRequest> requests;
  for (const PackagedKernel& other : package.info.kernels) {
    requests.push_back({.func = other.program,
                        .trace = other.trace,
                        .kernel = other.name,
                        .target = package.info.target,
                        .options = {.keep_spills = true}});
  }
  BuiltLibrary built = TRY(builder.BuildLibrary(requests));
  package.library = std::move(built.artifact.data);
  return {};
}

Result<Package> CompileForExplanation(const ExplainOptions& options) {
  const Session session = TRY(options.model.Open());
  const Network network = TRY(options.model.Load(session.network, session.target, *session.builder));
  for (const std::string& note : WithoutRepeats(network.notes)) Console::Get().Note(note);
  CompileResult compiled = TRY(Compile(network, session.target, session.store.get(), *session.builder));
  if (!options.trace.empty()) {
    const size_t index = TRY_NOTE(FindKernel(TRY(KernelsOf(compiled.package)), options.task), "for --trace");
    TRY(UseTrace(options, network, index, *session.builder, compiled.package));
  }
  return std::move(compiled.package);
}

// Samples the addresses at which this thread runs while the network does. Without such a timer there are none.
Result<std::vector<uint64_t>> SampleRuns(GraphExecutor& executor, double seconds, std::string_view library,
                                         Alone& alone) {
  constexpr int kMicroseconds = 200, kLeastRuns = 5;
  const std::optional<HostLock> lock = alone.Take();
  Result<Sampler> sampler = Sampler::Start(kMicroseconds);
  if (!sampler.ok()) return std::vector<uint64_t>();
  const double end = MonotonicSeconds() + seconds;
  for (int run = 0; run < kLeastRuns || MonotonicSeconds() < end; ++run) TRY(executor.Run());
  return AddressesIn(sampler->Stop(), library);
}

// Measures the kernels within their network, as `bench --profile` does.
Status Measure(const ExplainOptions& options, OpenedPackage opened, ExplainSource& source) {
  LoadedModel model = TRY(opened.shared_object.empty() ? LoadModel(std::move(opened.package), options.threads)
                                                       : LoadModel(opened.shared_object, options.threads));
  std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
  Target host = TRY(Target::Parse("cpu"));
  host.num_cores = source.threads;
  constexpr int kPatienceMs = 500;  // longest wait for the host's lock, for each part of the roofline
  source.roofline = TRY(MeasureRoofline(host, *builder, kPatienceMs));
  TRY(FillInputs(*model.executor, 0));
  for (int i = 0; i < 2; ++i) TRY(model.executor->Run());
  Alone alone(options.wait);
  const ProfileSamples samples = TRY(MeasureProfile(*model.executor, options.seconds, alone));
  for (const NodeTime& time : TRY(model.executor->NodeTimes(samples))) {
    for (ExplainedKernel& kernel : source.kernels) {
      if (kernel.kernel.name != time.func_name) continue;
      kernel.total += time.seconds;
      kernel.seconds = std::max(kernel.seconds, time.seconds);
      kernel.bytes = time.bytes;
    }
  }
  source.samples = TRY(SampleRuns(*model.executor, options.seconds, source.library, alone));
  return {};
}

}  // namespace

Result<ExplainSource> OpenExplainSource(const ExplainOptions& options) {
  OpenedPackage opened;
  if (options.package.empty()) {
    opened.package = TRY(CompileForExplanation(options));
  } else {
    opened = TRY(ReadCompiled(options.package));
  }
  ExplainSource source;
  source.target = TRY(Target::Parse(opened.package.info.target));
  if (source.target.IsGpu()) return Err("explain is about kernels of CPUs; this package is for ", source.target.Text());
  source.library = opened.package.library;
  source.threads = options.threads > 0 ? options.threads : AvailableCpus();
  source.kernels = TRY(KernelsOf(opened.package));
  if (!options.task.empty()) TRY(FindKernel(source.kernels, options.task));  // fails before the measurement
  if (options.no_run) {
    source.not_measured = "--no-run";
  } else if (Status measured = Measure(options, std::move(opened), source); !measured.ok()) {
    source.not_measured = SentenceOf(measured.error());
  }
  if (!source.not_measured.empty() && options.threads == 0) source.threads = source.target.num_cores;
  return source;
}

Result<std::vector<TriedAlternative>> TriedAlternatives(const std::string& db, const std::string& task,
                                                        const Target& target) {
  constexpr int kMostRecords = 100000;
  std::vector<TriedAlternative> tried;
  Result<std::unique_ptr<RecordStore>> store = OpenExistingStore(db);
  if (!store.ok() && db.empty()) return tried;
  if (!store.ok()) return store.error();
  for (const Record& record : TRY((*store)->Top(task, target.Text(), kMostRecords))) {
    auto known = std::ranges::find(tried, record.alternative, &TriedAlternative::name);
    if (known == tried.end()) known = tried.insert(tried.end(), {.name = record.alternative, .seconds = record.cost});
    ++known->schedules;
  }
  return tried;
}

Result<size_t> FindKernel(const std::vector<ExplainedKernel>& kernels, const std::string& name) {
  if (name.empty() && kernels.size() == 1) return size_t{0};
  if (name.empty()) return Err("there are ", kernels.size(), " kernels, so one must be named");
  std::vector<std::string> hashes, names;
  for (size_t i = 0; i < kernels.size(); ++i) {
    const ExplainedKernel& kernel = kernels[i];
    // k7 is short for k7_conv2d_relu. The number alone is not, since it may be the beginning of an id.
    if (kernel.kernel.name == name || (name.starts_with("k") && kernel.kernel.name.starts_with(name + "_")) ||
        std::ranges::find(kernel.nodes, name) != kernel.nodes.end())
      return i;
    hashes.push_back(kernel.kernel.task);
    names.push_back(kernel.kernel.name);
    names.insert(names.end(), kernel.nodes.begin(), kernel.nodes.end());
  }
  if (!IsTaskIdPrefix(name)) {
    return WithHint(
        WithSuggestion(Err("no kernel, and no node that calls one, has the name '", OneLine(name), "'"), name, names),
        "without a name, explain lists all kernels");
  }
  const std::string hash = TRY(FindTask(hashes, name));
  return static_cast<size_t>(std::ranges::find(hashes, hash) - hashes.begin());
}

}  // namespace autotune::tools
