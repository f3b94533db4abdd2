// Ref<T>: a one-pointer handle to an immutable, intrusively counted cell. The base of Expr, Stmt and Buffer.
// Handles may be copied and read from any thread; a null handle means "absent" where a field says so.
#pragma once
#include <atomic>
#include <cstdint>
#include <utility>

namespace autotune {

struct Counted {
  Counted() = default;
  Counted(const Counted&) = delete;
  mutable std::atomic<uint32_t> references{0};
};

template <class T>  // T derives from Counted
class Ref {
 public:
  Ref() = default;
  explicit Ref(const T* cell) : cell_(cell) { Retain(); }
  Ref(const Ref& other) : cell_(other.cell_) { Retain(); }
  Ref(Ref&& other) noexcept : cell_(std::exchange(other.cell_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(cell_, other.cell_);
    return *this;
  }
  ~Ref() {
    // If this is the only reference, no other thread can copy it, so a plain load suffices instead of an atomic
    // decrement.
    if (cell_ && (cell_->references.load(std::memory_order_acquire) == 1 ||
                  cell_->references.fetch_sub(1, std::memory_order_acq_rel) == 1)) {
      delete cell_;
    }
  }
  const T* get() const { return cell_; }
  explicit operator bool() const { return cell_ != nullptr; }
  bool Same(const Ref& other) const { return cell_ == other.cell_; }  // the same cell, not only equal

 private:
  void Retain() const {
    if (cell_) cell_->references.fetch_add(1, std::memory_order_relaxed);
  }
  const T* cell_ = nullptr;
};

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace autotune
