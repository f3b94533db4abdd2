// The hash that names bytes which come from others: nobody can make other bytes with the same hash.
#pragma once
#include <memory>
#include <string>
#include <string_view>

namespace autotune::rpc {

// BLAKE2b with 256 bits, as 64 lower-case hexadecimal digits (RFC 7693), of bytes that come in parts. Not thread-safe.
class ContentHasher {
 public:
  ContentHasher();
  ~ContentHasher();
  ContentHasher(ContentHasher&&) noexcept;
  ContentHasher& operator=(ContentHasher&&) noexcept;
  void Add(std::string_view bytes);
  std::string Finish();  // once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Of all bytes at once. With a key of 64 bytes at most, only who knows the key can make the hash. Thread-safe.
std::string ContentHash(std::string_view bytes, std::string_view key = {});

// Encrypts bytes with this ContentHash, in place, or decrypts them. The key follows from the hash: whoever has only the
// encrypted bytes learns nothing from them. Thread-safe.
void CipherByHash(std::string& bytes, const std::string& hash);

}  // namespace autotune::rpc
