// `autotune bench` measures the latency and the throughput of a package.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>

#include "package/prepared_model.h"
#include "runtime/fill.h"
#include "service/device_target.h"
#include "service/gpus.h"
#include "support/cpus.h"
#include "support/json.h"
#include "support/shell.h"
#include "support/statistics.h"
#include "support/terminal.h"
#include "tools/autotune/alone.h"
#include "tools/autotune/command.h"
#include "tools/autotune/console.h"
#include "tools/autotune/host.h"
#include "tools/autotune/printer.h"
#include "tools/autotune/profile.h"
#include "tools/autotune/profile_trace.h"
#include "tools/autotune/runnable_model.h"
#include "tools/autotune/text.h"
#include "tools/autotune/usage.h"

namespace autotune::tools {
namespace {

struct BenchOptions {
  std::string package, trace;
  ModelPlace place;
  int streams = 1;
  double seconds = 3;
  double wait = 30;
  bool profile = false;
  bool serve = false;
  bool wide = false;

  int AllThreads() const { return place.threads > 0 ? place.threads : AvailableCpus(); }  // the default of ThreadPool
  int ThreadsOfAStream() const { return std::max(1, AllThreads() / streams); }
};

constexpr size_t kLeastRuns = 5;

// The measured runs. With several streams, the runs of all.
struct Sample {
  std::vector<double> ms;  // latencies, sorted
  double seconds = 0;      // duration of the measurement
  double per_second = 0;   // runs per second, over all streams
};

// Returns the least latency that at least this share of the runs does not exceed. `sorted` must not be empty.
double Percentile(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

Sample SampleOf(std::vector<double> ms) {
  Sample sample{std::move(ms)};
  for (double run : sample.ms) sample.seconds += run / 1e3;
  std::sort(sample.ms.begin(), sample.ms.end());
  sample.per_second = static_cast<double>(sample.ms.size()) / std::max(sample.seconds, 1e-12);
  return sample;
}

// Runs one after another: at least `runs` of them, and more until `seconds` have passed.
Result<Sample> Measure(GraphExecutor& executor, double seconds, int runs, Alone& alone) {
  std::vector<double> ms;
  TRY(RunInTurns(seconds, runs, alone, [&]() -> Status {
    const double begin = MonotonicSeconds();
    TRY(executor.Run());
    ms.push_back((MonotonicSeconds() - begin) * 1e3);
    return {};
  }));
  return SampleOf(std::move(ms));
}

// The runs of one stream in one burst of all streams.
struct Burst {
  std::vector<double> ms;
  double end = 0;  // of the last run, since the burst's begin
  Status status;
};

// Runs each model on a thread of its own, all at once, until `seconds` have passed in all.
Result<Sample> MeasureStreams(std::vector<LoadedModel>& models, double seconds, Alone& alone) {
  constexpr double kBurst = 0.5;  // seconds; short, so that a turn on this host ends in time
  Sample sample;
  double runs = 0;
  TRY(RunInTurns(seconds, 1, alone, [&]() -> Status {
    std::vector<Burst> bursts(models.size());
    std::vector<std::thread> threads;
    const double begin = MonotonicSeconds();
    for (size_t i = 0; i < models.size(); ++i) {
      threads.emplace_back([&, i] {
        Burst& burst = bursts[i];
        for (double now = begin; burst.status.ok() && now - begin < kBurst;) {
          const double start = MonotonicSeconds();
          burst.status = models[i].executor->Run();
          now = MonotonicSeconds();
          burst.ms.push_back((now - start) * 1e3);
          burst.end = now - begin;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    // Each stream counts for its own time, since one that ends late has less company at its end.
    double rate = 0, longest = 0;
    for (Burst& burst : bursts) {
      TRY(std::move(burst.status));
      rate += static_cast<double>(burst.ms.size()) / burst.end;
      longest = std::max(longest, burst.end);
      sample.ms.insert(sample.ms.end(), burst.ms.begin(), burst.ms.end());
    }
    runs += rate * longest;
    sample.seconds += longest;
    return {};
  }));
  sample.per_second = runs / std::max(sample.seconds, 1e-12);
  std::sort(sample.ms.begin(), sample.ms.end());
  return sample;
}

// Returns the time of the network's kernels on its GPU, by the GPU's own clock; nothing for a network on the CPU.
Result<std::optional<DeviceTiming>> MeasureDevice(const BenchOptions& options, GraphExecutor& executor, Alone& alone) {
  if (executor.others().empty()) return std::optional<DeviceTiming>();
  constexpr int kRepeats = 20;             // enough for a median [chosen]
  constexpr double kRepeatSeconds = 0.01;  // far longer than the pause between two graphs
  std::optional<HostLock> lock = alone.Take();
  return executor.TimeDevice(
      {.repeats = kRepeats, .min_repeat_seconds = kRepeatSeconds, .max_seconds = std::max(options.seconds, 1e-3)});
}

Json SampleJson(const BenchOptions& options, const PackageInfo& info, const Sample& sample) {
  Json line;
  line["package"] = options.package;
  line["model"] = info.model_name;
  line["n"] = static_cast<int64_t>(sample.ms.size());
  line["seconds"] = sample.seconds;
  line["min_ms"] = sample.ms[0];
  line["median_ms"] = Median(sample.ms);
  for (int percent : {90, 95, 99}) line["p" + std::to_string(percent) + "_ms"] = Percentile(sample.ms, percent / 100.0);
  line["max_ms"] = sample.ms.back();
  line["inferences_per_second"] = sample.per_second;
  return line;
}

Json ToLine(const BenchOptions& options, const LoadedModel& model, const Sample& sample, bool undisturbed) {
  Json line = SampleJson(options, model.info, sample);
  line["threads"] = options.AllThreads();
  line["streams"] = options.streams;
  line["threads_per_stream"] = options.ThreadsOfAStream();
  line["undisturbed"] = undisturbed;
  return line;
}

// `device`: the line with the times by a device's own clock, or "".
std::string SampleText(const PackageInfo& info, const std::string& where, const Sample& sample,
                       const std::string& device = "") {
  const auto time = [](double ms) { return TimeText(ms / 1e3); };
  std::string text = info.model_name + " " + where + "\n";
  text += "latency     min " + time(sample.ms[0]) + "  p50 " + time(Median(sample.ms));
  for (int percent : {90, 95, 99})
    text += "  p" + std::to_string(percent) + " " + time(Percentile(sample.ms, percent / 100.0));
  if (!device.empty()) text += "\n" + device;
  return text + Format("\nthroughput  %.*f inferences/s (", sample.per_second < 100 ? 2 : 0, sample.per_second) +
         CountText(static_cast<int64_t>(sample.ms.size()), "run") + Format(" in %.1f s)\n", sample.seconds);
}

std::string ThreadsText(const BenchOptions& options) {
  if (options.streams == 1) return CountText(options.AllThreads(), "thread");
  return std::to_string(options.streams) + " streams of " + CountText(options.ThreadsOfAStream(), "thread");
}

// Returns the line with the times by the device's own clock.
std::string DeviceLine(const DeviceTiming& device) {
  const DeviceState& state = device.state;
  std::string text = "device      min " + TimeText(*std::ranges::min_element(device.timing.seconds)) + "  p50 " +
                     TimeText(Median(device.timing.seconds)) + ", without copies from and to the host";
  if (state.clock_mhz > 0) text += Format("; clock %ld MHz", static_cast<long>(state.clock_mhz));
  for (size_t i = 0; i < state.throttled.size(); ++i) text += (i > 0 ? ", " : ", lowered by: ") + state.throttled[i];
  return text + (state.steady ? "" : "; the clock was not steady");
}

void PrintLine(const BenchOptions& options, const LoadedModel& model, const Sample& sample, Alone& alone,
               const std::optional<DeviceTiming>& device = std::nullopt) {
  Console& console = Console::Get();
  if (console.json()) {
    Json line = ToLine(options, model, sample, alone.TakeUndisturbed());
    if (device) {
      line["device_min_ms"] = *std::ranges::min_element(device->timing.seconds) * 1e3;
      line["device_median_ms"] = Median(device->timing.seconds) * 1e3;
      line["device_state"] = ToJson(device->state);
    }
    if (!options.serve) line["machine"] = MachineJson();
    return console.Result(line);
  }
  auto time = [](double ms) { return TimeText(ms / 1e3); };
  if (options.serve) {
    return console.Result(model.info.model_name + ": min " + time(sample.ms[0]) + ", median " +
                          time(Median(sample.ms)) + " over " + std::to_string(sample.ms.size()) + " runs\n");
  }
  const std::string where = "with " + ThreadsText(options) + " on " + HostText();
  const std::string text = SampleText(model.info, where, sample, device ? DeviceLine(*device) : "");
  console.Result(WrapLines(text, console.WidthOut()));
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
  Console::Get().Result(line);
}

// Names the command that explains the slowest kernel.
void PrintHint(const std::string& package, const std::vector<ProfileRow>& rows) {
  const auto slowest = std::ranges::max_element(rows, {}, &ProfileRow::seconds);
  if (slowest == rows.end() || slowest->task.empty()) return;
  Console::Get().Report("why the slowest kernel takes its time: autotune explain " + ShellWord(package) + " " +
                        slowest->task + "\n");
}

// Runs the network a few times more, and writes the file of --trace.
Status WriteTrace(const BenchOptions& options, GraphExecutor& executor, const std::vector<ProfileRow>& rows,
                  const ProfileBalance& balance, Alone& alone) {
  constexpr int kRuns = 10;  // enough to see what varies [chosen]
  TraceFile file;
  AddProfile(rows, balance, file);
  std::vector<RunTrace> runs;
  {
    std::optional<HostLock> lock = alone.Take();
    for (int i = 0; i < kRuns; ++i) runs.push_back(TRY(executor.TraceRun()));
  }
  AddRuns(rows, runs, file);
  TRY(file.Write(options.trace));
  MakeEventPrinter(Console::Get(), {})->Print(event::Trace{options.trace});
  return {};
}

// Measures the network's latency and its kernels' times in turns. Prints the same line as without --profile, and then
// the kernels.
Result<int> Profile(const BenchOptions& options, LoadedModel& model, Alone& alone) {
  std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
  Target host = TRY(Target::Parse("cpu"));
  if (options.place.threads > 0) host.num_cores = options.place.threads;
  constexpr int kPatienceMs = 500;  // longest wait for the host's lock, for each part of the roofline
  Roofline roofline = TRY(MeasureRoofline(host, *builder, kPatienceMs));
  ProfileSamples samples = TRY(MeasureProfile(*model.executor, options.seconds, alone));
  std::vector<double> ms;
  for (double seconds : samples.network) ms.push_back(seconds * 1e3);
  PrintLine(options, model, SampleOf(std::move(ms)), alone);
  const std::vector<ProfileRow> rows = ProfileRows(model.info, TRY(model.executor->NodeTimes(samples)), roofline);
  ProfileBalance balance = BalanceOf(samples, ClockSeconds());
  Console& console = Console::Get();
  console.json()
      ? console.Result(ProfileJson(rows, balance, roofline))
      : console.Result(ProfileTable(rows, balance, roofline, host.num_cores, options.wide ? 0 : console.WidthOut()));
  PrintHint(options.package, rows);
  if (!options.trace.empty()) TRY(WriteTrace(options, *model.executor, rows, balance, alone));
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

// Returns the path of the lock of the GPU that the network runs on, else of the host's.
std::string LockOf(const GraphExecutor& executor) {
  return executor.others().empty() ? HostLock::Path() : HostLock::PathOf(executor.others()[0]->Identity());
}

// Repeats measurements on a device of a farm until `seconds` are over and `enough()`. Each is one call, which has a
// turn on the device's host for the seconds that `once` gets; others get theirs in between. `once` and this function
// return what disturbed them.
Result<std::string> MeasureInCalls(double seconds, const std::function<bool()>& enough,
                                   const std::function<Result<std::string>(double)>& once) {
  constexpr double kTurn = 0.5;
  std::string disturbed;
  const double end = MonotonicSeconds() + seconds;
  for (double left = seconds; !enough() || left > 0; left = end - MonotonicSeconds()) {
    const Result<std::string> measured = once(std::clamp(left, 0.0, kTurn));
    if (!measured.ok() && (!enough() || measured.error().kind == ErrorKind::kStopped)) return measured.error();
    if (!measured.ok()) {  // others wait for the device, or it was lost
      Console::Get().Note("measured for a shorter time: " + measured.error().Text());
      break;
    }
    if (!measured->empty()) disturbed = *measured;
  }
  return disturbed;
}

// The samples of a profile on a device of a farm, and what disturbed them.
struct RemoteProfile {
  ProfileSamples samples;
  std::string disturbed;
};

Result<RemoteProfile> ProfileOnFarm(const RunnableModel& network, double seconds) {
  RemoteProfile profile;
  const auto sample = [&](ProfileSamples& samples) -> Status {
    const auto once = [&](double turn) {
      // A sample is a run of the network, and another one kernel by kernel.
      const double one = samples.network.empty() ? turn : 2 * samples.network.back();
      return network.AddProfileSamples(static_cast<int>(std::clamp(turn / std::max(one, 1e-6), 1.0, 1000.0)), samples);
    };
    profile.disturbed = TRY(MeasureInCalls(
        seconds, [&] { return samples.network.size() >= kLeastRuns; }, once));
    return {};
  };
  // The device's clock may be slower to read than that of this host, so it is not blamed.
  profile.samples = TRY(MeasureProfile(sample, /*clock_seconds=*/0));
  return profile;
}

// Prints the measurement of a network on a device of a farm.
void PrintOnFarm(const BenchOptions& options, const RunnableModel& network, const Sample& sample,
                 const std::string& disturbed) {
  Console& console = Console::Get();
  if (!disturbed.empty()) console.Note("disturbed: " + disturbed);
  if (!console.json()) {
    const std::string where = "on `" + options.place.key + "`";
    return console.Result(WrapLines(SampleText(network.info(), where, sample), console.WidthOut()));
  }
  Json line = SampleJson(options, network.info(), sample);
  line["key"] = options.place.key;
  line["undisturbed"] = disturbed.empty();
  console.Result(line);
}

// The speeds of a device of a farm, with the threads that --threads asks for.
struct RemoteRoofline {
  Roofline roofline;  // unknown: of a GPU, of a device whose server does not state what it is, or after a note
  int threads = 0;
};

// Measures the speeds of a device of the place's farm. From then on, `place` fits devices like it only.
Result<RemoteRoofline> RooflineOnFarm(ModelPlace& place) {
  const FarmDevice device = TRY(TakeDevice(place, "bench"));
  if (!IsStated(device.info) || !device.info.gpu.kind.empty()) return RemoteRoofline();
  const std::unique_ptr<Builder> builder = TRY(MakeBuildWorkers());
  Target target = TRY(TargetFor("cpu", device.info));
  if (place.threads > 0) target.num_cores = std::min(place.threads, target.num_cores);
  Result<Roofline> measured = MeasureRooflineOn(*device.client, target, device.info.memory_bytes, *builder, {});
  if (!measured.ok()) {
    Console::Get().Note("the device's speeds are unknown: " + measured.error().Text());
    return RemoteRoofline();
  }
  return RemoteRoofline{std::move(*measured), target.num_cores};
}

// Measures the latency on a device of a farm, and with --profile the kernels.
Result<int> BenchOnFarm(BenchOptions options) {
  RemoteRoofline known;
  if (options.profile) known = TRY(RooflineOnFarm(options.place));
  const RunnableModel network = TRY(RunnableModel::Open(options.package, options.place, "bench"));
  for (size_t i = 0; i < network.info().inputs.size(); ++i) TRY(network.FillInput(static_cast<int64_t>(i), 0));
  TRY(network.Run(2));
  std::vector<double> ms;
  if (!options.profile) {
    const auto once = [&](double turn) -> Result<std::string> {
      const rpc::RemoteDevice::Times times = TRY(network.Run(1, turn));
      for (double run : times.seconds) ms.push_back(run * 1e3);
      return times.disturbed;
    };
    const std::string disturbed = TRY(MeasureInCalls(
        options.seconds, [&] { return ms.size() >= kLeastRuns; }, once));
    PrintOnFarm(options, network, SampleOf(std::move(ms)), disturbed);
    return kExitOk;
  }
  const RemoteProfile profile = TRY(ProfileOnFarm(network, options.seconds));
  const std::vector<NodeTime> times = TRY(network.NodeTimes(profile.samples));
  for (double seconds : profile.samples.network) ms.push_back(seconds * 1e3);
  PrintOnFarm(options, network, SampleOf(std::move(ms)), profile.disturbed);
  const std::vector<ProfileRow> rows = ProfileRows(network.info(), times, known.roofline);
  const ProfileBalance balance = BalanceOf(profile.samples, 0);
  Console& console = Console::Get();
  console.json() ? console.Result(ProfileJson(rows, balance, known.roofline))
                 : console.Result(ProfileTable(rows, balance, known.roofline, known.threads,
                                               options.wide ? 0 : console.WidthOut()));
  PrintHint(options.package, rows);
  return kExitOk;
}

Result<int> Bench(const BenchOptions& options) {
  if (options.place.OnFarm()) return BenchOnFarm(options);
  std::vector<LoadedModel> models;
  for (int i = 0; i < options.streams; ++i) {
    const int threads = options.streams > 1 ? options.ThreadsOfAStream() : options.place.threads;
    models.push_back(TRY(LoadFile(options.package, threads, options.place.device, UsePrepared::kIfAsked)));
    TRY(FillInputs(*models.back().executor, 0));
    for (int j = 0; j < 2; ++j) TRY(models.back().executor->Run());
  }
  Alone alone(options.wait, LockOf(*models[0].executor));
  if (options.serve) return Serve(options, models[0], alone);
  if (options.profile) return Profile(options, models[0], alone);
  const Sample sample = options.streams > 1
                            ? TRY(MeasureStreams(models, options.seconds, alone))
                            : TRY(Measure(*models[0].executor, options.seconds, static_cast<int>(kLeastRuns), alone));
  PrintLine(options, models[0], sample, alone, TRY(MeasureDevice(options, *models[0].executor, alone)));
  return kExitOk;
}

}  // namespace

Command BenchCommand(CLI::App& root) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* app = root.add_subcommand("bench", "Measures the latency and throughput of a package on random inputs.");
  app->add_option("package", options->package, "a compiled network, M.tar or M.so, as `autotune compile -o` writes it")
      ->required();
  app->add_option("--device", options->place.device, kDeviceHelp);
  AddFarmOptions(*app, options->place);
  app->add_option("--threads", options->place.threads,
                  "threads of the kernels, of all streams together; 0: one per CPU")
      ->check(Threads())
      ->capture_default_str();
  app->add_option("--streams", options->streams, "runs at once, for the throughput; each has its share of the threads")
      ->check(AtLeastOne())
      ->check(Threads())
      ->capture_default_str();
  app->add_option("--seconds", options->seconds, "seconds to measure; there are at least 5 runs, or one of each stream")
      ->check(Seconds())
      ->capture_default_str();
  app->add_option("--wait", options->wait, "longest wait, in seconds, for other builds and measurements on this host")
      ->check(Seconds())
      ->capture_default_str();
  AddOutput(*app, "latencies, inferences_per_second, threads, streams, machine; with --profile another line: kernels");
  app->add_flag(
      "--profile", options->profile,
      "also each kernel's time, task and distance to the machine's roofline, measured in turns with the network");
  app->add_option(
      "--trace", options->trace,
      "with --profile: write the times of kernels and threads to this file, as Chrome's trace events, which "
      "Perfetto and speedscope open");
  app->add_flag("--wide", options->wide, "print the profile's names in full, even if the terminal is narrower");
  app->add_flag("--serve", options->serve,
                "answer each line 'run N' or 'profile N' (each kernel) on standard input with a measurement of N runs, "
                "so that a script can alternate with another program");
  return {app, [options] { return Bench(*options); },
          [options, app]() -> Status {
            if (options->streams > 1 && (options->profile || options->serve))
              return Err("--streams goes with neither --profile nor --serve, which run one after another");
            if (options->serve)
              TRY(RefuseGiven(*app, {"--profile", "--seconds"}, "--serve measures what standard input asks for"));
            if (options->place.OnFarm()) {
              TRY(RefuseGiven(*app, {"--streams", "--serve", "--wait", "--trace"},
                              "a device of a farm is measured by one run after another"));
            }
            if (!options->profile) {
              TRY(RefuseGiven(*app, {"--wide"}, "only --profile prints names"));
              TRY(RefuseGiven(*app, {"--trace"}, "only --profile measures kernels"));
            }
            return CheckOutputFile(options->trace, options->package, "--trace");
          }};
}

}  // namespace autotune::tools
