// Compares convolutions and products of matrices with oneDNN's, in turns. oneDNN uses the layouts that it prefers
// (format_tag::any) and the faster one of its direct and Winograd kernels; packing its operands is not timed. Our
// kernel is the compiler's: the best schedule of a database, else the default one.
//   bench_onednn [--threads 1] [--runs 60] [--trials 0] [--db FILE] [--shapes FILE]
//                [[TYPE:]C,SIZE,O,KERNEL,STRIDE,GROUPS | [TYPE:]ROWS,TERMS,COLUMNS]...
// TYPE: f32 (default), bf16, or u8s8 with sums of i32. --trials tunes each product first, into the database.
// bench/onednn_shapes.txt has the convolutions of f32 that the docs quote, onednn_small_types.txt products of bytes and
// bf16.
// oneDNN is a peer, not a dependency: this bench is built where libdnnl-dev is installed.
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <sstream>

#include "bench/arguments.h"
#include "bench/main.h"
#include "compiler/compile.h"
#include "frontend/operator/operator.h"
#include "package/load.h"
#include "records/open.h"
#include "runtime/compare.h"
#include "runtime/fill.h"
#include "service/peak.h"
#include "support/clock.h"
#include "support/host_lock.h"
#include "support/statistics.h"
#include "tracker/local_farm.h"
#include "tuner/farm_measurer.h"
#include "tuner/tune.h"

namespace autotune::bench {
namespace {

constexpr double kBurstSeconds = 1e-3;  // least duration of one side's calls in one run
constexpr int64_t kLockPatienceMs = 60000;

// A product to compare: a square convolution, padded by half the kernel, or a product of matrices with constant
// weights.
struct Product {
  std::string type = "f32";  // or bf16, or u8s8: bytes times signed bytes, with sums of i32
  int64_t in = 0, size = 0, out = 0, kernel = 0, stride = 0, groups = 0;  // of a convolution
  int64_t rows = 0, terms = 0, columns = 0;                               // of matrices; 0: it is a convolution

  int64_t pad() const { return kernel / 2; }
  int64_t out_size() const { return (size + 2 * pad() - kernel) / stride + 1; }
  double Operations() const {
    if (rows > 0) return 2.0 * static_cast<double>(rows * terms * columns);
    return 2.0 * static_cast<double>(out_size() * out_size() * out * kernel * kernel * (in / groups));
  }
  // The product as `autotune --op` takes it.
  std::string Operator() const {
    std::ostringstream text;
    if (rows > 0) {
      text << "dense:" << rows << ',' << terms << ',' << columns;
    } else {
      text << "conv2d:1," << size << ',' << size << ',' << in << ';' << kernel << ',' << kernel << ',' << in / groups
           << ',' << out << ";stride=" << stride << ";pad=" << pad() << ";groups=" << groups;
    }
    return text.str() + ";dtype=" + type;
  }
};

// Parses "[TYPE:]C,SIZE,O,KERNEL,STRIDE,GROUPS" or "[TYPE:]ROWS,TERMS,COLUMNS".
Result<Product> ParseProduct(const std::string& text) {
  Product p;
  std::string numbers = text;
  if (const size_t colon = text.find(':'); colon != std::string::npos)
    p.type = text.substr(0, colon), numbers = text.substr(colon + 1);
  if (p.type != "f32" && p.type != "bf16" && p.type != "u8s8")
    return Err("product ", text, ": the type is f32, bf16 or u8s8");
  std::replace(numbers.begin(), numbers.end(), ',', ' ');
  std::istringstream words(numbers);
  const std::vector<int64_t> n{std::istream_iterator<int64_t>(words), {}};
  const bool positive = words.eof() && std::ranges::all_of(n, [](int64_t number) { return number > 0; });
  if (!positive || (n.size() != 6 && n.size() != 3))
    return Err("product ", text, ": write it as [TYPE:]C,SIZE,O,KERNEL,STRIDE,GROUPS or [TYPE:]ROWS,TERMS,COLUMNS");
  if (n.size() == 3) {
    p.rows = n[0], p.terms = n[1], p.columns = n[2];
    return p;
  }
  p.in = n[0], p.size = n[1], p.out = n[2], p.kernel = n[3], p.stride = n[4], p.groups = n[5];
  if (p.in % p.groups || p.out % p.groups || p.out_size() < 1)
    return Err("product ", text, ": no convolution has this shape");
  return p;
}

Result<std::vector<Product>> ReadProducts(const std::string& path) {
  std::ifstream file(path);
  if (!file) return Err("cannot read ", path);
  std::vector<Product> products;
  for (std::string line; std::getline(file, line);) {
    line.resize(std::min(line.size(), line.find('#')));
    std::erase_if(line, [](char c) { return c == '\r' || c == '\t'; });
    const size_t first = line.find_first_not_of(' ');
    if (first != std::string::npos) products.push_back(TRY_NOTE(ParseProduct(line.substr(first)), "in " + path));
  }
  return products;
}

using Dt = dnnl::memory::data_type;
using Md = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

// One of oneDNN's kernels, with its operands packed into the layouts that it prefers.
class Peer {
 public:
  // `x` and `w`: the operands in our layouts, NHWC and HWIO, or rows and [terms, columns].
  Peer(const Product& p, dnnl::algorithm algorithm, void* x, void* w)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const Dt of_x = p.type == "u8s8" ? Dt::u8 : p.type == "bf16" ? Dt::bf16 : Dt::f32;
    const Dt of_w = p.type == "u8s8" ? Dt::s8 : of_x, of_y = p.type == "u8s8" ? Dt::s32 : of_x;
    p.rows > 0 ? Multiply(p, of_x, of_w, of_y, x, w) : Convolve(p, algorithm, of_x, of_w, of_y, x, w);
  }

  void Run() {
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }
  // Returns the result in our layout.
  const char* Output() {
    dnnl::reorder(result_, plain_).execute(stream_, result_, plain_);
    stream_.wait();
    return static_cast<const char*>(plain_.get_data_handle());
  }

 private:
  void Multiply(const Product& p, Dt of_x, Dt of_w, Dt of_y, void* x, void* w) {
    const dnnl::memory::dims src = {p.rows, p.terms}, weights = {p.terms, p.columns}, dst = {p.rows, p.columns};
    const Md any_x(src, of_x, Tag::any), any_w(weights, of_w, Tag::any), any_y(dst, of_y, Tag::any);
#if DNNL_VERSION_MAJOR >= 3
    dnnl::matmul::primitive_desc description(engine_, any_x, any_w, any_y);
#else
    dnnl::matmul::primitive_desc description({any_x, any_w, any_y}, engine_);
#endif
    primitive_ = dnnl::matmul(description);
    Bind(description, {src, of_x, Tag::ab}, x, {weights, of_w, Tag::ab}, w, {dst, of_y, Tag::ab});
  }

  void Convolve(const Product& p, dnnl::algorithm algorithm, Dt of_x, Dt of_w, Dt of_y, void* x, void* w) {
    const dnnl::memory::dims src = {1, p.in, p.size, p.size}, dst = {1, p.out, p.out_size(), p.out_size()};
    const dnnl::memory::dims stride = {p.stride, p.stride}, pad = {p.pad(), p.pad()};
    dnnl::memory::dims weights = {p.out / p.groups, p.in / p.groups, p.kernel, p.kernel};
    if (p.groups > 1) weights.insert(weights.begin(), p.groups);
    const Md any_x(src, of_x, Tag::any), any_w(weights, of_w, Tag::any), any_y(dst, of_y, Tag::any);
    const auto kind = dnnl::prop_kind::forward_inference;
#if DNNL_VERSION_MAJOR >= 3
    dnnl::convolution_forward::primitive_desc description(engine_, kind, algorithm, any_x, any_w, any_y, stride, pad,
                                                          pad);
#else
    dnnl::convolution_forward::primitive_desc description({kind, algorithm, any_x, any_w, any_y, stride, pad, pad},
                                                          engine_);
#endif
    primitive_ = dnnl::convolution_forward(description);
    Bind(description, {src, of_x, Tag::nhwc}, x, {weights, of_w, p.groups > 1 ? Tag::hwigo : Tag::hwio}, w,
         {dst, of_y, Tag::nhwc});
  }

  template <class Description>
  void Bind(const Description& description, const Md& x_layout, void* x, const Md& w_layout, void* w, const Md& plain) {
    dnnl::memory packed_x = Pack(x_layout, x, description.src_desc());
    dnnl::memory packed_w = Pack(w_layout, w, description.weights_desc());
    result_ = dnnl::memory(description.dst_desc(), engine_);
    plain_ = dnnl::memory(plain, engine_);
    arguments_ = {{DNNL_ARG_SRC, packed_x}, {DNNL_ARG_WEIGHTS, packed_w}, {DNNL_ARG_DST, result_}};
  }

  dnnl::memory Pack(const Md& plain, void* data, const Md& wanted) {
    dnnl::memory from(plain, engine_, data), to(wanted, engine_);
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
    return to;
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  dnnl::memory result_, plain_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

struct NamedPeer {
  std::string name;
  std::unique_ptr<Peer> peer;
};

// Returns oneDNN's kernels for this product. oneDNN throws if it has no kernel of an algorithm.
std::vector<NamedPeer> MakePeers(const Product& p, void* x, void* w) {
  std::vector<NamedPeer> peers;
  const std::pair<const char*, dnnl::algorithm> algorithms[] = {{"direct", dnnl::algorithm::convolution_direct},
                                                                {"winograd", dnnl::algorithm::convolution_winograd}};
  for (const auto& [name, algorithm] : algorithms) {
    try {
      peers.push_back({name, std::make_unique<Peer>(p, algorithm, x, w)});
    } catch (const dnnl::error&) {
    }
    if (p.rows > 0) break;  // products of matrices have one algorithm
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
Result<Comparison> Differences(const Tensor& ours, const char* theirs) {
  const auto bytes = static_cast<size_t>(ours.num_bytes());
  const Tensor expected = TRY(Tensor::FromBytes(ours.shape(), ours.dtype(), {theirs, bytes}));
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

// Tunes a network of one product; the records go into `store`.
Status TuneProduct(const Network& network, const Target& target, const Options& options, RecordStore& store,
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

// Returns the bytes of the one constant of a network.
std::string WeightsOf(const graph::Graph& graph) {
  const graph::TensorValue value = graph.ConstantValue(graph.constants.front());
  return std::string(value.bytes.view());
}

Result<Times> CompareProduct(const Product& p, const Target& target, const Options& options, RecordStore* store,
                             Builder& builder) {
  OperatorModule made = TRY(ParseOperator(p.Operator()));
  std::string weights = WeightsOf(made.module.main());
  Network network = TRY(MakeNetwork(made.module, {}, target, builder));
  if (options.trials > 0) TRY(TuneProduct(network, target, options, *store, builder));
  CompileResult compiled = TRY(Compile(network, target, store, builder));
  LoadedModel model = TRY(LoadModel(std::move(compiled.package), options.threads));
  Tensor x = model.executor->Input(0);
  x.dtype().code == kDLFloat || x.dtype().code == kDLBfloat ? FillRandom(x, 2) : FillWholeRange(x, 2);
  std::vector<NamedPeer> peers = MakePeers(p, x.data(), weights.data());
  if (peers.empty()) return Err("oneDNN has no kernel for ", p.Operator());
  Times result = TRY(Compare(*model.executor, peers, options.runs));
  result.tuned = compiled.choices[0].tuned;
  return result;
}

// Sets the number of oneDNN's threads, which OpenMP runs.
void SetPeerThreads(int threads) {
  if (auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(threads);
}

// The peaks of the CPU in operations per second, measured when a type first needs one.
class Peaks {
 public:
  Peaks(const Target& target, Builder& builder) : target_(target), builder_(builder) {}

  Result<double> Of(const std::string& type) {
    if (const auto known = peaks_.find(type); known != peaks_.end()) return known->second;
    const DType factors = type == "u8s8" ? DType::Int(8) : DType::BFloat16();
    const bool has_dots = type != "f32" && (target_.HasDot(factors.IsFloat(), factors.bits) || target_.has_tiles);
    const MeasuredPeak peak = TRY(has_dots ? MeasurePeakOfDots(factors, target_, builder_, kLockPatienceMs)
                                           : MeasurePeakFlops(target_, builder_, kLockPatienceMs));
    return peaks_[type] = peak.flops;
  }

 private:
  const Target& target_;
  Builder& builder_;
  std::map<std::string, double> peaks_;
};

void Print(const Product& p, const Times& result, double peak) {
  const MedianInterval ratio = result.Ratio();
  const double ours = Median(result.ours);
  std::printf("%-44s  %9.1f %9.1f %-8s  %9.1f %9.1f %-7s  %6.3f [%.3f, %.3f]  %5.1f %5.1f\n", p.Operator().c_str(),
              std::ranges::min(result.theirs) * 1e6, Median(result.theirs) * 1e6, result.algorithm.c_str(),
              std::ranges::min(result.ours) * 1e6, ours * 1e6, result.tuned ? "tuned" : "default", ratio.median,
              ratio.low, ratio.high, 100 * p.Operations() / Median(result.theirs) / peak,
              100 * p.Operations() / ours / peak);
  std::fflush(stdout);
}

Result<int> Main(int argc, char** argv) {
  Arguments arguments =
      TRY(Arguments::Parse(argc, argv, {"threads", "runs", "trials", "db", "shapes"}, {"threads", "runs", "trials"}));
  Options options{.threads = static_cast<int>(arguments.Number("threads", 1)),
                  .runs = static_cast<int>(arguments.Number("runs", 60)),
                  .trials = static_cast<int>(arguments.Number("trials", 0)),
                  .db = arguments.Text("db", "")};
  std::vector<Product> products;
  if (arguments.Has("shapes")) products = TRY(ReadProducts(arguments.Text("shapes", "")));
  for (const std::string& word : arguments.words) products.push_back(TRY(ParseProduct(word)));
  if (products.empty() || options.threads < 1 || options.runs < 6 || options.trials < 0) {
    std::fprintf(stderr,
                 "usage: bench_onednn [--threads 1] [--runs 60] [--trials 0] [--db FILE] [--shapes FILE] "
                 "[[TYPE:]C,SIZE,O,KERNEL,STRIDE,GROUPS | [TYPE:]ROWS,TERMS,COLUMNS]...   (at least 6 runs)\n");
    return 2;
  }
  SetPeerThreads(options.threads);
  std::unique_ptr<RecordStore> store = TRY(OpenStore(options.db.empty() ? ":memory:" : options.db));
  std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
  Target target = TRY(Target::Parse("cpu"));
  target.num_cores = options.threads;
  Peaks peaks(target, *builder);
  std::printf(
      "oneDNN %d.%d.%d, %d thread%s, %d runs; us: least, median; ratio of neighbouring runs: median [95 %%]; "
      "%% of the CPU's peak: oneDNN, ours\n",
      DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH, options.threads, options.threads == 1 ? "" : "s",
      options.runs);
  std::printf("%-44s  %28s  %27s  %6s\n", "product", "oneDNN", "ours", "ratio");
  double logs = 0, least = std::numeric_limits<double>::infinity();
  for (const Product& product : products) {
    const double peak = TRY(peaks.Of(product.type));
    const Times result = TRY_NOTE(CompareProduct(product, target, options, store.get(), *builder),
                                  "while comparing " + product.Operator());
    Print(product, result, peak);
    logs += std::log(result.Ratio().median);
    least = std::min(least, result.Ratio().median);
  }
  std::printf("geometric mean %.3f, least %.3f (above 1: ours is faster)\n",
              std::exp(logs / static_cast<double>(products.size())), least);
  return 0;
}

}  // namespace
}  // namespace autotune::bench

int main(int argc, char** argv) {
  autotune::bench::UseProgramsOfBuildTree();
  return autotune::bench::ExitCode("bench_onednn", autotune::bench::Main(argc, argv));
}
