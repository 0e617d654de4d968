// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The codec headers in device code: one kernel that takes every function that kernels are to share with the CPU.
// Compiled, not run, by nvcc and by NVRTC, so no machine with a GPU is needed. It includes nothing of its own: NVRTC
// has no standard library.

#include "codecs/pfpl.h"

namespace h5lossy::cuda {

// What becomes of a group of values: words, differences, planes, and back.
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

}  // namespace h5lossy::cuda
