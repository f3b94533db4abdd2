#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>

#include "package/members.h"
#include "package/package.h"
#include "package/tar.h"
#include "package/tar_seal.h"
#include "support/file.h"
#include "support/hint.h"
#include "support/utf8.h"

namespace autotune {
namespace {

constexpr char kCompileAgain[] = "compile the model again";

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

Status WriteTo(const Package& package, const std::string& metadata, int fd, const std::string& what) {
  const std::string model = SafeName(package.info.model_name);
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
  const std::string seal = SealText(members);
  members.emplace_back(kSealMember, seal);
  return WriteTar(fd, members, what);
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

// Returns the program that decompresses a file that begins like this; null if it is not compressed.
const char* DecompressorOf(std::string_view begin) {
  constexpr std::pair<std::string_view, const char*> kMagic[] = {
      {"\x1f\x8b", "gunzip"}, {"BZh", "bunzip2"}, {"\xfd\x37zXZ", "unxz"}, {"\x28\xb5\x2f\xfd", "unzstd"}};
  for (const auto& [magic, program] : kMagic) {
    if (begin.starts_with(magic)) return program;
  }
  return nullptr;
}

// Refuses a compressed file.
Status CheckPlain(int fd) {
  char begin[8] = {};
  const ssize_t n =
      pread(fd, begin, sizeof begin, 0);  // fails for a pipe, which the reader refuses if it is compressed
  const char* program = n > 0 ? DecompressorOf({begin, static_cast<size_t>(n)}) : nullptr;
  if (!program) return {};
  return WithHint(Err("it is compressed"), std::string("decompress it first, with `") + program + "`");
}

}  // namespace

Result<PackageMembers> ReadMembers(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return Err(std::strerror(errno));
  TRY(CheckPlain(fd.get()));
  TarReader in(fd.get());
  PackageMembers members;
  for (TarEntry entry; TRY(in.Next(entry));) {
    std::string name = OneLine(entry.name);
    TRY(CheckPlace(name));
    name = std::filesystem::path(name).lexically_normal();  // some programs, TVM among them, write ./metadata.json
    if (entry.type == TarType::kFolder) continue;
    if (entry.type == TarType::kSparse) return Err("member ", name, " is a sparse file, which a package does not hold");
    if (entry.type != TarType::kFile) return Err("member ", name, " is a link or a device; a package holds files only");
    if (members.count(name)) return Err("member ", name, " occurs twice");
    std::string bytes = TRY_NOTE(in.Contents(), "member " + name);
    members[name] = std::move(bytes);
  }
  return members;
}

Status WritePackage(const Package& package, const std::string& path) {
  const std::string what = "package " + path;
  const Result<Json> metadata = Metadata(package);
  if (!metadata.ok()) return Prefixed("cannot write " + what + ": ", metadata.error());
  const std::string text = metadata->Dump(2);
  return ReplaceFile(path, [&](int fd) { return WriteTo(package, text, fd, what); });
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
  constexpr size_t kType = 16;  // where the type of an ELF file is, little-endian
  std::ifstream file(path, std::ios::binary);
  char bytes[kType + 2] = {};
  if (!file) return Err("cannot read package ", path, ": no such file, or not readable");
  file.read(bytes, sizeof bytes);
  const std::string_view begin(bytes, static_cast<size_t>(file.gcount()));
  const bool elf = begin.starts_with(kElfMagic);
  const bool relocatable = elf && begin.size() == sizeof bytes && begin.substr(kType) == std::string_view("\1\0", 2);
  if (begin.starts_with("!<arch>\n") || relocatable) {
    return WithHint(Err(path, " is for linkers: a program that links it runs the network"),
                    "compile the model to M.tar or M.so to run it with autotune; docs/aot.md explains programs");
  }
  return elf;
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
