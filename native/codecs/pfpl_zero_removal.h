// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// PFPL's last stage (docs/format/pfpl.md). This scalar code is the definition; vector code in simd/ and kernels/ gives
// the same results.
#pragma once

#include "codecs/bits.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET {

// Sizes of the bitmaps for a stream of at most 16384 bytes.
inline constexpr u32 kStreamBytes = 16384;
inline constexpr u32 kBitmap0Bytes = kStreamBytes / 8;
inline constexpr u32 kBitmap1Bytes = kBitmap0Bytes / 8;
inline constexpr u32 kBitmap2Bytes = kBitmap1Bytes / 8;
inline constexpr u32 kBitmap3Bytes = kBitmap2Bytes / 8;

// Size of remove_zeros' output buffer: everything kept, plus 64 bytes, since it writes 64 at a time.
inline constexpr u32 kMaxRemovedBytes =
    kStreamBytes + kBitmap0Bytes + kBitmap1Bytes + kBitmap2Bytes + kBitmap3Bytes + 64;

// Bit i: byte i of the word (0 is the lowest) is nonzero.
H5L_FN u32 nonzero_bytes(u64 word) {
  constexpr u64 low7 = 0x7F7F7F7F7F7F7F7Full;
  const u64 top_bits = ((((word & low7) + low7) | word) & ~low7) >> 7;
  return static_cast<u32>((top_bits * 0x0102040810204080ull) >> 56);
}

// Appends the bytes of `word` selected by `kept` to `out`, in order. Writes 8 bytes, returns how many are valid.
H5L_FN u32 compact_bytes(u64 word, u32 kept, u8* out) {
  if (kept == 0xFF) {
    store(out, word);
    return 8;
  }
  u32 size = 0;
  for (u32 i = 0; i < 8; ++i) {
    out[size] = static_cast<u8>(word >> (8 * i));
    size += (kept >> i) & 1;
  }
  return size;
}

// Removes bytes of a bitmap that equal the previous one (0 before the first): appends the others to `out`, and marks
// them in `changes`. Returns the number appended. `size` is a multiple of 8.
H5L_FN u32 remove_repeats(const u8* bitmap, u32 size, u8* changes, u8* out) {
  u32 kept_bytes = 0;
  u64 last = 0;
  for (u32 i = 0; i < size; i += 8) {
    const u64 word = load<u64>(bitmap + i);
    const u32 kept = nonzero_bytes(word ^ (word << 8 | last));
    last = word >> 56;
    changes[i / 8] = static_cast<u8>(kept);
    if (kept != 0) kept_bytes += compact_bytes(word, kept, out + kept_bytes);
  }
  return kept_bytes;
}

// Removes the zero bytes of a stream: writes the nonzero ones, and four levels of bitmaps of their places. `stream` has
// `size` <= kStreamBytes bytes in a buffer of kStreamBytes, with zeros after `size` up to a multiple of 8. Returns the
// size of `out`; 0 if all bytes are zero.
H5L_FN u32 remove_zeros(const u8* stream, u32 size, u8* out) {
  u8 bitmap0[kBitmap0Bytes];
  u8 bitmap1[kBitmap1Bytes];
  u8 bitmap2[kBitmap2Bytes];
  u8 bitmap3[kBitmap3Bytes];
  u32 written = 0;
  const u32 used = (size + 7) / 8;
  for (u32 i = 0; i < used; ++i) {
    const u64 word = load<u64>(stream + 8 * i);
    if (word == 0) {  // the common case: whole planes
      bitmap0[i] = 0;
      continue;
    }
    const u32 kept = nonzero_bytes(word);
    bitmap0[i] = static_cast<u8>(kept);
    written += compact_bytes(word, kept, out + written);
  }
  if (written == 0) return 0;
  memset(bitmap0 + used, 0, kBitmap0Bytes - used);
  written += remove_repeats(bitmap0, kBitmap0Bytes, bitmap1, out + written);
  written += remove_repeats(bitmap1, kBitmap1Bytes, bitmap2, out + written);
  memset(bitmap3, 0, kBitmap3Bytes);
  written += remove_repeats(bitmap2, kBitmap2Bytes, bitmap3, out + written);
  memcpy(out + written, bitmap3, kBitmap3Bytes);
  return written + kBitmap3Bytes;
}

H5L_FN u32 count_ones(const u8* bitmap, u32 size) {
  u32 ones = 0;
  u32 i = 0;
  for (; i + 8 <= size; i += 8) ones += count_ones(load<u64>(bitmap + i));
  for (; i < size; ++i) ones += count_ones(u64{bitmap[i]});
  return ones;
}

// Inverse of remove_repeats. `kept` has one byte per one in `changes`; one more is read.
H5L_FN void restore_repeats(const u8* changes, const u8* kept, u8* bitmap, u32 size) {
  u8 last = 0;
  for (u32 i = 0; i < size; i += 8) {
    const u32 changed = changes[i / 8];
    if (changed == 0) {
      store(bitmap + i, u64{last} * 0x0101010101010101ull);
      continue;
    }
    for (u32 j = 0; j < 8; ++j) {
      const u32 is_kept = (changed >> j) & 1;
      last = is_kept ? *kept : last;
      kept += is_kept;
      bitmap[i + j] = last;
    }
  }
}

// Inverse of compact_bytes. Reads one byte more than `present` has ones.
H5L_FN u64 spread_bytes(const u8* kept, u32 present) {
  u64 word = 0;
  for (u32 i = 0; i < 8; ++i) {
    const u32 is_present = (present >> i) & 1;
    word |= (u64{*kept} & (u64{0} - is_present)) << (8 * i);
    kept += is_present;
  }
  return word;
}

// Inverse of remove_zeros: writes `size` bytes of `stream` (a buffer of kStreamBytes; the last write is rounded up to 8
// bytes). False if the payload is inconsistent. Never reads outside the payload.
H5L_FN bool restore_zeros(const u8* payload, u32 payload_bytes, u8* stream, u32 size) {
  u8 bitmap0[kBitmap0Bytes];
  u8 bitmap1[kBitmap1Bytes];
  u8 bitmap2[kBitmap2Bytes];
  u32 left = payload_bytes;  // bytes before the bitmaps found so far
  // The extra byte that restore_repeats and spread_bytes read is in the payload: at least B3 follows.
  if (left < kBitmap3Bytes) return false;
  left -= kBitmap3Bytes;
  const u8* const bitmap3 = payload + left;

  const u32 kept2 = count_ones(bitmap3, kBitmap3Bytes);
  if (left < kept2) return false;
  left -= kept2;
  restore_repeats(bitmap3, payload + left, bitmap2, kBitmap2Bytes);

  const u32 kept1 = count_ones(bitmap2, kBitmap2Bytes);
  if (left < kept1) return false;
  left -= kept1;
  restore_repeats(bitmap2, payload + left, bitmap1, kBitmap1Bytes);

  const u32 kept0 = count_ones(bitmap1, kBitmap1Bytes);
  if (left < kept0) return false;
  left -= kept0;
  restore_repeats(bitmap1, payload + left, bitmap0, kBitmap0Bytes);

  if (left != count_ones(bitmap0, kBitmap0Bytes)) return false;
  const u32 used = (size + 7) / 8;
  if (size % 8 != 0 && (bitmap0[used - 1] >> (size % 8)) != 0) return false;
  if (count_ones(bitmap0 + used, kBitmap0Bytes - used) != 0) return false;

  const u8* next = payload;
  for (u32 i = 0; i < used; ++i) {
    if (i % 8 == 0 && i + 8 <= used && load<u64>(bitmap0 + i) == 0) {
      memset(stream + 8 * i, 0, 64);
      i += 7;
      continue;
    }
    const u32 present = bitmap0[i];
    u64 word = 0;
    if (present == 0xFF) {
      word = load<u64>(next);
      next += 8;
    } else if (present != 0) {
      word = spread_bytes(next, present);
      next += count_ones(u64{present});
    }
    store(stream + 8 * i, word);
  }
  return true;
}

}  // namespace h5lossy::H5L_TARGET
