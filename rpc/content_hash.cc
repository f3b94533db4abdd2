#include "rpc/content_hash.h"

#include <sodium.h>

#include <array>

#include "support/check.h"

namespace autotune::rpc {

std::string ContentHash(std::string_view bytes) {
  std::array<unsigned char, crypto_generichash_BYTES> hash{};
  CHECK(crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                           nullptr, 0) == 0);
  std::array<char, 2 * crypto_generichash_BYTES + 1> digits{};
  sodium_bin2hex(digits.data(), digits.size(), hash.data(), hash.size());
  return digits.data();
}

}  // namespace autotune::rpc
