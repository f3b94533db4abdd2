#include "package/link.h"

#include <fcntl.h>

#include <cstdlib>
#include <filesystem>

#include "support/file.h"
#include "support/hint.h"
#include "support/subprocess.h"
#include "support/utf8.h"

namespace autotune {
namespace {

constexpr int64_t kLinkSeconds = 600;  // equals the time limit of a needed build (kNeededSeconds, codegen/workers.cc)

// A new folder, which the destructor removes.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> Make() {
    std::error_code error;
    std::string path = (std::filesystem::temp_directory_path(error) / "autotune-link-XXXXXX").string();
    if (error || !mkdtemp(path.data()))
      return WithHint(Err("cannot make the temporary folder ", path), "set TMPDIR to a writable folder");
    return TemporaryFolder(std::move(path));
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Returns the first line of the output of `cc` that states an error. The lines before it only give its location.
std::string Cause(const std::string& text) {
  size_t at = std::string::npos;
  for (const char* word : {"error", "undefined", "cannot", "multiple"}) at = std::min(at, text.find(word));
  if (at == std::string::npos) at = 0;
  const size_t begin = text.rfind('\n', at) == std::string::npos ? 0 : text.rfind('\n', at) + 1;
  return OneLine(text.substr(begin, text.find('\n', at) - begin));
}

// Runs a C compiler. If it fails, the error has the line of its output that states the cause.
Status RunCc(std::vector<std::string> arguments, const std::string& folder, const std::string& compiler = "cc") {
  const std::string log = folder + "/errors";
  TRY(WriteFile(log, ""));
  UniqueFd errors(open(log.c_str(), O_WRONLY | O_CLOEXEC));
  if (errors.get() < 0) return Err("cannot write ", log);
  arguments.insert(arguments.begin(), compiler);
  auto child = Subprocess::Spawn({.argv = std::move(arguments), .fds = {{1, errors.get()}, {2, errors.get()}}});
  if (!child.ok())
    return Err("the C compiler `", compiler, "`, which links the network, does not start: ", child.error().Text());
  std::optional<ExitStatus> status = child->Wait(kLinkSeconds * 1000);
  if (!status) return Err("`", compiler, "` took longer than ", kLinkSeconds, " s");
  if (status->ok()) return {};
  const std::string text = TRY(ReadFile(log));
  return Err("`", compiler, "` ", status->Text(), ": ", Cause(text));
}

}  // namespace

Result<std::string> LinkWithCc(const std::vector<std::string>& objects, const std::vector<std::string>& sources) {
  TemporaryFolder folder = TRY(TemporaryFolder::Make());
  const std::string library = folder.path() + "/library.so";
  std::vector<std::string> arguments = {"-shared", "-fPIC", "-O2", "-std=c99", "-ffp-contract=off", "-o", library};
  const std::vector<std::string>& inputs = objects.empty() ? sources : objects;
  for (size_t i = 0; i < inputs.size(); ++i) {
    arguments.push_back(folder.path() + "/lib" + std::to_string(i) + (objects.empty() ? ".c" : ".o"));
    TRY(WriteFile(arguments.back(), inputs[i]));
  }
  TRY(RunCc(std::move(arguments), folder.path()));
  return ReadFile(library);
}

Result<std::string> LinkRelocatable(const std::string& compiler,
                                    const std::vector<std::pair<std::string, std::string>>& files) {
  TemporaryFolder folder = TRY(TemporaryFolder::Make());
  const std::string object = folder.path() + "/linked";
  std::vector<std::string> arguments = {
      "-r", "-nostdlib", "-fPIC", "-O2", "-std=c99", "-fno-stack-protector", "-fno-asynchronous-unwind-tables",
      "-w", "-o",        object};
  for (const auto& [name, bytes] : files) {
    const std::string path = folder.path() + "/" + name;
    TRY(WriteFile(path, bytes));
    if (name.ends_with(".c") || name.ends_with(".o")) arguments.push_back(path);
  }
  TRY(RunCc(std::move(arguments), folder.path(), compiler));
  return ReadFile(object);
}

}  // namespace autotune
