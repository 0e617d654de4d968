// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Zero removal and its inverse (codecs/bits.h): 64 bytes at a time where the backend has AVX-512 VBMI2, with tables of byte
// numbers where it has NEON; else the definition itself.
#pragma once

#include "codecs/bits.h"
#include "codecs/portable.h"

#if defined(__AVX512VBMI2__) && defined(__AVX512VBMI__) && defined(__AVX512BITALG__)
#include <immintrin.h>

namespace h5lossy::H5L_TARGET::simd {

inline __mmask64 first_lanes(u32 count) { return count >= 64 ? ~u64{0} : (u64{1} << count) - 1; }

// Appends the bytes that `kept` names. Writes 64 bytes.
inline u32 append(__m512i bytes, u64 kept, u8* out) {
  // In a register: compressing to memory takes a hundred cycles on some processors.
  _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(kept, bytes));
  return count_ones(kept);
}

// `bitmap` has a zero byte in front, and is padded with anything to a multiple of 64.
inline u32 remove_repeats(const u8* bitmap, u32 size, u8* changes, u8* out) {
  u32 kept_bytes = 0;
  for (u32 i = 0; i < size; i += 64) {
    const __m512i bytes = _mm512_loadu_si512(bitmap + i);
    const __m512i before = _mm512_loadu_si512(bitmap + i - 1);
    const u64 kept = _mm512_mask_cmpneq_epi8_mask(first_lanes(size - i), bytes, before);
    store(changes + i / 8, kept);
    kept_bytes += append(bytes, kept, out + kept_bytes);
  }
  return kept_bytes;
}

inline u32 remove_zeros(const u8* stream, u32 size, u8* out) {
  // Each bitmap with room for its zero byte in front, and for whole vectors behind.
  alignas(64) u8 bitmap0[64 + kBitmap0Bytes];
  alignas(64) u8 bitmap1[64 + kBitmap1Bytes];
  alignas(64) u8 bitmap2[64 + 64];
  u8 bitmap3[8] = {};
  u32 written = 0, i = 0;
  for (; i + 64 <= size; i += 64) {
    const __m512i bytes = _mm512_loadu_si512(stream + i);
    const u64 kept = _mm512_test_epi8_mask(bytes, bytes);
    store(bitmap0 + 64 + i / 8, kept);
    if (kept != 0) written += append(bytes, kept, out + written);
  }
  if (i < size) {
    const __m512i bytes = _mm512_maskz_loadu_epi8(first_lanes(size - i), stream + i);
    const u64 kept = _mm512_test_epi8_mask(bytes, bytes);
    store(bitmap0 + 64 + i / 8, kept);
    written += append(bytes, kept, out + written);
    i += 64;
  }
  if (written == 0) return 0;
  memset(bitmap0 + 64 + i / 8, 0, kBitmap0Bytes - i / 8);
  bitmap0[63] = bitmap1[63] = bitmap2[63] = 0;
  written += remove_repeats(bitmap0 + 64, kBitmap0Bytes, bitmap1 + 64, out + written);
  written += remove_repeats(bitmap1 + 64, kBitmap1Bytes, bitmap2 + 64, out + written);
  written += remove_repeats(bitmap2 + 64, kBitmap2Bytes, bitmap3, out + written);
  memcpy(out + written, bitmap3, kBitmap3Bytes);
  return written + kBitmap3Bytes;
}

// For each bit of a mask, how many ones there are up to it and with it.
inline __m512i running_ones(u64 mask) {
  const __m512i byte_of_lane =
      _mm512_set_epi64(0x0707070707070707, 0x0606060606060606, 0x0505050505050505, 0x0404040404040404,
                       0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
  const __m512i up_to_lane = _mm512_set1_epi64(static_cast<i64>(0xFF7F3F1F0F070301ull));
  const __m512i in_byte = _mm512_popcnt_epi8(
      _mm512_and_si512(_mm512_permutexvar_epi8(byte_of_lane, _mm512_set1_epi64(static_cast<i64>(mask))), up_to_lane));
  // The number of ones in each byte of the mask, summed up over the bytes in front.
  u64 ones = mask - (mask >> 1 & 0x5555555555555555ull);
  ones = (ones & 0x3333333333333333ull) + (ones >> 2 & 0x3333333333333333ull);
  ones = (ones + (ones >> 4)) & 0x0F0F0F0F0F0F0F0Full;
  const u64 in_front = (ones * 0x0101010101010101ull) << 8;
  return _mm512_add_epi8(in_byte, _mm512_permutexvar_epi8(byte_of_lane, _mm512_set1_epi64(static_cast<i64>(in_front))));
}

// `bitmap` is padded to a multiple of 64; so is `changes` to one of 8.
inline void restore_repeats(const u8* changes, const u8* kept, u8* bitmap, u32 size) {
  __m512i last = _mm512_setzero_si512();
  for (u32 i = 0; i < size; i += 64) {
    const u32 lanes = size - i < 64 ? size - i : 64;
    const u64 changed = load<u64>(changes + i / 8) & first_lanes(lanes);
    if (changed == 0) {
      _mm512_storeu_si512(bitmap + i, last);
      continue;
    }
    const u32 count = count_ones(changed);
    const __m512i bytes = _mm512_maskz_loadu_epi8(first_lanes(count), kept);
    // Lane j takes the byte that its running number names, counted from 1; 0 is the last one of before.
    const __m512i number = running_ones(changed);
    const __m512i taken = _mm512_permutexvar_epi8(_mm512_sub_epi8(number, _mm512_set1_epi8(1)), bytes);
    const __m512i restored = _mm512_mask_mov_epi8(last, _mm512_test_epi8_mask(number, number), taken);
    _mm512_storeu_si512(bitmap + i, restored);
    kept += count;
    last = _mm512_set1_epi8(static_cast<char>(kept[-1]));
  }
}

inline bool restore_zeros(const u8* payload, u32 payload_bytes, u8* stream, u32 size) {
  alignas(64) u8 bitmap0[kBitmap0Bytes];
  alignas(64) u8 bitmap1[kBitmap1Bytes];
  alignas(64) u8 bitmap2[64];
  u8 bitmap3[8] = {};
  u32 left = payload_bytes;  // what stands before the bitmaps found so far
  if (left < kBitmap3Bytes) return false;
  left -= kBitmap3Bytes;
  memcpy(bitmap3, payload + left, kBitmap3Bytes);

  const u32 kept2 = count_ones(load<u64>(bitmap3));
  if (left < kept2) return false;
  left -= kept2;
  restore_repeats(bitmap3, payload + left, bitmap2, kBitmap2Bytes);

  const u32 kept1 = H5L_TARGET::count_ones(bitmap2, kBitmap2Bytes);
  if (left < kept1) return false;
  left -= kept1;
  restore_repeats(bitmap2, payload + left, bitmap1, kBitmap1Bytes);

  const u32 kept0 = H5L_TARGET::count_ones(bitmap1, kBitmap1Bytes);
  if (left < kept0) return false;
  left -= kept0;
  restore_repeats(bitmap1, payload + left, bitmap0, kBitmap0Bytes);

  if (left != H5L_TARGET::count_ones(bitmap0, kBitmap0Bytes)) return false;
  const u32 used = (size + 7) / 8;
  if (size % 8 != 0 && (bitmap0[used - 1] >> (size % 8)) != 0) return false;
  if (H5L_TARGET::count_ones(bitmap0 + used, kBitmap0Bytes - used) != 0) return false;

  const u8* next = payload;
  for (u32 i = 0; i < used; i += 8) {
    const u64 present = load<u64>(bitmap0 + i);  // zero behind `used`
    __m512i bytes = _mm512_setzero_si512();
    if (present != 0) {
      const u32 count = count_ones(present);
      bytes = _mm512_maskz_expand_epi8(present, _mm512_maskz_loadu_epi8(first_lanes(count), next));
      next += count;
    }
    _mm512_storeu_si512(stream + 8 * i, bytes);
  }
  return true;
}

}  // namespace h5lossy::H5L_TARGET::simd

#elif defined(H5L_NEON)

#include "simd/zeros_neon.h"

#else

namespace h5lossy::H5L_TARGET::simd {
inline u32 remove_zeros(const u8* stream, u32 size, u8* out) { return H5L_TARGET::remove_zeros<>(stream, size, out); }

inline bool restore_zeros(const u8* payload, u32 payload_bytes, u8* stream, u32 size) {
  return H5L_TARGET::restore_zeros<>(payload, payload_bytes, stream, size);
}
}  // namespace h5lossy::H5L_TARGET::simd

#endif
