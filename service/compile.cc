#include "service/compile.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "compiler/aot.h"
#include "compiler/compile.h"
#include "package/cache_folder.h"
#include "records/choice.h"
#include "service/text.h"
#include "support/file.h"
#include "support/hash.h"
#include "support/output_file.h"
#include "support/state_folder.h"
#include "tuner/tune.h"

namespace autotune {
namespace {

namespace fs = std::filesystem;

Result<std::unique_ptr<RecordStore>> NoStore(const std::string&) { return std::unique_ptr<RecordStore>(); }

// Compiles with the schedules that the request names.
Result<CompileResult> CompileWith(const CompileRequest& request, const Network& network, const ModelSetup& setup) {
  RecordStore* store = setup.store.get();
  if (request.schedules == "chosen") return Compile(network, setup.target, store, *setup.builder, request.passes);
  const ScheduleSources sources{.store = request.schedules == "best" ? store : nullptr};
  return CompileFrom(network, setup.target, sources, *setup.builder, request.passes);
}

// Writes the result in the form that the executor needs. Notes what the program must do for it.
Status WriteResult(const CompileRequest& request, const CompileResult& result, const ModelSetup& setup) {
  if (request.executor != "aot") return WriteCompiled(result.package, request.output, *setup.builder);
  const std::string not_here = TRY(WriteAot(result, setup.target, request.output));
  if (!not_here.empty() && request.on_note) {
    request.on_note("the constants cannot be prepared on this machine (" + not_here +
                    "), so the program must do it: see " + AotHeaderOf(request.output));
  }
  return {};
}

// A compiled network, and the network that it was made of.
struct Made {
  CompiledNetwork compiled;
  Network network;
};

Result<Made> Make(const CompileRequest& request, const ModelSetup& setup) {
  const auto note = [&](const std::string& text) {
    if (request.on_note) request.on_note(text);
  };
  if (!setup.target.note.empty()) note(setup.target.note);
  if (request.executor == "aot") TRY(CheckAotOutput(request.output, setup.target));
  Made made;
  made.network = TRY(request.model.Load(setup.network, setup.target, *setup.builder, request.passes));
  for (const std::string& text : WithoutRepeats(made.network.notes)) note(text);
  const CompileResult result = TRY(CompileWith(request, made.network, setup));
  TRY(WriteResult(request, result, setup));
  made.compiled = {.package = request.output,
                   .model = made.network.name,
                   .target = setup.target.Text(),
                   .kernels = result.package.info.tasks,
                   .tuned_kernels = result.package.info.tuned_tasks,
                   .seconds = result.seconds,
                   .notes = CompileNotes(result),
                   .followed_choice = result.followed_choice};
  return made;
}

// What the cache remembers beside a package.
struct CacheEntry {
  CompiledNetwork compiled;
  std::string structure;           // StructureHash
  std::vector<std::string> tasks;  // hashes
  std::string schedules;           // SchedulesOf at the time
  AUTOTUNE_FIELDS(compiled, structure, tasks, schedules)
};

// Returns a hash of all records from which Compile would take schedules; null: without records.
Result<std::string> SchedulesOf(RecordStore* store, const CacheEntry& entry) {
  if (!store) return std::string();
  std::string ids;
  for (const std::string& task : entry.tasks) {
    for (const std::string& target : TRY(store->Targets(task))) {
      const std::optional<Record> best = TRY(store->Best(task, target));
      if (best) ids += best->id + " ";
    }
  }
  const std::optional<NetworkChoice> choice = TRY(FindChoice(*store, entry.structure, entry.compiled.target));
  if (choice) ids += std::to_string(choice->created_at) + choice->compared;
  return HashBytes128(ids).Hex();
}

// Returns the file for a network in the cache. A network of which parts lie in other files, which the hash of its own
// bytes does not cover, has a new file each time.
Result<fs::path> CachePath(const fs::path& folder, const CompileRequest& request, const Target& target) {
  ModelRequest options = request.model;
  const bool is_file = options.bytes.empty() && options.op.empty();
  const std::string model = is_file ? TRY(ReadFile(options.model)) : options.bytes;
  if (model.find("location") != std::string::npos) return folder / ("once-" + NewRecordId() + ".tar");
  const std::string name = fs::path(options.model).stem().string();
  options.model = options.db = "";
  std::vector<std::string> parts = {ModelLine(options), request.schedules, target.Text(), HashBytes128(model).Hex(),
                                    name};
  for (const std::string& text : options.bind)
    parts.push_back(HashBytes128(TRY(ReadFile(text.substr(text.find('=') + 1)))).Hex());
  for (const std::string& version : VersionParts()) parts.push_back(version);
  return folder / (RunKey(parts) + ".tar");
}

// Removes the packages that were used longest ago.
void Prune(const fs::path& folder) {
  std::error_code ignored;
  std::vector<std::pair<fs::file_time_type, fs::path>> packages;
  for (const auto& file : fs::directory_iterator(folder, ignored)) {
    if (file.path().extension() == ".tar") packages.emplace_back(file.last_write_time(ignored), file.path());
  }
  std::sort(packages.begin(), packages.end());
  for (size_t i = 0; i + kMostCompiled < packages.size(); ++i) {
    fs::remove(packages[i].second, ignored);
    fs::remove(packages[i].second.replace_extension(".json"), ignored);
  }
}

// Returns the entry, if it is there and the database would give the same schedules today.
std::optional<CacheEntry> Cached(const fs::path& package, RecordStore* store) {
  std::error_code ignored;
  if (!fs::exists(package, ignored)) return std::nullopt;
  const Result<std::string> text = ReadFile(fs::path(package).replace_extension(".json"));
  if (!text.ok()) return std::nullopt;
  const Result<Json> json = Json::Parse(*text);
  if (!json.ok()) return std::nullopt;
  const Result<CacheEntry> entry = FromJson<CacheEntry>(*json);
  if (!entry.ok()) return std::nullopt;
  const Result<std::string> now = SchedulesOf(store, *entry);
  if (!now.ok() || *now != entry->schedules) return std::nullopt;
  fs::last_write_time(package, fs::file_time_type::clock::now(), ignored);
  return *entry;
}

}  // namespace

Status CompileRequest::Check() const {
  TRY(model.CheckSource());
  if (schedules != "chosen" && schedules != "best" && schedules != "default")
    return Err("there are no schedules '", schedules, "'; say chosen, best or default");
  if (executor != "graph" && executor != "aot") return Err("there is no executor '", executor, "'; say graph or aot");
  TRY(CheckCompiledFile(output, executor));
  return model.CheckDevice(/*runs=*/false);
}

Result<CompiledNetwork> CompileNetwork(const CompileRequest& request) {
  TRY(request.Check());
  TRY(CheckOutputFile(request.output, request.model.model));
  const ModelRequest::OpenDatabase open = request.UsesRecords() ? ModelRequest::OpenAny : NoStore;
  const ModelSetup setup = TRY(request.model.Open(nullptr, open));
  return TRY(Make(request, setup)).compiled;
}

Result<CompiledNetwork> CompileCached(const CompileRequest& request) {
  CompileRequest compile = request;
  const std::string folder = UserCacheFolder();
  compile.output = folder + "/network.tar";
  TRY(compile.Check());
  TRY(MakePrivateFolder(folder));
  const ModelRequest& model = request.model;
  const ModelRequest::OpenDatabase open = request.UsesRecords() ? ModelRequest::OpenAny : NoStore;
  // A cached network needs no workers, which take longer to start than the network takes to load.
  if (const Result<Target> target = Target::Parse(model.target); target.ok() && !target->IsGpu()) {
    const fs::path package = TRY(CachePath(folder, request, *target));
    const std::unique_ptr<RecordStore> store = TRY(open(model.db));
    if (const std::optional<CacheEntry> entry = Cached(package, store.get())) return entry->compiled;
  }
  const ModelSetup setup = TRY(model.Open(nullptr, open));
  const fs::path package = TRY(CachePath(folder, request, setup.target));
  if (const std::optional<CacheEntry> entry = Cached(package, setup.store.get())) return entry->compiled;
  compile.output = package.string();
  Made made = TRY(Make(compile, setup));
  CacheEntry entry{.compiled = made.compiled, .structure = StructureHash(made.network)};
  for (const NetworkTask& task : made.network.tasks) entry.tasks.push_back(task.hash.Hex());
  entry.schedules = TRY(SchedulesOf(setup.store.get(), entry));
  entry.compiled.seconds = 0;
  entry.compiled.notes.clear();
  TRY(ReplaceFile(fs::path(package).replace_extension(".json").string(), ToJson(entry).Dump()));
  Prune(folder);
  return made.compiled;
}

}  // namespace autotune
