#include "runtime/seal.h"

#include <algorithm>

#include "runtime/byte_stream.h"
#include "support/hash.h"

namespace autotune {
namespace {

constexpr std::string_view kMagic = "AT.SEAL1";
constexpr size_t kSealBytes = kMagic.size() + 16;

}  // namespace

std::string SealOf(std::string_view library) {
  const Hash128 hash = HashBytes128(library);
  ByteWriter out;
  out.Raw(kMagic);
  out.Number(hash.low);
  out.Number(hash.high);
  return out.Take();
}

Status CheckSeal(std::string_view file) {
  const size_t begin = file.size() - std::min(file.size(), kSealBytes);
  const size_t at = file.substr(begin).find(kMagic);  // not at `begin` if the file is truncated within the seal
  if (at == std::string_view::npos) return {};
  if (at == 0 && file.substr(begin) == SealOf(file.substr(0, begin))) return {};
  return Err(
      "the file is damaged: its bytes are not those that were written; copy it again, or compile the model again");
}

}  // namespace autotune
