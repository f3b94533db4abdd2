// Encoded<T>: a struct of fields (support/fields.h) together with its CBOR, for values that many messages carry.
// Messages are encoded by copying these bytes, and copies of an Encoded share the value and the bytes. Whoever changes
// a copy gets a value of its own, without bytes, so the bytes never differ from the value. Not thread-safe, but copies
// may belong to different threads.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "rpc/limits.h"
#include "support/cbor.h"

namespace autotune::rpc {

template <HasFields T>
class Encoded {
 public:
  static constexpr std::string_view kFieldList = T::kFieldList;

  Encoded() = default;  // a T() without bytes
  // Cuts what is too long for a message, as Encode does.
  explicit Encoded(T value) {
    if (!CheckLimits(value)) CutToLimits(value);
    std::string cbor = ToCbor(value);
    shared_ = std::make_shared<Shared>(std::move(value), std::move(cbor));
  }
  const T& operator*() const { return shared_->value; }
  const T* operator->() const { return &shared_->value; }
  std::string_view cbor() const { return shared_->cbor; }  // empty: each message encodes the value itself

  auto FieldsTuple() const { return std::as_const(shared_->value).FieldsTuple(); }
  auto FieldsTuple() {
    if (shared_.use_count() > 1 || !shared_->cbor.empty()) shared_ = std::make_shared<Shared>(shared_->value, "");
    return shared_->value.FieldsTuple();
  }

 private:
  struct Shared {
    Shared() = default;
    Shared(T value, std::string cbor) : value(std::move(value)), cbor(std::move(cbor)) {}
    T value;
    std::string cbor;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

template <HasFields T>
struct LimitsOf<Encoded<T>> : LimitsOf<T> {};

}  // namespace autotune::rpc
