#include "runtime/cuda/api.h"

#include <dlfcn.h>

#include <cstdlib>

namespace autotune::cuda {
namespace {

Result<Api> FindFunctions() {
  const char* chosen = std::getenv("AUTOTUNE_LIBCUDA");
  const std::string path = chosen && *chosen ? chosen : "libcuda.so.1";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never unloaded: the driver keeps threads
  if (!library) {
    return Err("this machine has no CUDA driver: ", path,
               " is missing; it comes with NVIDIA's driver, which nvidia-smi shows");
  }
  Api api;
  std::string missing;
  auto find = [&](auto& function, const char* name, bool needed) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function && needed && missing.empty()) missing = name;
  };
#define AUTOTUNE_CUDA_NEEDED(name, parameters) find(api.name, #name, true);
#define AUTOTUNE_CUDA_OPTIONAL(name, parameters) find(api.name, #name, false);
  AUTOTUNE_CUDA_FUNCTIONS(AUTOTUNE_CUDA_NEEDED, AUTOTUNE_CUDA_OPTIONAL)
#undef AUTOTUNE_CUDA_NEEDED
#undef AUTOTUNE_CUDA_OPTIONAL
  if (!missing.empty()) return Err("the CUDA driver (", path, ") has no ", missing, ": update NVIDIA's driver");
  return api;
}

}  // namespace

Result<const Api*> LoadDriver() {
  static const Result<Api> api = FindFunctions();
  if (!api.ok()) return api.error();
  return &api.value();
}

std::string ErrorName(const Api& api, Code code) {
  const char* name = nullptr;
  if (api.cuGetErrorName(code, &name) != kSuccess || !name) return "CUDA error " + std::to_string(code);
  return std::string(name) + " (" + std::to_string(code) + ")";
}

}  // namespace autotune::cuda
