#include <archive.h>
#include <archive_entry.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>

#include "package/archive_member.h"
#include "package/members.h"
#include "package/package.h"
#include "package/tar_seal.h"
#include "support/file.h"
#include "support/hint.h"
#include "support/utf8.h"

namespace autotune {
namespace {

constexpr char kCompileAgain[] = "compile the model again";

struct FreeWriter {
  void operator()(archive* a) const { archive_write_free(a); }
};
struct FreeReader {
  void operator()(archive* a) const { archive_read_free(a); }
};

// Returns the time of the export. SOURCE_DATE_EPOCH sets it, so that two builds are equal byte for byte
// (reproducible-builds.org/specs/source-date-epoch).
Result<std::string> UtcText() {
  std::time_t now = std::time(nullptr);
  if (const char* set = std::getenv("SOURCE_DATE_EPOCH")) {
    const std::string_view text = set;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), now);
    if (error != std::errc() || end != text.data() + text.size() || now < 0)
      return Err("SOURCE_DATE_EPOCH must be a number of seconds since 1970, not '", text, "'");
  }
  std::tm utc{};
  char text[32];
  if (!gmtime_r(&now, &utc) || std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%SZ", &utc) == 0)
    return Err("SOURCE_DATE_EPOCH names a time too far in the future");
  return std::string(text);
}

// Returns `name` with unsafe characters replaced, so that a model's name cannot lead to a path outside of the archive.
std::string SafeName(const std::string& name) {
  std::string safe;
  for (char c : name) safe += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ? c : '_';
  return safe.empty() ? "model" : safe.substr(0, 100);
}

Result<Json> Metadata(const Package& package) {
  Json metadata;
  metadata["version"] = kPackageFormat;
  metadata["model_name"] = SafeName(package.info.model_name);  // as in the names of the members
  metadata["export_datetime"] = TRY(UtcText());
  metadata["executors"] = Json::Array{Json("graph")};
  metadata["target"] = Json::Object();
  for (const MemoryEntry& entry : package.memory)
    metadata["target"][std::to_string(entry.device)] = package.info.target;
  if (package.memory.empty()) metadata["target"]["1"] = package.info.target;
  metadata["memory"]["main"] = ToJson(package.memory);
  metadata["memory"]["operator_functions"] = ToJson(package.functions);
  metadata["autotune"] = ToJson(package.info);
  return metadata;
}

Status WriteTo(const Package& package, int fd) {
  std::unique_ptr<archive, FreeWriter> out(archive_write_new());
  archive_write_set_format_gnutar(out.get());
  if (archive_write_open_fd(out.get(), fd) != ARCHIVE_OK) return Err(ArchiveWriteError(out.get()));
  const std::string model = SafeName(package.info.model_name), metadata = TRY(Metadata(package)).Dump(2);
  std::vector<std::pair<std::string, std::string_view>> members = {
      {"metadata.json", metadata},
      {"executor-config/graph/graph.json", package.graph_json},
      {"codegen/host/lib/" + model + ".so", package.library}};
  for (size_t i = 0; i < package.objects.size(); ++i)
    members.emplace_back("codegen/host/lib/lib" + std::to_string(i) + ".o", package.objects[i]);
  for (size_t i = 0; i < package.sources.size(); ++i)
    members.emplace_back("codegen/host/src/lib" + std::to_string(i) + ".c", package.sources[i]);
  for (const auto& [path, source] : package.device_sources) members.emplace_back("codegen/" + path, source);
  members.emplace_back("src/relay.txt", package.graph_text);
  members.emplace_back("parameters/" + model + ".params", package.params);
  for (const auto& [name, bytes] : members) TRY(WriteMember(out.get(), name, bytes));
  TRY(WriteMember(out.get(), kSealMember, SealText(members)));
  if (archive_write_close(out.get()) != ARCHIVE_OK) return Err(ArchiveWriteError(out.get()));
  return {};
}

// Refuses a member whose name leads out of the package. Members are not written to files, but such a name is a sign of
// an attack.
Status CheckPlace(const std::string& name) {
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == ".." || (begin == 0 && end == 0))
      return Err("member ", name, " lies outside the package");
    begin = end + 1;
  }
  return {};
}

// Returns the largest total size of the members of a file. Compression and sparse members expand a file, but weights
// and machine code never expand a thousandfold.
int64_t MostBytes(const std::string& path) {
  constexpr int64_t kAnyway = int64_t{64} << 20, kTimes = 1000, kMost = int64_t{1} << 40;
  std::error_code error;  // set if the path is not a regular file but, say, a pipe
  uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size > kMost / kTimes) return kMost;
  return static_cast<int64_t>(size) * kTimes + kAnyway;
}

}  // namespace

Result<PackageMembers> ReadMembers(const std::string& path) {
  constexpr size_t kLongestName = 4096;
  constexpr int64_t kHeader = 512;
  int64_t left = MostBytes(path);
  std::unique_ptr<archive, FreeReader> in(archive_read_new());
  archive_read_support_format_tar(in.get());
  // Enable filters one by one, since "all" would start other programs for rare compressions.
  archive_read_support_filter_gzip(in.get());
  archive_read_support_filter_bzip2(in.get());
  archive_read_support_filter_xz(in.get());
  archive_read_support_filter_zstd(in.get());
  if (archive_read_open_filename(in.get(), path.c_str(), 1 << 20) != ARCHIVE_OK)
    return Err(archive_error_string(in.get()));
  PackageMembers members;
  archive_entry* entry = nullptr;
  for (;;) {
    int code = archive_read_next_header(in.get(), &entry);
    if (code == ARCHIVE_EOF) return members;
    if (code != ARCHIVE_OK) return Err(archive_error_string(in.get()));
    const char* path = archive_entry_pathname(entry);
    if (!path) return Err("a member has no name");
    if (std::strlen(path) > kLongestName)
      return Err("a member has a name of ", std::strlen(path), " bytes, which is too long");
    std::string name = OneLine(path);
    TRY(CheckPlace(name));
    name = std::filesystem::path(name).lexically_normal();  // some programs, TVM among them, write ./metadata.json
    if (archive_entry_filetype(entry) == AE_IFDIR) continue;
    if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry))
      return Err("member ", name, " is a link or a device; a package holds files only");
    if (members.count(name)) return Err("member ", name, " occurs twice");
    int64_t size = archive_entry_size(entry);
    left -= kHeader;
    if (size < 0 || size > left)
      return Err("member ", name, " claims ", size,
                 " bytes; with it a file of this size holds more than can be expected");
    // The text grows with the bytes that are read, not with the size that the header states.
    std::string bytes;
    char chunk[1 << 16];
    for (;;) {
      la_ssize_t n = archive_read_data(in.get(), chunk, sizeof chunk);
      if (n < 0) return Err("member ", name, ": ", archive_error_string(in.get()));
      if (n == 0) break;
      // A sparse member may be larger than its header states.
      if (n > size - static_cast<int64_t>(bytes.size()))
        return Err("member ", name, " is longer than ", size, " bytes");
      bytes.append(chunk, static_cast<size_t>(n));
    }
    if (static_cast<int64_t>(bytes.size()) != size) return Err("member ", name, " is truncated");
    left -= size;
    members[name] = std::move(bytes);
  }
}

Status WritePackage(const Package& package, const std::string& path) {
  return ReplaceFile(path, [&](int fd) -> Status {
    Status written = WriteTo(package, fd);
    if (!written.ok()) return Err("cannot write package ", path, ": ", written.error().Text());
    return {};
  });
}

namespace {

// Removes the one member whose name begins with `prefix` and ends with `suffix`, and returns it. Null if there is none;
// an error if there are several.
Result<std::optional<std::string>> Take(PackageMembers& members, const std::string& prefix, const std::string& suffix) {
  auto found = members.end();
  for (auto place = members.begin(); place != members.end(); ++place) {
    if (!place->first.starts_with(prefix) || !place->first.ends_with(suffix)) continue;
    if (found != members.end()) return Err("it has several ", prefix, "*", suffix);
    found = place;
  }
  if (found == members.end()) return std::optional<std::string>();
  std::string bytes = std::move(found->second);
  members.erase(found);
  return std::optional<std::string>(std::move(bytes));
}

Result<std::string> TakeNeeded(PackageMembers& members, const std::string& prefix, const std::string& suffix = "") {
  std::optional<std::string> found = TRY(Take(members, prefix, suffix));
  if (!found) return Err("it has no ", prefix, suffix.empty() ? "" : "*" + suffix);
  return std::move(*found);
}

// Removes the members PREFIX0SUFFIX, PREFIX1SUFFIX, ... up to the first missing number, and returns them.
std::vector<std::string> TakeNumbered(PackageMembers& members, const std::string& prefix, const std::string& suffix) {
  std::vector<std::string> list;
  for (auto place = members.find(prefix + "0" + suffix); place != members.end();
       place = members.find(prefix + std::to_string(list.size()) + suffix)) {
    list.push_back(std::move(place->second));
    members.erase(place);
  }
  return list;
}

Status FromMetadata(const Json& metadata, Package& package) {
  const int64_t* version = metadata["version"].As<int64_t>();
  if (!version || *version != kPackageFormat)
    return WithHint(Err("its format is not version ", kPackageFormat, " of Model Library Format"), kCompileAgain);
  if (!metadata["memory"]["main"].IsNull()) TRY(FromJson(metadata["memory"]["main"], package.memory, "memory.main"));
  if (!metadata["memory"]["operator_functions"].IsNull()) {
    TRY(FromJson(metadata["memory"]["operator_functions"], package.functions, "memory.operator_functions"));
  }
  if (!metadata["autotune"].IsNull()) return FromJson(metadata["autotune"], package.info, "autotune");
  // Packages of other programs describe less. For them, the executor describes inputs and outputs (package/load.h).
  if (const std::string* name = metadata["model_name"].As<std::string>()) package.info.model_name = *name;
  if (const std::string* target = metadata["target"]["1"].As<std::string>()) package.info.target = *target;
  return {};
}

}  // namespace

Result<Package> PackageFromMembers(PackageMembers members) {
  Package package;
  const std::optional<std::string> seal = TRY(Take(members, kSealMember, ""));
  if (seal) TRY(CheckSealText(*seal, members));
  auto metadata = Json::Parse(TRY(TakeNeeded(members, "metadata.json")));
  if (!metadata.ok()) return Err("metadata.json is ", metadata.error().Text());
  const Json& json = *metadata;  // const, so that operator[] of a value that is not an object fails no CHECK
  const Status described = FromMetadata(json, package);
  // Older versions described packages in other words, so a missing seal comes before errors of the description.
  if (!seal && !json["autotune"].IsNull())
    return WithHint(Err("it has no ", kSealMember, ": an older version of autotune wrote it"), kCompileAgain);
  TRY_NOTE(described, "metadata.json");
  package.graph_json = TRY(TakeNeeded(members, "executor-config/graph/graph.json"));
  package.params = TRY(TakeNeeded(members, "parameters/", ".params"));
  package.library = TRY(Take(members, "codegen/host/lib/", ".so")).value_or("");
  package.objects = TakeNumbered(members, "codegen/host/lib/lib", ".o");
  package.sources = TakeNumbered(members, "codegen/host/src/lib", ".c");
  package.graph_text = TRY(Take(members, "src/relay.txt", "")).value_or("");
  return package;
}

Result<bool> IsSharedObject(const std::string& path) {
  constexpr std::string_view kElfMagic =
      "\x7f"
      "ELF";
  std::ifstream file(path, std::ios::binary);
  char bytes[kElfMagic.size()] = {};
  if (!file) return Err("cannot read package ", path, ": no such file, or not readable");
  file.read(bytes, sizeof bytes);
  return std::string_view(bytes, file.gcount()) == kElfMagic;
}

Result<Package> ReadPackage(const std::string& path) {
  if (access(path.c_str(), R_OK) != 0) return Err("cannot read package ", path, ": no such file, or not readable");
  Result<PackageMembers> members = ReadMembers(path);
  Result<Package> package = members.ok() ? PackageFromMembers(std::move(*members)) : Result<Package>(members.error());
  if (!package.ok() && path.ends_with(".onnx"))
    return WithHint(Err(path, " is a model, not a package"), "`autotune compile --model` makes a package of it");
  if (!package.ok()) return Prefixed(path + " is not a package in Model Library Format: ", package.error());
  return package;
}

}  // namespace autotune
