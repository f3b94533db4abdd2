// The proof that a tracker has granted a lease to the owner of a key: a keyed hash (BLAKE2b, RFC 7693) over what was
// granted. Its key is known to the tracker and the server only, so a server can judge a claim alone. Thread-safe.
#pragma once
#include <string>
#include <string_view>

#include "rpc/message.h"

namespace autotune::rpc {

// The texts belong to others, which must outlive it.
struct Capability {
  std::string_view lease;
  Token token;
  std::string_view incarnation;  // of the server
  int64_t ttl_ms = 0;
  std::string_view client_key;  // public key of the client
};

// Returns a new key for the grants of one incarnation of a server: 64 hexadecimal digits.
std::string NewGrantKey();
// Returns 64 hexadecimal digits. An empty key gives an empty proof, which proves nothing.
std::string ProofOf(const Capability& capability, const std::string& grant_key);
// Takes the same time whatever the proof is.
bool IsProof(const std::string& proof, const Capability& capability, const std::string& grant_key);

}  // namespace autotune::rpc
