// A CUDA driver for tests: implements on the CPU the part of libcuda.so.1 that runtime/cuda calls. It is as strict as a
// GPU: the host cannot access addresses of device memory; commands run as late as possible, when a caller waits; each
// address of a command is checked; calls without a current context are refused; and after a fault of a kernel every
// call fails.
//
// Images are texts. In "ptx", the lines ".version 8.0", ".target sm_80" and ".entry NAME" are read, and the word
// "broken" is a compile error. "slow" is translated until another thread has
// launched a kernel, or for 5 s, and then writes a line "translated" to the log. "endless" is never translated, and
// "deadly" ends the process by a signal. "cubin" begins with "CUBIN sm_80". An entry runs the function of the same name
// in kernels.h. The GPU has a clock of its own (state.h), which events read.
//
// cuInit reads settings from FAKE_CUDA in the environment, separated by blanks: gpus=2, sm=80, version=12040, bytes=N
// (memory of a GPU), init_ms=N (time that cuInit takes), ramp=N (the reference kernel is slower in its first N runs),
// wobble=N (its time changes by a tenth after each N runs), step=N (it is a tenth slower after N runs), pools=0 (no
// memory pools), log=PATH (writes a line for each call), lost=PATH (the GPUs are lost while this file exists),
// fail=FUNCTION:CODE (every call returns CODE) or fail=FUNCTION:CODE:N (only the N-th call). A changed text restarts
// the driver.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tests/runtime/fake_cuda/kernels.h"

using namespace fake_cuda;

namespace {

thread_local std::vector<Gpu*> contexts;  // a context is the Gpu itself

// Begins a call: logs it, and returns the error that the settings request for it. Before cuInit, all calls fail.
Code Begin(const char* function, const std::string& details = "") {
  Driver& d = D();
  if (!d.started && std::strcmp(function, "cuInit") != 0) return kNotInitialized;
  if (auto log = d.words.find("log"); log != d.words.end())
    std::ofstream(log->second, std::ios::app) << function << (details.empty() ? "" : " ") << details << "\n";
  const int call = ++d.calls[function];
  auto failure = d.failures.find(function);
  if (failure == d.failures.end()) return kOk;
  const auto [code, number] = failure->second;
  return number == 0 || number == call ? static_cast<Code>(code) : kOk;
}
// Begins a call that needs a current context. Also returns the error of an earlier fault.
Code BeginIn(const char* function, Gpu*& gpu, const std::string& details = "") {
  if (Code code = Begin(function, details)) return code;
  gpu = contexts.empty() ? nullptr : contexts.back();
  if (!gpu) return kInvalidContext;
  return gpu->fault;
}
// Begins a call that a capture cannot record. During a capture, it fails.
Code BeginNow(const char* function, Gpu*& gpu, const std::string& details = "") {
  if (Code code = BeginIn(function, gpu, details)) return code;
  if (!gpu->captures) return kOk;
  gpu->capture_broken = true;
  return kCaptureUnsupported;
}

void WriteLog(unsigned count, const int* options, void* const* values, const std::string& log) {
  char* buffer = nullptr;
  size_t bytes = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == 5) buffer = static_cast<char*>(values[i]);
    if (options[i] == 6) bytes = reinterpret_cast<size_t>(values[i]);
  }
  if (!buffer || bytes == 0) return;
  const size_t copied = std::min(bytes - 1, log.size());
  std::memcpy(buffer, log.data(), copied);
  buffer[copied] = '\0';
}

// Takes the time that a translation takes, without the driver's lock.
void Translate(const std::string& text) {
  if (text.find("deadly") != std::string::npos) raise(SIGSEGV);
  while (text.find("endless") != std::string::npos) usleep(10'000);
  if (text.find("slow") == std::string::npos) return;
  const auto launched = [] {
    std::lock_guard lock(D().mutex);
    return D().calls["cuLaunchKernel"] > 0;
  };
  for (int i = 0; i < 500 && !launched(); ++i) usleep(10'000);
  std::lock_guard lock(D().mutex);
  if (auto log = D().words.find("log"); log != D().words.end())
    std::ofstream(log->second, std::ios::app) << "translated\n";
}

// Reads an image's text: its entries, or an error and a log.
Code Compile(const std::string& text, Image& image, std::string& log) {
  const int64_t sm = D().Number("sm", 90), cuda = D().Number("version", 12040) / 1000;
  const bool machine_code = text.starts_with("CUBIN ");
  if (!machine_code && text.find(".version") == std::string::npos) return kInvalidImage;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string value;
    if (word == ".version" && words >> value && std::atoi(value.c_str()) > cuda - 4) {
      log = "ptxas application ptx input, line 1; fatal   : Unsupported .version " + value + "\n";
      return kUnsupportedPtxVersion;  // CUDA 12 takes PTX 8
    }
    if (word == ".target" && words >> value && std::atoi(value.c_str() + 3) > sm) return kNoBinaryForGpu;
    if (word == "CUBIN" && words >> value && std::atoi(value.c_str() + 3) / 10 != sm / 10) return kNoBinaryForGpu;
    if (word == "broken") {
      log =
          "ptxas application ptx input, line 4; error   : Parsing error near 'broken': syntax error\n"
          "ptxas fatal   : Ptx assembly aborted due to errors\n";
      return kInvalidPtx;
    }
    if (word == ".entry" && words >> value) image.entries.insert(value);
  }
  return kOk;
}

uint64_t Reserve(Gpu& gpu, size_t bytes) {
  Driver& d = D();
  const uint64_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (gpu.used + size > static_cast<uint64_t>(d.Number("bytes", int64_t{1} << 30)) ||
      d.next + size > d.range + kRangeBytes)
    return 0;
  gpu.used += size;
  const uint64_t address = std::exchange(d.next, d.next + size);
  gpu.memory[address] = std::vector<char>(bytes, '\xee');
  return address;
}
Code Release(Gpu& gpu, uint64_t address) {
  auto place = gpu.memory.find(address);
  if (place == gpu.memory.end()) return kInvalidValue;
  gpu.used -= (place->second.size() + kAlignment - 1) / kAlignment * kAlignment;
  gpu.memory.erase(place);
  return kOk;
}

using Lock = std::lock_guard<std::recursive_mutex>;

}  // namespace

#pragma GCC visibility push(default)  // the build hides symbols by default
extern "C" {

int cuGetErrorName(int code, const char** name) {
  auto found = kNames.find(code);
  *name = found == kNames.end() ? nullptr : found->second;
  return *name ? kOk : kInvalidValue;
}
int cuInit(unsigned flags) {
  Lock lock(D().mutex);
  D().Start();
  if (flags != 0) return kInvalidValue;
  if (Code code = Begin("cuInit")) return code;
  if (!std::exchange(D().started, true)) usleep(static_cast<useconds_t>(D().Number("init_ms", 0) * 1000));
  return D().Lost() ? kNoDevice : kOk;
}
int cuDriverGetVersion(int* version) {
  Lock lock(D().mutex);
  *version = static_cast<int>(D().Number("version", 12040));
  return kOk;
}
int cuDeviceGetCount(int* count) {
  Lock lock(D().mutex);
  if (Code code = Begin("cuDeviceGetCount")) return code;
  *count = static_cast<int>(D().gpus.size());
  return kOk;
}
int cuDeviceGet(int* device, int number) {
  Lock lock(D().mutex);
  if (Code code = Begin("cuDeviceGet")) return code;
  *device = number;
  return number >= 0 && number < static_cast<int>(D().gpus.size()) ? kOk : kInvalidDevice;
}
int cuDeviceGetName(char* name, int bytes, int device) {
  Lock lock(D().mutex);
  std::snprintf(name, static_cast<size_t>(bytes), "Fake GPU %c", 'A' + device);
  return kOk;
}
int cuDeviceGetUuid(unsigned char* uuid, int device) {
  Lock lock(D().mutex);
  if (Code code = Begin("cuDeviceGetUuid")) return code;
  for (int i = 0; i < 16; ++i) uuid[i] = static_cast<unsigned char>(0x11 * i);
  uuid[0] = static_cast<unsigned char>(0xa0 + device);
  return kOk;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) { return cuDeviceGetUuid(uuid, device); }
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  Lock lock(D().mutex);
  *bytes = static_cast<size_t>(D().Number("bytes", int64_t{1} << 30));
  return kOk;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  Lock lock(D().mutex);
  const int sm = static_cast<int>(D().Number("sm", 90));
  const std::map<int, int> values = {{1, kMaxThreads},
                                     {16, kUnits},
                                     {38, kL2Bytes},
                                     {75, sm / 10},
                                     {76, sm % 10},
                                     {97, kMaxShared},
                                     {115, static_cast<int>(D().Number("pools", 1))}};
  auto found = values.find(attribute);
  if (found == values.end()) return kInvalidValue;
  *value = found->second;
  return kOk;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  Lock lock(D().mutex);
  if (Code code = Begin("cuDevicePrimaryCtxRetain", std::to_string(device))) return code;
  if (D().Lost()) return kNoDevice;
  if (device < 0 || device >= static_cast<int>(D().gpus.size())) return kInvalidDevice;
  Gpu* gpu = D().gpus[static_cast<size_t>(device)].get();
  ++gpu->retained;
  *context = gpu;
  return kOk;
}
int cuDevicePrimaryCtxRelease_v2(int) {
  Lock lock(D().mutex);
  return Begin("cuDevicePrimaryCtxRelease_v2");
}
int cuCtxPushCurrent_v2(void* context) {
  contexts.push_back(static_cast<Gpu*>(context));
  return kOk;
}
int cuCtxPopCurrent_v2(void** context) {
  if (contexts.empty()) return kInvalidContext;
  *context = contexts.back();
  contexts.pop_back();
  return kOk;
}
int cuStreamCreate(void** stream, unsigned) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuStreamCreate", gpu)) return code;
  *stream = gpu;
  return kOk;
}
int cuStreamDestroy_v2(void*) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  return BeginNow("cuStreamDestroy_v2", gpu);
}
int cuStreamSynchronize(void* stream) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuStreamSynchronize", gpu)) return code;
  return stream == gpu ? gpu->Drain() : kInvalidHandle;
}
int cuEventCreate(void** event, unsigned flags) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuEventCreate", gpu, std::to_string(flags))) return code;
  if (flags & ~1u) return kInvalidValue;  // other flags switch the times off
  gpu->events.push_back(std::make_unique<Event>());
  *event = gpu->events.back().get();
  return kOk;
}
int cuEventDestroy_v2(void* event) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuEventDestroy_v2", gpu)) return code;
  return std::erase_if(gpu->events, [&](auto& known) { return known.get() == event; }) ? kOk : kInvalidHandle;
}
// An event that is recorded during a capture becomes a node of the graph, and has no time.
int cuEventRecord(void* event, void* stream) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuEventRecord", gpu)) return code;
  if (stream != gpu) return kInvalidHandle;
  auto* e = static_cast<Event*>(event);
  *e = {.recorded = true};
  return gpu->Give([e, gpu] {
    e->done = true;
    e->ns = gpu->now_ns;
    return kOk;
  });
}
int cuEventSynchronize(void* event) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuEventSynchronize", gpu)) return code;
  return static_cast<Event*>(event)->recorded ? gpu->Drain() : kOk;
}
int cuEventElapsedTime(float* ms, void* begin, void* end) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuEventElapsedTime", gpu)) return code;
  const Event &from = *static_cast<Event*>(begin), &to = *static_cast<Event*>(end);
  if (!from.recorded || !to.recorded) return kInvalidHandle;
  if (!from.done || !to.done) return kNotReady;
  *ms = static_cast<float>(to.ns - from.ns) / 1e6f;
  return kOk;
}
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuMemAlloc_v2", gpu, std::to_string(bytes))) return code;
  *address = Reserve(*gpu, bytes);
  return *address ? kOk : kOutOfMemory;
}
int cuMemFree_v2(uint64_t address) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuMemFree_v2", gpu)) return code;
  return Release(*gpu, address);
}
int cuMemAllocAsync(uint64_t* address, size_t bytes, void*) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuMemAllocAsync", gpu, std::to_string(bytes))) return code;
  *address = Reserve(*gpu, bytes);
  return *address ? kOk : kOutOfMemory;
}
int cuMemFreeAsync(uint64_t address, void*) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuMemFreeAsync", gpu)) return code;
  return gpu->Give([gpu, address] { return Release(*gpu, address); });
}
int cuDeviceGetDefaultMemPool(void** pool, int device) {
  Lock lock(D().mutex);
  if (Code code = Begin("cuDeviceGetDefaultMemPool", std::to_string(device))) return code;
  if (device < 0 || device >= static_cast<int>(D().gpus.size())) return kInvalidDevice;
  *pool = D().gpus[static_cast<size_t>(device)].get();
  return kOk;
}
int cuMemPoolSetAttribute(void* pool, int attribute, void* value) {
  Lock lock(D().mutex);
  const uint64_t number = *static_cast<uint64_t*>(value);
  if (Code code = Begin("cuMemPoolSetAttribute", std::to_string(attribute) + " " + std::to_string(number))) return code;
  const bool known = std::any_of(D().gpus.begin(), D().gpus.end(), [&](const auto& gpu) { return gpu.get() == pool; });
  return known && attribute == 4 ? kOk : kInvalidValue;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void*) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuMemcpyHtoDAsync_v2", gpu, std::to_string(bytes))) return code;
  if (!gpu->At(to, bytes) || gpu->At(reinterpret_cast<uint64_t>(from), bytes)) return kInvalidValue;
  return gpu->Give([=] {
    char* memory = gpu->At(to, bytes);
    return memory ? (std::memcpy(memory, from, bytes), kOk) : kIllegalAddress;
  });
}
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void*) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuMemcpyDtoHAsync_v2", gpu, std::to_string(bytes))) return code;
  if (!gpu->At(from, bytes) || gpu->At(reinterpret_cast<uint64_t>(to), bytes)) return kInvalidValue;
  return gpu->Give([=] {
    const char* memory = gpu->At(from, bytes);
    return memory ? (std::memcpy(to, memory, bytes), kOk) : kIllegalAddress;
  });
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void*) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginIn("cuMemcpyDtoDAsync_v2", gpu, std::to_string(bytes))) return code;
  if (!gpu->At(to, bytes) || !gpu->At(from, bytes)) return kInvalidValue;
  return gpu->Give([=] {
    char *into = gpu->At(to, bytes), *memory = gpu->At(from, bytes);
    return into && memory ? (std::memcpy(into, memory, bytes), kOk) : kIllegalAddress;
  });
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void*) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginIn("cuMemsetD8Async", gpu)) return code;
  if (!gpu->At(to, bytes)) return kInvalidValue;
  return gpu->Give([=] {
    char* memory = gpu->At(to, bytes);
    return memory ? (std::memset(memory, value, bytes), kOk) : kIllegalAddress;
  });
}
int cuModuleLoadDataEx(void** image, const void* bytes, unsigned count, int* options, void** values) {
  const std::string text(static_cast<const char*>(bytes));
  Translate(text);
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuModuleLoadDataEx", gpu, text.find(".version") == std::string::npos ? "cubin" : "ptx"))
    return code;
  auto made = std::make_unique<Image>();
  std::string log;
  const Code code = Compile(text, *made, log);
  WriteLog(count, options, values, log);
  if (code != kOk) return code;
  *image = made.get();
  gpu->images.push_back(std::move(made));
  return kOk;
}
int cuModuleUnload(void* image) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuModuleUnload", gpu)) return code;
  gpu->Drain();
  std::erase_if(gpu->images, [&](auto& known) { return known.get() == image; });
  return gpu->fault;
}
int cuModuleGetFunction(void** function, void* image, const char* name) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginIn("cuModuleGetFunction", gpu, name)) return code;
  auto& loaded = *static_cast<Image*>(image);
  if (!loaded.entries.contains(name)) return kNotFound;
  for (const Row& row : kKernels) {
    if (std::strcmp(row.name, name) != 0) continue;
    *function = &(loaded.functions[name] = {name, row.kernel, row.args});
    return kOk;
  }
  return kNotFound;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginIn("cuFuncSetAttribute", gpu, std::to_string(attribute) + " " + std::to_string(value)))
    return code;
  if (attribute != 8 || value < 0 || value > kMaxShared) return kInvalidValue;
  static_cast<Function*>(function)->max_dynamic_shared = value;
  return kOk;
}
int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void*, void** args, void** extra) {
  Lock lock(D().mutex);
  auto& f = *static_cast<Function*>(function);
  Gpu* gpu = nullptr;
  if (Code code = BeginIn("cuLaunchKernel", gpu, f.name)) return code;
  Launch launch{grid_x * grid_y * grid_z, block_x * block_y * block_z, shared_bytes, {}, gpu};
  if (extra || launch.blocks == 0 || launch.threads == 0 || launch.threads > kMaxThreads || grid_y > 65535 ||
      static_cast<int>(shared_bytes) > f.max_dynamic_shared)
    return kInvalidValue;
  for (size_t i = 0; i < f.args; ++i) launch.args.push_back(*static_cast<uint64_t*>(args[i]));
  const int64_t pause = gpu->captures ? kGraphLaunchNs : kLaunchNs;
  return gpu->Give([kernel = f.kernel, launch, gpu, pause] {
    gpu->now_ns += pause + kKernelNs;
    return kernel(launch);
  });
}
int cuStreamBeginCapture_v2(void*, int mode) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuStreamBeginCapture_v2", gpu, std::to_string(mode))) return code;
  gpu->captures = std::make_unique<Graph>();
  gpu->capture_broken = false;
  return kOk;
}
int cuStreamEndCapture(void*, void** graph) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginIn("cuStreamEndCapture", gpu)) return code;
  std::unique_ptr<Graph> made = std::move(gpu->captures);
  if (!made || gpu->capture_broken) return kCaptureInvalidated;
  *graph = made.get();
  gpu->graphs.push_back(std::move(made));
  return kOk;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuGraphInstantiateWithFlags", gpu)) return code;
  gpu->graphs.push_back(std::make_unique<Graph>(*static_cast<Graph*>(graph)));
  *executable = gpu->graphs.back().get();
  return kOk;
}
int cuGraphUpload(void* executable, void*) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuGraphUpload", gpu)) return code;
  const bool known =
      std::any_of(gpu->graphs.begin(), gpu->graphs.end(), [&](auto& graph) { return graph.get() == executable; });
  return known ? kOk : kInvalidValue;
}
int cuGraphLaunch(void* executable, void*) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginIn("cuGraphLaunch", gpu)) return code;
  for (const Command& command : static_cast<Graph*>(executable)->commands) gpu->Give(command);
  return kOk;
}
int cuGraphExecDestroy(void* executable) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuGraphExecDestroy", gpu)) return code;
  std::erase_if(gpu->graphs, [&](auto& known) { return known.get() == executable; });
  return kOk;
}
int cuGraphDestroy(void* graph) {
  Lock lock(D().mutex);
  Gpu* gpu = nullptr;
  if (Code code = BeginNow("cuGraphDestroy", gpu)) return code;
  std::erase_if(gpu->graphs, [&](auto& known) { return known.get() == graph; });
  return kOk;
}

}  // extern "C"
#pragma GCC visibility pop
