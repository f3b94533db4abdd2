// NVIDIA's management library for tests: the functions that runtime/cuda calls. It knows the GPUs of the driver in
// driver.cc. FAKE_NVML in the environment holds settings, separated by blanks: clock=MHZ, memory=MHZ, reasons=BITS,
// init=CODE (nvmlInit_v2 returns it).
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

namespace {

constexpr int kOk = 0, kUninitialized = 1, kInvalidArgument = 2, kNotFound = 6;
bool started = false;

long Setting(const std::string& name, long otherwise) {
  const char* text = std::getenv("FAKE_NVML");
  std::istringstream words(text ? text : "");
  for (std::string word; words >> word;) {
    if (word.starts_with(name + "=")) return std::atol(word.c_str() + name.size() + 1);
  }
  return otherwise;
}

}  // namespace

#pragma GCC visibility push(default)  // the build hides symbols by default
extern "C" {

int nvmlInit_v2() {
  const int code = static_cast<int>(Setting("init", 0));
  started = code == kOk;
  return code;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  if (!started) return kUninitialized;
  if (std::strncmp(uuid, "GPU-a", 5) != 0 || std::strcmp(uuid + 6, "112233-4455-6677-8899-aabbccddeeff") != 0)
    return kNotFound;
  *handle = &started;
  return kOk;
}
int nvmlDeviceGetClockInfo(void* handle, int type, unsigned* mhz) {
  if (!started) return kUninitialized;
  if (handle != &started || (type != 1 && type != 2)) return kInvalidArgument;
  *mhz = static_cast<unsigned>(type == 1 ? Setting("clock", 1980) : Setting("memory", 2619));
  return kOk;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* handle, unsigned long long* reasons) {
  if (!started) return kUninitialized;
  if (handle != &started) return kInvalidArgument;
  *reasons = static_cast<unsigned long long>(Setting("reasons", 0));
  return kOk;
}

}  // extern "C"
#pragma GCC visibility pop
