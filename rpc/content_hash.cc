#include "rpc/content_hash.h"

#include <sodium.h>

#include <array>

#include "support/check.h"

namespace autotune::rpc {

struct ContentHasher::State {
  crypto_generichash_state hash{};
};

ContentHasher::ContentHasher(std::string_view key) : state_(std::make_unique<State>()) {
  CHECK(crypto_generichash_init(&state_->hash, reinterpret_cast<const unsigned char*>(key.data()), key.size(),
                                crypto_generichash_BYTES) == 0);
}
ContentHasher::~ContentHasher() = default;
ContentHasher::ContentHasher(ContentHasher&&) noexcept = default;
ContentHasher& ContentHasher::operator=(ContentHasher&&) noexcept = default;

void ContentHasher::Add(std::string_view bytes) {
  CHECK(crypto_generichash_update(&state_->hash, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()) ==
        0);
}

std::string ContentHasher::Finish() {
  std::array<unsigned char, crypto_generichash_BYTES> hash{};
  CHECK(crypto_generichash_final(&state_->hash, hash.data(), hash.size()) == 0);
  std::array<char, 2 * crypto_generichash_BYTES + 1> digits{};
  sodium_bin2hex(digits.data(), digits.size(), hash.data(), hash.size());
  return digits.data();
}

std::string ContentHash(std::string_view bytes) {
  ContentHasher hasher;
  hasher.Add(bytes);
  return hasher.Finish();
}

}  // namespace autotune::rpc
