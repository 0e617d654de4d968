// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Ranges of chunks. Compiled once for each backend.

#include "codecs/range.h"

#include "codecs/bounds.h"

namespace h5lossy::H5L_TARGET {
namespace {

// Values are compared as integers of the same order, a vector at a time.
template <class T>
class Scan {
  using W = Word<T>;
  using Int = typename FloatTraits<T>::Int;
  using Places = Vector<Int>;

 public:
  static constexpr u32 kValues = kLanes<W>;

  // Without a fill value, use the bits of an invalid value.
  explicit Scan(const ValidValues& valid)
      : fill_(Vector<W>{} + (valid.has_fill ? static_cast<W>(valid.fill_bits) : kInfinity<T>)),
        smallest_(Vector<W>{} + W{valid.skip_zeros}) {}

  void take(const u8* values) {
    Vector<W> bits;
    memcpy(&bits, values, sizeof bits);
    const Vector<W> magnitude = bits & ~kSignBit<T>;
    const Places negative = (Places)bits >> (kWordBits<W> - 1);
    const Places place = (Places)(bits ^ ((Vector<W>)negative & ~kSignBit<T>));
    const Places is_valid = (magnitude < kInfinity<T>)&(magnitude >= smallest_) & (bits != fill_);
    const Places is_below = is_valid & (place < min_), is_above = is_valid & (place > max_);
    min_ = (place & is_below) | (min_ & ~is_below);
    max_ = (place & is_above) | (max_ & ~is_above);
    count_ -= (Vector<W>)is_valid;
  }

  [[nodiscard]] FoundRange found() const {
    Int min = min_[0], max = max_[0];
    u64 count = 0;
    for (u32 i = 0; i < kValues; ++i) {
      min = min_[i] < min ? min_[i] : min;
      max = max_[i] > max ? max_[i] : max;
      count += count_[i];
    }
    return count == 0 ? FoundRange{0, 0, 0} : FoundRange{number(min), number(max), count};
  }

 private:
  static double number(Int place) {
    const W bits = static_cast<W>(place) ^ (place < 0 ? ~kSignBit<T> : W{0});
    return static_cast<double>(bit_cast<T>(bits) + T{0});
  }

  Vector<W> fill_, smallest_;
  Vector<W> count_ = {};
  Places min_ = Places{} + static_cast<Int>(~kSignBit<T>);
  Places max_ = Places{} + static_cast<Int>(kSignBit<T>);
};

inline u32 swapped(u32 word) { return __builtin_bswap32(word); }
inline u64 swapped(u64 word) { return __builtin_bswap64(word); }

template <class T>
FoundRange range_of(const ValidValues& valid, const u8* values, u64 count) {
  using W = Word<T>;
  constexpr u32 vector = Scan<T>::kValues, some_values = 8 * vector;
  Scan<T> scan(valid);
  u64 done = 0;
  if (!valid.is_swapped) {
    for (; done + vector <= count; done += vector) scan.take(values + done * sizeof(W));
  }
  // Byte-swapped values, and the remainder that does not fill a vector. Missing lanes are infinity, which is invalid.
  while (done < count) {
    alignas(kVectorBytes) W some[some_values];
    const u32 there = count - done < some_values ? static_cast<u32>(count - done) : some_values;
    for (u32 i = there; i < some_values; ++i) some[i] = kInfinity<T>;
    memcpy(some, values + done * sizeof(W), there * sizeof(W));
    if (valid.is_swapped) {
      for (u32 i = 0; i < there; ++i) some[i] = swapped(some[i]);
    }
    for (u32 i = 0; i < some_values; i += vector) scan.take(reinterpret_cast<const u8*>(some + i));
    done += there;
  }
  return scan.found();
}

}  // namespace

extern const RangeFunctions range_functions;
const RangeFunctions range_functions = {range_of<float>, range_of<double>};

}  // namespace h5lossy::H5L_TARGET
