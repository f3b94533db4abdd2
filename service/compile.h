// Compiles a network with the best schedules in the database, into a file that the caller names or into a cache of
// this user. Searches nothing, measures nothing, prints nothing. Thread-safe.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/pass_context.h"
#include "service/model.h"
#include "support/fields.h"
#include "support/result.h"

namespace autotune {

struct CompileRequest {
  ModelRequest model;
  std::string output = {};           // M.tar or M.so; for the executor "aot" NAME.a, NAME.o or NAME.c
  std::string executor = "graph";    // what will run the network: graph, autotune's runtime; aot, a C program
  std::string schedules = "chosen";  // chosen: those of the network's choice, else the best records; best; default
  PassContext passes = {};
  // Called for remarks on the target, the import and the object, as soon as they are known. Null: no calls.
  std::function<void(const std::string& note)> on_note = nullptr;

  Status Check() const;  // opens nothing
  bool UsesRecords() const { return schedules != "default"; }
};

struct CompiledNetwork {
  std::string package;  // the file
  std::string model;    // the network's name
  std::string target;   // full text
  int64_t kernels = 0, tuned_kernels = 0;
  double seconds = 0;
  std::vector<std::string> notes;  // remarks on the schedules
  bool followed_choice = false;    // the choice for the whole network was tried first
  AUTOTUNE_FIELDS(package, model, target, kernels, tuned_kernels, seconds, notes, followed_choice)
};

Result<CompiledNetwork> CompileNetwork(const CompileRequest& request);

// Compiles the network, unless the cache has a package of the same model, options, program and schedules. Ignores
// `output`. `package` is a file of UserCacheFolder() (package/cache_folder.h), which a later call removes once
// kMostCompiled others were used. A cached network has no seconds and notes.
Result<CompiledNetwork> CompileCached(const CompileRequest& request);
inline constexpr int kMostCompiled = 32;

}  // namespace autotune
