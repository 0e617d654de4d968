// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Patches: values on another fine point than their integer says (docs/format/interp.md, "Patches").
#pragma once

#include "codecs/interp/format.h"
#include "codecs/interp/values.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::interp {

struct Patch {
  u16 place;  // in the tile
  i8 delta;   // -8 to 8, not 0
};

struct Patches {
  Patch* at;
  u32 capacity;
  u32 count = 0;
};

// The code of an integer's distance from its prediction, in a closed form: the nearest number of whole units. The
// remainder becomes a patch.
H5L_FN i32 split_step(i32 distance, u32 unit_bits, i32& delta) {
  const u32 unit = 1u << unit_bits;
  const i32 code = static_cast<i32>(static_cast<u32>(distance) + unit / 2) >> unit_bits;
  delta = static_cast<i32>(static_cast<u32>(distance) - unit * static_cast<u32>(code));
  return code;
}

// Whether an integer of a closed form is far from 0, as those of exceptions may be.
H5L_FN bool is_far(i32 integer) {
  constexpr u32 limit = 1u << 20;
  return static_cast<u32>(integer) + limit > 2 * limit;
}

#if !defined(__CUDACC__)

// Appends the nonzero deltas of `begin` to `end`, except those in a mask of exceptions (null if there are none).
// `place` is that of number 0. False if there is no room.
template <class F>
H5L_INLINE bool add_patches(u32 begin, u32 end, const u32* exceptions, u32 place, Patches& patches, F delta_of) {
  for (u32 first = begin; first < end; first += kBatch) {
    const u32 n = batch_of(first, end);
    i8 deltas[kBatch] = {};
    i32 any = 0;
    for (u32 i = first; i < first + n; ++i) {
      const i32 delta = delta_of(i);
      any |= delta;
      deltas[i - first] = static_cast<i8>(delta);
    }
    if (any == 0) continue;
    for (u32 i = 0; exceptions != nullptr && i < n; i += 32) {
      for (u32 bits = exceptions[(first + i) / 32]; bits != 0; bits &= bits - 1) deltas[i + lowest_bit(bits)] = 0;
    }
    for (u32 eight = 0; eight < kBatch; eight += 8) {
      u64 word = load<u64>(reinterpret_cast<const u8*>(deltas) + eight);
      while (word != 0) {
        const u32 byte = lowest_bit(word) / 8;
        if (patches.count == patches.capacity) return false;
        patches.at[patches.count++] = {static_cast<u16>(place + first + eight + byte), deltas[eight + byte]};
        word &= ~(u64{0xFF} << (8 * byte));
      }
    }
  }
  return true;
}

// The patches of bins: kept values that are not on a bin. A kept value is at most eight fine points from its bin
// (docs/design/bound.md).
template <class T>
bool patch_bins(const Lattice<T>& lattice, const u8* values, const i32* positions, const u32* exceptions, u32 place,
                u32 count, Patches& patches) {
  return add_patches(0, count, exceptions, place, patches, [=, distance = lattice.fine](u32 i) {
    const i32 position = positions[i], fine = fine_point_of<T>(position);
    const bool is_kept = multiply(static_cast<T>(fine), distance) == load<T>(values + i * sizeof(T));
    const bool is_patched = is_kept & (position != kNone<i32>);
    return is_patched ? fine - kUnit * bin_of(position) : 0;
  });
}

// Splits the distances of integers from their predictions, in a closed form, into codes and patches, for codes `begin`
// to `end`. False if there is no room.
inline bool split_steps(i32* codes, u32 begin, u32 end, u32 unit_bits, Patches& patches) {
  return add_patches(begin, end, nullptr, 0, patches, [=](u32 i) {
    i32 delta;
    codes[i] = split_step(codes[i], unit_bits, delta);
    return delta;
  });
}

// Whether all integers of a closed form differ from each other by less than 2^22; only integers of exceptions might
// not.
inline bool are_near(const i32* integers, u32 count) {
  u32 far = 0;
  for (u32 i = 0; i < count; ++i) far |= is_far(integers[i]) ? 1 : 0;
  return far == 0;
}

#endif

}  // namespace h5lossy::H5L_TARGET::interp
