// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL's words (codecs/pfpl.h) a vector at a time: from values to residuals, and back. Each quantizer has a vector
// version with its constants in registers and the same words. Lanes with exceptions cost nothing if there are none.
#pragma once

#include "codecs/pfpl.h"
#include "codecs/simd/lanes.h"
#include "codecs/simd/quantizers.h"

#if defined(H5L_AVX512) || defined(H5L_AVX2)

namespace h5lossy::H5L_TARGET::simd {

template <class T>
inline Vector<Word<T>> zigzag_lanes(Vector<Word<T>> bin) {
  return (bin << 1) ^ sign_of_lanes<T>(bin);
}

template <class Q>
class Words;

// What a bin is checked against. There is a loop without cuts, because it is faster.
enum class Guarded { no, from_fill, from_all };

template <Guarded guarded, class T>
Mask<Word<T>> allowed(const GuardLanes<T>& guards, Vector<Word<T>> bits, Vector<Word<T>> rebuilt) {
  if constexpr (guarded == Guarded::from_all) return guards.allow(bits, rebuilt);
  return guards.is_not_fill(bits) & guards.is_not_fill(rebuilt);
}

template <class T>
class Words<AbsoluteQuantizer<T>> {
 public:
  using W = Word<T>;

  explicit Words(const AbsoluteQuantizer<T>& q) : lanes_(q), guards_(q) {}

  // Replaces n vectors of values by their words. `has_no_word` is set if a value has none.
  template <u32 n>
  void from_bits(Vector<W> (&bits)[n], bool& has_no_word) const {
    if (guards_.have_cuts()) return from_bits<Guarded::from_all>(bits, has_no_word);
    guards_.has_fill() ? from_bits<Guarded::from_fill>(bits, has_no_word) : from_bits<Guarded::no>(bits, has_no_word);
  }

  template <u32 n>
  void to_bits(Vector<W> (&words)[n]) const {
    Vector<W> rebuilt[n], any = {};
    for (u32 i = 0; i < n; ++i) {
      rebuilt[i] = (Vector<W>)lanes_.rebuilt(unzigzag_lanes(words[i]));
      any |= words[i];
    }
    const Vector<W> codes = all_lanes(static_cast<W>(kMantissaMask<T> + 1));
    if (all<W>(is_less(any, codes))) [[likely]] {
      for (u32 i = 0; i < n; ++i) words[i] = rebuilt[i];
    } else {
      for (u32 i = 0; i < n; ++i) words[i] = choose(is_less(words[i], codes), rebuilt[i], words[i]);
    }
  }

 private:
  struct Tried {
    Vector<W> word;
    Vector<T> difference;
    Mask<W> good;  // if the bin is also in range
  };

  template <Guarded guarded, u32 n>
  void from_bits(Vector<W> (&bits)[n], bool& has_no_word) const {
    Tried tries[n];
    for (u32 i = 0; i < n; ++i) tries[i] = try_bin<guarded>(bits[i], lanes_.nearest_bin(bits[i]));
    Mask<W> good = tries[0].good;
    Vector<W> any = tries[0].word;
    for (u32 i = 1; i < n; ++i) {
      good = good & tries[i].good;
      any |= tries[i].word;
    }
    if (all<W>(good & is_in_range(any))) [[likely]] {
      for (u32 i = 0; i < n; ++i) bits[i] = tries[i].word;
    } else {
      for (u32 i = 0; i < n; ++i) bits[i] = with_exceptions<guarded>(bits[i], has_no_word);
    }
  }

  // See bin_is_good(). A zigzag number shows whether its bin is in range, and the bitwise or of several shows it for
  // all.
  static Mask<W> is_in_range(Vector<W> word) { return is_less(word, all_lanes(static_cast<W>(2 * kBinLimit<T> - 1))); }

  template <Guarded guarded>
  Tried try_bin(Vector<W> bits, Vector<W> bin) const {
    const Vector<T> rebuilt = lanes_.rebuilt(bin);
    const Vector<T> difference = (Vector<T>)bits - rebuilt;
    Mask<W> good = lanes_.is_close(difference);
    if constexpr (guarded != Guarded::no) good = good & allowed<guarded>(guards_, bits, (Vector<W>)(rebuilt + T{0}));
    return {zigzag_lanes<T>(bin), difference, good};
  }

  // Includes the second chance of quantize(); lanes that are still not good keep their bits.
  template <Guarded guarded>
  Vector<W> with_exceptions(Vector<W> bits, bool& has_no_word) const {
    const Vector<W> bin = lanes_.nearest_bin(bits);
    const Tried first = try_bin<guarded>(bits, bin);
    const Mask<W> first_good = first.good & is_in_range(first.word);
    const Tried second = try_bin<guarded>(bits, lanes_.neighbour(bin, first.difference));
    Mask<W> second_good = second.good & is_in_range(second.word);
    if (guarded == Guarded::from_all) second_good = second_good & lanes_.is_closer(second.difference);
    // Of the exceptions, only 0 could be read as a code.
    const Mask<W> reads_as_code = is_less(bits - 1, all_lanes(kMantissaMask<T>));
    has_no_word |= !all<W>(first_good | second_good | invert<W>(reads_as_code));
    return choose(first_good, first.word, choose(second_good, second.word, bits));
  }

  AbsoluteLanes<T> lanes_;
  GuardLanes<T> guards_;
};

template <class T>
class Words<PointwiseQuantizer<T>> {
 public:
  using W = Word<T>;

  explicit Words(const PointwiseQuantizer<T>& q) : lanes_(q), guards_(q) {
    const W down = (kOne<T> - (kMantissaMask<T> + 1)) / q.scale, up = (kInfinity<T> - 1 - kOne<T>) / q.scale;
    const W lowest = down < kPointwiseBinLimit<T> ? down : kPointwiseBinLimit<T>;
    const W highest = up < kPointwiseBinLimit<T> ? up : kPointwiseBinLimit<T>;
    lowest_ = all_lanes(lowest);
    bins_ = all_lanes(lowest + highest + 1);
  }

  template <u32 n>
  void from_bits(Vector<W> (&bits)[n], bool& has_no_word) const {
    if (guards_.have_cuts()) return from_bits<Guarded::from_all>(bits, has_no_word);
    guards_.has_fill() ? from_bits<Guarded::from_fill>(bits, has_no_word) : from_bits<Guarded::no>(bits, has_no_word);
  }

  template <u32 n>
  void to_bits(Vector<W> (&words)[n]) const {
    for (u32 i = 0; i < n; ++i) words[i] = to_bits(words[i]);
  }

 private:
  Vector<W> to_bits(Vector<W> word) const {
    const Vector<W> code = word + 1;
    const Vector<W> bin = unzigzag_lanes((word - 1) >> 1);
    const Vector<W> rebuilt = (lanes_.rebuilt(bin) & ~kSignBit<T>) | code << (kWordBits<W> - 1);
    const Mask<W> is_bin = is_less(word - 1, all_lanes(static_cast<W>(kMantissaMask<T> - 1)));
    if (all<W>(is_bin)) [[likely]]
      return rebuilt;
    const Vector<W> pattern = code ^ pfpl::kCodeMask<T>;
    const Vector<W> nan = all_lanes(pfpl::kDefaultNegativeNan<T>), zero = {};
    const Vector<W> raw = choose(is_equal(pattern, zero), nan, pattern);
    return choose(is_bin, rebuilt, choose(is_equal(word, zero), zero, raw));
  }

  struct Tried {
    Vector<W> word;
    Mask<W> good;
  };

  template <Guarded guarded, u32 n>
  void from_bits(Vector<W> (&bits)[n], bool& has_no_word) const {
    Tried tries[n];
    for (u32 i = 0; i < n; ++i) tries[i] = try_bin<guarded>(bits[i]);
    Mask<W> good = tries[0].good;
    for (u32 i = 1; i < n; ++i) good = good & tries[i].good;
    if (all<W>(good)) [[likely]] {
      for (u32 i = 0; i < n; ++i) bits[i] = tries[i].word;
    } else {
      for (u32 i = 0; i < n; ++i) bits[i] = with_exceptions<guarded>(bits[i], tries[i], has_no_word);
    }
  }

  template <Guarded guarded>
  Tried try_bin(Vector<W> bits) const {
    const Vector<W> u = bits & ~kSignBit<T>;
    const Vector<W> bin = lanes_.nearest_bin(u);
    const Vector<W> zigzagged = zigzag_lanes<T>(bin);
    const Vector<W> word = zigzagged + zigzagged + 1 + (bits >> (kWordBits<W> - 1));
    Mask<W> good = is_less(bin + lowest_, bins_) & lanes_.is_normal(u);
    if constexpr (guarded != Guarded::no)
      good = good & allowed<guarded>(guards_, bits, lanes_.rebuilt(bin) | (bits & kSignBit<T>));
    return {word, good};
  }

  template <Guarded guarded>
  Vector<W> with_exceptions(Vector<W> bits, const Tried& tried, bool& has_no_word) const {
    const Vector<W> zero = {}, nan = all_lanes(pfpl::kDefaultNegativeNan<T>);
    const Mask<W> is_nan = is_equal(bits, nan);
    Mask<W> is_zero = is_equal(bits & ~kSignBit<T>, zero);
    if constexpr (guarded != Guarded::no) is_zero = is_zero & guards_.is_not_fill(bits);
    const Vector<W> raw = (choose(is_nan, zero, bits) ^ pfpl::kCodeMask<T>)-1;
    const Mask<W> reads_as_code = is_less(all_lanes(pfpl::kCodeMask<T>), bits);
    has_no_word |= !all<W>(tried.good | is_nan | invert<W>(reads_as_code));
    return choose(tried.good, tried.word, choose(is_zero, zero, raw));
  }

  PointwiseLanes<T> lanes_;
  GuardLanes<T> guards_;
  Vector<W> lowest_, bins_;  // bins start at -lowest_; their number
};

template <class T>
class Words<pfpl::NoQuantizer<T>> {
 public:
  using W = Word<T>;

  explicit Words(const pfpl::NoQuantizer<T>&) {}
  template <u32 n>
  void from_bits(Vector<W> (&)[n], bool&) const {}
  template <u32 n>
  void to_bits(Vector<W> (&)[n]) const {}
};

// Prefetching nearly doubles the speed for a chunk in memory, and costs nothing for one in a cache.
inline constexpr u32 kPrefetchDistance = 8192;

// The residuals of a run of values, a few vectors at a time.
template <class T, class Q>
class Residuals {
 public:
  using W = Word<T>;

  Residuals(const Q& q, const u8* values) : words_(q), next_(values) {}

  template <u32 n>
  void next(Vector<W> (&residuals)[n]) {
    Vector<W> words[n];
    for (u32 i = 0; i < n * kVectorBytes; i += 64) __builtin_prefetch(next_ + kPrefetchDistance + i);
    for (u32 i = 0; i < n; ++i) words[i] = load_lanes<W>(next_ + i * kVectorBytes);
    next_ += n * kVectorBytes;
    words_.from_bits(words, has_no_word_);
    for (u32 i = 0; i < n; ++i) {
      const Vector<W> difference = words[i] - shift_in(i == 0 ? last_ : words[i - 1], words[i]);
      residuals[i] = (difference + kNegabinaryMask<W>)^kNegabinaryMask<W>;
    }
    last_ = words[n - 1];
  }

  [[nodiscard]] bool all_have_words() const { return !has_no_word_; }
  [[nodiscard]] W last_word() const { return last_[kLanes<W> - 1]; }

 private:
  Words<Q> words_;
  const u8* next_;
  Vector<W> last_ = {};
  bool has_no_word_ = false;
};

// Inverse of Residuals: takes them in order, and writes the values.
template <class T, class Q>
class Values {
 public:
  using W = Word<T>;

  Values(const Q& q, u8* values, bool non_temporal)
      : words_(q), next_(values), stores_(non_temporal ? non_temporal_stores(values) : Stores::plain) {}

  // kNegabinaryMask is already flipped in `residuals`.
  template <u32 n>
  void take(Vector<W> (&residuals)[n]) {
    Vector<W> words[n];
    for (u32 i = 0; i < n; ++i) {
      const Vector<W> sums = sum_lanes(residuals[i] - kNegabinaryMask<W>);
      words[i] = sums + last_;
      last_ += last_lane(sums);  // the loop-carried dependency is one addition
    }
    words_.to_bits(words);
    for (u32 i = 0; i < n; ++i) store_lanes(next_ + i * kVectorBytes, words[i], stores_);
    next_ += n * kVectorBytes;
  }

  [[nodiscard]] W last_word() const { return last_[0]; }

 private:
  Words<Q> words_;
  u8* next_;
  Stores stores_;
  Vector<W> last_ = {};  // in all lanes
};

}  // namespace h5lossy::H5L_TARGET::simd

#else

namespace h5lossy::H5L_TARGET::simd {

template <class T, class Q>
struct Residuals {
  Residuals(const Q&, const u8*) {}
  [[nodiscard]] bool all_have_words() const { return true; }
  [[nodiscard]] Word<T> last_word() const { return 0; }
};

template <class T, class Q>
struct Values {
  Values(const Q&, u8*, bool) {}
  [[nodiscard]] Word<T> last_word() const { return 0; }
};

}  // namespace h5lossy::H5L_TARGET::simd

#endif
