#include "rpc/curve_keys.h"

#include <array>

#include "rpc/zeromq.h"
#include "support/check.h"

namespace autotune::rpc {
namespace {

constexpr size_t kKeyBytes = 32, kKeyText = 40;
using KeyText = std::array<char, kKeyText + 1>;  // ends with a zero

}  // namespace

CurveKeys NewCurveKeys() {
  KeyText open{}, secret{};
  CHECK(zmq_curve_keypair(open.data(), secret.data()) == 0) << ZeroMqError();
  return {open.data(), secret.data()};
}

bool IsCurveKey(const std::string& text) {
  std::array<uint8_t, kKeyBytes> bytes{};
  return text.size() == kKeyText && zmq_z85_decode(bytes.data(), text.c_str());
}

Status CheckCurveKeys(const CurveKeys& keys) {
  if (!IsCurveKey(keys.public_key) || !IsCurveKey(keys.secret_key)) return Err("a key is not 40 characters of Z85");
  KeyText open{};
  CHECK(zmq_curve_public(open.data(), keys.secret_key.c_str()) == 0) << ZeroMqError();
  if (open.data() != keys.public_key) return Err("the public key and the secret key do not belong together");
  return {};
}

}  // namespace autotune::rpc
