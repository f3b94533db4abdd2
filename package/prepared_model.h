// The prepared form of a package (package/prepared_cache.h): its library, plan and description, the parameters that
// runs read, and what kernels have prepared of the others. An executor made of it runs the same code on the same
// numbers as one made of the package. It is for networks on the CPU alone. Thread-safe.
#pragma once
#include <cstdint>
#include <string>

#include "package/load.h"
#include "package/prepared_cache.h"

namespace autotune {

// Packages with fewer bytes of constants have no file in the cache: they load fast, and there is little to share.
inline constexpr int64_t kLeastPreparedBytes = int64_t{8} << 20;

// Loads a package, M.tar, by its file in the cache. Without one, it loads the package as usual, makes the file, and
// returns an executor that maps it, so that all processes of the package share its memory. If there can be no file, it
// returns an executor as usual: the package changes just now, needs another device than the CPU or has too few
// constants, or the cache refuses it. Errors are those of the package.
Result<LoadedModel> LoadPrepared(const std::string& path, const KernelThreads& threads, const PreparedCache& cache,
                                 int64_t least_bytes = kLeastPreparedBytes);

enum class UsePrepared { kIfAsked, kYes, kNo };

// Loads a file of either form, a package by the user's cache if `use` is kYes, or kIfAsked and the environment variable
// AUTOTUNE_CACHE is 1. If it is 0, the cache is not used.
Result<LoadedModel> LoadFile(const std::string& path, const KernelThreads& threads, const std::string& device,
                             UsePrepared use);

}  // namespace autotune
