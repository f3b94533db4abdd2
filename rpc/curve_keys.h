// The key pairs of the members of a farm: Curve25519, as ZeroMQ's CURVE uses it (https://rfc.zeromq.org/spec/26). A key
// is a text of 40 characters (Z85, https://rfc.zeromq.org/spec/32). Thread-safe.
#pragma once
#include <string>

#include "rpc/limits.h"
#include "support/fields.h"
#include "support/result.h"

namespace autotune::rpc {

struct CurveKeys {
  std::string public_key;  // names its owner
  std::string secret_key;  // whoever has it can speak for the owner
  AUTOTUNE_FIELDS(public_key, secret_key)
};

CurveKeys NewCurveKeys();
bool IsCurveKey(const std::string& text);
// Returns an error unless the two keys belong together.
Status CheckCurveKeys(const CurveKeys& keys);

}  // namespace autotune::rpc
