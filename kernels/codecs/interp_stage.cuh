// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Shared by the kernels of Interp's decoder: a tile's place in its chunk, what the first kernel leaves to the later
// ones, and patches. The rANS of a tile is one chain of steps for a warp, while its integers need a thread block and
// its shared memory; so they have separate kernels.
#pragma once

#include "codecs/interp/coding.h"
#include "codecs/interp/format.h"
#include "codecs/interp/grid.h"
#include "kernels/common/quantizing.cuh"
#include "kernels/common/tile_io.cuh"

namespace h5lossy::H5L_TARGET {

namespace interp {
// In place of a quantizer: integers are the words of a chunk's WordLattice.
template <class T>
struct Words {};
}  // namespace interp

template <class T>
struct QuantizerAs<T, interp::Lattice<T>> {
  H5L_DEVICE static interp::Lattice<T> make(const Quantizer& q) { return interp::tile_lattice_of<T>(q); }
};
template <class T>
struct QuantizerAs<T, interp::Words<T>> {
  H5L_DEVICE static interp::Words<T> make(const Quantizer&) { return {}; }
};

namespace interp {

using i16 = short;

template <class Q>
inline constexpr bool kHasWords = false;
template <class T>
inline constexpr bool kHasWords<Words<T>> = true;

// Bytes of a value. Words have more than the values of some types.
template <class T, bool has_words>
H5L_DEVICE u32 value_bytes_of(const DecodePlan& plan) {
  return has_words ? plan.shape.raw_bytes / plan.shape.count : static_cast<u32>(sizeof(T));
}

// Whether a tile has codes, which the first kernel reads. The second one reads the other tiles itself, or reports what
// is wrong with them.
template <class T>
H5L_DEVICE bool has_codes(const TileSpan& span, u32 raw_bytes) {
  return span.is_valid && span.bytes < raw_bytes && (span.begin | span.bytes) % 2 == 0 && span.bytes != 0 &&
         span.bytes != sizeof(T);
}

// Values have fine points if their bound is absolute or range-relative.
template <class Q>
inline constexpr bool kIsLattice = false;
template <class T>
inline constexpr bool kIsLattice<Lattice<T>> = true;

// A tile's box in the chunk.
struct TilePlace {
  u32 begin[kAxes];
  Shape shape;
  u32 whole_values = 1;  // of a tile that the chunk's end does not cut off
};

H5L_DEVICE TilePlace place_of(const u32 (&dims)[kAxes], const u32 (&boxes)[kAxes], u32 mode, u32 tile) {
  TilePlace place;
  u16 extents[kAxes];
  H5L_UNROLL for (u32 i = kAxes; i-- > 0; tile /= boxes[i]) {
    // The extent of a whole box is the least one with which `boxes` boxes suffice.
    const u32 whole = (dims[i] + boxes[i] - 1) / boxes[i];
    place.whole_values *= whole;
    place.begin[i] = tile % boxes[i] * whole;
    const u32 left = dims[i] - place.begin[i];
    extents[i] = static_cast<u16>(left < whole ? left : whole);
  }
  place.shape = shape_of(extents, mode & kAxesMask);
  return place;
}

H5L_DEVICE TilePlace place_of(const DecodePlan& plan, const DecodeJob& job, u32 tile) {
  return place_of(plan.shape.dims, job.tiles.boxes, job.mode, tile);
}

struct StageRecord {
  Head head;
  u64 common;         // bits of exceptions that are not among the others
  u32 others_at;      // in the payload: bits of the other exceptions
  u32 others_stride;  // 0 if these have the same bits
  u32 patches_at;     // in the payload
  u32 codes;          // of integers: their number
  u32 is_fine;        // if 0, the payload is corrupt, and the other members are not set
  u32 is_left;        // left by the second kernel to the third
};
static_assert(sizeof(StageRecord) <= kStageRecordBytes);

inline constexpr u32 kSymbolsAtOnce = 4;  // symbols of a lane that share a word

// A tile's memory between the two kernels.
struct Stage {
  u8* memory;
  u32 values;  // room for this many

  H5L_DEVICE Stage(const DecodePlan& plan, const DecodeJob& job, u32 tile, const TilePlace& place)
      : memory(plan.stages + (u64{block_row()} * plan.tiles + (tile - job.tiles.first)) * plan.stage_bytes),
        values(stage_values(place.whole_values)) {}

  [[nodiscard]] H5L_DEVICE StageRecord& record() const { return *reinterpret_cast<StageRecord*>(memory); }
  // Exceptions; exceptions whose bits are not `common`; and the number of the latter before each word.
  [[nodiscard]] H5L_DEVICE u32* mask() const { return reinterpret_cast<u32*>(memory + kStageRecordBytes); }
  [[nodiscard]] H5L_DEVICE u32* others() const { return mask() + values / 32; }
  [[nodiscard]] H5L_DEVICE u16* ranks() const { return reinterpret_cast<u16*>(others() + values / 32); }
  // Used by the first kernel only: word 32 i + j has symbol j of the four blocks from 4 i on, a byte each.
  [[nodiscard]] H5L_DEVICE u32* symbols() const { return reinterpret_cast<u32*>(ranks() + values / 32); }
  // Steps from predictions to integers, in coding order, padded to whole blocks.
  template <class I>
  [[nodiscard]] H5L_DEVICE I* steps() const {
    return reinterpret_cast<I*>(symbols() + values / kSymbolsAtOnce);
  }
  // Integers of 64 bits, in raster order.
  [[nodiscard]] H5L_DEVICE i64* integers() const { return steps<i64>() + values; }
};

H5L_DEVICE u32 half_at(const u8* from) { return load_constant(reinterpret_cast<const u16*>(from)); }

// Calls visit(place, delta) for the patches of a section, one thread of the warp for each; the section begins at an
// even address. Returns false, in all threads, if a place is past the tile's end; such patches are not visited.
template <class Visit>
H5L_DEVICE bool for_patches_by_warp(const u8* section, u32 entries, u32 count, Visit visit) {
  u32 before = 0;
  bool is_fine = true;
  H5L_NO_UNROLL for (u32 first = 0; first < entries; first += kWarpThreads) {
    const u32 i = first + lane();
    const u32 entry = i < entries ? half_at(section + 2 * i) : kSkip;
    const u32 gap = i >= entries ? 0 : entry == kSkip ? kSkipped : (entry >> 4) + 1;
    const u32 next = before + scan_of_warp(gap);
    before = shuffle(next, kWarpThreads - 1);
    if (entry == kSkip) continue;
    if (next > count) {
      is_fine = false;
    } else {
      visit(next - 1, patch_of(entry));
    }
  }
  return !any_in_warp(!is_fine);
}

}  // namespace interp
}  // namespace h5lossy::H5L_TARGET
