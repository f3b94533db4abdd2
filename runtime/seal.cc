#include "runtime/seal.h"

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
  if (file.size() < kSealBytes) return {};
  const std::string_view seal = file.substr(file.size() - kSealBytes);
  if (!seal.starts_with(kMagic)) return {};
  if (seal == SealOf(file.substr(0, file.size() - kSealBytes))) return {};
  return Err(
      "the file is damaged: its bytes are not those that were written; copy it again, or compile the model again");
}

}  // namespace autotune
