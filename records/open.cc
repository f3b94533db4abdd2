#include "records/open.h"

#include <cstdlib>
#include <filesystem>

#include "records/memory_store.h"
#include "records/sqlite_store.h"
#include "support/hint.h"

namespace autotune {
namespace {

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

Result<std::optional<Record>> RecordStore::Best(std::string_view task, std::string_view target) {
  std::vector<Record> top = TRY(Top(task, target, 1));
  if (top.empty()) return std::optional<Record>();
  return std::optional<Record>(std::move(top[0]));
}

Result<std::string> DefaultStorePath() {
  if (std::string path = Env("AUTOTUNE_DB"); !path.empty()) return path;
  if (std::string data = Env("XDG_DATA_HOME"); !data.empty()) return data + "/autotune/records.db";
  if (std::string home = Env("HOME"); !home.empty()) return home + "/.local/share/autotune/records.db";
  return WithHint(Err("no place for the record database: neither AUTOTUNE_DB nor HOME is set"),
                  "name a file with --db");
}

Result<std::unique_ptr<RecordStore>> OpenStore(const std::string& path, const StoreOptions& options) {
  std::string file = path.empty() ? TRY(DefaultStorePath()) : path;
  if (file == kMemoryStore) return NewMemoryStore();
  if (!path.empty()) return OpenSqliteStore(path, options);
  std::filesystem::path directory = std::filesystem::path(file).parent_path();
  std::error_code error;
  if (!directory.empty()) std::filesystem::create_directories(directory, error);
  if (error) {
    return WithHint(Err("cannot create ", directory.string(), " for the record database: ", error.message()),
                    "name another file with --db");
  }
  return OpenSqliteStore(file, options);
}

}  // namespace autotune
