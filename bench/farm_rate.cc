// Measures what the farm adds to tiny candidates: how many a device measures per second, in batches of 64 and one by
// one (with a lease and a release for each), and how soon an honest candidate has its result after one that crashed.
//   bench_farm_rate [--rounds N] [--sandbox on|strict|off]      a local farm of this build
//   bench_farm_rate [--rounds N] --tracker ENDPOINT --key KEY     a farm that runs, of another version for example
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>

#include "bench/arguments.h"
#include "bench/main.h"
#include "rpc/client.h"
#include "tracker/local_farm.h"

namespace autotune {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBatch = 64;
constexpr int kCrashesPerRound = 5;    // so that 20 rounds have a 99th percentile
constexpr int kOneByOnePerRound = 10;  // likewise

double MillisSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

// Compiles a kernel `k` of one input and one output of 64 elements with the system's C compiler.
Result<rpc::Blob> Compile(const std::string& body) {
  std::string folder = std::filesystem::temp_directory_path() / "bench_farm_rate_XXXXXX";
  if (!mkdtemp(folder.data())) return Err("cannot make a folder in ", std::filesystem::temp_directory_path());
  const std::string metadata =
      R"({"abi_version":1,"target":"test","kernels":[{"name":"k","params":[)"
      R"({"name":"x","dtype":"f32","shape":[64],"kind":"input"},{"name":"y","dtype":"f32","shape":[64],"kind":"output"}]}]})";
  std::ofstream source(folder + "/k.c");
  source << "#include <dlpack/dlpack.h>\n#include \"runtime/abi.h\"\n"
         << "extern const char metadata[] __asm__(\"autotune.metadata\");\nconst char metadata[] = {";
  for (const unsigned char c : metadata) source << static_cast<int>(c) << ",";
  source << "0};\nint32_t raw(AtContext* c, void* const* a) __asm__(\"k.raw\");\n"
         << "int32_t raw(AtContext* c, void* const* a) { const float* x = a[0]; float* y = a[1]; " << body
         << " return 0; }\nint32_t k(AtContext* c, const DLTensor* const* a, int32_t n) {\n"
         << "  void* p[2] = {a[0]->data, a[1]->data}; return raw(c, p); }\n";
  source.close();
  const std::string command = "cc -O1 -shared -fPIC -nostdlib -fno-builtin -I" + std::string(AUTOTUNE_SOURCE_DIR) +
                              " -o " + folder + "/k.so " + folder + "/k.c";
  const bool compiled = std::system(command.c_str()) == 0;
  std::ifstream file(folder + "/k.so", std::ios::binary);
  auto bytes = rpc::MakeBlob({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  std::filesystem::remove_all(folder);
  if (!compiled) return Err("the system's C compiler failed: ", command);
  return rpc::Blob(std::move(bytes));
}

struct Kernels {
  rpc::Blob good, crashing;
};

rpc::MeasureJob JobOf(const Kernels& kernels, int candidates, bool crashes = false) {
  rpc::MeasureJob job;
  job.task.id = "double";
  job.task.reference_kernel = "k";
  job.reference = kernels.good;
  for (int i = 0; i < candidates; ++i) {
    rpc::Candidate candidate;
    candidate.id = std::to_string(i);
    candidate.kernel = "k";
    candidate.blob = i;
    candidate.repeats = 2;
    candidate.min_repeat_ms = 0.1;
    candidate.threads = 1;
    candidate.cold_weights = false;
    job.candidates.push_back(candidate);
    // Each candidate has its own bytes, as in a search.
    job.artifacts.push_back(rpc::MakeBlob(std::string(crashes ? *kernels.crashing : *kernels.good)));
  }
  return job;
}

// Measures a job and returns the milliseconds that it took. Returns an error unless all its candidates end as expected.
Result<double> Time(rpc::FarmClient& client, const Kernels& kernels, int candidates, bool crashes = false) {
  rpc::MeasureJob job = JobOf(kernels, candidates, crashes);
  const Clock::time_point begin = Clock::now();
  const std::vector<rpc::TrialResult> results = TRY(client.Measure(std::move(job)));
  const double ms = MillisSince(begin);
  for (const rpc::TrialResult& result : results) {
    const bool crashed = result.status == TrialStatus::kRunCrashed;
    if (crashes ? !crashed : result.status != TrialStatus::kOk)
      return Err("a candidate ended otherwise than expected: ", ToText(result.status), " ", result.error);
  }
  return ms;
}

void Print(const char* what, std::vector<double> ms, int candidates) {
  std::sort(ms.begin(), ms.end());
  const double median = ms[ms.size() / 2];
  std::printf("%-34s %9.0f %9.2f %9.2f %9.2f\n", what, 1e3 * candidates / median, median, ms[ms.size() * 99 / 100],
              ms.back());
}

Status MeasureFarm(rpc::FarmOptions options, int rounds) {
  Kernels kernels;
  kernels.good = TRY(Compile("for (int i = 0; i < 64; ++i) y[i] = 2 * x[i];"));
  kernels.crashing = TRY(Compile("*(volatile int*)0 = 1;"));
  std::printf("%-34s %9s %9s %9s %9s\n", "", "cand./s", "p50 ms", "p99 ms", "most ms");
  {
    auto client = TRY(rpc::FarmClient::Connect(options));
    TRY(Time(*client, kernels, kBatch));
    std::vector<double> batches, after;
    for (int i = 0; i < rounds; ++i) batches.push_back(TRY(Time(*client, kernels, kBatch)));
    Print("batches of 64", batches, kBatch);
    for (int i = 0; i < kCrashesPerRound * rounds; ++i) {
      TRY(Time(*client, kernels, 1, /*crashes=*/true));
      after.push_back(TRY(Time(*client, kernels, 1)));
    }
    Print("after a crash", after, 1);
  }
  options.idle_lease_seconds = 0;
  auto client = TRY(rpc::FarmClient::Connect(options));
  std::vector<double> single;
  for (int i = 0; i < kOneByOnePerRound * rounds; ++i) single.push_back(TRY(Time(*client, kernels, 1)));
  Print("one by one, each with its lease", single, 1);
  return {};
}

Result<int> Main(int argc, char** argv) {
  const auto arguments = TRY(bench::Arguments::Parse(argc, argv, {"rounds", "sandbox", "tracker", "key"}, {"rounds"}));
  const int rounds = static_cast<int>(arguments.Number("rounds", 20));
  if (rounds < 1) return Err("--rounds must be at least 1");
  rpc::FarmOptions options{.tracker = arguments.Text("tracker", ""), .key = arguments.Text("key", "")};
  std::unique_ptr<LocalFarm> farm;
  if (!arguments.Has("tracker")) {
    farm = TRY(LocalFarm::Start({.server_arguments = {"--sandbox", arguments.Text("sandbox", "on")}}));
    options.tracker = farm->tracker();
    options.key = farm->key();
  }
  TRY(MeasureFarm(options, rounds));
  return 0;
}

}  // namespace
}  // namespace autotune

int main(int argc, char** argv) {
  autotune::bench::UseProgramsOfBuildTree();
  return autotune::bench::ExitCode("bench_farm_rate", autotune::Main(argc, argv));
}
