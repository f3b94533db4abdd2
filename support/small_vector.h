// SmallVector: a vector whose first N elements lie in the object, so that short lists never allocate. It has only the
// part of std::vector's interface that index arithmetic needs. Not thread-safe.
#pragma once
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace autotune {

template <class T, size_t N>
class SmallVector {
 public:
  SmallVector() = default;
  SmallVector(const SmallVector& other) {
    Reserve(other.size_);
    std::uninitialized_copy(other.begin(), other.end(), data_);
    size_ = other.size_;
  }
  SmallVector(SmallVector&& other) noexcept { Take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) *this = SmallVector(other);
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this != &other) Free(), Take(other);
    return *this;
  }
  ~SmallVector() { Free(); }

  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  template <class... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) Reserve(2 * capacity_);
    return *new (data_ + size_++) T{std::forward<Args>(args)...};
  }
  void erase(size_t i) {
    std::move(data_ + i + 1, data_ + size_, data_ + i);
    pop_back();
  }
  void pop_back() { data_[--size_].~T(); }
  void resize_down(size_t size) {
    while (size_ > size) pop_back();
  }
  void clear() { resize_down(0); }

 private:
  T* Inline() { return reinterpret_cast<T*>(storage_); }
  void Reserve(size_t n) {
    if (n <= capacity_) return;
    T* data = static_cast<T*>(::operator new(n * sizeof(T)));
    std::uninitialized_move(begin(), end(), data);
    std::destroy(begin(), end());
    if (data_ != Inline()) ::operator delete(data_);
    data_ = data;
    capacity_ = n;
  }
  void Take(SmallVector& other) {
    if (other.data_ == other.Inline()) {
      data_ = Inline();
      capacity_ = N;
      std::uninitialized_move(other.begin(), other.end(), data_);
      size_ = other.size_;
      other.clear();
    } else {
      data_ = std::exchange(other.data_, other.Inline());
      size_ = std::exchange(other.size_, 0);
      capacity_ = std::exchange(other.capacity_, N);
    }
  }
  void Free() {
    std::destroy(begin(), end());
    if (data_ != Inline()) ::operator delete(data_);
    data_ = Inline();
    size_ = 0;
    capacity_ = N;
  }

  alignas(T) unsigned char storage_[N * sizeof(T)];
  T* data_ = Inline();
  size_t size_ = 0, capacity_ = N;
};

}  // namespace autotune
