// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The codec headers in device code: kernels that take every function that they are to share with the CPU. Compiled, not
// run, by nvcc and by NVRTC, so no machine with a GPU is needed. It includes nothing of its own: NVRTC has no standard
// library.

#include "codecs/aatrox.h"
#include "codecs/blocks.h"
#include "codecs/cuszp2.h"
#include "codecs/pfpl.h"

namespace h5lossy::cuda {

// PFPL: what becomes of a group of values: words, differences, planes, and back.
template <class T, class Q>
__global__ void group_round_trip(Q q, const u8* values, u8* decoded, u32* counts) {
  using W = Word<T>;
  constexpr u32 n = pfpl::kGroupValues<T>;
  const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
  values += thread * n * sizeof(W);
  decoded += thread * n * sizeof(W);
  W rows[n];
  W last = 0, used = 0;
  bool all_have_words = true;
  for (u32 i = 0; i < n; ++i) {
    W word;
    all_have_words &= pfpl::word_of(q, load<W>(values + i * sizeof(W)), word);
    rows[i] = to_negabinary(static_cast<W>(word - last));
    used |= rows[i];
    last = word;
  }
  const u32 zero_rows = used == 0 ? n : count_leading_zeros(used);
  transpose_to_planes<W>(rows, zero_rows);
  u32 count = all_have_words ? 0 : n;
  for (u32 i = 0; i < n; ++i) {
    const u64 plane = rows[i];
    count += count_ones(u64{nonzero_bytes(plane)});
    u8 kept[8] = {};
    compact_bytes(plane, nonzero_bytes(plane), kept);
    rows[i] = static_cast<W>(spread_bytes(kept, nonzero_bytes(plane)));
  }
  transpose_from_planes<W>(rows, zero_rows);
  last = 0;
  for (u32 i = 0; i < n; ++i) {
    last += from_negabinary<W>(rows[i]);
    store<W>(decoded + i * sizeof(W), pfpl::bits_of(q, last));
  }
  counts[thread] = count;
}

template __global__ void group_round_trip<float>(AbsoluteQuantizer<float>, const u8*, u8*, u32*);
template __global__ void group_round_trip<float>(PointwiseQuantizer<float>, const u8*, u8*, u32*);
template __global__ void group_round_trip<float>(pfpl::NoQuantizer<float>, const u8*, u8*, u32*);
template __global__ void group_round_trip<double>(AbsoluteQuantizer<double>, const u8*, u8*, u32*);
template __global__ void group_round_trip<double>(PointwiseQuantizer<double>, const u8*, u8*, u32*);
template __global__ void group_round_trip<double>(pfpl::NoQuantizer<double>, const u8*, u8*, u32*);

template <class T>
H5L_FN AbsoluteQuantizer<T> quantizer_of(const Quantizer& quantizer, const AbsoluteQuantizer<T>*) {
  return absolute_quantizer<T>(quantizer);
}

template <class T>
H5L_FN blocks::FoldedQuantizer<T> quantizer_of(const Quantizer& quantizer, const blocks::FoldedQuantizer<T>*) {
  return blocks::folded_quantizer<T>(quantizer);
}

// cuSZp2: what becomes of a block: bins, differences, a code, planes, and back. The values behind the first one are in
// `tile`.
template <class T, u32 n, u32 dimensions, class Q>
__global__ void block_round_trip(Quantizer quantizer, u32 mode_byte, Tile tile, const u8* values, u8* planes,
                                 u8* decoded, u64* masks, u32* codes) {
  using namespace blocks;
  using namespace cuszp2;
  using W = Word<T>;
  const u32 block = blockIdx.x * blockDim.x + threadIdx.x;
  Mode mode;
  if (!unpack_mode(mode_byte, mode) || block >= count_blocks<n>(tile)) return;
  const Q q = quantizer_of(quantizer, static_cast<const Q*>(nullptr));
  values += block * n * sizeof(W);
  decoded += block * n * sizeof(W);

  W bins[n], words[n];
  u64 exceptions = 0;
  for (u32 i = 0; i < n; ++i) {
    if (!bin_of(q, load<W>(values + i * sizeof(W)), bins[i])) exceptions |= u64{1} << i;
  }
  const u64 inside = inside_of<n>(tile, block);
  const u64 positions = to_positions(exceptions & first_bits(count_ones(inside)), inside);
  masks[block] = positions == 0 ? 0 : to_values(positions, inside) | u64{1} << lowest_bit(positions);

  words[0] = to_sign_last(bins[0]);
  W all = words[0];
  for (u32 i = 1; i < n; ++i) {
    words[i] = to_sign_last(static_cast<W>(bins[i] - bins[before<dimensions>(i)]));
    all |= words[i];
  }
  Code code = {width_of<W>(all >> 1), first_size_of<W>(words[0] >> 1)};
  const u32 packed = pack_code<T>(code);
  const bool taken = unpack_code<T>(packed, mode.selection == Selection::outlier,
                                    cuszp2::max_width<T>(mode.selection != Selection::fixed), code);
  codes[block] = pack_mode(mode) << 16 | (taken ? padded(cuszp2::planes_bytes<n>(code)) : packed);

  u8* const begin = planes + block * (blocks::planes_bytes<n>(cuszp2::max_width<T>(true)) + kPlanesOverrun);
  store_planes<n>(words, code.first_size == 0 ? ~W{0} : W{1}, code.width + 1, begin);
  Plane<n> rows[kMaxRows<cuszp2::max_width<T>(true)>];
  load_planes<n>(begin, code.width + 1, rows);
  words_of_rows<n>(rows, code.width + 1, words);
  bins[0] = from_sign_last(words[0]);
  for (u32 i = 1; i < n; ++i) bins[i] = from_sign_last(words[i]) + bins[before<dimensions>(i)];
  for (u32 i = 0; i < n; ++i) store<W>(decoded + i * sizeof(W), bits_of(q, bins[i]));
}

#define H5L_BLOCK_ROUND_TRIP(T, n, dimensions, Q) \
  template __global__ void block_round_trip<T, n, dimensions, Q<T>>(Quantizer, u32, Tile, const u8*, u8*, u8*, u64*, u32*);
H5L_BLOCK_ROUND_TRIP(float, 32, 1, AbsoluteQuantizer)
H5L_BLOCK_ROUND_TRIP(float, 32, 1, blocks::FoldedQuantizer)
H5L_BLOCK_ROUND_TRIP(double, 32, 1, AbsoluteQuantizer)
H5L_BLOCK_ROUND_TRIP(double, 32, 1, blocks::FoldedQuantizer)
H5L_BLOCK_ROUND_TRIP(float, 64, 2, AbsoluteQuantizer)
H5L_BLOCK_ROUND_TRIP(double, 64, 2, blocks::FoldedQuantizer)
H5L_BLOCK_ROUND_TRIP(float, 64, 3, blocks::FoldedQuantizer)
H5L_BLOCK_ROUND_TRIP(double, 64, 3, AbsoluteQuantizer)

// AATROX: how large things are; its blocks are like cuSZp2's of one dimension.
template <class T>
__global__ void tile_sizes(u32* sizes) {
  using namespace aatrox;
  sizes[0] = kTileValues;
  sizes[1] = blocks::padded(kMaxBlocks) + kBlockValues;
  sizes[2] = blocks::planes_bytes<kBlockValues>(kMaxWidth<T>) + blocks::kGroupBlocks;
}

template __global__ void tile_sizes<float>(u32*);
template __global__ void tile_sizes<double>(u32*);

}  // namespace h5lossy::cuda
