#include "rpc/capability.h"

#include <sodium.h>

#include "rpc/content_hash.h"

namespace autotune::rpc {

std::string NewGrantKey() { return RandomId() + RandomId(); }

std::string ProofOf(const Capability& c, const std::string& grant_key) {
  if (grant_key.empty()) return "";
  const std::string epoch = std::to_string(c.token.epoch), counter = std::to_string(c.token.counter),
                    ttl = std::to_string(c.ttl_ms);
  constexpr size_t kUsual = 256;  // bytes
  std::string text;
  text.reserve(kUsual);
  // Each part ends with a line feed, which no id, number or key has, so no two grants have the same text.
  for (const std::string_view part : {std::string_view("autotune grant 1"), c.lease, std::string_view(epoch),
                                      std::string_view(counter), c.incarnation, std::string_view(ttl), c.client_key})
    (text += part) += '\n';
  return ContentHash(text, grant_key);
}

bool IsProof(const std::string& proof, const Capability& capability, const std::string& grant_key) {
  const std::string right = ProofOf(capability, grant_key);
  return !right.empty() && proof.size() == right.size() && sodium_memcmp(proof.data(), right.data(), right.size()) == 0;
}

}  // namespace autotune::rpc
