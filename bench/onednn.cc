// Compares convolution kernels with oneDNN's, in turns. oneDNN uses the layouts that it prefers (format_tag::any) and
// the faster one of its direct and Winograd kernels; packing its operands is not timed. Our kernel is the compiler's:
// the best schedule of a database, else the default one.
//   bench_onednn [--threads 1] [--runs 60] [--trials 0] [--db FILE] [--shapes FILE] [C,SIZE,O,KERNEL,STRIDE,GROUPS]...
// --trials tunes each convolution first, into the database. bench/onednn_shapes.txt has the shapes that the docs quote.
// oneDNN is a peer, not a dependency: this bench is built where libdnnl-dev is installed.
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>

#include "bench/arguments.h"
#include "bench/main.h"
#include "compiler/compile.h"
#include "package/load.h"
#include "records/open.h"
#include "runtime/compare.h"
#include "runtime/fill.h"
#include "support/clock.h"
#include "support/host_lock.h"
#include "support/rng.h"
#include "support/statistics.h"
#include "tracker/local_farm.h"
#include "tuner/farm_measurer.h"
#include "tuner/tune.h"

namespace autotune::bench {
namespace {

constexpr double kBurstSeconds = 1e-3;  // least duration of one side's calls in one run
constexpr int64_t kLockPatienceMs = 60000;

struct ConvShape {
  int64_t in = 0, size = 0, out = 0, kernel = 0, stride = 0, groups = 0;

  int64_t pad() const { return kernel / 2; }
  int64_t out_size() const { return (size + 2 * pad() - kernel) / stride + 1; }
};

Result<ConvShape> ParseShape(std::string text) {
  std::replace(text.begin(), text.end(), ',', ' ');
  ConvShape s;
  int end = 0;
  int read = std::sscanf(text.c_str(), "%ld %ld %ld %ld %ld %ld %n", &s.in, &s.size, &s.out, &s.kernel, &s.stride,
                         &s.groups, &end);
  if (read != 6 || static_cast<size_t>(end) != text.size())
    return Err("shape ", text, ": write it as C,SIZE,O,KERNEL,STRIDE,GROUPS");
  bool positive = std::min({s.in, s.size, s.out, s.kernel, s.stride, s.groups}) > 0;
  if (!positive || s.in % s.groups || s.out % s.groups || s.out_size() < 1)
    return Err("shape ", text, ": no convolution has it");
  return s;
}

Result<std::vector<ConvShape>> ReadShapes(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Err("cannot read ", path);
  std::vector<ConvShape> shapes;
  for (std::string line; std::getline(file, line);) {
    line.resize(std::min(line.size(), line.find('#')));
    if (line.find_first_not_of(" \t\r") != std::string::npos)
      shapes.push_back(TRY_NOTE(ParseShape(line), "in " + path));
  }
  return shapes;
}

// Returns a network of one convolution, in the layout in which the compiler tunes it.
graph::Graph ConvGraph(const ConvShape& s, const std::vector<float>& weights) {
  graph::GraphBuilder b;
  graph::ValueId x = b.Input("x", {DType::Float(32), {1, s.size, s.size, s.in}});
  graph::ConvAttrs attrs{.strides = {s.stride, s.stride},
                         .pads = {s.pad(), s.pad(), s.pad(), s.pad()},
                         .groups = s.groups,
                         .layout = graph::Layout::kNHWC};
  graph::ValueId w =
      b.AddConstant("w", graph::TensorValue::Of<float>({s.kernel, s.kernel, s.in / s.groups, s.out}, weights));
  b.Output(b.Must(graph::Op::kConv2d, {x, w}, attrs), "y");
  return b.Finish();
}

// One of oneDNN's kernels, with its operands packed into the layouts that it prefers.
class Peer {
 public:
  Peer(const ConvShape& s, dnnl::algorithm algorithm, float* x, float* w)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using Md = dnnl::memory::desc;
    using Tag = dnnl::memory::format_tag;
    const auto f32 = dnnl::memory::data_type::f32;
    const dnnl::memory::dims src = {1, s.in, s.size, s.size}, dst = {1, s.out, s.out_size(), s.out_size()};
    const dnnl::memory::dims stride = {s.stride, s.stride}, pad = {s.pad(), s.pad()};
    dnnl::memory::dims weights = {s.out / s.groups, s.in / s.groups, s.kernel, s.kernel};
    if (s.groups > 1) weights.insert(weights.begin(), s.groups);
    const Md any_src(src, f32, Tag::any), any_weights(weights, f32, Tag::any), any_dst(dst, f32, Tag::any);
#if DNNL_VERSION_MAJOR >= 3
    dnnl::convolution_forward::primitive_desc description(engine_, dnnl::prop_kind::forward_inference, algorithm,
                                                          any_src, any_weights, any_dst, stride, pad, pad);
#else
    dnnl::convolution_forward::primitive_desc description(
        {dnnl::prop_kind::forward_inference, algorithm, any_src, any_weights, any_dst, stride, pad, pad}, engine_);
#endif
    convolution_ = dnnl::convolution_forward(description);
    dnnl::memory packed_x = Pack(Md(src, f32, Tag::nhwc), x, description.src_desc());
    dnnl::memory packed_w =
        Pack(Md(weights, f32, s.groups > 1 ? Tag::hwigo : Tag::hwio), w, description.weights_desc());
    result_ = dnnl::memory(description.dst_desc(), engine_);
    plain_ = dnnl::memory(Md(dst, f32, Tag::nhwc), engine_);
    arguments_ = {{DNNL_ARG_SRC, packed_x}, {DNNL_ARG_WEIGHTS, packed_w}, {DNNL_ARG_DST, result_}};
  }

  void Run() {
    convolution_.execute(stream_, arguments_);
    stream_.wait();
  }
  // Returns the result in NHWC.
  const float* Output() {
    dnnl::reorder(result_, plain_).execute(stream_, result_, plain_);
    stream_.wait();
    return static_cast<const float*>(plain_.get_data_handle());
  }

 private:
  dnnl::memory Pack(const dnnl::memory::desc& plain, float* data, const dnnl::memory::desc& wanted) {
    dnnl::memory from(plain, engine_, data), to(wanted, engine_);
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
    return to;
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::convolution_forward convolution_;
  dnnl::memory result_, plain_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

struct NamedPeer {
  std::string name;
  std::unique_ptr<Peer> peer;
};

// Returns oneDNN's kernels for this shape. oneDNN throws if it has no kernel of an algorithm.
std::vector<NamedPeer> MakePeers(const ConvShape& s, float* x, float* w) {
  std::vector<NamedPeer> peers;
  const std::pair<const char*, dnnl::algorithm> algorithms[] = {{"direct", dnnl::algorithm::convolution_direct},
                                                                {"winograd", dnnl::algorithm::convolution_winograd}};
  for (const auto& [name, algorithm] : algorithms) {
    try {
      peers.push_back({name, std::make_unique<Peer>(s, algorithm, x, w)});
    } catch (const dnnl::error&) {
    }
  }
  return peers;
}

// Makes `calls` calls and returns the seconds per call.
Result<double> Burst(int calls, const std::function<Status()>& call) {
  double begin = SteadySeconds();
  for (int i = 0; i < calls; ++i) TRY(call());
  return (SteadySeconds() - begin) / calls;
}

struct Times {
  std::vector<double> ours, theirs;  // seconds per call, one for each run
  std::string algorithm;             // algorithm of oneDNN's kernel
  bool tuned = false;

  MedianInterval Ratio() const {
    std::vector<double> ratios;
    for (size_t i = 0; i < ours.size(); ++i) ratios.push_back(theirs[i] / ours[i]);
    return MedianWithInterval(std::move(ratios));
  }
};

// Returns the differences of our output from oneDNN's.
Result<Comparison> Differences(const Tensor& ours, const float* theirs) {
  const auto bytes = static_cast<size_t>(ours.num_bytes());
  const Tensor expected =
      TRY(Tensor::FromBytes(ours.shape(), ours.dtype(), {reinterpret_cast<const char*>(theirs), bytes}));
  return CompareTensors(ours, expected);
}

Result<Times> Compare(GraphExecutor& executor, std::vector<NamedPeer>& peers, int runs) {
  const Tensor output = executor.Output(0);
  auto ours = [&] { return executor.Run(); };
  TRY(ours());
  std::optional<HostLock> alone = TRY(HostLock::AcquireWithin(HostLock::Mode::kExclusive, kLockPatienceMs));
  Times result;
  NamedPeer* fastest = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (NamedPeer& peer : peers) {
    peer.peer->Run();
    const Comparison differences = TRY(Differences(output, peer.peer->Output()));
    if (!differences.ok) return Err("differs from oneDNN's ", peer.name, " kernel: ", differences.Text());
    double seconds = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 5; ++i) seconds = std::min(seconds, TRY(Burst(1, [&] { return peer.peer->Run(), Status(); })));
    if (seconds < least) least = seconds, fastest = &peer;
  }
  result.algorithm = fastest->name;
  auto theirs = [&] { return fastest->peer->Run(), Status(); };
  const int calls = std::max(1, static_cast<int>(std::ceil(kBurstSeconds / least)));
  for (int run = 0; run < runs; ++run) {
    // Reverse the order in every other run, so that a machine that slows down steadily favours no side.
    if (run % 2) result.theirs.push_back(TRY(Burst(calls, theirs)));
    result.ours.push_back(TRY(Burst(calls, ours)));
    if (run % 2 == 0) result.theirs.push_back(TRY(Burst(calls, theirs)));
  }
  return result;
}

struct Options {
  int threads = 1, runs = 60, trials = 0;
  std::string db;
};

// Tunes a network of one convolution; the records go into `store`.
Status TuneConvolution(const Network& network, const Target& target, const Options& options, RecordStore& store,
                       Builder& builder) {
  std::unique_ptr<LocalFarm> farm = TRY(LocalFarm::Start());
  std::unique_ptr<Measurer> measurer =
      TRY(MakeFarmMeasurer(builder, {.tracker = farm->tracker(), .key = farm->key(), .job = "onednn"}));
  TuneOptions tune{.trials = options.trials,
                   .run = RunKey(std::vector<std::string>{"onednn", network.tasks[0].hash.Hex(), target.Text(),
                                                          std::to_string(options.trials)})};
  const std::vector<TuneTask> tasks = MakeTuneTasks(network);
  TRY(Tune(tasks, target, tune, store, *measurer));
  return {};
}

Result<Times> CompareShape(const ConvShape& s, const Options& options, RecordStore* store, Builder& builder) {
  Target target = TRY(Target::Parse("cpu"));
  target.num_cores = options.threads;
  Rng rng(1);
  std::vector<float> weights(static_cast<size_t>(s.kernel * s.kernel * (s.in / s.groups) * s.out));
  for (float& weight : weights) weight = static_cast<float>(rng.Uniform()) - 0.5F;
  Network network = TRY(MakeNetwork(IRModule(ConvGraph(s, weights)), {}, target, builder));
  if (options.trials > 0) TRY(TuneConvolution(network, target, options, *store, builder));
  CompileResult compiled = TRY(Compile(network, target, store, builder));
  LoadedModel model = TRY(LoadModel(std::move(compiled.package), options.threads));
  Tensor x = model.executor->Input(0);
  FillRandom(x, 2);
  std::vector<NamedPeer> peers = MakePeers(s, x.Data<float>(), weights.data());
  if (peers.empty()) return Err("oneDNN has no kernel");
  Times result = TRY(Compare(*model.executor, peers, options.runs));
  result.tuned = compiled.choices[0].tuned;
  return result;
}

// Sets the number of oneDNN's threads, which OpenMP runs.
void SetPeerThreads(int threads) {
  if (auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(threads);
}

void Print(const ConvShape& s, const Times& result) {
  MedianInterval ratio = result.Ratio();
  std::printf("%4ld %4ld %4ld %3ld %2ld %3ld  %9.1f %9.1f %-8s  %9.1f %9.1f %-7s  %6.3f [%.3f, %.3f]\n", s.in, s.size,
              s.out, s.kernel, s.stride, s.groups, *std::min_element(result.theirs.begin(), result.theirs.end()) * 1e6,
              Median(result.theirs) * 1e6, result.algorithm.c_str(),
              *std::min_element(result.ours.begin(), result.ours.end()) * 1e6, Median(result.ours) * 1e6,
              result.tuned ? "tuned" : "default", ratio.median, ratio.low, ratio.high);
  std::fflush(stdout);
}

Result<int> Main(int argc, char** argv) {
  Arguments arguments =
      TRY(Arguments::Parse(argc, argv, {"threads", "runs", "trials", "db", "shapes"}, {"threads", "runs", "trials"}));
  Options options{.threads = static_cast<int>(arguments.Number("threads", 1)),
                  .runs = static_cast<int>(arguments.Number("runs", 60)),
                  .trials = static_cast<int>(arguments.Number("trials", 0)),
                  .db = arguments.Text("db", "")};
  std::vector<ConvShape> shapes;
  if (arguments.Has("shapes")) shapes = TRY(ReadShapes(arguments.Text("shapes", "")));
  for (const std::string& word : arguments.words) shapes.push_back(TRY(ParseShape(word)));
  if (shapes.empty() || options.threads < 1 || options.runs < 6 || options.trials < 0) {
    std::fprintf(stderr,
                 "usage: bench_onednn [--threads 1] [--runs 60] [--trials 0] [--db FILE] [--shapes FILE] "
                 "[C,SIZE,O,KERNEL,STRIDE,GROUPS]...   (at least 6 runs)\n");
    return 2;
  }
  SetPeerThreads(options.threads);
  std::unique_ptr<RecordStore> store = TRY(OpenStore(options.db.empty() ? ":memory:" : options.db));
  std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
  std::printf("oneDNN %d.%d.%d, %d thread%s, %d runs; us: least, median; ratio of neighbouring runs: median [95 %%]\n",
              DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH, options.threads,
              options.threads == 1 ? "" : "s", options.runs);
  std::printf("   C size    O   k  s   g  %28s  %27s  %6s\n", "oneDNN", "ours", "ratio");
  double logs = 0, least = std::numeric_limits<double>::infinity();
  for (const ConvShape& shape : shapes) {
    Times result = TRY_NOTE(CompareShape(shape, options, store.get(), *builder), "while comparing a convolution");
    Print(shape, result);
    logs += std::log(result.Ratio().median);
    least = std::min(least, result.Ratio().median);
  }
  std::printf("geometric mean %.3f, least %.3f (above 1: ours is faster)\n",
              std::exp(logs / static_cast<double>(shapes.size())), least);
  return 0;
}

}  // namespace
}  // namespace autotune::bench

int main(int argc, char** argv) {
  autotune::bench::UseProgramsOfBuildTree();
  return autotune::bench::ExitCode("bench_onednn", autotune::bench::Main(argc, argv));
}
