// Thread rule: values; the memory may be used from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/result.h"

namespace ondol {

/// Zeroed memory straight from the system, taken as it is first written.
class AnonymousMemory {
 public:
  AnonymousMemory() = default;
  /// Reserves address space; kNoMemory where the system refuses. With `large_pages` these are asked
  /// for: whoever streams through gigabytes would else spend a good part of the time on page
  /// tables, but memory is taken in larger steps.
  static Result<AnonymousMemory> create(size_t bytes, bool large_pages = false);
  ~AnonymousMemory();
  AnonymousMemory(AnonymousMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  AnonymousMemory& operator=(AnonymousMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::byte* data() const { return data_; }  ///< on a page's boundary; null where nothing is held
  size_t size() const { return size_; }

 private:
  AnonymousMemory(std::byte* data, size_t size) : data_(data), size_(size) {}
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace ondol
