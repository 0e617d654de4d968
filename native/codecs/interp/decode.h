// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Decodes the payload of a tile to its values (docs/format/interp.md), on a CPU. Any payload is safe to decode.
#pragma once

#include <new>

#include "codecs/block_tiles.h"
#include "codecs/codec.h"
#include "codecs/interp/exceptions.h"
#include "codecs/interp/labels.h"
#include "codecs/interp/prediction.h"
#include "codecs/interp/tile_codes.h"
#include "codecs/interp/values.h"

namespace h5lossy::H5L_TARGET::interp {

// Turns integers into values, depending on the kind of the bound. One branch for many values at a time costs nothing,
// and one decoder for all kinds is less code.
template <class T>
struct ValueRule {
  ValueRule() : is_pointwise(false), has_words(true), lattice{}, folded{} {}
  explicit ValueRule(const Quantizer& quantizer)
      : is_pointwise(quantizer.kind == BoundKind::pointwise_relative),
        lattice(is_pointwise ? Lattice<T>{} : lattice_of<T>(quantizer)),
        folded(is_pointwise ? blocks::folded_quantizer<T>(quantizer) : blocks::FoldedQuantizer<T>{}) {}

  bool is_pointwise;
  bool has_words = false;  // of integers, which are decoded to these words
  Lattice<T> lattice;
  blocks::FoldedQuantizer<T> folded;
};

template <class T, class I>
void to_values(const ValueRule<T>& rule, const Head& head, const I* integers, u32 count, u8* values) {
  if (rule.has_words) {
    to_words<T>(integers, count, head.base, values);
  } else if (rule.is_pointwise) {
    to_values(rule.folded, integers, count, head.base, head.is_fine, values);
  } else if (head.own_lattice.exists()) {
    to_values<T>(head.own_lattice, integers, count, head.base, values);
  } else {
    to_values(rule.lattice, integers, count, head.base, head.is_fine, values);
  }
}

// Takes the integers of some rows as soon as they are rebuilt.
template <class T, class I>
struct RowValues {
  const ValueRule<T>& rule;
  const Head& head;
  u8* values;
  static void take(const void* own, u32 first, const I* integers, u32 count) {
    const RowValues& rows = *static_cast<const RowValues*>(own);
    to_values(rows.rule, rows.head, integers, count, rows.values + first * sizeof(T));
  }
};

// The decoder's arrays; I is i32 or i64.
template <class I>
struct DecodeArrays {
  I steps[kTileValues + kSpareCodes];
  I integers[kTileValues + kSpareCodes];
  alignas(64) u8 prediction[kInterpolationBytes<I>];
  ReadScratch scratch;
};

// The decoder's workspace.
template <class T>
struct DecodeMemory {
  u32 mask[kMaxMaskWords];
  u32 others[kMaxMaskWords];
  union {
    DecodeArrays<i32> narrow;
    DecodeArrays<Int<T>> wide;
  };
};

template <class T, class I>
bool decode_integers(const ValueRule<T>& rule, const Head& head, const Shape& shape, const u32* mask, const u8* patches,
                     const u8* from, const u8* end, u8* values, DecodeArrays<I>& memory) {
  const i64 base = head.base;
  I* const steps = memory.steps;
  I* const integers = memory.integers;
  const bool is_lorenzo = head.predictor == kLorenzo;
  u32* const ordered = reinterpret_cast<u32*>(integers);
  u32 codes = shape.count;
  if (rule.has_words && head.has_exceptions) {
    const u32 exceptions = count_bits(mask, shape.count);
    if (are_left_out(exceptions, shape.count)) {
      order_mask(shape, is_lorenzo, mask, ordered);
      codes -= exceptions - (ordered[0] & 1);
    }
  }
  const Units units = units_of(shape, head.unit_code, head.grade);
  if (!read_codes(head, units, from, static_cast<u32>(end - from), codes, steps, memory.scratch)) return false;
  if (codes != shape.count) put_back(ordered, shape.count, codes, steps);
  if (head.is_closed) patch_steps(patches, head.patches, steps);
  if (is_lorenzo) {
    const RowValues<T, I> rows = {rule, head, values};
    rebuild_lorenzo(shape, head.lorenzo_axes, steps, I{0}, integers, {&rows, rows.take});
  } else {
    const Rule weights = {{head.weights[0], head.weights[1], head.weights[2]}};
    rebuild_interpolation(shape, weights, steps, I{0}, units.grade, integers, memory.prediction);
    to_values(rule, head, integers, shape.count, values);
  }
  if (!rule.is_pointwise && !head.is_closed) {
    restore_patches(rule.lattice, patches, head.patches, integers, base, values);
  }
  return true;
}

template <class T>
bool decode_tile(const ValueRule<T>& rule, u32 mode, const Tile& tile, const u8* payload, u32 payload_bytes, u8* values,
                 u8* workspace) {
  using W = Word<T>;
  if (payload_bytes == sizeof(T)) {
    blocks::read_constant<W>(payload, tile.count, values);
    return true;
  }
  if (payload_bytes % 2 != 0) return false;
  const Shape shape = shape_of(tile.boxes[0].extents, mode & kAxesMask);
  DecodeMemory<T>& memory = *new (workspace) DecodeMemory<T>;
  Head head;
  const u8* const end = payload + payload_bytes;
  if (rule.has_words && are_labels(payload, payload_bytes)) {
    return read_labels<T>(mask_neighbours_of(shape.extents), tile.count, payload, end, values,
                          reinterpret_cast<u16*>(memory.narrow.steps));
  }
  const u8* from = read_head(payload, end, shape.active, sizeof(T), head);
  if (from == nullptr) return false;
  const bool has_plain_bins = rule.is_pointwise || rule.has_words;
  if (has_plain_bins && (head.is_fine || head.patches != 0 || head.own_lattice.exists())) return false;
  Exceptions<T> exceptions;
  if (head.has_exceptions) {
    from = read_exceptions(mask_neighbours_of(shape.extents), from, end, shape.count, memory.mask, memory.others,
                           exceptions);
    if (from == nullptr) return false;
  }
  const u8* const patches = from;
  from = read_patches(from, end, head.patches, shape.count);
  if (from == nullptr) return false;
  const bool is_read =
      sizeof(T) == 4 || head.is_narrow
          ? decode_integers<T>(rule, head, shape, memory.mask, patches, from, end, values, memory.narrow)
          : decode_integers<T>(rule, head, shape, memory.mask, patches, from, end, values, memory.wide);
  if (!is_read) return false;
  if (head.has_exceptions) restore_exceptions(exceptions, memory.mask, memory.others, shape.count, values);
  return true;
}

}  // namespace h5lossy::H5L_TARGET::interp
