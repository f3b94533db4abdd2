// Packages: tar files with arbitrary contents. The parts are parsed as by the loader, but no library is loaded: a
// library is code, and a user who runs a package trusts it.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "package/package.h"
#include "runtime/graph_json.h"
#include "runtime/params.h"
#include "support/check.h"
#include "tests/fuzz/target.h"

namespace autotune {
namespace {

// Corrects the headers' checksums. Otherwise the parser would reject most mutations at the checksum.
std::string WithChecksums(std::string tar) {
  constexpr size_t kBlock = 512, kSize = 124, kSizeDigits = 11, kSum = 148, kSumDigits = 8;
  for (size_t at = 0; at + kBlock <= tar.size();) {
    if (tar[at] == 0) break;
    std::memset(&tar[at + kSum], ' ', kSumDigits);
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<unsigned char>(tar[at + i]);
    for (size_t i = 6; i-- > 0; sum /= 8) tar[at + kSum + i] = static_cast<char>('0' + sum % 8);
    tar[at + kSum + 6] = 0;
    uint64_t size = 0;
    for (size_t i = 0; i < kSizeDigits; ++i) {
      char c = tar[at + kSize + i];
      if (c >= '0' && c <= '7') size = size * 8 + static_cast<uint64_t>(c - '0');
    }
    if (size > tar.size()) break;
    at += kBlock + (size + kBlock - 1) / kBlock * kBlock;
  }
  return tar;
}

void Read(std::string_view tar) {
  int fd = memfd_create("fuzz-package", MFD_CLOEXEC);
  CHECK(fd >= 0 && write(fd, tar.data(), tar.size()) == static_cast<ssize_t>(tar.size()));
  auto package = ReadPackage("/proc/self/fd/" + std::to_string(fd));
  close(fd);
  if (!package.ok()) return;
  (void)Graph::Parse(package->graph_json);
  (void)ParseParams(package->params);
}

}  // namespace

FUZZ_TARGET(package) {
  Read(input);
  Read(WithChecksums(std::string(input)));
}

}  // namespace autotune
