// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Tiles of cuSZp2 and AATROX on a CPU: quantising a block, and the section of exceptions. The two codecs differ in which
// differences they take and in their codes; all else is here.
#pragma once

#include "codecs/blocks.h"
#include "codecs/groups.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::blocks {

// Tiles are worked on in batches, one step after the other for all of a batch: what one step stores, the next one then
// loads from the cache in any width. Within a block, loads would wait for stores that they straddle.
inline constexpr u32 kBatchValues = 1024;

template <u32 n>
inline constexpr u32 kBatchBlocks = kBatchValues / n;

// Bins in front of a batch's, of which the last one is read: so many that the batch is aligned.
inline constexpr u32 kAlign = 16;

// Calls `run` with the quantizer that the bound kind asks for. There is none for lossless: PFPL has that.
template <class T, class Run>
auto with_quantizer(const Quantizer& quantizer, Run run) {
  if (quantizer.kind == BoundKind::pointwise_relative) return run(folded_quantizer<T>(quantizer));
  return run(absolute_quantizer<T>(quantizer));
}

template <u32 n, class T>
bool bins_of_block(const AbsoluteQuantizer<T>& q, const u8* values, Word<T>* bins) {
  return bins_of_group<n>(q, values, bins);
}

template <u32 n, class T>
bool bins_of_block(const FoldedQuantizer<T>&, const u8*, Word<T>*) {
  return false;
}

// The bins of `count` values, at most n; bit i of the answer: value i is an exception, and has no bin yet.
template <u32 n, class T, class Q>
u64 quantize_block(const Q& q, const u8* values, u32 count, Word<T>* bins) {
  if (count == n && bins_of_block<n>(q, values, bins)) return 0;
  u64 exceptions = 0;
  for (u32 i = 0; i < count; ++i) {
    if (!bin_of(q, load<Word<T>>(values + i * sizeof(T)), bins[i])) exceptions |= u64{1} << i;
  }
  return exceptions;
}

// Gives exceptions the bin of the value before them, the first ones `last`.
template <class W>
void fill_forward(u64 exceptions, u32 count, W last, W* bins) {
  for (u32 i = 0; i < count; ++i) {
    if ((exceptions >> i & 1) != 0) bins[i] = last;
    last = bins[i];
  }
}

// The values of `bins` again, `count` of them, at most n.
template <u32 n, class T, class Q>
void values_of_bins(const Q& q, const Word<T>* bins, u32 count, u8* values) {
  if (count == n) {  // a loop of known length becomes vector code
    for (u32 i = 0; i < n; ++i) store(values + i * sizeof(T), bits_of(q, bins[i]));
  } else {
    for (u32 i = 0; i < count; ++i) store(values + i * sizeof(T), bits_of(q, bins[i]));
  }
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
// Exceptions. Masks have bit i for the i-th value of a block that is inside of the data; in the section they are by
// position.

template <class T, u32 n, u32 max_blocks>
class Exceptions {
  using W = Word<T>;
  static constexpr u32 kMaxGroups = (max_blocks + kGroupBlocks - 1) / kGroupBlocks;

 public:
  // The exceptions of a block of `count` values; blocks come in their order.
  void add(u64 mask, u32 count) {
    masks_[blocks_++] = static_cast<Plane<n>>(mask);
    found_ += count_ones(mask);
    ordinary_ += count - count_ones(mask);
  }

  // The same for a block without any.
  void add_none(u32 count) {
    masks_[blocks_++] = 0;
    ordinary_ += count;
  }

  [[nodiscard]] u32 count() const { return found_; }

  // Whether all values are exceptions.
  [[nodiscard]] bool is_all() const { return ordinary_ == 0; }

  // Bytes that the section will take, 0 without exceptions. `values` are those of the whole tile.
  u32 measure(const Tile& tile, const u8* values) {
    if (found_ == 0) return 0;
    u32 bytes = 4 + sizeof(T);
    bool has_common = false;
    const u8* next = values;
    for (u32 b = 0; b < blocks_; ++b) {
      const u64 inside = inside_of<n>(tile, b);
      const u32 count = count_ones(inside);
      const u64 mask = masks_[b];
      if (mask != 0) {
        if (!has_common) common_ = load<W>(next + lowest_bit(mask) * sizeof(T));
        has_common = true;
        Group& group = groups_[b / kGroupBlocks];
        const u32 bit = u32{1} << (b % kGroupBlocks);
        if (group.present == 0) bytes += sizeof(Group);
        group.present |= bit;
        if (mask == first_bits(count)) {
          group.full |= bit;
        } else {
          bytes += n / 8;
        }
        if (is_uniform(mask, next)) {
          group.uniform |= bit;
        } else {
          bytes += count_ones(mask) * static_cast<u32>(sizeof(T));
        }
      }
      next += count * sizeof(T);
    }
    return bytes;
  }

  // Writes what `measure` measured.
  u8* write(const Tile& tile, const u8* values, u8* out) const {
    if (found_ == 0) return out;
    const u32 groups = (blocks_ + kGroupBlocks - 1) / kGroupBlocks;
    u32 set = 0;
    for (u32 g = 0; g < groups; ++g) set |= groups_[g].present != 0 ? u32{1} << g : 0;
    store(out, set);
    store(out + 4, common_);
    out += 4 + sizeof(T);
    for (u32 g = 0; g < groups; ++g) {
      if (groups_[g].present == 0) continue;
      store(out, groups_[g].present);
      store(out + 4, groups_[g].full);
      store(out + 8, groups_[g].uniform);
      out += sizeof(Group);
    }
    for (u32 b = 0; b < blocks_; ++b) {
      if (masks_[b] == 0 || is_set(b, &Group::full)) continue;
      store(out, static_cast<Plane<n>>(to_positions(masks_[b], inside_of<n>(tile, b))));
      out += n / 8;
    }
    const u8* next = values;
    for (u32 b = 0; b < blocks_; ++b) {
      if (masks_[b] != 0 && !is_set(b, &Group::uniform)) {
        for (u64 mask = masks_[b]; mask != 0; mask &= mask - 1, out += sizeof(T)) {
          store(out, load<W>(next + lowest_bit(mask) * sizeof(T)));
        }
      }
      next += count_ones(inside_of<n>(tile, b)) * sizeof(T);
    }
    return out;
  }

 private:
  struct Group {
    u32 present, full, uniform;
  };

  [[nodiscard]] bool is_set(u32 block, u32 Group::* flags) const {
    return (groups_[block / kGroupBlocks].*flags >> (block % kGroupBlocks) & 1) != 0;
  }

  [[nodiscard]] bool is_uniform(u64 mask, const u8* values) const {
    for (; mask != 0; mask &= mask - 1) {
      if (load<W>(values + lowest_bit(mask) * sizeof(T)) != common_) return false;
    }
    return true;
  }

  Plane<n> masks_[max_blocks];
  Group groups_[kMaxGroups] = {};
  W common_ = 0;
  u32 blocks_ = 0;
  u32 found_ = 0;
  u32 ordinary_ = 0;
};

// Puts the exceptions of a section into `values`, all of a tile's. False: the section contradicts itself or the tile.
template <class T, u32 n>
bool restore_exceptions(const Tile& tile, const u8* section, u32 section_bytes, u8* values) {
  using W = Word<T>;
  constexpr u32 group_bytes = 12;
  const u32 blocks = count_blocks<n>(tile);
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
    const u64 inside = inside_of<n>(tile, b);
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
      for (; mask != 0; mask &= mask - 1) {
        store(block_values + lowest_bit(mask) * sizeof(T), uniform ? common : load<W>(next_bits));
        if (!uniform) next_bits += sizeof(T);
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

// An empty payload or a constant tile, where that is what the tile is: all values come back with the bits of `bin`, or
// (all_exceptions) with their own. Never for a tile of one value that is not 0: it is stored.
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
