#include "rpc/content_hash.h"

#include <sodium.h>

#include <array>

#include "support/check.h"

namespace autotune::rpc {
namespace {

using Hash = std::array<unsigned char, crypto_generichash_BYTES>;

const unsigned char* Bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

std::string Digits(const Hash& hash) {
  std::array<char, 2 * crypto_generichash_BYTES + 1> digits{};
  sodium_bin2hex(digits.data(), digits.size(), hash.data(), hash.size());
  return digits.data();
}

}  // namespace

struct ContentHasher::State {
  crypto_generichash_state hash{};
};

ContentHasher::ContentHasher() : state_(std::make_unique<State>()) {
  CHECK(crypto_generichash_init(&state_->hash, nullptr, 0, Hash().size()) == 0);
}
ContentHasher::~ContentHasher() = default;
ContentHasher::ContentHasher(ContentHasher&&) noexcept = default;
ContentHasher& ContentHasher::operator=(ContentHasher&&) noexcept = default;

void ContentHasher::Add(std::string_view bytes) {
  CHECK(crypto_generichash_update(&state_->hash, Bytes(bytes), bytes.size()) == 0);
}

std::string ContentHasher::Finish() {
  Hash hash{};
  CHECK(crypto_generichash_final(&state_->hash, hash.data(), hash.size()) == 0);
  return Digits(hash);
}

std::string ContentHash(std::string_view bytes, std::string_view key) {
  Hash hash{};
  CHECK(crypto_generichash(hash.data(), hash.size(), Bytes(bytes), bytes.size(), Bytes(key), key.size()) == 0);
  return Digits(hash);
}

void CipherByHash(std::string& bytes, const std::string& hash) {
  unsigned char key[crypto_stream_xchacha20_KEYBYTES];
  const unsigned char nonce[crypto_stream_xchacha20_NONCEBYTES] = {};  // each key is for the same bytes always
  const std::string text = "key of " + hash;
  crypto_generichash(key, sizeof key, reinterpret_cast<const unsigned char*>(text.data()), text.size(), nullptr, 0);
  auto* data = reinterpret_cast<unsigned char*>(bytes.data());
  crypto_stream_xchacha20_xor(data, data, bytes.size(), nonce, key);
}

}  // namespace autotune::rpc
