#include "tools/autotune/explain_source.h"

#include <algorithm>
#include <numeric>

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
  const ModelSetup session = TRY(options.model.Open());
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

// Adds the samples of a profile to the kernels that they belong to.
Status AddTimes(const GraphExecutor& executor, const ProfileSamples& samples, ExplainSource& source) {
  const std::vector<NodeTime> times = TRY(executor.NodeTimes(samples));
  source.runs = samples.network;
  source.balance = BalanceOf(samples, ClockSeconds());
  for (size_t i = 0; i < times.size(); ++i) {
    for (ExplainedKernel& kernel : source.kernels) {
      if (kernel.kernel.name != times[i].func_name) continue;
      kernel.total += times[i].seconds;
      kernel.seconds = std::max(kernel.seconds, times[i].seconds);
      kernel.bytes = times[i].bytes;
      kernel.runs.resize(source.runs.size());
      for (size_t run = 0; run < kernel.runs.size(); ++run) kernel.runs[run] += samples.kernels[i][run];
    }
  }
  return {};
}

Result<LoadedModel> LoadAndWarm(OpenedPackage opened, int threads) {
  LoadedModel model = TRY(opened.shared_object.empty() ? LoadModel(std::move(opened.package), threads)
                                                       : LoadModel(opened.shared_object, threads));
  TRY(FillInputs(*model.executor, 0));
  for (int i = 0; i < 2; ++i) TRY(model.executor->Run());
  return model;
}

// Returns 0, 1, 2, ... in this order, or in the reverse one.
std::vector<size_t> Order(size_t n, bool forward) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  if (!forward) std::ranges::reverse(order);
  return order;
}

// Profiles loaded networks in turns, whose order reverses every turn. Each finds its data evicted by another one, so it
// runs once before its runs count.
Status ProfileInTurns(const std::vector<LoadedModel>& models, double seconds, Alone& alone,
                      std::vector<ProfileSamples>& samples) {
  constexpr int kLeastTurns = 5;
  bool forward = false;
  return RunInTurns(seconds, kLeastTurns, alone, [&]() -> Status {
    forward = !forward;
    for (const size_t i : Order(models.size(), forward)) {
      TRY(models[i].executor->Run());
      TRY(models[i].executor->AddProfileSamples(1, samples[i]));
    }
    return {};
  });
}

// Measures the kernels of one network, as `bench --profile` does.
Status MeasureOne(const ExplainOptions& options, OpenedPackage opened, Alone& alone, ExplainSource& source) {
  const LoadedModel model = TRY(LoadAndWarm(std::move(opened), options.threads));
  TRY(AddTimes(*model.executor, TRY(MeasureProfile(*model.executor, options.seconds, alone)), source));
  source.loads = {0};
  if (source.target.IsGpu()) return {};
  source.samples = TRY(SampleRuns(*model.executor, options.seconds, source.library, alone));
  return {};
}

// Measures networks in turns. Their addresses affect their speed by a few percent, for as long as they are loaded. So
// they are loaded as often as a median needs samples for an interval.
Status MeasureInTurns(const ExplainOptions& options, const std::vector<OpenedPackage>& opened, Alone& alone,
                      std::vector<ExplainSource>& sources) {
  constexpr int kLoads = 6;
  std::vector<ProfileSamples> samples(opened.size());
  for (int load = 0; load < kLoads; ++load) {
    std::vector<LoadedModel> models(opened.size());
    for (const size_t i : Order(opened.size(), load % 2 == 0)) models[i] = TRY(LoadAndWarm(opened[i], options.threads));
    for (size_t i = 0; i < opened.size(); ++i) sources[i].loads.push_back(samples[i].network.size());
    const double seconds = options.seconds * static_cast<double>(opened.size()) / kLoads;
    TRY(ProfileInTurns(models, seconds, alone, samples));
    if (load + 1 < kLoads) continue;
    for (size_t i = 0; i < opened.size(); ++i) {
      TRY(AddTimes(*models[i].executor, samples[i], sources[i]));
      if (!sources[i].target.IsGpu())
        sources[i].samples = TRY(SampleRuns(*models[i].executor, options.seconds / 2, sources[i].library, alone));
    }
  }
  return {};
}

Status Measure(const ExplainOptions& options, std::vector<OpenedPackage> opened, std::vector<ExplainSource>& sources) {
  // The ceilings of a GPU are not measured.
  std::optional<Roofline> roofline;
  if (!sources[0].target.IsGpu()) roofline = TRY(RooflineHere(sources[0].threads));
  Alone alone(options.wait);
  TRY(opened.size() == 1 ? MeasureOne(options, std::move(opened[0]), alone, sources[0])
                         : MeasureInTurns(options, opened, alone, sources));
  for (ExplainSource& source : sources) source.roofline = roofline;
  return {};
}

Result<OpenedPackage> OpenOrCompile(const ExplainOptions& options) {
  if (!options.package.empty()) return ReadCompiled(options.package);
  OpenedPackage opened;
  opened.package = TRY(CompileForExplanation(options));
  return opened;
}

Result<ExplainSource> SourceOf(const ExplainOptions& options, const OpenedPackage& opened) {
  ExplainSource source;
  source.name = opened.package.info.model_name;
  source.target = TRY(Target::Parse(opened.package.info.target));
  if (source.target.IsGpu() && !options.any_target)
    return Err("explain is about kernels of CPUs; this package is for ", source.target.Text());
  source.library = opened.package.library;
  source.threads = options.threads > 0 ? options.threads : AvailableCpus();
  source.kernels = TRY(KernelsOf(opened.package));
  return source;
}

}  // namespace

Result<std::vector<ExplainSource>> OpenExplainSources(const std::vector<ExplainOptions>& options) {
  std::vector<OpenedPackage> opened;
  std::vector<ExplainSource> sources;
  for (const ExplainOptions& one : options) {
    opened.push_back(TRY(OpenOrCompile(one)));
    sources.push_back(TRY(SourceOf(one, opened.back())));
    if (!one.task.empty()) TRY(FindKernel(sources.back().kernels, one.task));  // fails before the measurement
  }
  std::string not_measured = "--no-run";
  if (!options[0].no_run) {
    const Status measured = Measure(options[0], std::move(opened), sources);
    not_measured = measured.ok() ? "" : SentenceOf(measured.error());
  }
  for (ExplainSource& source : sources) {
    source.not_measured = not_measured;
    if (!not_measured.empty() && options[0].threads == 0) source.threads = source.target.num_cores;
  }
  return sources;
}

Result<ExplainSource> OpenExplainSource(const ExplainOptions& options) {
  return std::move(TRY(OpenExplainSources({options}))[0]);
}

Result<Roofline> RooflineHere(int threads) {
  constexpr int kPatienceMs = 500;  // longest wait for the host's lock, for each part of the roofline
  std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
  Target host = TRY(Target::Parse("cpu"));
  host.num_cores = threads;
  return MeasureRoofline(host, *builder, kPatienceMs);
}

Result<Explained> ExplainKernel(const ExplainSource& source, const ExplainedKernel& kernel) {
  Evidence evidence = TRY(EvidenceOf(kernel.kernel, source.target, source.threads));
  Explained explained;
  if (!source.library.empty()) {
    explained.code = TRY(MachineCodeOf(source.library, kernel.kernel.name + ".raw", source.target));
    constexpr int64_t kFewestSamples = 10;
    explained.samples = CountByRegion(explained.code, source.samples);
    if (std::accumulate(explained.samples.begin(), explained.samples.end(), int64_t{0}) < kFewestSamples)
      explained.samples.clear();
    evidence.code = CodeFactsOf(explained.code, explained.samples);
  }
  if (kernel.seconds > 0 && source.roofline) {
    const Roof roof = RoofOf(source, kernel);
    evidence.time = TimeFacts{.seconds = kernel.seconds, .roof_seconds = roof.seconds, .roof_bound = roof.bound};
  }
  explained.explanation = Explain(evidence);
  return explained;
}

Roof RoofOf(const ExplainSource& source, const ExplainedKernel& kernel) {
  return source.roofline->Of(kernel.kernel.flops, kernel.bytes, SmallProductsIn(kernel.kernel.program));
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
