#include "rpc/capability.h"

#include <sodium.h>

#include <array>

#include "support/check.h"

namespace autotune::rpc {

std::string NewGrantKey() { return RandomId() + RandomId(); }

std::string ProofOf(const Capability& c, const std::string& grant_key) {
  if (grant_key.empty()) return "";
  // Each part ends with a line feed, which no id, number or key has, so no two grants have the same text.
  std::string text = "autotune grant 1\n";
  for (const std::string& part : {c.lease, std::to_string(c.token.epoch), std::to_string(c.token.counter),
                                  c.incarnation, std::to_string(c.ttl_ms), c.client_key})
    text += part + "\n";
  std::array<unsigned char, crypto_generichash_BYTES> hash{};
  static_assert(crypto_generichash_KEYBYTES_MAX >= 64);
  CHECK(grant_key.size() <= crypto_generichash_KEYBYTES_MAX);
  CHECK(crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                           reinterpret_cast<const unsigned char*>(grant_key.data()), grant_key.size()) == 0);
  std::array<char, 2 * crypto_generichash_BYTES + 1> digits{};
  sodium_bin2hex(digits.data(), digits.size(), hash.data(), hash.size());
  return digits.data();
}

bool IsProof(const std::string& proof, const Capability& capability, const std::string& grant_key) {
  const std::string right = ProofOf(capability, grant_key);
  return !right.empty() && proof.size() == right.size() && sodium_memcmp(proof.data(), right.data(), right.size()) == 0;
}

}  // namespace autotune::rpc
