// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL on a CPU: the loop over the values of one tile. Compiled once for each backend.

#include "codecs/pfpl.h"

#include "codecs/codec.h"
#include "codecs/groups.h"
#include "codecs/simd/pfpl_planes.h"
#include "codecs/simd/pfpl_words.h"
#include "codecs/simd/pfpl_zero_removal.h"
#include "codecs/simd/sums.h"

namespace h5lossy::H5L_TARGET {

namespace pfpl_integers {
extern const Codec codec;
}

namespace pfpl {
namespace {

// Computes the words of `count` values; false if one has none.
template <class Q, class T>
bool words_of_any(const Q& q, const u8* values, u32 count, Word<T>* words) {
  bool all_have_words = true;
  for (u32 i = 0; i < count; ++i) {
    all_have_words &= word_of(q, load<Word<T>>(values + i * sizeof(T)), words[i]);
  }
  return all_have_words;
}

// Quantizes a group in the common case; false if quantize() has to decide about a value.
template <class T>
bool words_of_group(const AbsoluteQuantizer<T>& q, const u8* group, Word<T>* words) {
  constexpr u32 n = kGroupValues<T>;
  const bool all_good = bins_of_group<n>(q, group, words);
  for (u32 i = 0; i < n; ++i) words[i] = zigzag(words[i]);
  return all_good;
}

template <class T>
bool words_of_group(const NoQuantizer<T>&, const u8* group, Word<T>* words) {
  memcpy(words, group, kGroupValues<T> * sizeof(T));
  return true;
}

template <class T>
bool words_of_group(const PointwiseQuantizer<T>&, const u8*, Word<T>*) {
  return false;
}

template <class T, class Q>
bool words_of(const Q& q, const u8* values, u32 count, Word<T>* words) {
  constexpr u32 n = kGroupValues<T>;
  u32 done = 0;
  for (; done + n <= count; done += n) {
    const u8* const group = values + done * sizeof(T);
    if (!words_of_group(q, group, words + done) && !words_of_any<Q, T>(q, group, n, words + done)) return false;
  }
  return words_of_any<Q, T>(q, values + done * sizeof(T), count - done, words + done);
}

// Differences of neighbours in negabinary; `before` is the word before the first.
template <class W>
void difference(const W* words, u32 count, W before, W* residuals) {
  if (count == 0) return;
  residuals[0] = to_negabinary(static_cast<W>(words[0] - before));
  for (u32 i = 1; i < count; ++i) residuals[i] = to_negabinary(static_cast<W>(words[i] - words[i - 1]));
}

// Bit planes of the groups from `first` on, of `groups` in all, most significant plane first. One group per vector lane
// is transposed at once. `words` begin with group `first`.
template <class W>
void to_planes(const W* words, u32 first, u32 groups, W* planes) {
  constexpr u32 n = kWordBits<W>;
  for (; first < groups; first += kLanes<W>, words += n * kLanes<W>) {
    const u32 lanes = groups - first < kLanes<W> ? groups - first : kLanes<W>;
    alignas(kVectorBytes) W gathered[n][kLanes<W>];
    W used_bits = 0;
    for (u32 lane = 0; lane < kLanes<W>; ++lane) {
      const W* group = words + (lane < lanes ? lane : 0) * n;  // idle lanes repeat group `first`
      for (u32 i = 0; i < n; ++i) {
        gathered[i][lane] = group[i];
        used_bits |= group[i];
      }
    }
    Vector<W> rows[n];
    memcpy(rows, gathered, sizeof rows);
    const u32 zero_rows = used_bits == 0 ? n : count_leading_zeros(used_bits);
    if (used_bits != 0) transpose_to_planes<W>(rows, zero_rows);
    for (u32 j = 0; j < n; ++j) memcpy(planes + j * groups + first, &rows[j], lanes * sizeof(W));
  }
}

// The number of leading planes that are zero in all groups.
template <class W>
u32 count_zero_rows(const W* planes, u32 groups) {
  for (u32 j = 0; j < kWordBits<W>; ++j) {
    W used_bits = 0;
    for (u32 g = 0; g < groups; ++g) used_bits |= planes[j * groups + g];
    if (used_bits != 0) return j;
  }
  return kWordBits<W>;
}

// Inverse of to_planes.
template <class W>
void from_planes(const W* planes, u32 first, u32 groups, W* words) {
  constexpr u32 n = kWordBits<W>;
  const u32 zero_rows = first < groups ? count_zero_rows(planes, groups) : 0;
  for (; first < groups; first += kLanes<W>, words += n * kLanes<W>) {
    const u32 lanes = groups - first < kLanes<W> ? groups - first : kLanes<W>;
    Vector<W> rows[n] = {};
    for (u32 j = zero_rows; j < n; ++j) memcpy(&rows[j], planes + j * groups + first, lanes * sizeof(W));
    if (zero_rows < n) transpose_from_planes<W>(rows, zero_rows);
    for (u32 lane = 0; lane < lanes; ++lane) {
      for (u32 i = 0; i < n; ++i) words[lane * n + i] = rows[i][lane];
    }
  }
}

template <class T>
struct Words {
  alignas(64) Word<T> planes[kTileValues<T>], words[kTileValues<T>], residuals[kTileValues<T>];
};

template <class T, class Q>
u32 encode_with(const Q& q, const u8* values, u32 count, u8* payload, Words<T>& workspace) {
  using W = Word<T>;
  constexpr u32 n = kGroupValues<T>;
  if (count == 0) return kStoreTile;
  auto& [planes, words, residuals] = workspace;
  const u32 groups = count / n;
  simd::Residuals<T, Q> first_residuals(q, values);
  const u32 first = simd::to_planes(groups, first_residuals, planes);
  if (!first_residuals.all_have_words()) return kStoreTile;
  if (const u32 rest = count - first * n; rest != 0) {
    if (!words_of<T>(q, values + first * n * sizeof(T), rest, words)) return kStoreTile;
    difference(words, rest, first_residuals.last_word(), residuals);
    to_planes(residuals, first, groups, planes);
    const u32 ungrouped = count - groups * n;  // words past the last whole group stay as they are
    memcpy(planes + groups * n, residuals + (rest - ungrouped), ungrouped * sizeof(W));
  }
  if (count % 2 != 0 && count < kTileValues<T>) planes[count] = 0;  // zero removal reads eight bytes at a time
  const u32 raw_bytes = count * static_cast<u32>(sizeof(T));
  const u32 size = simd::remove_zeros(reinterpret_cast<const u8*>(planes), raw_bytes, payload);
  return size < raw_bytes ? size : kStoreTile;
}

template <class T, class Q>
bool decode_with(const Q& q, const Tile& tile, const u8* payload, u32 payload_bytes, u8* values, Words<T>& workspace) {
  using W = Word<T>;
  constexpr u32 n = kGroupValues<T>;
  auto& [planes, words, residuals] = workspace;
  const u32 count = tile.count, raw_bytes = count * static_cast<u32>(sizeof(T));
  if (!simd::restore_zeros(payload, payload_bytes, reinterpret_cast<u8*>(planes), raw_bytes)) return false;
  const u32 groups = count / n;
  simd::Values<T, Q> first_values(q, values, tile.non_temporal);
  const u32 first = simd::from_planes(planes, groups, first_values);
  if (const u32 rest = count - first * n; rest != 0) {
    from_planes(planes, first, groups, words);
    const u32 ungrouped = count - groups * n;
    memcpy(words + (rest - ungrouped), planes + groups * n, ungrouped * sizeof(W));
    for (u32 i = 0; i < rest; ++i) words[i] = from_negabinary<W>(words[i]);
    simd::running_sums(words, rest, first_values.last_word());
    for (u32 i = 0; i < rest; ++i) words[i] = bits_of(q, words[i]);
    memcpy(values + first * n * sizeof(T), words, rest * sizeof(T));
  }
  return true;
}

template <class T>
u32 encode(const Quantizer& quantizer, u32, const Tile& tile, const u8* values, u8* payload, u8* workspace) {
  auto& words = *reinterpret_cast<Words<T>*>(workspace);
  return with_quantizer<T>(quantizer,
                           [&](const auto& q) { return encode_with<T>(q, values, tile.count, payload, words); });
}

template <class T>
bool decode(const Quantizer& quantizer, u32, const Tile& tile, const u8* payload, u32 payload_bytes, u8* values,
            u8* workspace) {
  auto& words = *reinterpret_cast<Words<T>*>(workspace);
  return with_quantizer<T>(
      quantizer, [&](const auto& q) { return decode_with<T>(q, tile, payload, payload_bytes, values, words); });
}

bool has_mode(u32 requested) { return requested == 0; }
u32 choose_mode(const Chunk&, u32, u8*) { return 0; }
u32 header_dims(u32 mode) { return mode == 0 ? 0 : kNoMode; }
TileLayout layout(u32, u32 value_bytes, const u32 (&)[kAxes]) {
  return {.box = {1, 1, 1, value_bytes == 8 ? kTileValues<double> : kTileValues<float>}};
}

}  // namespace

extern const Codec codec;
const Codec codec = {
    .spare_bytes = kMaxRemovedBytes - kTileBytes,
    .has_lossless = true,
    .has_mode = has_mode,
    .choose_mode = H5L_ENCODER(choose_mode),
    .header_dims = header_dims,
    .layout = layout,
    .float32 = {sizeof(Words<float>), H5L_ENCODER(encode<float>), decode<float>},
    .float64 = {sizeof(Words<double>), H5L_ENCODER(encode<double>), decode<double>},
    .for_integers = &pfpl_integers::codec,
};

}  // namespace pfpl
}  // namespace h5lossy::H5L_TARGET
