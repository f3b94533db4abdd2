#include "rpc/capability.h"

#include <sodium.h>

#include "rpc/content_hash.h"

namespace autotune::rpc {

std::string NewGrantKey() { return RandomId() + RandomId(); }

std::string ProofOf(const Capability& c, const std::string& grant_key) {
  if (grant_key.empty()) return "";
  ContentHasher hasher(grant_key);
  hasher.Add("autotune grant 1\n");
  // Each part ends with a line feed, which no id, number or key has, so no two grants have the same text.
  for (const std::string& part : {c.lease, std::to_string(c.token.epoch), std::to_string(c.token.counter),
                                  c.incarnation, std::to_string(c.ttl_ms), c.client_key})
    hasher.Add(part + "\n");
  return hasher.Finish();
}

bool IsProof(const std::string& proof, const Capability& capability, const std::string& grant_key) {
  const std::string right = ProofOf(capability, grant_key);
  return !right.empty() && proof.size() == right.size() && sodium_memcmp(proof.data(), right.data(), right.size()) == 0;
}

}  // namespace autotune::rpc
