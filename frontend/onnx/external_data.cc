#include "frontend/onnx/external_data.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

namespace autotune::onnx_import {
namespace {

namespace fs = std::filesystem;

Result<std::optional<int64_t>> Number(const std::map<std::string, std::string>& entries, const std::string& key) {
  auto it = entries.find(key);
  if (it == entries.end()) return std::optional<int64_t>();
  const std::string& text = it->second;
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    return Err("its ", key, " '", text, "' is no number of bytes");
  return std::optional<int64_t>(value);
}

bool IsBelow(const fs::path& root, const fs::path& file) {
  return std::mismatch(root.begin(), root.end(), file.begin(), file.end()).first == root.end();
}

// Returns the path of the file `location` in `folder`. Returns an error if it may not be read, or is no file.
Result<fs::path> FileBelow(const ModelFolder& folder, const std::string& location) {
  const fs::path relative = fs::path(location).lexically_normal();
  if (relative.is_absolute() || *relative.begin() == "..")
    return Err("'", location, "' lies outside the model's folder");
  std::error_code error;
  fs::path root = fs::canonical(folder.path, error);
  if (error) return Err("cannot open folder ", folder.path, ": ", error.message());
  fs::path file = fs::canonical(root / relative, error);  // resolves links
  if (error) return Err("cannot open '", location, "': ", error.message());
  const bool beside_model = !folder.resolved.empty() && IsBelow(folder.resolved, file);
  if (!beside_model && !IsBelow(root, file)) return Err("'", location, "' is a link to outside the model's folder");
  if (!fs::is_regular_file(file, error)) return Err("'", location, "' is no file");
  return file;
}

}  // namespace

ModelFolder DataFolderOf(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  return {folder.empty() ? "." : folder.string(), error ? "" : file.parent_path().string()};
}

Result<graph::SharedBytes> ReadExternalData(const ModelFolder& folder,
                                            const std::map<std::string, std::string>& entries,
                                            const graph::TensorSpec& spec) {
  if (folder.path.empty()) return Err("its data lies in another file, and this model comes without a folder");
  auto location = entries.find("location");
  if (location == entries.end() || location->second.empty()) return Err("it does not say in which file its data lies");
  int64_t offset = TRY(Number(entries, "offset")).value_or(0);
  std::optional<int64_t> length = TRY(Number(entries, "length"));
  if (length && *length != spec.Bytes())
    return Err("its length is ", *length, " bytes where ", spec.Text(), " wants ", spec.Bytes());
  fs::path path = TRY(FileBelow(folder, location->second));
  std::error_code error;
  uintmax_t size = fs::file_size(path, error);
  if (error) return Err("cannot read '", location->second, "': ", error.message());
  if (static_cast<uintmax_t>(offset) > size || static_cast<uintmax_t>(spec.Bytes()) > size - offset) {
    return Err("'", location->second, "' has ", size, " bytes, too few for ", spec.Bytes(), " at offset ", offset);
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return Err("cannot open '", location->second, "': ", std::strerror(errno));
  char* out = nullptr;
  graph::SharedBytes bytes = graph::SharedBytes::Allocate(static_cast<size_t>(spec.Bytes()), &out);
  if (!in.seekg(offset) || !in.read(out, spec.Bytes())) return Err("cannot read '", location->second, "' to its end");
  return bytes;
}

}  // namespace autotune::onnx_import
