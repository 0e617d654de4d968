// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Shared by the kernels of Interp's encoder: what is known of a tile, and its memory between them. One kernel chooses
// the step and the axes of a chunk, two code usual tiles (interp_draft.cuh), one chooses the form of each other tile
// (interp_form.cuh), three write payloads (interp_mask.cuh, interp_pack.cuh, interp_code.cuh), and the last ones copy
// these to their places.
#pragma once

#include "codecs/interp/choice.h"
#include "codecs/interp/coding.h"
#include "codecs/interp/patches.h"
#include "codecs/interp/values.h"
#include "kernels/codecs/interp_passes.cuh"
#include "kernels/codecs/interp_stage.cuh"
#include "kernels/common/lookback.cuh"

namespace h5lossy::H5L_TARGET::interp {

using gpu::ChunkForm;
using gpu::StagedPlan;

// What a plan of codes contains besides the classes of blocks.
struct CodePlan : Totals {
  u32 raw_planes = 0;
  bool has_own_table = false;
  u16 own_table[kSymbols] = {};
};

enum class TileKind : u32 { stored, constant, coded };

struct TileRecord {
  TileKind kind = TileKind::stored;
  u64 constant = 0;  // bits
  Head head;         // except what follows from the plan
  CodePlan plan;
  u32 slot = 0;  // which of the stage's two sets of codes
  u32 code_bytes = 0;
  u32 codes = 0;       // of tiles of integers: their number
  u32 is_drafted = 0;  // nothing is left to try
  u64 common = 0;      // bits of exceptions, and their flags
  u32 exception_flags = 0;
  u64 mask = ~u64{0}, masked_as = ~u64{0};  // bits of the mask value, and the bits stored in its place
  u32 masks_end = 0;                        // in the payload
  // The payload is in two pieces.
  u32 front_begin = 0, front_end = 0, rest_begin = 0, rest_end = 0;
};
static_assert(sizeof(TileRecord) <= kTileRecordBytes);

// Masks of exceptions are written first. The space in front of them is for a head, the common bits and flags.
inline constexpr u32 kMasksAt = 64;
static_assert(kMostHeadBytes + sizeof(u64) + kOwnTableBytes + kOwnLatticeBytes + sizeof(u64) + 2 <= kMasksAt);
static_assert(kMasksAt + kSlack + 384 + 2 * kMaskLoss <= kPayloadSpare);

// An upper bound: a byte per decision.
H5L_DEVICE u32 most_mask_bytes(u32 count) { return 8 + kMostDecisions / kMaxMaskWords * mask_words(count); }

// Records how a tile is coded, except for the plan.
H5L_DEVICE void describe(TileRecord& record, const Form& form, bool has_exceptions, bool is_narrow, i64 base,
                         u32 patch_entries, u32 slot, u32 code_bytes) {
  record.kind = TileKind::coded;
  record.slot = slot;
  record.code_bytes = code_bytes;
  Head& head = record.head;
  head = {};
  head.predictor = form.is_lorenzo ? kLorenzo : kFourPoints;
  head.is_fine = form.is_fine;
  head.is_closed = form.is_closed;
  head.unit_code = form.unit_code;
  head.grade = form.grade;
  head.has_exceptions = has_exceptions;
  head.is_narrow = is_narrow;
  for (u32 i = 0; i < kMaxActiveAxes; ++i) head.weights[i] = form.is_lorenzo ? 0 : form.rule.weights[i];
  head.lorenzo_axes = form.lorenzo_axes;
  head.patches = patch_entries;
  head.base = base;
}

// A tile's memory between the kernels, with room for `values` values.
template <class T>
struct TileStage {
  u8* memory;
  u32 values;

  H5L_DEVICE TileStage(const StagedPlan& plan, u32 chunk, u32 tile)
      : memory(plan.stages + (u64{chunk} * plan.most_tiles + tile) * plan.stage_bytes),
        values(encode_stage_values(plan.tile_values)) {}

  [[nodiscard]] H5L_DEVICE TileRecord& record() const { return *reinterpret_cast<TileRecord*>(memory); }
  // Classes and candidates of the blocks.
  [[nodiscard]] H5L_DEVICE u8* classes() const { return memory + kTileRecordBytes; }
  [[nodiscard]] H5L_DEVICE u8* candidates() const { return classes() + values / 32; }
  // Masks of exceptions, of patched places, and two temporary ones.
  [[nodiscard]] H5L_DEVICE u32* mask() const { return reinterpret_cast<u32*>(candidates() + values / 32); }
  [[nodiscard]] H5L_DEVICE u32* patched() const { return mask() + values / 32; }
  [[nodiscard]] H5L_DEVICE u32* measured() const { return patched() + values / 32; }
  [[nodiscard]] H5L_DEVICE u32* others() const { return measured() + values / 32; }
  // By how much a value is patched; only set for patched ones.
  [[nodiscard]] H5L_DEVICE i8* deltas(u32 slot) const {
    return reinterpret_cast<i8*>(others() + values / 32) + slot * values;
  }
  template <class I>
  [[nodiscard]] H5L_DEVICE I* codes(u32 slot) const {
    return reinterpret_cast<I*>(reinterpret_cast<u8*>(deltas(2)) + u64{slot} * values * sizeof(T));
  }
  // The symbols of the codes of a slot, a byte each. They overlap the codes of the other slot.
  [[nodiscard]] H5L_DEVICE u8* symbols(u32 slot) const { return reinterpret_cast<u8*>(codes<Int<T>>(slot ^ 1)); }
  [[nodiscard]] H5L_DEVICE u32 payload_bytes() const { return values * static_cast<u32>(sizeof(T)) + kPayloadSpare; }
  [[nodiscard]] H5L_DEVICE u8* payload() const { return reinterpret_cast<u8*>(codes<Int<T>>(2)); }
  // 64-bit integers, in raster order. They use the memory of the payload, which is written later.
  [[nodiscard]] H5L_DEVICE i64* integers() const { return reinterpret_cast<i64*>(payload()); }
};

H5L_DEVICE TilePlace place_of(const StagedPlan& plan, const ChunkForm& form, u32 tile) {
  return place_of(plan.finish.encode.shape.dims, form.boxes, form.mode, tile);
}

// What is encoded of a chunk: its values, or their words.
template <bool has_words>
H5L_DEVICE const u8* encoded_of(const StagedPlan& plan, u32 chunk) {
  if constexpr (has_words) {
    return plan.words + chunk * plan.words_stride;
  } else {
    return raw_of(plan.finish.encode, chunk);
  }
}

// Chunks of floats that are lossless are encoded by another launch.
template <bool has_words>
H5L_DEVICE bool is_skipped(const Quantizer& quantizer) {
  return !has_words && quantizer.kind == BoundKind::lossless;
}

// Calls visit(chunk, tile, place, quantizer, mode) for each tile of the thread block, with a barrier after each.
template <bool has_words = false, class Visit>
H5L_DEVICE void for_tiles(const StagedPlan& plan, Visit visit) {
  const u32 tiles = plan.finish.encode.chunks * plan.most_tiles;
  H5L_NO_UNROLL for (u32 i = block_number(); i < tiles; i += grid_blocks()) {
    const u32 chunk = i / plan.most_tiles, tile = i % plan.most_tiles;
    const ChunkForm form = plan.forms[chunk];
    const Quantizer quantizer = plan.quantizers[chunk];
    if (is_skipped<has_words>(quantizer) || tile >= form.tiles) continue;
    visit(chunk, tile, place_of(plan, form, tile), quantizer, form.mode);
    sync_block();
  }
}

// The values of a tile, at their place in the chunk.
template <class T>
class TileValues {
 public:
  H5L_DEVICE TileValues(const u8* raw, const u32 (&dims)[kAxes], const TilePlace& place)
      : extents_{place.shape.extents[0], place.shape.extents[1], place.shape.extents[2], place.shape.extents[3]},
        by_x_(extents_[3]),
        by_y_(extents_[2]),
        by_z_(extents_[1]) {
    u32 stride = 1;
    u64 first = 0;
    H5L_UNROLL for (u32 a = kAxes; a-- > 0;) {
      strides_[a] = stride;
      first += u64{place.begin[a]} * stride;
      stride *= dims[a];
    }
    values_ = reinterpret_cast<const Word<T>*>(raw) + first;
  }

  [[nodiscard]] H5L_DEVICE Word<T> bits(u32 i) const { return *at(i); }
  [[nodiscard]] H5L_DEVICE const Word<T>* at(u32 i) const {
    const u32 row = by_x_.quotient(i), slice = by_y_.quotient(row), w = by_z_.quotient(slice);
    const u32 x = i - row * extents_[3], y = row - slice * extents_[2], z = slice - w * extents_[1];
    return values_ + (u64{w} * strides_[0] + u64{z} * strides_[1] + u64{y} * strides_[2] + x);
  }
  [[nodiscard]] H5L_DEVICE const Word<T>* begin() const { return values_; }
  [[nodiscard]] H5L_DEVICE u32 count() const { return extents_[0] * extents_[1] * extents_[2] * extents_[3]; }
  [[nodiscard]] H5L_DEVICE const u32 (&strides() const)[kAxes] { return strides_; }

 private:
  const Word<T>* values_;
  u32 extents_[kAxes], strides_[kAxes];
  Divisor by_x_, by_y_, by_z_;
};

// The number of entries that a section needs for the patched places. Called by a warp.
H5L_DEVICE u32 patch_entries_by_warp(const u32* patched, u32 words) {
  u32 entries = 0, next = 0;  // next: one past the previous patch
  for (u32 first = 0; first < words; first += kWarpThreads) {
    const u32 w = first + lane();
    const u32 bits = w < words ? patched[w] : 0;
    u32 ends = bits == 0 ? 0 : w * 32 + 32 - count_leading_zeros(bits);  // one past the last patch up to this word
    for (u32 by = 1; by < kWarpThreads; by *= 2) {
      const u32 other = shuffle_up(ends, by);
      ends = other > ends ? other : ends;
    }
    const u32 end = shuffle(ends, kWarpThreads - 1);
    u32 before = shuffle_up(ends, 1);
    if (lane() == 0) before = 0;
    before = before > next ? before : next;
    // Within a word no gap is that large.
    const u32 skips = bits == 0 ? 0 : (w * 32 + lowest_one(bits) - before) / kSkipped;
    entries += sum_of_warp(ones(bits) + skips);
    next = end > next ? end : next;
  }
  return entries;
}

// ---------------------------------------------------------------------------------------------------------------------
// Functions for thread blocks of any size

// Calls visit(i, is_there, bits) for all values of a tile; those of a warp are adjacent, and make a word of a mask.
// Several loads are in flight at once, since a load takes longer than processing what it loads.
template <u32 warps, class T, class Visit>
H5L_DEVICE void for_bits(const TileValues<T>& values, const Shape& shape, Visit visit) {
  constexpr u32 at_once = 4, threads = warps * kWarpThreads;
  H5L_NO_UNROLL for (u32 begin = warp() * kWarpThreads; begin < shape.count; begin += at_once * threads) {
    Word<T> bits[at_once];
    H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
      const u32 i = begin + k * threads + lane();
      bits[k] = i < shape.count ? values.bits(i) : Word<T>{0};
    }
    H5L_UNROLL for (u32 k = 0; k < at_once; ++k) {
      const u32 first = begin + k * threads;
      if (first < shape.count) visit(first + lane(), first + lane() < shape.count, bits[k]);
    }
  }
}

// Sums several numbers over the thread block. `scratch` has a word for each number and warp.
template <u32 warps, u32 n, class W>
H5L_DEVICE void sum_over_block(W (&numbers)[n], W* scratch) {
  H5L_UNROLL for (u32 k = 0; k < n; ++k) numbers[k] = sum_of_warp(numbers[k]);
  sync_block();  // the previous contents have been read
  H5L_UNROLL for (u32 k = 0; k < n; ++k) {
    if (lane() == k) scratch[k * warps + warp()] = numbers[k];
  }
  sync_block();
  H5L_UNROLL for (u32 k = 0; k < n; ++k) {
    numbers[k] = 0;
    H5L_UNROLL for (u32 w = 0; w < warps; ++w) numbers[k] += scratch[k * warps + w];
  }
}
template <u32 warps, class W>
H5L_DEVICE W sum_over_block(W number, W* scratch) {
  W numbers[1] = {number};
  sum_over_block<warps>(numbers, scratch);
  return numbers[0];
}

template <u32 warps>
H5L_DEVICE u32 least_of_block(u32 number, u32* scratch) {
  number = least_of_warp(number);
  sync_block();
  if (lane() == 0) scratch[warp()] = number;
  sync_block();
  u32 least = ~u32{0};
  H5L_UNROLL for (u32 w = 0; w < warps; ++w) least = scratch[w] < least ? scratch[w] : least;
  return least;
}

// The grade of a closed form, as closed_grade finds it, of how many values are beyond each.
template <class T, u32 grades>
H5L_DEVICE u32 grade_of_counts(const u32 (&beyond)[grades], u32 count) {
  static_assert(kMostGrade<T> <= grades);
  u32 grade = 0;
  H5L_UNROLL for (u32 g = 0; g < kMostGrade<T>; ++g) grade += beyond[g] > count / kBeyondShare ? 1 : 0;
  return grade;
}

}  // namespace h5lossy::H5L_TARGET::interp
