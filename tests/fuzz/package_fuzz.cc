// Packages: tar files with arbitrary contents. The parts are parsed as by the loader, but no library is loaded: a
// library is code, and a user who runs a package trusts it. Each input is read in three ways: as it is; with valid
// checksums of its headers; and as the members between its headers, wherever a mutation has moved them. The last two
// get a valid seal. Otherwise checksums, alignment and seal would keep most mutations from the parsers of the parts.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "package/members.h"
#include "package/tar_seal.h"
#include "runtime/graph_json.h"
#include "runtime/stored_params.h"
#include "support/check.h"
#include "tests/fuzz/target.h"

namespace autotune {
namespace {

// Of a tar's headers: their size, the places of fields, and the fields' sizes.
constexpr size_t kBlock = 512, kName = 100, kSize = 124, kSizeDigits = 11, kSum = 148, kSumDigits = 8, kMagic = 257;

// Returns the size of the member whose header is at `at`.
uint64_t SizeIn(std::string_view tar, size_t at) {
  uint64_t size = 0;
  for (size_t i = 0; i < kSizeDigits; ++i) {
    const char c = tar[at + kSize + i];
    if (c >= '0' && c <= '7') size = size * 8 + static_cast<uint64_t>(c - '0');
  }
  return size;
}

uint64_t Padded(uint64_t size) { return (size + kBlock - 1) / kBlock * kBlock; }

// Corrects the headers' checksums.
std::string WithChecksums(std::string tar) {
  for (size_t at = 0; at + kBlock <= tar.size();) {
    if (tar[at] == 0) break;
    std::memset(&tar[at + kSum], ' ', kSumDigits);
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<unsigned char>(tar[at + i]);
    for (size_t i = 6; i-- > 0; sum /= 8) tar[at + kSum + i] = static_cast<char>('0' + sum % 8);
    tar[at + kSum + 6] = 0;
    const uint64_t size = SizeIn(tar, at);
    if (size > tar.size()) break;
    at += kBlock + Padded(size);
  }
  return tar;
}

// Returns the members between the headers. A member is as much longer or shorter than its header says as a mutation
// has moved the next header, or the two blocks of zeros at the end.
PackageMembers BetweenHeaders(std::string_view tar) {
  constexpr std::string_view kUstar = "ustar";
  std::vector<size_t> headers;
  for (size_t at = tar.find(kUstar); at != std::string_view::npos; at = tar.find(kUstar, at + 1)) {
    if (at >= kMagic && at - kMagic + kBlock <= tar.size()) headers.push_back(at - kMagic);
  }
  PackageMembers members;
  for (size_t i = 0; i < headers.size(); ++i) {
    const size_t begin = headers[i] + kBlock;
    const size_t end = i + 1 < headers.size() ? headers[i + 1] : std::max(tar.size(), 2 * kBlock) - 2 * kBlock;
    if (begin > end) continue;
    const uint64_t size = SizeIn(tar, headers[i]), most = end - begin;
    const std::string_view name = tar.substr(headers[i], kName);
    members[std::string(name.substr(0, name.find('\0')))] =
        tar.substr(begin, std::min(most, size + most - std::min(size + most, Padded(size))));
  }
  return members;
}

// Replaces the seal, or adds one, so that it matches the other members.
void Reseal(PackageMembers& members) {
  members.erase(kSealMember);
  const std::vector<std::pair<std::string, std::string_view>> sealed(members.begin(), members.end());
  members[kSealMember] = SealText(sealed);
}

Result<PackageMembers> MembersOf(std::string_view tar) {
  int fd = memfd_create("fuzz-package", MFD_CLOEXEC);
  CHECK(fd >= 0 && write(fd, tar.data(), tar.size()) == static_cast<ssize_t>(tar.size()));
  auto members = ReadMembers("/proc/self/fd/" + std::to_string(fd));
  close(fd);
  return members;
}

void Parse(PackageMembers members) {
  auto package = PackageFromMembers(std::move(members));
  if (!package.ok()) return;
  fuzz::Reach("graph of a package", package->graph_json);
  fuzz::Reach("parameters of a package", package->params);
  Result<Graph> graph = Graph::Parse(package->graph_json);
  Result<Params> params = ParseParams(package->params);
  if (graph.ok() && params.ok()) (void)Widened(*graph, std::move(*params));
}

void ParseSealed(PackageMembers members) {
  Reseal(members);
  if (const auto metadata = members.find("metadata.json"); metadata != members.end())
    fuzz::Reach("metadata of a package", metadata->second);
  Parse(std::move(members));
}

}  // namespace

FUZZ_TARGET(package) {
  auto members = MembersOf(input);
  if (members.ok()) Parse(std::move(*members));
  members = MembersOf(WithChecksums(std::string(input)));
  if (members.ok()) ParseSealed(std::move(*members));
  ParseSealed(BetweenHeaders(input));
}

}  // namespace autotune
