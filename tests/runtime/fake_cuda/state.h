// The state of the driver in driver.cc: its GPUs with their memory and commands, and the errors that the settings
// request.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace fake_cuda {

enum Code : int {
  kOk = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kInvalidPtx = 218,
  kUnsupportedPtxVersion = 222,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kOutOfResources = 701,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kUnknown = 999,
};
inline const std::map<int, const char*> kNames = {{kInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
                                                  {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                  {34, "CUDA_ERROR_STUB_LIBRARY"},
                                                  {kNoDevice, "CUDA_ERROR_NO_DEVICE"},
                                                  {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
                                                  {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
                                                  {kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                                  {214, "CUDA_ERROR_ECC_UNCORRECTABLE"},
                                                  {kInvalidPtx, "CUDA_ERROR_INVALID_PTX"},
                                                  {kUnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
                                                  {kNotFound, "CUDA_ERROR_NOT_FOUND"},
                                                  {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                  {kOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
                                                  {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
                                                  {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
                                                  {kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
                                                  {kUnknown, "CUDA_ERROR_UNKNOWN"}};

inline constexpr uint64_t kRangeBytes = uint64_t{1} << 33;
inline constexpr uint64_t kAlignment = 256;
inline constexpr unsigned kMaxThreads = 1024;
inline constexpr int kDefaultShared = 48 << 10, kMaxShared = 227 << 10, kUnits = 132, kL2Bytes = 50 << 20;

struct Gpu;

// The arguments of a host function that runs a launch.
struct Launch {
  unsigned blocks = 1, threads = 1, shared_bytes = 0;
  std::vector<uint64_t> args;
  Gpu* gpu = nullptr;
  // Returns the host's address of `count` floats at argument i; null if they are not in the device's memory.
  float* Floats(size_t i, size_t count) const;
};
using Kernel = Code (*)(const Launch&);
using Command = std::function<Code()>;

struct Graph {
  std::vector<Command> commands;
};

struct Function {
  std::string name;
  Kernel kernel = nullptr;
  size_t args = 0;
  int max_dynamic_shared = kDefaultShared;
};

struct Image {
  std::set<std::string> entries;
  std::map<std::string, Function> functions;
};

// An event. Its time is that of the GPU's clock when the command before it had run.
struct Event {
  bool recorded = false, done = false;
  int64_t ns = 0;
};

// The GPU's clock advances by fixed amounts, so that times are exact whatever the host does: by the cost of each
// kernel, and by a pause before a launch by the host, or a shorter one before a launch in a graph.
inline constexpr int64_t kKernelNs = 10000, kLaunchNs = 4000, kGraphLaunchNs = 1000;

struct Gpu {
  int64_t now_ns = 0;
  int64_t references = 0;  // runs of the reference kernel
  int number = 0;
  int retained = 0;
  std::map<uint64_t, std::vector<char>> memory;  // keys: addresses
  uint64_t used = 0;
  std::vector<Command> queue;
  Code fault = kOk;  // once set, every call returns it
  std::unique_ptr<Graph> captures;
  std::vector<std::unique_ptr<Image>> images;
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<std::unique_ptr<Event>> events;
  bool capture_broken = false;

  char* At(uint64_t address, uint64_t bytes) {
    auto place = memory.upper_bound(address);
    if (place == memory.begin()) return nullptr;
    --place;
    const uint64_t offset = address - place->first;
    return offset + bytes <= place->second.size() ? place->second.data() + offset : nullptr;
  }
  Code Give(Command command) {
    (captures ? captures->commands : queue).push_back(std::move(command));
    return kOk;
  }
  Code Drain() {
    for (Command& command : std::exchange(queue, {})) {
      if (fault == kOk) fault = command();
    }
    return fault;
  }
};

inline float* Launch::Floats(size_t i, size_t count) const {
  return i < args.size() ? reinterpret_cast<float*>(gpu->At(args[i], 4 * count)) : nullptr;
}

struct Driver {
  std::recursive_mutex mutex;
  std::string text = "-";  // the value of FAKE_CUDA
  std::map<std::string, std::string> words;
  std::map<std::string, std::pair<int, int>> failures;  // function -> code, number of the call (0: every call)
  std::map<std::string, int> calls;
  bool started = false;  // cuInit was called since the last restart
  std::vector<std::unique_ptr<Gpu>> gpus, retired;
  uint64_t range = 0, next = 0;

  int64_t Number(const char* word, int64_t otherwise) const {
    auto found = words.find(word);
    return found == words.end() ? otherwise : std::atoll(found->second.c_str());
  }
  bool Lost() const {
    auto file = words.find("lost");
    return file != words.end() && access(file->second.c_str(), F_OK) == 0;
  }
  void Start() {
    const char* environment = std::getenv("FAKE_CUDA");
    const std::string now = environment ? environment : "";
    if (now == std::exchange(text, now)) return;
    started = false;
    words.clear();
    failures.clear();
    calls.clear();
    std::istringstream in(now);
    for (std::string word; in >> word;) {
      const size_t equals = word.find('=');
      const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
      words[key] = value;
      const size_t colon = value.find(':'), second = value.find(':', colon + 1);
      if (key != "fail") continue;
      failures[value.substr(0, colon)] = {std::atoi(value.c_str() + colon + 1),
                                          second == std::string::npos ? 0 : std::atoi(value.c_str() + second + 1)};
    }
    if (!range) {
      void* made = mmap(nullptr, kRangeBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      range = next = reinterpret_cast<uint64_t>(made);
    }
    // Contexts from before the restart stay valid and behave as before.
    for (auto& gpu : gpus) retired.push_back(std::move(gpu));
    gpus.clear();
    for (int i = 0; i < Number("gpus", 1); ++i) {
      gpus.push_back(std::make_unique<Gpu>());
      gpus.back()->number = i;
    }
  }
};

inline Driver& D() {
  static Driver& driver = *new Driver;
  return driver;
}

}  // namespace fake_cuda
