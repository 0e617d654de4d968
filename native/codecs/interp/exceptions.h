// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The parts of Interp's payload that say which values are exceptions, and which are patched. The format is in
// docs/format/interp.md, "Exceptions" and "Patches".
//
// A mask has a bit for each value of a tile, in raster order, in words of 32; bits behind the last value are 0.
#pragma once

#include "codecs/blocks.h"
#include "codecs/interp/format.h"
#include "codecs/interp/values.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::interp {

inline constexpr u32 kMaskBits = 32;
inline constexpr u32 kMaxMaskWords = kTileValues / kMaskBits;
H5L_FN constexpr u32 mask_words(u32 count) { return (count + kMaskBits - 1) / kMaskBits; }

// The bits of word w of a mask that have a value.
H5L_FN u32 inside_of(u32 w, u32 count) {
  return static_cast<u32>(blocks::first_bits(count - w * kMaskBits < kMaskBits ? count - w * kMaskBits : kMaskBits));
}

// ---------------------------------------------------------------------------------------------------------------------
// Masks

// One bit for each of up to 32 numbers that equal `number`. The flags are collected as bytes, since few instruction
// sets shift each lane by its own count; each product moves eight of them into its highest byte.
template <class W>
H5L_FN u32 equal_bits(const u8* numbers, u32 count, W number) {
  u8 flags[kMaskBits] = {};
  for (u32 i = 0; i < count; ++i) flags[i] = load<W>(numbers + i * sizeof(W)) == number ? 1 : 0;
  u64 bits = 0;
  for (u32 i = 0; i < kMaskBits; i += 8) bits |= (load<u64>(flags + i) * 0x0102040810204080u >> 56) << i;
  return static_cast<u32>(bits);
}

// The values that have no integer.
template <class I>
void find_exceptions(const I* integers, u32 count, u32* mask) {
  for (u32 first = 0; first < count; first += kMaskBits) {
    const u8* const from = reinterpret_cast<const u8*>(integers + first);
    const u32 n = count - first;
    mask[first / kMaskBits] = n >= kMaskBits ? equal_bits(from, kMaskBits, kNone<I>) : equal_bits(from, n, kNone<I>);
  }
}

// What is written of a mask: the bits that differ from those `stride` values before. Stride 0: the mask itself.
inline void find_changes(const u32* mask, u32 count, u32 stride, u32* changes) {
  const u32 words = mask_words(count);
  memcpy(changes, mask, words * sizeof(u32));
  if (stride == 0) return;
  const u32 moved = stride / kMaskBits, bits = stride % kMaskBits;
  for (u32 w = moved; w < words; ++w) changes[w] ^= mask[w - moved] << bits;
  if (bits != 0) {
    for (u32 w = moved + 1; w < words; ++w) changes[w] ^= mask[w - moved - 1] >> (kMaskBits - bits);
  }
  changes[words - 1] &= inside_of(words - 1, count);
}

// Its inverse, in place: bit i becomes the sum, modulo 2, of bits i, i - stride, i - 2 stride, ...
inline void undo_changes(u32 count, u32 stride, u32* mask) {
  if (stride == 0) return;
  const u32 words = mask_words(count), moved = stride / kMaskBits, bits = stride % kMaskBits;
  for (u32 w = 0; w < words; ++w) {
    u32 word = mask[w];
    if (moved > 0) {  // by words that are done
      if (w >= moved) word ^= mask[w - moved] << bits;
      if (w > moved && bits != 0) word ^= mask[w - moved - 1] >> (kMaskBits - bits);
    } else {
      if (w > 0) word ^= mask[w - 1] >> (kMaskBits - bits);
      for (u32 s = bits; s < kMaskBits; s *= 2) word ^= word << s;
    }
    mask[w] = word;
  }
  mask[words - 1] &= inside_of(words - 1, count);
}

inline u32 measure_bitmap(const u32* mask, u32 count) {
  const u32 words = mask_words(count);
  u32 items = 1, first = 0;
  for (; first + 32 <= words; first += 32) {
    u32 present = 0;
    for (u32 w = first; w < first + 32; ++w) present += mask[w] != 0 ? 1 : 0;
    items += present + (present != 0 ? 1 : 0);
  }
  u32 present = 0;
  for (; first < words; ++first) present += mask[first] != 0 ? 1 : 0;
  return 4 * (items + present + (present != 0 ? 1 : 0));
}

inline u8* write_bitmap(const u32* mask, u32 count, u8* out) {
  const u32 words = mask_words(count);
  u32 groups = 0;
  u32 present[kMaxMaskWords / 32];
  for (u32 first = 0; first < words; first += 32) {
    const u32 n = words - first < 32 ? words - first : 32;
    u32 bits = 0;
    for (u32 w = 0; w < n; ++w) bits |= (mask[first + w] != 0 ? u32{1} : 0) << w;
    present[first / 32] = bits;
    groups |= (bits != 0 ? u32{1} : 0) << (first / 32);
  }
  store(out, groups);
  out += 4;
  for (u32 left = groups; left != 0; left &= left - 1, out += 4) store(out, present[lowest_bit(left)]);
  for (; groups != 0; groups &= groups - 1) {
    const u32 group = lowest_bit(groups);
    for (u32 left = present[group]; left != 0; left &= left - 1, out += 4) {
      store(out, mask[32 * group + lowest_bit(left)]);
    }
  }
  return out;
}

// Reads a bitmap, and returns its end; nullptr if it is corrupt.
inline const u8* read_bitmap(const u8* from, const u8* end, u32 count, u32* mask) {
  const u32 words = mask_words(count);
  memset(mask, 0, words * sizeof(u32));
  if (end - from < 4) return nullptr;
  const u32 groups = load<u32>(from);
  from += 4;
  if ((groups & ~blocks::first_bits(mask_words(words))) != 0) return nullptr;
  if (end - from < 4 * static_cast<i64>(count_ones(groups))) return nullptr;
  const u8* next = from + 4 * count_ones(groups);
  for (u32 left = groups; left != 0; left &= left - 1, from += 4) {
    const u32 first = 32 * lowest_bit(left);
    const u32 present = load<u32>(from);
    if (present == 0 || (present & ~inside_of(first / 32, words)) != 0) return nullptr;
    if (end - next < 4 * static_cast<i64>(count_ones(present))) return nullptr;
    for (u32 bits = present; bits != 0; bits &= bits - 1, next += 4) {
      const u32 w = first + lowest_bit(bits);
      mask[w] = load<u32>(next);
      if (mask[w] == 0 || (mask[w] & ~inside_of(w, count)) != 0) return nullptr;
    }
  }
  return next;
}

// ---------------------------------------------------------------------------------------------------------------------
// Exceptions: common value | flags | bitmap of exceptions | bitmap of those with another value | their bits

// The stride of an axis in a tile, as its place in w, z, y, x.
H5L_FN u32 stride_of(const u32 (&extents)[kAxes], u32 axis) {
  u32 stride = 1;
  for (u32 a = axis + 1; a < kAxes; ++a) stride *= extents[a];
  return stride;
}

inline constexpr u32 kHasOthers = 8, kOthersAreAlike = 16;

// Bit i of word w: the value is an exception other than `common`.
template <class W>
u32 others_of(const u32* mask, const u8* values, u32 count, u32 w, W common) {
  if (mask[w] == 0) return 0;
  const u8* const from = values + w * kMaskBits * sizeof(W);
  const u32 n = count - w * kMaskBits;
  return mask[w] & ~(n >= kMaskBits ? equal_bits(from, kMaskBits, common) : equal_bits(from, n, common));
}

template <class W>
u32 count_others(const u32* mask, const u8* values, u32 count, W common) {
  u32 others = 0;
  for (u32 w = 0; w < mask_words(count); ++w) others += count_ones(others_of(mask, values, count, w, common));
  return others;
}

// The bits of exception `number`, in raster order.
template <class W>
W exception_at(const u32* mask, const u8* values, u32 number) {
  u32 w = 0;
  for (; count_ones(mask[w]) <= number; ++w) number -= count_ones(mask[w]);
  u32 bits = mask[w];
  for (; number > 0; --number) bits &= bits - 1;
  return load<W>(values + (w * kMaskBits + lowest_bit(bits)) * sizeof(W));
}

// The most frequent of eight exceptions far apart and the first one that is none of them, the first of equals. So it is
// the most frequent of all if there are but two.
template <class W>
W choose_common(const u32* mask, const u8* values, u32 count, u32 exceptions, u32& different) {
  constexpr u32 kSamples = 8;
  W samples[kSamples], common = 0;
  different = count;
  const auto consider = [&](W bits) {
    const u32 others = count_others(mask, values, count, bits);
    if (others >= different) return;
    common = bits;
    different = others;
  };
  for (u32 i = 0; i < kSamples; ++i) {
    samples[i] = exception_at<W>(mask, values, static_cast<u32>(u64{exceptions} * i / kSamples));
    if (samples[i] != common || i == 0) consider(samples[i]);
    if (2 * different <= exceptions) return common;
  }
  for (u32 w = 0; w < mask_words(count); ++w) {
    u32 left = mask[w];
    for (const W sample : samples) left &= others_of(mask, values, count, w, sample);
    if (left == 0) continue;
    consider(load<W>(values + (w * kMaskBits + lowest_bit(left)) * sizeof(W)));
    break;
  }
  return common;
}

// What the section of a mask, which has at least one bit, will hold.
template <class T>
struct ExceptionsPlan {
  Word<T> common;
  u32 flags;  // bits 0-2: the axis that the bitmap repeats along, from 1 on, or 0; kHasOthers; kOthersAreAlike
  u32 stride;
  u32 bytes;
};

// `scratch` is memory for a mask.
template <class T>
ExceptionsPlan<T> measure_exceptions(const u32 (&extents)[kAxes], const u32* mask, const u8* values, u32 count,
                                     u32* scratch) {
  using W = Word<T>;
  const u32 words = mask_words(count);
  u32 exceptions = 0;
  for (u32 w = 0; w < words; ++w) exceptions += count_ones(mask[w]);

  u32 different;
  const W common = choose_common<W>(mask, values, count, exceptions, different);

  ExceptionsPlan<T> plan = {common, 0, 0, measure_bitmap(mask, count)};
  u32 stride_before = count;
  for (u32 axis = 0; axis < kAxes; ++axis) {
    const u32 stride = stride_of(extents, axis);
    if (stride < count && stride != stride_before) {
      find_changes(mask, count, stride, scratch);
      const u32 bytes = measure_bitmap(scratch, count);
      if (bytes < plan.bytes) plan = {common, axis + 1, stride, bytes};
    }
    stride_before = stride;
  }
  plan.bytes += sizeof(T) + 4;
  if (different != 0) {
    plan.flags |= kHasOthers;
    for (u32 w = 0; w < words; ++w) scratch[w] = others_of(mask, values, count, w, common);
    const bool are_alike = count_others(scratch, values, count, exception_at<W>(scratch, values, 0)) == 0;
    plan.flags |= are_alike ? kOthersAreAlike : 0;
    plan.bytes += measure_bitmap(scratch, count) + (are_alike ? 1 : different) * static_cast<u32>(sizeof(T));
  }
  return plan;
}

// Writes what was measured, with stored(bits) instead of the exceptions' bits.
template <class T, class F>
u8* write_exceptions(const ExceptionsPlan<T>& plan, const u32* mask, const u8* values, u32 count, u32* scratch, u8* out,
                     F&& stored) {
  store<Word<T>>(out, stored(plan.common));
  store(out + sizeof(T), plan.flags);
  find_changes(mask, count, plan.stride, scratch);
  out = write_bitmap(scratch, count, out + sizeof(T) + 4);
  if ((plan.flags & kHasOthers) == 0) return out;
  const u32 words = mask_words(count);
  for (u32 w = 0; w < words; ++w) scratch[w] = others_of(mask, values, count, w, plan.common);
  out = write_bitmap(scratch, count, out);
  for (u32 w = 0; w < words; ++w) {
    for (u32 left = scratch[w]; left != 0; left &= left - 1) {
      const auto bits = load<Word<T>>(values + (w * kMaskBits + lowest_bit(left)) * sizeof(T));
      store<Word<T>>(out, stored(bits));
      out += sizeof(T);
      if ((plan.flags & kOthersAreAlike) != 0) return out;
    }
  }
  return out;
}

// A section that was read. Both masks are the caller's; `other_bits` points into the section.
template <class T>
struct Exceptions {
  Word<T> common = 0;
  const u8* other_bits = nullptr;  // of the values in `others`, in order; nullptr if there are none
  u32 other_stride = sizeof(T);    // from one to the next; 0 if they are all alike
};

// Returns the end of the section, and nullptr if it is corrupt. Only if there are others, `others` is set.
template <class T>
const u8* read_exceptions(const u32 (&extents)[kAxes], const u8* from, const u8* end, u32 count, u32* mask, u32* others,
                          Exceptions<T>& exceptions) {
  if (end - from < static_cast<i64>(sizeof(T) + 4)) return nullptr;
  exceptions = {load<Word<T>>(from)};
  const u32 flags = load<u32>(from + sizeof(T)), axis = flags & 7;
  if (flags >> 5 != 0 || axis > kAxes || (flags & (kHasOthers | kOthersAreAlike)) == kOthersAreAlike) return nullptr;
  const u32 stride = axis == 0 ? 0 : stride_of(extents, axis - 1);
  if (stride >= count) return nullptr;
  from = read_bitmap(from + sizeof(T) + 4, end, count, mask);
  if (from == nullptr) return nullptr;
  undo_changes(count, stride, mask);
  if ((flags & kHasOthers) == 0) return from;
  from = read_bitmap(from, end, count, others);
  if (from == nullptr) return nullptr;
  u32 different = 0, misplaced = 0;
  for (u32 w = 0; w < mask_words(count); ++w) {
    different += count_ones(others[w]);
    misplaced |= others[w] & ~mask[w];
  }
  const bool are_alike = (flags & kOthersAreAlike) != 0;
  const u32 bytes = (are_alike ? 1 : different) * static_cast<u32>(sizeof(T));
  if (misplaced != 0 || end - from < static_cast<i64>(bytes)) return nullptr;
  exceptions.other_bits = from;
  exceptions.other_stride = are_alike ? 0 : sizeof(T);
  return from + bytes;
}

// Puts the exceptions in their places; other values are left alone.
template <class T>
void restore_exceptions(const Exceptions<T>& exceptions, const u32* mask, const u32* others, u32 count, u8* values) {
  using W = Word<T>;
  const u32 words = mask_words(count);
  const W common = exceptions.common;
  for (u32 w = 0; w < words; ++w) {
    u8* const to = values + w * kMaskBits * sizeof(T);
    if (mask[w] == ~u32{0}) {
      for (u32 i = 0; i < kMaskBits; ++i) store(to + i * sizeof(T), common);
      continue;
    }
    for (u32 left = mask[w]; left != 0; left &= left - 1) store(to + lowest_bit(left) * sizeof(T), common);
  }
  const u8* next = exceptions.other_bits;
  if (next == nullptr) return;
  for (u32 w = 0; w < words; ++w) {
    for (u32 left = others[w]; left != 0; left &= left - 1, next += exceptions.other_stride) {
      memcpy(values + (w * kMaskBits + lowest_bit(left)) * sizeof(T), next, sizeof(T));
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Patches: u16 each, a gap of up to 12 bits and four bits that stand for -8 to 8 without 0

inline constexpr u32 kSkip = 0xFFFF;  // only moves on
inline constexpr u32 kSkipped = 4095;

// Entries of the section; there are at most as many as values, and some to skip.
inline u32 measure_patches(const Patches& patches) {
  u32 entries = patches.count, next = 0;
  for (u32 i = 0; i < patches.count; ++i) {
    entries += (patches.at[i].place - next) / kSkipped;
    next = patches.at[i].place + 1u;
  }
  return entries;
}

H5L_FN constexpr u32 patches_bytes(u32 entries) { return 2 * entries; }

inline u8* write_patches(const Patches& patches, u8* out) {
  u32 next = 0;
  for (u32 i = 0; i < patches.count; ++i) {
    const Patch patch = patches.at[i];
    u32 gap = patch.place - next;
    for (; gap >= kSkipped; gap -= kSkipped, out += 2) store(out, static_cast<u16>(kSkip));
    const u32 code = static_cast<u32>(patch.delta < 0 ? patch.delta + 8 : patch.delta + 7);
    store(out, static_cast<u16>(gap << 4 | code));
    out += 2;
    next = patch.place + 1u;
  }
  return out;
}

// Checks a section, and returns its end; nullptr if it is corrupt.
inline const u8* read_patches(const u8* from, const u8* end, u32 entries, u32 count) {
  if (end - from < static_cast<i64>(patches_bytes(entries))) return nullptr;
  u32 next = 0;
  for (u32 i = 0; i < entries; ++i, from += 2) {
    const u32 entry = load<u16>(from);
    if (entry == kSkip) {
      next += kSkipped;
    } else {
      next += (entry >> 4) + 1;
      if (next > count) return nullptr;
    }
  }
  return from;
}

// Calls visit(place, delta) for the patches of a section that was checked.
template <class F>
void for_patches(const u8* section, u32 entries, F&& visit) {
  u32 next = 0;
  for (u32 i = 0; i < entries; ++i) {
    const u32 entry = load<u16>(section + 2 * i);
    if (entry == kSkip) {
      next += kSkipped;
      continue;
    }
    next += (entry >> 4) + 1;
    const i32 code = entry & 15;
    visit(next - 1, code - (code < 8 ? 8 : 7));
  }
}

// Adds the patches of a closed form, whose places are those of its codes, to the steps, from a section that was
// checked.
template <class I>
void patch_steps(const u8* section, u32 entries, I* steps) {
  using U = Unsigned<I>;
  for_patches(section, entries, [&](u32 place, i32 delta) {
    steps[place] = static_cast<I>(static_cast<U>(steps[place]) + static_cast<U>(static_cast<I>(delta)));
  });
}

// Puts the patched values of a form on bins in their places, from a section that was checked. The integers are relative
// to `base`; all arithmetic wraps, modulo 2^32 for float and 2^64 for double. Exceptions are to be restored later,
// since an exception stays one if it is patched.
template <class T, class I>
void restore_patches(const Lattice<T>& lattice, const u8* section, u32 entries, const I* integers, i64 base,
                     u8* values) {
  using W = Word<T>;
  for_patches(section, entries, [&](u32 place, i32 delta) {
    const W integer = static_cast<W>(static_cast<Int<T>>(integers[place])) + static_cast<W>(base);
    const W fine = integer * kUnit + static_cast<W>(static_cast<Int<T>>(delta));
    store(values + place * sizeof(T), value_of(static_cast<T>(static_cast<Int<T>>(fine)), lattice.fine));
  });
}

}  // namespace h5lossy::H5L_TARGET::interp
