// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Tiles of fixed-length blocks on a CPU: quantization and the section of exceptions. Differences and block codes are
// the codec's.
#pragma once

#include "codecs/blocks.h"
#include "codecs/portable.h"
#include "codecs/simd/block_bins.h"
#include "codecs/simd/block_rows.h"

namespace h5lossy::H5L_TARGET::blocks {

// Calls `run` with the quantizer for the bound kind. Lossless has none.
template <class T, class Run>
auto with_quantizer(const Quantizer& quantizer, Run run) {
#if defined(H5L_DECODE_ONLY)
  return run(EitherQuantizer<T>(quantizer));
#else
  if (quantizer.kind == BoundKind::pointwise_relative) return run(folded_quantizer<T>(quantizer));
  return run(absolute_quantizer<T>(quantizer));
#endif
}

// Tiles are processed in batches, one step after the other for all blocks of a batch. With vectors, a batch is one
// block, which stays in registers. Without, a larger batch avoids store forwarding stalls: a step loads what the
// previous one has stored, in another width.
template <u32 n>
inline constexpr u32 kBatchBlocks = simd::kRowsAreRegisters ? 1 : 1024 / n;

template <u32 n>
u32 batch_at(u32 first, u32 blocks) {
  return blocks - first < kBatchBlocks<n> ? blocks - first : kBatchBlocks<n>;
}

// Calls step(0), step(1), ... for the blocks of a batch. No loop for a batch of one, since compilers would keep its
// arrays in memory.
template <u32 n, class Step>
H5L_INLINE void for_batch(u32 batch, Step step) {
  if constexpr (kBatchBlocks<n> == 1) {
    step(0);
  } else {
    for (u32 b = 0; b < batch; ++b) step(b);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Nearly all blocks are full and have no exceptions: they stay in registers, see simd/block_rows.h. The bins of all
// others are stored in an array, by position.

// Calls visit(first position, count) for each run of ones.
template <class Visit>
void for_runs(u64 mask, Visit visit) {
  while (mask != 0) {
    const u32 first = lowest_bit(mask);
    const u64 behind = ~(mask >> first);
    const u32 count = behind == 0 ? 64 : lowest_bit(behind);
    visit(first, count);
    mask &= ~(first_bits(count) << first);
  }
}

// Spreads the values of a block to their positions, with zeros between them; and the inverse.
template <u32 n, class W>
void spread(const u8* values, u64 inside, u8* positions) {
  memset(positions, 0, n * sizeof(W));
  for_runs(inside, [&](u32 first, u32 count) {
    memcpy(positions + first * sizeof(W), values, count * sizeof(W));
    values += count * sizeof(W);
  });
}

template <class W>
void gather(const u8* positions, u64 inside, u8* values) {
  for_runs(inside, [&](u32 first, u32 count) {
    memcpy(values, positions + first * sizeof(W), count * sizeof(W));
    values += count * sizeof(W);
  });
}

// Quantizes any block, by position. Bit i of the result: position i is an exception and has no bin yet.
template <u32 n, class W, class Bins>
u64 quantize_any(const Bins& quantizer, const u8* values, u64 inside, simd::Rows<n, W>& bins) {
  alignas(64) u8 positions[n * sizeof(W)];
  if (inside != first_bits(n)) {
    spread<n, W>(values, inside, positions);
    values = positions;
  }
  return quantizer.template exceptions<n>(values, bins) & inside;
}

// Quantizes the values of a block that is partly outside the data.
template <u32 n, class W, class Bins>
[[gnu::noinline]] void store_inside(const Bins& quantizer, const simd::Rows<n, W>& bins, u64 inside, u8* values) {
  alignas(64) u8 positions[n * sizeof(W)];
  quantizer.to_values(bins, positions);
  gather<W>(positions, inside, values);
}

template <class W>
bool all_equal(const u8* values, u32 count) {
  const W first = load<W>(values);
  for (u32 i = 1; i < count; ++i) {
    if (load<W>(values + i * sizeof(W)) != first) return false;
  }
  return true;
}

// ---------------------------------------------------------------------------------------------------------------------
// Exceptions. Masks are by value: bit i is the block's i-th value inside the data. In the section they are by position.

template <class T, u32 n, u32 max_blocks>
class Exceptions {
  using W = Word<T>;
  static constexpr u32 kMaxGroups = (max_blocks + kGroupBlocks - 1) / kGroupBlocks;

 public:
  // Adds the exceptions of a block (at least one), by position. Not inlined, to save registers in the caller's loop.
  [[gnu::noinline]] void add(u32 block, u64 positions, u64 inside) {
    const u64 mask = to_values(positions, inside);
    groups_[block / kGroupBlocks].present |= u32{1} << (block % kGroupBlocks);
    masks_[block] = static_cast<Plane<n>>(mask);
    found_ += count_ones(mask);
  }

  [[nodiscard]] u32 count() const { return found_; }

  // Size of the section in bytes, 0 without exceptions. `values` are the whole tile's.
  u32 measure(Insides<n> insides, const u8* values) {
    if (found_ == 0) return 0;
    u32 bytes = 4 + sizeof(T);
    bool has_common = false;
    for (const Group& group : groups_) bytes += group.present != 0 ? static_cast<u32>(sizeof(Group)) : 0;
    for_blocks(insides, values, [&](u32 b, u64 inside, const u8* block) {
      const u64 mask = masks_[b];
      const u32 bit = u32{1} << (b % kGroupBlocks);
      Group& group = groups_[b / kGroupBlocks];
      if (!has_common) common_ = load<W>(block + lowest_bit(mask) * sizeof(T));
      has_common = true;
      if (mask == first_bits(count_ones(inside))) {
        group.full |= bit;
      } else {
        bytes += n / 8;
      }
      if (is_uniform(mask, inside == first_bits(n), block)) {
        group.uniform |= bit;
      } else {
        bytes += count_ones(mask) * static_cast<u32>(sizeof(T));
      }
    });
    return bytes;
  }

  // Writes the section that measure() measured.
  u8* write(Insides<n> insides, const u8* values, u8* out) const {
    if (found_ == 0) return out;
    u32 set = 0;
    for (u32 g = 0; g < kMaxGroups; ++g) set |= groups_[g].present != 0 ? u32{1} << g : 0;
    store(out, set);
    store(out + 4, common_);
    out += 4 + sizeof(T);
    for (const Group& group : groups_) {
      if (group.present == 0) continue;
      store(out, group.present);
      store(out + 4, group.full);
      store(out + 8, group.uniform);
      out += sizeof(Group);
    }
    for_blocks(insides, values, [&](u32 b, u64 inside, const u8*) {
      if (is_set(b, &Group::full)) return;
      store(out, static_cast<Plane<n>>(to_positions(masks_[b], inside)));
      out += n / 8;
    });
    for_blocks(insides, values, [&](u32 b, u64, const u8* block) {
      if (is_set(b, &Group::uniform)) return;
      for (u64 mask = masks_[b]; mask != 0; mask &= mask - 1, out += sizeof(T)) {
        store(out, load<W>(block + lowest_bit(mask) * sizeof(T)));
      }
    });
    return out;
  }

 private:
  struct Group {
    u32 present, full, uniform;
  };

  [[nodiscard]] bool is_set(u32 block, u32 Group::* flags) const {
    return (groups_[block / kGroupBlocks].*flags >> (block % kGroupBlocks) & 1) != 0;
  }

  // Calls visit(block, positions inside the data, values) for the blocks with exceptions.
  template <class Visit>
  void for_blocks(Insides<n> insides, const u8* values, Visit visit) const {
    for (u32 b = 0; b < insides.blocks(); ++b) {
      if (insides.is_run() && groups_[b / kGroupBlocks].present == 0) {
        b |= kGroupBlocks - 1;
        continue;
      }
      const u64 inside = insides[b];
      if (is_set(b, &Group::present)) visit(b, inside, insides.is_run() ? values + b * n * sizeof(T) : values);
      if (!insides.is_run()) values += count_ones(inside) * sizeof(T);
    }
  }

  [[nodiscard]] bool is_uniform(u64 mask, bool is_whole, const u8* values) const {
    if (is_whole) {
      const simd::Rows<n, W> common = simd::all_words<n>(common_);
      return simd::all_are_equal(simd::keep(simd::load_rows<n, W>(values), mask), simd::keep(common, mask));
    }
    W others = 0;
    for (; mask != 0; mask &= mask - 1) others |= load<W>(values + lowest_bit(mask) * sizeof(T)) ^ common_;
    return others == 0;
  }

  Plane<n> masks_[max_blocks];
  Group groups_[kMaxGroups] = {};
  W common_ = 0;
  u32 found_ = 0;
};

// Writes the exceptions of a section into `values`, which are the whole tile's. False if the section is inconsistent
// with itself or with the tile.
template <class T, u32 n>
H5L_RARE bool restore_exceptions(Insides<n> insides, const u8* section, u32 section_bytes, u8* values) {
  using W = Word<T>;
  constexpr u32 group_bytes = 12;
  const u32 blocks = insides.blocks();
  if (section_bytes < 4 + sizeof(T)) return false;
  const u32 groups = load<u32>(section);
  if (groups == 0 || (groups & ~first_bits((blocks + kGroupBlocks - 1) / kGroupBlocks)) != 0) return false;
  const W common = load<W>(section + 4);
  const u8* next_group = section + 4 + sizeof(T);
  const u8* const end = section + section_bytes;
  if (static_cast<u32>(end - next_group) < count_ones(u64{groups}) * group_bytes) return false;

  const u8* next_mask = next_group + count_ones(u64{groups}) * group_bytes;
  u32 masks = 0;
  for (const u8* group = next_group; group < next_mask; group += group_bytes) {
    const u32 present = load<u32>(group), full = load<u32>(group + 4), uniform = load<u32>(group + 8);
    if (present == 0 || ((full | uniform) & ~present) != 0) return false;
    masks += count_ones(u64{present & ~full});
  }
  if (static_cast<u32>(end - next_mask) < masks * (n / 8)) return false;
  const u8* next_bits = next_mask + masks * (n / 8);

  u8* block_values = values;
  for (u32 b = 0; b < blocks; ++b) {
    const u64 inside = insides[b];
    const u32 count = count_ones(inside);
    const u32 in_group = b % kGroupBlocks;
    const bool group_is_set = (groups >> (b / kGroupBlocks) & 1) != 0;
    if (group_is_set && (load<u32>(next_group) >> in_group & 1) != 0) {
      u64 mask = first_bits(count);
      if ((load<u32>(next_group + 4) >> in_group & 1) == 0) {
        const u64 positions = load<Plane<n>>(next_mask);
        next_mask += n / 8;
        if (positions == 0 || (positions & ~inside) != 0 || positions == inside) return false;
        mask = to_values(positions, inside);
      }
      const bool uniform = (load<u32>(next_group + 8) >> in_group & 1) != 0;
      if (!uniform && static_cast<u32>(end - next_bits) < count_ones(mask) * sizeof(T)) return false;
      if (uniform && inside == first_bits(n)) {
        const simd::Rows<n, W> others = simd::keep(simd::load_rows<n, W>(block_values), ~mask);
        simd::store_rows(simd::either(others, simd::keep(simd::all_words<n>(common), mask)), block_values);
      } else {
        for (; mask != 0; mask &= mask - 1) {
          store(block_values + lowest_bit(mask) * sizeof(T), uniform ? common : load<W>(next_bits));
          if (!uniform) next_bits += sizeof(T);
        }
      }
    }
    const bool group_ends = in_group == kGroupBlocks - 1 || b == blocks - 1;
    if (group_is_set && group_ends) {
      if ((load<u32>(next_group) & ~first_bits(in_group + 1)) != 0) return false;
      next_group += group_bytes;
    }
    block_values += count * sizeof(T);
  }
  return next_bits == end;
}

// ---------------------------------------------------------------------------------------------------------------------
// The short forms of a payload

// Writes an empty payload or a constant tile if all values decode to the bits of `bin`, or (all_exceptions) are equal
// exceptions. A tile of one nonzero value is stored instead.
template <class T>
u32 write_constant(Word<T> bits, u32 count, u8* payload) {
  if (bits == 0) return 0;
  if (count == 1) return kStoreTile;
  store(payload, bits);
  return sizeof(T);
}

template <class W>
void read_constant(const u8* payload, u32 count, u8* values) {
  const W bits = load<W>(payload);
  for (u32 i = 0; i < count; ++i) store(values + i * sizeof(W), bits);
}

inline bool is_zero(const u8* bytes, u32 size) {
  u8 any = 0;
  for (u32 i = 0; i < size; ++i) any |= bytes[i];
  return any == 0;
}

}  // namespace h5lossy::H5L_TARGET::blocks
