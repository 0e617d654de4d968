// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What all decoders share. A thread block decodes one tile, and trusts nothing that a frame says: a payload that breaks a
// rule sets its frame's status, and every read and write stays inside of the frame, of the chunk and of shared memory.
#pragma once

#include "vocabulary.cuh"

namespace h5lossy::H5L_TARGET {

using gpu::DecodeJob;
using gpu::DecodePlan;

struct TileSpan {
  u32 begin, bytes;
  bool is_sane;
};

// Where a tile's payload lies. `is_first`: of the thread blocks that work on the tile, this one counts its entry.
H5L_DEVICE TileSpan span_of(const DecodePlan& plan, const DecodeJob& job, u32 tile, u32 raw_bytes, bool is_first = true) {
  const u32 begin = tile == 0 ? 0 : load_constant(job.ends + tile - 1);
  const u32 end = load_constant(job.ends + tile);
  if (job.check_table != 0 && is_first && thread() == 0) {
    atomic_add(plan.table_sums + block_row(), mix(end + (job.header_words + tile) * 0x9E3779B9u));
  }
  return {begin, end - begin, begin <= end && end <= job.payload_bytes && end - begin <= raw_bytes};
}

H5L_DEVICE void report_corrupt(const DecodePlan& plan) {
  if (thread() == 0) plan.statuses[block_row()] = static_cast<u32>(gpu::DecodeStatus::corrupt);
}

// The payload's share of the checksum, of words [first, end) of the tile, which word(i) gives, padded with zeros. Loads go
// ahead of the sums, since each may take long.
template <class Word>
H5L_DEVICE void sum_payload(const DecodePlan& plan, const DecodeJob& job, u32 tile, u32 first, u32 end, Word word) {
  if (job.check_sum == 0) return;
  constexpr u32 in_flight = 8;
  u32 sum = 0;
  u32 salt = tile * 0x85EBCA77u + (first + thread() + 1) * 0x9E3779B9u;
  H5L_NO_UNROLL for (u32 i = first + thread(); i < end; i += in_flight * kThreads) {
    u32 words[in_flight];
    H5L_UNROLL for (u32 k = 0; k < in_flight; ++k) words[k] = i + k * kThreads < end ? word(i + k * kThreads) : 0;
    H5L_UNROLL for (u32 k = 0; k < in_flight; ++k) {
      if (i + k * kThreads < end) sum += mix(words[k] + salt);
      salt += kThreads * 0x9E3779B9u;
    }
  }
  sum = sum_of_warp(sum);
  if (lane() == 0) atomic_add(plan.sums + block_row(), sum);
}

// Stores the rows, which hold `count` values from number `first` of the chunk on, as far as they are wanted. Every thread
// has just written its own.
template <u32 row_bytes, class W>
H5L_DEVICE void finish_values(const DecodeJob& job, const u8* rows, u64 first, u32 count) {
  if (first >= job.first && first + count <= job.first + job.wanted) {
    finish_rows<row_bytes, W>(rows, job.raw + (first - job.first) * sizeof(W), count * static_cast<u32>(sizeof(W)));
    return;
  }
  sync_block();
  for (u32 i = thread(); i < count; i += kThreads) {
    if (first + i < job.first || first + i >= job.first + job.wanted) continue;
    reinterpret_cast<W*>(job.raw)[first + i - job.first] = *reinterpret_cast<const W*>(
        rows + place_in_rows<row_bytes>(i * sizeof(W) / row_bytes, i * sizeof(W) % row_bytes / 16) +
        i * sizeof(W) % 16);
  }
}

}  // namespace h5lossy::H5L_TARGET
