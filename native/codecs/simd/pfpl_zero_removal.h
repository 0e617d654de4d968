// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Zero removal and its inverse (codecs/pfpl_zero_removal.h), 64 bytes at a time if the backend has AVX-512, AVX2 or
// NEON; otherwise the definition.
#pragma once

#include "codecs/pfpl_zero_removal.h"
#include "codecs/portable.h"

#if defined(H5L_AVX512)
#include "codecs/simd/pfpl_zero_removal_avx512.h"
#elif defined(H5L_AVX2)
#include "codecs/simd/pfpl_zero_removal_avx2.h"
#elif defined(H5L_NEON)
#include "codecs/simd/pfpl_zero_removal_neon.h"
#endif

#if defined(H5L_AVX512) || defined(H5L_AVX2) || defined(H5L_NEON)

namespace h5lossy::H5L_TARGET::simd {

inline constexpr u32 kPieceBytes = 64;

// `bitmap` is preceded by a zero byte; its size is a multiple of 64, or 32 followed by as many zeros.
inline u32 remove_repeats(const u8* bitmap, u32 size, u8* changes, u8* out) {
  u32 kept_bytes = 0;
  for (u32 i = 0; i < size; i += kPieceBytes) {
    u64 kept = changed_bytes(bitmap + i);
    if (size < kPieceBytes) kept &= (u64{1} << size) - 1;
    store(changes + i / 8, kept);
    if (kept == 0) continue;
    pack(bitmap + i, kept, out + kept_bytes);
    kept_bytes += count_ones(kept);
  }
  return kept_bytes;
}

inline u32 remove_zeros(const u8* stream, u32 size, u8* out) {
  // Each bitmap has room for the zero byte before it, and for whole pieces after it.
  alignas(64) u8 bitmap0[64 + kBitmap0Bytes];
  alignas(64) u8 bitmap1[64 + kBitmap1Bytes];
  alignas(64) u8 bitmap2[64 + 64] = {};
  u8 bitmap3[8];
  u32 written = 0, i = 0;
  for (; i + kPieceBytes <= size; i += kPieceBytes) {  // leading planes are all zero
    const u64 kept = nonzero_bytes(stream + i);
    if (kept != 0) break;
    store(bitmap0 + 64 + i / 8, kept);
  }
  for (; i + kPieceBytes <= size; i += kPieceBytes) {
    const u64 kept = nonzero_bytes(stream + i);
    store(bitmap0 + 64 + i / 8, kept);
    pack(stream + i, kept, out + written);
    written += count_ones(kept);
  }
  if (i < size) {
    alignas(64) u8 rest[kPieceBytes] = {};
    memcpy(rest, stream + i, size - i);
    const u64 kept = nonzero_bytes(rest);
    store(bitmap0 + 64 + i / 8, kept);
    pack(rest, kept, out + written);
    written += count_ones(kept);
    i += kPieceBytes;
  }
  if (written == 0) return 0;
  memset(bitmap0 + 64 + i / 8, 0, kBitmap0Bytes - i / 8);
  bitmap0[63] = bitmap1[63] = 0;
  written += remove_repeats(bitmap0 + 64, kBitmap0Bytes, bitmap1 + 64, out + written);
  written += remove_repeats(bitmap1 + 64, kBitmap1Bytes, bitmap2 + 64, out + written);
  written += remove_repeats(bitmap2 + 64, kBitmap2Bytes, bitmap3, out + written);
  memcpy(out + written, bitmap3, kBitmap3Bytes);
  return written + kBitmap3Bytes;
}

// The next packed bytes, and the end of the payload, past which nothing is read.
class Packed {
 public:
  Packed(const u8* next, const u8* end) : next_(next), end_(end) {}

  // Returns the next `count` bytes (at least one), at an address where 64 can be read.
  const u8* take(u32 count) {
    const u8* const taken = next_;
    next_ += count;
    if (end_ - taken >= static_cast<i64>(kPieceBytes)) [[likely]]
      return taken;
    memcpy(rest_, taken, count);
    return rest_;
  }

 private:
  const u8* next_;
  const u8* end_;
  u8 rest_[kPieceBytes] = {};
};

// `bitmap` is padded to a multiple of 64; `changes` to one of 8, with zeros.
inline void restore_repeats(const u8* changes, Packed packed, u8* bitmap, u32 size) {
  u8 last = 0;
  for (u32 i = 0; i < size; i += kPieceBytes) {
    const u64 changed = load<u64>(changes + i / 8);
    if (changed == 0) {
      memset(bitmap + i, last, kPieceBytes);
      continue;
    }
    const u32 count = count_ones(changed);
    const u8* const bytes = packed.take(count);
    unpack_repeats(bytes, changed, last, bitmap + i);
    last = bytes[count - 1];
  }
}

inline bool restore_zeros(const u8* payload, u32 payload_bytes, u8* stream, u32 size) {
  alignas(64) u8 bitmap0[kBitmap0Bytes];
  alignas(64) u8 bitmap1[kBitmap1Bytes];
  alignas(64) u8 bitmap2[64];
  u8 bitmap3[8] = {};
  const u8* const end = payload + payload_bytes;
  u32 left = payload_bytes;  // bytes before the bitmaps found so far
  if (left < kBitmap3Bytes) return false;
  left -= kBitmap3Bytes;
  memcpy(bitmap3, payload + left, kBitmap3Bytes);

  const u32 kept2 = count_ones(load<u64>(bitmap3));
  if (left < kept2) return false;
  left -= kept2;
  restore_repeats(bitmap3, Packed(payload + left, end), bitmap2, kBitmap2Bytes);

  const u32 kept1 = H5L_TARGET::count_ones(bitmap2, kBitmap2Bytes);
  if (left < kept1) return false;
  left -= kept1;
  restore_repeats(bitmap2, Packed(payload + left, end), bitmap1, kBitmap1Bytes);

  const u32 kept0 = H5L_TARGET::count_ones(bitmap1, kBitmap1Bytes);
  if (left < kept0) return false;
  left -= kept0;
  restore_repeats(bitmap1, Packed(payload + left, end), bitmap0, kBitmap0Bytes);

  if (left != H5L_TARGET::count_ones(bitmap0, kBitmap0Bytes)) return false;
  const u32 used = (size + 7) / 8;
  if (size % 8 != 0 && (bitmap0[used - 1] >> (size % 8)) != 0) return false;
  if (H5L_TARGET::count_ones(bitmap0 + used, kBitmap0Bytes - used) != 0) return false;

  u32 i = 0;
  for (; i < used; i += 8) {  // leading planes are all zero, and so is the bitmap past `used`
    if (load<u64>(bitmap0 + i) != 0) break;
    memset(stream + u64{8} * i, 0, kPieceBytes);
  }
  Packed packed(payload, end);
  for (; i < used; i += 8) {
    const u64 present = load<u64>(bitmap0 + i);
    unpack(packed.take(count_ones(present)), present, stream + u64{8} * i);
  }
  return true;
}

}  // namespace h5lossy::H5L_TARGET::simd

#else

namespace h5lossy::H5L_TARGET::simd {
using H5L_TARGET::remove_zeros;
using H5L_TARGET::restore_zeros;
}  // namespace h5lossy::H5L_TARGET::simd

#endif
