// Runs a package from several threads at once, each with an executor of one thread, as a server does that runs one
// request on each thread. The executors are made of one module, by the C API. bench/threads.py compares it with ONNX
// Runtime.
//
//   bench_threads PACKAGE [--threads 8]
//
// Answers each line "seconds S" of standard input with a line of JSON, {"streams": [{"times_ms": [...], "seconds":
// T}]}: the times of the runs of each thread, and how long the thread ran.
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "api/c_api.h"
#include "bench/arguments.h"
#include "bench/main.h"

namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

autotune::Status Check(int code) {
  if (code == AUTOTUNE_OK) return {};
  return autotune::Err(autotune_last_error());
}

// An executor, and the tensors that it reads and writes. They live until the process ends.
struct Stream {
  autotune_executor* executor = nullptr;
  std::vector<autotune_tensor*> inputs, outputs;
  std::vector<double> times_ms;  // of the last measurement
  double seconds = 0;            // its length
  autotune::Status status;

  autotune::Status Open(const autotune_module* module);
  autotune::Status Run() {
    return Check(autotune_executor_run_with(executor, inputs.data(), static_cast<int32_t>(inputs.size()),
                                            outputs.data(), static_cast<int32_t>(outputs.size())));
  }
  autotune::Status Measure(double length) {
    times_ms.clear();
    const Clock::time_point begin = Clock::now();
    do {
      const Clock::time_point start = Clock::now();
      TRY(Run());
      times_ms.push_back(SecondsSince(start) * 1e3);
    } while (SecondsSince(begin) < length);
    seconds = SecondsSince(begin);
    return {};
  }
};

// Makes a tensor of a port. Floats get values in [-1, 1), other elements 0.
autotune::Result<autotune_tensor*> MakeTensor(const autotune_port& port) {
  autotune_tensor* tensor = nullptr;
  TRY(Check(autotune_tensor_create(port.shape, port.ndim, port.dtype, &tensor)));
  autotune_tensor_info info;
  TRY(Check(autotune_tensor_get_info(tensor, &info)));
  std::fill_n(static_cast<char*>(info.data), info.size_bytes, 0);
  if (port.dtype.code != 2 || port.dtype.bits != 32) return tensor;
  uint32_t state = 1;
  for (int64_t i = 0; i < info.size_bytes / 4; ++i) {
    state = state * 1664525u + 1013904223u;
    static_cast<float*>(info.data)[i] = static_cast<float>(state >> 8) / (1 << 23) - 1;
  }
  return tensor;
}

autotune::Status Stream::Open(const autotune_module* module) {
  autotune_executor_options options = AUTOTUNE_EXECUTOR_OPTIONS;
  options.threads = 1;
  TRY(Check(autotune_executor_create(module, &options, &executor)));
  autotune_port port;
  for (int32_t i = 0; i < autotune_executor_num_inputs(executor); ++i) {
    TRY(Check(autotune_executor_input(executor, i, &port)));
    inputs.push_back(TRY(MakeTensor(port)));
  }
  for (int32_t i = 0; i < autotune_executor_num_outputs(executor); ++i) {
    TRY(Check(autotune_executor_output(executor, i, &port)));
    outputs.push_back(TRY(MakeTensor(port)));
  }
  for (int i = 0; i < 3; ++i) TRY(Run());  // warms up
  return {};
}

// Runs all streams at once, and prints their times.
autotune::Status Measure(std::vector<Stream>& streams, double seconds) {
  std::barrier all_ready(static_cast<std::ptrdiff_t>(streams.size()));
  std::vector<std::thread> threads;
  for (Stream& stream : streams) {
    threads.emplace_back([&] {
      all_ready.arrive_and_wait();
      stream.status = stream.Measure(seconds);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("{\"streams\": [");
  for (size_t i = 0; i < streams.size(); ++i) {
    TRY(std::move(streams[i].status));
    std::printf("%s{\"seconds\": %.6f, \"times_ms\": [", i > 0 ? ", " : "", streams[i].seconds);
    for (size_t j = 0; j < streams[i].times_ms.size(); ++j)
      std::printf("%s%.4f", j > 0 ? ", " : "", streams[i].times_ms[j]);
    std::printf("]}");
  }
  std::printf("]}\n");
  std::fflush(stdout);
  return {};
}

autotune::Result<int> Main(int argc, char** argv) {
  const autotune::bench::Arguments arguments =
      TRY(autotune::bench::Arguments::Parse(argc, argv, {"threads"}, {"threads"}));
  if (arguments.words.size() != 1) return autotune::Err("usage: bench_threads PACKAGE [--threads 8]");
  autotune_module* module = nullptr;
  TRY(Check(autotune_module_load(arguments.words[0].c_str(), &module)));
  std::vector<Stream> streams(static_cast<size_t>(arguments.Number("threads", 8)));
  for (Stream& stream : streams) TRY(stream.Open(module));
  std::printf("{\"ready\": true}\n");
  std::fflush(stdout);
  char line[64];
  double seconds = 0;
  while (std::fgets(line, sizeof line, stdin)) {
    if (std::sscanf(line, "seconds %lf", &seconds) != 1) return autotune::Err("expected 'seconds S'");
    TRY(Measure(streams, seconds));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return autotune::bench::ExitCode("bench_threads", Main(argc, argv)); }
