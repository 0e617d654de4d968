// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Zero removal and its inverse (codecs/pfpl_zero_removal.h), 64 bytes at a time if the backend has AVX-512 VBMI2, AVX2
// or NEON; otherwise the definition. First the operations on 64 bytes for each of them, then the common code.
#pragma once

#include "codecs/pfpl_zero_removal.h"
#include "codecs/portable.h"

#if defined(__AVX512VBMI2__) && defined(__AVX512VBMI__) && defined(__AVX512BITALG__)
#include <immintrin.h>
#define H5L_HAS_PIECES 1

namespace h5lossy::H5L_TARGET::simd {

// Bit i: byte i is nonzero.
inline u64 nonzero_bytes(const u8* piece) {
  const __m512i bytes = _mm512_loadu_si512(piece);
  return _mm512_test_epi8_mask(bytes, bytes);
}

// Bit i: byte i differs from the previous one.
inline u64 changed_bytes(const u8* piece) {
  return _mm512_cmpneq_epi8_mask(_mm512_loadu_si512(piece), _mm512_loadu_si512(piece - 1));
}

// Packs the bytes selected by `kept`. Writes 64 bytes.
inline void pack(const u8* piece, u64 kept, u8* out) {
  // In a register: compressing to memory takes a hundred cycles on some processors.
  _mm512_storeu_si512(out, _mm512_maskz_compress_epi8(kept, _mm512_loadu_si512(piece)));
}

// Inverse of pack, with zeros between. Reads 64 bytes.
inline void unpack(const u8* packed, u64 kept, u8* piece) {
  _mm512_storeu_si512(piece, _mm512_maskz_expand_epi8(kept, _mm512_loadu_si512(packed)));
}

// For each bit of a mask, the number of ones up to and including it.
inline __m512i running_ones(u64 mask) {
  const __m512i byte_of_lane =
      _mm512_set_epi64(0x0707070707070707, 0x0606060606060606, 0x0505050505050505, 0x0404040404040404,
                       0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
  const __m512i up_to_lane = _mm512_set1_epi64(static_cast<i64>(0xFF7F3F1F0F070301ull));
  const __m512i in_byte = _mm512_popcnt_epi8(
      _mm512_and_si512(_mm512_permutexvar_epi8(byte_of_lane, _mm512_set1_epi64(static_cast<i64>(mask))), up_to_lane));
  // The number of ones in each byte of the mask, summed over the preceding bytes.
  u64 ones = mask - (mask >> 1 & 0x5555555555555555ull);
  ones = (ones & 0x3333333333333333ull) + (ones >> 2 & 0x3333333333333333ull);
  ones = (ones + (ones >> 4)) & 0x0F0F0F0F0F0F0F0Full;
  const u64 in_front = (ones * 0x0101010101010101ull) << 8;
  return _mm512_add_epi8(in_byte, _mm512_permutexvar_epi8(byte_of_lane, _mm512_set1_epi64(static_cast<i64>(in_front))));
}

// Inverse of pack, repeating the previous byte between; `last` is the byte before the piece. Reads 64 bytes.
inline void unpack_repeats(const u8* packed, u64 kept, u8 last, u8* piece) {
  // Lane j takes the byte with its running number, counted from 1; 0 is `last`.
  const __m512i number = running_ones(kept);
  const __m512i taken =
      _mm512_permutexvar_epi8(_mm512_sub_epi8(number, _mm512_set1_epi8(1)), _mm512_loadu_si512(packed));
  const __m512i before = _mm512_set1_epi8(static_cast<char>(last));
  _mm512_storeu_si512(piece, _mm512_mask_mov_epi8(before, _mm512_test_epi8_mask(number, number), taken));
}

}  // namespace h5lossy::H5L_TARGET::simd

#elif defined(__AVX2__) && !defined(__AVX512F__)
#include <immintrin.h>

#include "codecs/simd/shuffles.h"
#define H5L_HAS_PIECES 1

namespace h5lossy::H5L_TARGET::simd {

inline __m128i load_eight(const u8* from) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)); }
inline __m256i load_half(const u8* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }

inline void store_shuffled(__m128i bytes, const Shuffles& shuffles, u64 mask, u8* out) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm_shuffle_epi8(bytes, load_eight(shuffles.sources[mask])));
}

inline u64 equal_bytes(const u8* a, __m256i low, __m256i high) {
  const u32 first = static_cast<u32>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(load_half(a), low)));
  const u32 second = static_cast<u32>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(load_half(a + 32), high)));
  return first | u64{second} << 32;
}

inline u64 nonzero_bytes(const u8* piece) {
  return ~equal_bytes(piece, _mm256_setzero_si256(), _mm256_setzero_si256());
}

inline u64 changed_bytes(const u8* piece) { return ~equal_bytes(piece, load_half(piece - 1), load_half(piece + 31)); }

inline void pack(const u8* piece, u64 kept, u8* out) {
  for (u32 i = 0; i < 64; i += 8, kept >>= 8) {
    store_shuffled(load_eight(piece + i), kPacked, kept & 0xFF, out);
    out += count_ones(kept & 0xFF);
  }
}

inline void unpack(const u8* packed, u64 kept, u8* piece) {
  for (u32 i = 0; i < 64; i += 8, kept >>= 8) {
    store_shuffled(load_eight(packed), kUnpacked, kept & 0xFF, piece + i);
    packed += count_ones(kept & 0xFF);
  }
}

inline void unpack_repeats(const u8* packed, u64 kept, u8 last, u8* piece) {
  for (u32 i = 0; i < 64; i += 8, kept >>= 8) {
    const __m128i bytes = _mm_insert_epi8(_mm_slli_si128(load_eight(packed), 1), last, 0);
    store_shuffled(bytes, kRepeated, kept & 0xFF, piece + i);
    const u32 count = count_ones(kept & 0xFF);
    if (count != 0) last = packed[count - 1];
    packed += count;
  }
}

}  // namespace h5lossy::H5L_TARGET::simd

#elif defined(H5L_NEON)
#include <arm_neon.h>

#include "codecs/simd/shuffles.h"
#define H5L_HAS_PIECES 1

namespace h5lossy::H5L_TARGET::simd {

// Bit i: byte i of the piece is true, from four vectors of 0 and 0xFF.
inline u64 mask_of(const uint8x16_t (&is_true)[4]) {
  const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201ull));
  uint8x16_t masked[4];
  for (u32 i = 0; i < 4; ++i) masked[i] = vandq_u8(is_true[i], bits);
  const uint8x16_t sums = vpaddq_u8(vpaddq_u8(masked[0], masked[1]), vpaddq_u8(masked[2], masked[3]));
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)), 0);
}

inline u64 nonzero_bytes(const u8* piece) {
  uint8x16_t is_true[4];
  for (u32 i = 0; i < 4; ++i) {
    const uint8x16_t bytes = vld1q_u8(piece + 16 * i);
    is_true[i] = vtstq_u8(bytes, bytes);
  }
  return mask_of(is_true);
}

inline u64 changed_bytes(const u8* piece) {
  uint8x16_t is_equal[4];
  for (u32 i = 0; i < 4; ++i) is_equal[i] = vceqq_u8(vld1q_u8(piece + 16 * i), vld1q_u8(piece + 16 * i - 1));
  return ~mask_of(is_equal);
}

// Byte i: the number of ones in the mask's bytes before byte i.
inline u64 ones_before(u64 mask) {
  return vget_lane_u64(vreinterpret_u64_u8(vcnt_u8(vcreate_u8(mask))), 0) * 0x0101010101010100ull;
}

inline uint8x8_t sources_of(const Shuffles& shuffles, u64 mask) { return vld1_u8(shuffles.sources[mask & 0xFF]); }

inline void pack(const u8* piece, u64 kept, u8* out) {
  u64 before = ones_before(kept);
  for (u32 i = 0; i < 64; i += 8, kept >>= 8, before >>= 8) {
    vst1_u8(out + (before & 0xFF), vtbl1_u8(vld1_u8(piece + i), sources_of(kPacked, kept)));
  }
}

inline void unpack(const u8* packed, u64 kept, u8* piece) {
  u64 before = ones_before(kept);
  for (u32 i = 0; i < 64; i += 8, kept >>= 8, before >>= 8) {
    vst1_u8(piece + i, vtbl1_u8(vld1_u8(packed + (before & 0xFF)), sources_of(kUnpacked, kept)));
  }
}

inline void unpack_repeats(const u8* packed, u64 kept, u8 last, u8* piece) {
  u64 before = ones_before(kept);
  for (u32 i = 0; i < 64; i += 8, kept >>= 8, before >>= 8) {
    const u8* const from = packed + (before & 0xFF);
    const uint8x16_t bytes = vextq_u8(vdupq_n_u8(last), vcombine_u8(vld1_u8(from), vdup_n_u8(0)), 15);
    const uint8x8_t restored = vqtbl1_u8(bytes, sources_of(kRepeated, kept));
    vst1_u8(piece + i, restored);
    last = vget_lane_u8(restored, 7);
  }
}

}  // namespace h5lossy::H5L_TARGET::simd

#else
#define H5L_HAS_PIECES 0
#endif

#if H5L_HAS_PIECES

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
