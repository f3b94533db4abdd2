#include "codegen/cuda_image.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fcntl.h>

#include <string_view>

#include "support/subprocess.h"
#include "support/unique_fd.h"

namespace autotune {
namespace {

// Splits off the header: the comments, empty lines and directives before the first function or variable.
std::string_view BodyOf(std::string_view ptx, std::string& header) {
  constexpr std::string_view kDirectives[] = {".version ", ".target ", ".address_size "};
  while (!ptx.empty()) {
    const std::string_view line = ptx.substr(0, ptx.find('\n'));
    bool is_directive = false;
    for (const std::string_view directive : kDirectives) is_directive |= line.starts_with(directive);
    if (is_directive) header.append(line).append("\n");
    if (!is_directive && !line.empty() && !line.starts_with("//")) break;
    ptx.remove_prefix(std::min(line.size() + 1, ptx.size()));
  }
  return ptx;
}

UniqueFd MemoryFile() { return UniqueFd(memfd_create("ptx", MFD_CLOEXEC)); }

}  // namespace

Result<std::string> JoinPtx(const std::vector<const std::string*>& modules) {
  std::string joined, header;
  for (const std::string* module : modules) {
    std::string own;
    const std::string_view body = BodyOf(*module, own);
    if (joined.empty()) joined = header = own;
    if (own != header) return Err("PTX modules of different versions or architectures");
    joined.append("\n").append(body);
  }
  return joined;
}

std::string AssemblePtx(const std::string& ptx, const std::string& arch) {
  // Files in memory, so that an ended process leaves nothing behind.
  UniqueFd source = MemoryFile(), output = MemoryFile(), null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  if (!source || !output || !null) return "";
  for (size_t at = 0; at < ptx.size();) {
    const ssize_t n = write(source.get(), ptx.data() + at, ptx.size() - at);
    if (n <= 0) return "";
    at += static_cast<size_t>(n);
  }
  SpawnOptions spawn;
  spawn.argv = {"ptxas", "-arch=" + arch, "-o", "/dev/fd/4", "/dev/fd/3"};
  spawn.fds = {{1, null.get()}, {2, null.get()}, {3, source.get()}, {4, output.get()}};
  spawn.own_group = false;
  Result<Subprocess> process = Subprocess::Spawn(spawn);
  if (!process.ok()) return "";
  constexpr int64_t kForever = int64_t{1} << 40;  // milliseconds; the client of the worker limits the time of a build
  const std::optional<ExitStatus> status = process->Wait(kForever);
  struct stat info {};
  if (!status || !status->ok() || fstat(output.get(), &info)) return "";
  std::string cubin(static_cast<size_t>(info.st_size), '\0');
  for (size_t at = 0; at < cubin.size();) {
    const ssize_t n = pread(output.get(), cubin.data() + at, cubin.size() - at, static_cast<off_t>(at));
    if (n <= 0) return "";
    at += static_cast<size_t>(n);
  }
  return cubin;
}

}  // namespace autotune
