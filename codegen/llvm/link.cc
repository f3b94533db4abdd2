#include "codegen/llvm/link.h"

#include <fcntl.h>
#include <lld/Common/Driver.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "support/file.h"

LLD_HAS_DRIVER(elf)

namespace autotune {
namespace {

struct File {  // closed and removed at the end
  int fd = -1;
  std::string path;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

struct Scratch {
  std::string path;
  ~Scratch() {
    if (!path.empty()) unlink(path.c_str());
  }
};

// A name for the output of about `bytes` bytes, in memory where there is such a file system with enough room.
Result<std::string> OutputPath(uint64_t bytes) {
  for (std::string directory : {std::string("/dev/shm"), std::string(getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp")}) {
    struct statvfs space {};
    if (statvfs(directory.c_str(), &space) != 0 || uint64_t{space.f_bavail} * space.f_frsize < bytes) continue;
    std::string path = directory + "/autotune-link-XXXXXX";
    int fd = mkostemp(path.data(), O_CLOEXEC);
    if (fd < 0) continue;
    close(fd);
    return path;
  }
  return Err("no room for the linker: neither /dev/shm nor $TMPDIR (else /tmp) can be written and has ", bytes,
             " bytes");
}

}  // namespace

Result<std::string> LinkShared(const std::vector<const std::string*>& objects) {
  std::vector<File> inputs(objects.size());
  std::vector<std::string> args{"ld.lld", "-shared", "-z", "defs", "-z", "norelro", "-z", "noseparate-code", "-z",
                                "noexecstack", "--build-id=none", "--hash-style=gnu", "--strip-all", "--threads=1",
                                "--no-dependent-libraries",
                                // A file system that fills up is an error then, instead of a signal.
                                "--no-mmap-output-file", "--error-limit=5"};
  // Code grows little when it is linked; data not at all.
  uint64_t room = uint64_t{1} << 20;
  for (const std::string* object : objects) room += object->size() + object->size() / 8;
  for (size_t i = 0; i < objects.size(); ++i) {
    inputs[i].fd = memfd_create("object", MFD_CLOEXEC);
    if (inputs[i].fd < 0) return Err("memfd_create: ", strerror(errno));
    TRY(WriteAll(inputs[i].fd, *objects[i], "an object for the linker"));
    args.push_back("/proc/self/fd/" + std::to_string(inputs[i].fd));
  }
  Scratch output;
  output.path = TRY(OutputPath(room));
  args.push_back("-o");
  args.push_back(output.path);
  std::vector<const char*> argv;
  for (const std::string& a : args) argv.push_back(a.c_str());

  std::string out, err;
  llvm::raw_string_ostream out_stream(out), err_stream(err);
  const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
  lld::Result result = lld::lldMain(argv, out_stream, err_stream, drivers);
  err_stream.flush();
  if (result.retCode != 0) {
    // "ld.lld: error: undefined symbol: expf\n>>> referenced by ..."
    std::string line = err.substr(0, err.find('\n'));
    if (line.starts_with("ld.lld: error: ")) line = line.substr(15);
    return Err("linking failed: ", line);
  }
  std::string bytes = TRY(ReadFile(output.path));
  if (bytes.empty()) return Err("the linker's output is empty: ", output.path);
  return bytes;
}

}  // namespace autotune
