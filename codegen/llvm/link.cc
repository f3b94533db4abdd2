#include "codegen/llvm/link.h"

#include <fcntl.h>
#include <lld/Common/Driver.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/seal.h"
#include "support/file.h"

LLD_HAS_DRIVER(elf)

namespace autotune {
namespace {

// A file descriptor that is closed at the end of its scope.
struct File {
  int fd = -1;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

// Redirects standard output to a file as long as the object lives. LLD can write to a file without a name only through
// standard output.
class StandardOutputIs {
 public:
  explicit StandardOutputIs(int fd) : saved_{fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)} {
    llvm::outs().flush();
    dup2(fd, STDOUT_FILENO);
  }
  ~StandardOutputIs() {
    if (saved_.fd >= 0) {
      dup2(saved_.fd, STDOUT_FILENO);
    } else {
      close(STDOUT_FILENO);  // standard output was closed before, too
    }
  }
  // Flushes the output. Returns an error if some of it could not be written.
  Status Finish() {
    llvm::outs().flush();
    const std::error_code error = llvm::outs().error();
    llvm::outs().clear_error();
    return error ? Status(Err("cannot write the linker's output: ", error.message())) : Status();
  }

 private:
  File saved_;
};

// Links the objects to standard output. `data` is the path of one more object; empty: there is none.
Status Link(const std::vector<const std::string*>& objects, const std::string& data) {
  std::vector<File> inputs(objects.size());
  std::vector<std::string> args{"ld.lld",
                                "-shared",
                                "-z",
                                "defs",
                                "-z",
                                "norelro",
                                "-z",
                                "noseparate-code",
                                "-z",
                                "noexecstack",
                                "--build-id=none",
                                "--hash-style=gnu",
                                "--strip-all",
                                "--threads=1",
                                "--no-dependent-libraries",
                                "--error-limit=5"};
  // The large object comes first, so that it does not lie between code and the constants that the code uses.
  if (!data.empty()) args.push_back(data);
  for (size_t i = 0; i < objects.size(); ++i) {
    inputs[i].fd = memfd_create("object", MFD_CLOEXEC);
    if (inputs[i].fd < 0) return Err("memfd_create: ", strerror(errno));
    TRY(WriteAll(inputs[i].fd, *objects[i], "an object for the linker"));
    args.push_back("/proc/self/fd/" + std::to_string(inputs[i].fd));
  }
  args.insert(args.end(), {"-o", "-"});
  std::vector<const char*> argv;
  for (const std::string& a : args) argv.push_back(a.c_str());

  std::string out, err;
  llvm::raw_string_ostream out_stream(out), err_stream(err);
  const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
  lld::Result result = lld::lldMain(argv, out_stream, err_stream, drivers);
  err_stream.flush();
  if (result.retCode == 0) return {};
  // "ld.lld: error: undefined symbol: expf\n>>> referenced by ..."
  std::string line = err.substr(0, err.find('\n'));
  if (line.starts_with("ld.lld: error: ")) line = line.substr(15);
  return Err("linking failed: ", line);
}

// Links into an open, empty file, and seals it.
Status LinkTo(int output, const std::vector<const std::string*>& objects, const std::string& data) {
  {
    StandardOutputIs redirected(output);
    Status linked = Link(objects, data);
    Status written = redirected.Finish();
    TRY(std::move(linked));
    TRY(std::move(written));
  }
  const off_t size = lseek(output, 0, SEEK_END);
  void* bytes = size > 0 ? mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_SHARED, output, 0) : MAP_FAILED;
  if (bytes == MAP_FAILED) return Err("the linker's output is empty or cannot be read");
  const std::string seal = SealOf({static_cast<const char*>(bytes), static_cast<size_t>(size)});
  munmap(bytes, static_cast<size_t>(size));
  return WriteAll(output, seal, "the linker's output");
}

}  // namespace

Result<std::string> LinkShared(const std::vector<const std::string*>& objects) {
  File output{memfd_create("library", MFD_CLOEXEC)};
  if (output.fd < 0) return Err("memfd_create: ", strerror(errno));
  TRY(LinkTo(output.fd, objects, ""));
  return ReadFile("/proc/self/fd/" + std::to_string(output.fd));
}

Status LinkSharedFile(const std::vector<const std::string*>& objects, const std::string& data,
                      const std::string& output) {
  File from, to;
  from.fd = open(data.c_str(), O_RDONLY | O_CLOEXEC);
  if (from.fd < 0) return Err("cannot read ", data, ": ", strerror(errno));
  to.fd = open(output.c_str(), O_RDWR | O_CLOEXEC);
  if (to.fd < 0) return Err("cannot write ", output, ": ", strerror(errno));
  return LinkTo(to.fd, objects, data);
}

}  // namespace autotune
