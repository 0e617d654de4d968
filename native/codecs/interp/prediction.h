// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Interp's predictions: interpolation from coarse to fine, Lorenzo differences, and the coding order of both. The
// definition is in docs/format/interp.md, "Prediction".
//
// I is i32 or i64. All arithmetic wraps, so that any payload can be decoded. Boxes are in raster order; codes and steps
// are in coding order, and padded with zeros to whole blocks.
#pragma once

#include "codecs/blocks.h"
#include "codecs/interp/grid.h"
#include "codecs/interp/units.h"

namespace h5lossy::H5L_TARGET::interp {

// Bytes of scratch memory of interpolation: for parts of levels, of 32-bit integers.
template <class I>
inline constexpr u32 kInterpolationBytes = sizeof(I) == 4 ? 352 * 1024 : 64;

// The encoder's side. `targets` are kNone for exceptions, whose codes are 0. Closed: a target is the position of the
// value, in 64ths of a fine point, and is approximated to half a unit, or exactly if it is a multiple of 64; codes are
// distances from predictions. Open: a target is the integer. Computes codes, and integers if `wants_integers`;
// otherwise, `integers` may contain anything. No closed form has 64-bit integers.
template <bool kClosed, class I>
void code_interpolation(const Shape& shape, const Rule& rule, const I* targets, I base, I* integers, I* codes,
                        u8* scratch, const Units& units = {}, bool wants_integers = true);

// The decoder's side: adds steps to predictions to get integers. The first step is not used.
template <class I>
void rebuild_interpolation(const Shape& shape, const Rule& rule, const I* steps, I base, const Grade& grade,
                           I* integers, u8* scratch);

// At most 32 bits of a mask, from bit `first` on.
inline u64 mask_bits(const u32* mask, u32 first, u32 count) {
  const u32 w = first / 32, shift = first % 32;
  const u64 next = shift + count > 32 ? mask[w + 1] : 0;
  return (mask[w] | next << 32) >> shift & blocks::first_bits(count);
}

// Brings a mask into coding order: bit i of `ordered` is the bit in `mask` of the value that is coded as number i.
void order_mask(const Shape& shape, bool is_lorenzo, const u32* mask, u32* ordered);

// Replaces exceptions (kNone) by the integer before them along x; if there is none, by the one along y, then z, then w;
// if there is none at all, by base.
template <class I>
void fill_exceptions(const Shape& shape, I base, I* integers);

// Replaces the integers of exceptions, given by a mask, by their predictions.
template <class I>
void predict_exceptions(const Shape& shape, u32 axes, const u32* mask, I* integers);

// Lorenzo differences are computed for pieces of a row with this many values: whole sub-blocks and whole vectors.
inline constexpr u32 kPieceValues = 1024;
inline constexpr u32 kLorenzoScratch = 8 * kPieceValues + kSpareCodes;  // integers

// Computes codes. `rows` is scratch memory for kLorenzoScratch integers.
template <class I>
void code_lorenzo(const Shape& shape, u32 axes, const I* integers, I* codes, I* rows);

// Takes integers of rows while they are in the cache, right after they are rebuilt: the place of the first one, and
// their number. A pointer to a function, so that prediction is compiled only once for all types of values.
template <class I>
struct TakeRows {
  const void* own;
  void (*take)(const void* own, u32 first, const I* integers, u32 count);
};

// The first step is not used.
template <class I>
void rebuild_lorenzo(const Shape& shape, u32 axes, const I* steps, I base, I* integers, const TakeRows<I>& taker);

}  // namespace h5lossy::H5L_TARGET::interp
