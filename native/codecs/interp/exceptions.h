// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The parts of Interp's payload that tell which values are exceptions, and which are patched. The format is in
// docs/format/interp.md, "Exceptions" and "Patches".
#pragma once

#include "codecs/blocks.h"
#include "codecs/interp/format.h"
#include "codecs/interp/masks.h"
#include "codecs/interp/patches.h"
#include "codecs/interp/values.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::interp {

// ---------------------------------------------------------------------------------------------------------------------
// Which values are exceptions

// A bit set of those of the first 32 of `count` numbers that equal `number`. Flags are collected as bytes, since few
// instruction sets can shift each lane by its own count; each product moves eight of them into its highest byte.
template <class W>
H5L_FN u32 equal_bits(const u8* numbers, u32 count, W number) {
  u8 flags[kMaskBits] = {};
  const auto compare = [&](u32 i) { flags[i] = load<W>(numbers + i * sizeof(W)) == number ? 1 : 0; };
  if (count >= kMaskBits) {
    for (u32 i = 0; i < kMaskBits; ++i) compare(i);
  } else {
    for (u32 i = 0; i < count; ++i) compare(i);
  }
  u64 bits = 0;
  for (u32 i = 0; i < kMaskBits; i += 8) bits |= (load<u64>(flags + i) * 0x0102040810204080u >> 56) << i;
  return static_cast<u32>(bits);
}

// The values that have no integer.
template <class I>
void find_exceptions(const I* integers, u32 count, u32* mask) {
  for (u32 first = 0; first < count; first += kMaskBits) {
    mask[first / kMaskBits] = equal_bits(reinterpret_cast<const u8*>(integers + first), count - first, kNone<I>);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Exceptions: common value | u16 flags | mask of exceptions | mask of those with another value | their bits

// Bit i of word w tells whether the value is an exception other than `common`.
template <class W>
u32 others_of(const u32* mask, const u8* values, u32 count, u32 w, W common) {
  if (mask[w] == 0) return 0;
  return mask[w] & ~equal_bits(values + w * kMaskBits * sizeof(W), count - w * kMaskBits, common);
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

// The most frequent bits among eight exceptions that are far apart and the first exception that equals none of these;
// the first of equally frequent ones. If all exceptions have one of only two bit patterns, these are the most frequent
// bits of all.
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

// What the section for a mask with at least one bit will contain.
template <class T>
struct ExceptionsPlan {
  Word<T> common;
  u32 flags;
  u32 bytes;         // as measure_mask measures it
  u32 decisions[2];  // of the mask and, if it exists, the mask of others
};

// Memory for the decisions of both masks.
using MaskDecisions = u8[2][kMaskScratchBytes];

// `others` is memory for a mask.
template <class T>
ExceptionsPlan<T> measure_exceptions(const MaskNeighbours& neighbours, u32* mask, const u8* values, u32 count,
                                     u32* others, MaskDecisions& decisions) {
  const u32 words = mask_words(count), exceptions = count_bits(mask, count);
  u32 different;
  ExceptionsPlan<T> plan = {};
  plan.common = choose_common<Word<T>>(mask, values, count, exceptions, different);
  const auto measure = [&](u32 which, u32* one) {
    const MeasuredMask measured = measure_mask(neighbours, count, one, decisions[which]);
    plan.bytes += measured.bytes;
    plan.decisions[which] = measured.decisions;
  };
  plan.bytes = sizeof(T) + 2;
  measure(0, mask);
  if (different == 0) return plan;
  for (u32 w = 0; w < words; ++w) others[w] = others_of(mask, values, count, w, plan.common);
  const bool are_alike = count_others(others, values, count, exception_at<Word<T>>(others, values, 0)) == 0;
  plan.flags = are_alike ? kHasOthers | kOthersAreAlike : kHasOthers;
  plan.bytes += (are_alike ? 1 : different) * static_cast<u32>(sizeof(T));
  measure(1, others);
  return plan;
}

// Writes what was measured last, with stored(bits) in place of the exceptions' bits. `scratch` has kMaskScratchBytes.
template <class T, class F>
u8* write_exceptions(const ExceptionsPlan<T>& plan, const u32* mask, const u8* values, u32 count,
                     const MaskDecisions& decisions, u8* scratch, u8* out, F&& stored) {
  u8* const scratch_end = scratch + kMaskScratchBytes;
  store<Word<T>>(out, stored(plan.common));
  store(out + sizeof(T), static_cast<u16>(plan.flags));
  out = write_decisions(decisions[0], plan.decisions[0], scratch_end, out + sizeof(T) + 2);
  if ((plan.flags & kHasOthers) != 0) {
    out = write_decisions(decisions[1], plan.decisions[1], scratch_end, out);
    bool is_done = false;
    for (u32 w = 0; w < mask_words(count) && !is_done; ++w) {
      for (u32 left = others_of(mask, values, count, w, plan.common); left != 0 && !is_done; left &= left - 1) {
        const auto bits = load<Word<T>>(values + (w * kMaskBits + lowest_bit(left)) * sizeof(T));
        store<Word<T>>(out, stored(bits));
        out += sizeof(T);
        is_done = (plan.flags & kOthersAreAlike) != 0;
      }
    }
  }
  return out;
}

// A section that was read. Both masks are in the caller's memory; `other_bits` points into the section.
template <class T>
struct Exceptions {
  Word<T> common = 0;
  const u8* other_bits = nullptr;  // of the values in `others`, in order; nullptr if there are none
  u32 other_stride = sizeof(T);    // from one to the next; 0 if all have the same bits
};

// Returns the end of the section; nullptr if it is corrupt. `others` is set only if there are others.
template <class T>
const u8* read_exceptions(const MaskNeighbours& neighbours, const u8* from, const u8* end, u32 count, u32* mask,
                          u32* others, Exceptions<T>& exceptions) {
  if (end - from < static_cast<i64>(sizeof(T) + 2)) return nullptr;
  exceptions = {load<Word<T>>(from)};
  const u32 flags = load<u16>(from + sizeof(T));
  if (flags > 3 || flags == kOthersAreAlike) return nullptr;
  from = read_mask(neighbours, count, from + sizeof(T) + 2, end, mask);
  if (from == nullptr) return nullptr;
  if ((flags & kHasOthers) != 0) {
    from = read_mask(neighbours, count, from, end, others);
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
    from += bytes;
  }
  return from;
}

// Writes the exceptions to their places, and leaves other values alone.
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
// Leaving out the codes of exceptions

// Removes the codes of exceptions, which are 0, except for the first code. Returns how many codes are left; zeros fill
// their last block. `ordered` is the mask in coding order.
template <class I>
u32 leave_out(u32* ordered, u32 count, I* codes) {
  ordered[0] &= ~1u;
  u32 left = 0;
  for (u32 first = 0; first < count; first += kMaskBits) {
    const u32 here = ~ordered[first / kMaskBits] & inside_of(first / kMaskBits, count);
    if (here == ~u32{0}) {
      memmove(codes + left, codes + first, kMaskBits * sizeof(I));
      left += kMaskBits;
      continue;
    }
    for (u32 bits = here; bits != 0; bits &= bits - 1) codes[left++] = codes[first + lowest_bit(bits)];
  }
  for (u32 i = left; i % kMaskBits != 0; ++i) codes[i] = 0;
  return left;
}

// Undoes leave_out: inserts the codes of exceptions, which are 0.
template <class I>
void put_back(u32* ordered, u32 count, u32 left, I* codes) {
  ordered[0] &= ~1u;
  for (u32 w = mask_words(count); w-- > 0;) {
    const u32 here = ~ordered[w] & inside_of(w, count);
    left -= count_ones(here);
    I block[kMaskBits] = {};
    u32 next = left;
    if (here == ~u32{0}) {
      memcpy(block, codes + left, sizeof block);
    } else {
      for (u32 bits = here; bits != 0; bits &= bits - 1) block[lowest_bit(bits)] = codes[next++];
    }
    memcpy(codes + w * kMaskBits, block, sizeof block);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Patches

// The number of entries in the section: at most one per value, plus those that only skip.
inline u32 measure_patches(const Patches& patches) {
  u32 entries = patches.count, next = 0;
  for (u32 i = 0; i < patches.count; ++i) {
    entries += (patches.at[i].place - next) / kSkipped;
    next = patches.at[i].place + 1u;
  }
  return entries;
}

inline u8* write_patches(const Patches& patches, u8* out) {
  u32 next = 0;
  for (u32 i = 0; i < patches.count; ++i) {
    const Patch patch = patches.at[i];
    u32 gap = patch.place - next;
    for (; gap >= kSkipped; gap -= kSkipped, out += 2) store(out, static_cast<u16>(kSkip));
    store(out, entry_of(gap, patch.delta));
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
    visit(next - 1, patch_of(entry));
  }
}

// Adds the patches of a closed form to the steps. Their places are numbers of codes. The section must have been
// checked.
template <class I>
void patch_steps(const u8* section, u32 entries, I* steps) {
  using U = Unsigned<I>;
  for_patches(section, entries, [&](u32 place, i32 delta) {
    steps[place] = static_cast<I>(static_cast<U>(steps[place]) + static_cast<U>(static_cast<I>(delta)));
  });
}

// Stores the patched values of a form on bins. The section must have been checked. Integers are relative to `base`; all
// arithmetic wraps, modulo 2^32 for float and 2^64 for double. Exceptions must be restored after this, since an
// exception stays one if it is patched.
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
