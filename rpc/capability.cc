#include "rpc/capability.h"

#include <sodium.h>

#include "rpc/content_hash.h"

namespace autotune::rpc {

std::string NewGrantKey() { return RandomId() + RandomId(); }

std::string ProofOf(const Capability& c, const std::string& grant_key) {
  if (grant_key.empty()) return "";
  // Each part ends with a line feed, which no id, number or key has, so no two grants have the same text.
  return ContentHash("autotune grant 1\n" + c.lease + "\n" + std::to_string(c.token.epoch) + "\n" +
                         std::to_string(c.token.counter) + "\n" + c.incarnation + "\n" + std::to_string(c.ttl_ms) +
                         "\n" + c.client_key + "\n",
                     grant_key);
}

bool IsProof(const std::string& proof, const Capability& capability, const std::string& grant_key) {
  const std::string right = ProofOf(capability, grant_key);
  return !right.empty() && proof.size() == right.size() && sodium_memcmp(proof.data(), right.data(), right.size()) == 0;
}

}  // namespace autotune::rpc
