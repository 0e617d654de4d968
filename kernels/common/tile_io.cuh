// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Shared by all decoders. A thread block decodes a tile (or a part of one) and trusts nothing in a frame: an
// invalid payload sets the frame's status, and no access leaves the frame, the chunk or shared memory.
#pragma once

#include "frame/header.h"
#include "kernels/common/device_primitives.cuh"
#include "kernels/common/quantizing.cuh"

namespace h5lossy::H5L_TARGET {

using gpu::DecodeJob;
using gpu::DecodePlan;
using gpu::DecodeSums;
using gpu::FrameForm;

// Where a tile's payload is in its frame.
struct TileSpan {
  u32 begin, bytes;
  bool is_valid;
};

H5L_DEVICE const u8* frame_of(const DecodePlan& plan) { return plan.frames + block_row() * plan.frame_stride; }
H5L_DEVICE const u8* payloads_of(const DecodePlan& plan, const DecodeJob& job) {
  return frame_of(plan) + plan.header_bytes + u64{kTileEntryBytes} * job.tiles.count;
}
H5L_DEVICE u8* raw_of(const DecodePlan& plan) { return plan.raw + block_row() * plan.raw_stride; }

// Both may be called by several thread blocks.
H5L_DEVICE void report(const DecodePlan& plan, gpu::DecodeStatus status) {
  if (thread() == 0) store_relaxed(plan.statuses + block_row(), static_cast<u32>(status));
}
H5L_DEVICE void report_corrupt(const DecodePlan& plan) { report(plan, gpu::DecodeStatus::corrupt); }

template <class T, class Q>
H5L_DEVICE Q quantizer_of(const DecodeJob& job) {
  return quantizer_as<T, Q>(quantizer_of_step(BoundKind::absolute, job.step_bits));
}

// A value stored at a word.
template <class W>
H5L_DEVICE W value_at(const u32* word) {
  if constexpr (sizeof(W) == 4) {
    return load_constant(word);
  } else {
    return load_constant(word) | static_cast<W>(load_constant(word + 1)) << 32;
  }
}

// Several sums per frame, so that atomic additions do not serialize.
H5L_DEVICE DecodeSums* sums_of(const DecodePlan& plan, u32 item) {
  return plan.sums + block_row() * plan.slots + (item & (plan.slots - 1));
}

H5L_DEVICE TileSpan span_of(const DecodePlan& plan, const DecodeJob& job, u32 tile, u32 tile_bytes) {
  const u32* const ends = reinterpret_cast<const u32*>(frame_of(plan) + plan.header_bytes) + tile;
  const u32 begin = tile == 0 ? 0 : load_constant(ends - 1), end = load_constant(ends), bytes = end - begin;
  return {begin, bytes, begin <= end && end <= job.payload_bytes && bytes <= tile_bytes};
}

// Calls decode(tile, part, span) for this thread block's items of its frame; each tile has `parts` items. With fewer
// thread blocks than items (is_strided), each takes every n-th.
template <u32 parts, bool is_strided, class Decode>
H5L_DEVICE void for_own_items(const DecodePlan& plan, const DecodeJob& job, u32 tile_bytes, Decode decode) {
  if (job.form != plan.form) return;
  for (u32 item = block_number(); item < job.tiles.wanted * parts; item += grid_blocks()) {
    if (is_strided && item != block_number()) sync_block();  // shared memory is free again
    const u32 tile = job.tiles.first + item / parts, part = item % parts;
    const TileSpan span = span_of(plan, job, tile, tile_bytes);
    if (job.check_table != 0 && part == 0 && thread() == 0) {
      atomic_add(&sums_of(plan, tile)->table, table_sum_share(span.begin + span.bytes, plan.header_bytes, tile));
    }
    decode(tile, part, span);
    if (!is_strided) break;
  }
}

// Prefetches a share of the payload. Decoding reads it in steps that depend on each other, so a tile's parts request
// all of it up front, and no step waits for device memory.
H5L_DEVICE void prefetch_share(const u8* payload, u32 bytes, u32 part, u32 parts) {
  const u32 share = bytes / parts;
  for (u32 at = thread() * kLineBytes; at < share; at += kThreads * kLineBytes) prefetch(payload + part * share + at);
}

// A thread's share of the checksum of a tile's payload.
class PayloadSum {
 public:
  H5L_DEVICE PayloadSum(const DecodePlan& plan, const DecodeJob& job, u32 tile)
      : plan_(plan), is_enabled_(job.check_sum != 0), tile_(tile) {}

  [[nodiscard]] H5L_DEVICE bool is_enabled() const { return is_enabled_; }
  // Adds word `number` of the payload (zero-padded), if `is_there`; without a branch.
  H5L_DEVICE void add(u32 word, u32 number, bool is_there = true) {
    const u32 own = mix(word + salt_of(tile_, 0) + number * kWordSalt);
    sum_ += is_there ? own : 0;
  }
  // Adds the thread's share of the words [first, end).
  H5L_DEVICE void add_words(const u32* payload, u32 first, u32 end, u32 own = thread(), u32 threads = kThreads) {
    if (!is_enabled_) return;
    H5L_NO_UNROLL for (u32 i = first + own; i < end; i += threads) add(load_constant(payload + i), i);
  }
  H5L_DEVICE void finish() const {
    if (!is_enabled_) return;
    const u32 sum = sum_of_warp(sum_);
    if (lane() == 0) atomic_add(&sums_of(plan_, tile_)->payload, sum);
  }

 private:
  const DecodePlan& plan_;
  const bool is_enabled_;
  const u32 tile_;
  u32 sum_ = 0;
};

// Stores rows of `count` values from value `first` of the chunk on, clipped to the requested range. Each thread has
// just written its own row.
template <u32 row_bytes, class W>
H5L_DEVICE void finish_values(const DecodePlan& plan, const u8* rows, u64 first, u32 count) {
  u8* const raw = raw_of(plan);
  if (first >= plan.first && first + count <= plan.first + plan.wanted) {
    finish_rows<row_bytes, W>(rows, raw + (first - plan.first) * sizeof(W), count * static_cast<u32>(sizeof(W)));
    return;
  }
  sync_block();
  for (u32 i = thread(); i < count; i += kThreads) {
    if (first + i < plan.first || first + i >= plan.first + plan.wanted) continue;
    reinterpret_cast<W*>(raw)[first + i - plan.first] = *reinterpret_cast<const W*>(
        rows + place_in_rows<row_bytes>(i * sizeof(W) / row_bytes, i * sizeof(W) % row_bytes / 16) +
        i * sizeof(W) % 16);
  }
}

// Copies `count` raw values from a payload, starting with value `first` of the chunk, clipped to the requested range.
// word(i) is the i-th word of the values.
template <class W, class WordOf>
H5L_DEVICE void copy_values(const DecodePlan& plan, u64 first, u32 count, WordOf word) {
  constexpr u32 value_words = sizeof(W) / 4;
  u32* const raw = reinterpret_cast<u32*>(raw_of(plan));
  H5L_NO_UNROLL for (u32 i = thread(); i < count * value_words; i += kThreads) {
    const u32 own = word(i);
    const u64 number = first + i / value_words;
    if (number >= plan.first && number < plan.first + plan.wanted)
      raw[(number - plan.first) * value_words + i % value_words] = own;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The end of a call

// A stored frame is copied by a column of thread blocks.
H5L_DEVICE void copy_stored(const DecodePlan& plan, const DecodeJob& job) {
  const u32 value_bytes = plan.shape.raw_bytes / plan.shape.count;
  const u8* const from = frame_of(plan) + kHeaderBytes + plan.first * value_bytes;
  u8* const to = raw_of(plan);
  PayloadSum sum(plan, job, 0);
  const u64 bytes = plan.wanted * value_bytes;
  for (u64 i = block_number() * kThreads + thread(); 4 * i < bytes; i += grid_blocks() * kThreads) {
    const u32 size = bytes - 4 * i < 4 ? static_cast<u32>(bytes - 4 * i) : 4;
    const u32 word = load_some(from + 4 * i, size);
    store_some(to + 4 * i, size, word);
    if (sum.is_enabled()) sum.add(word, static_cast<u32>(i));
  }
  sum.finish();
}

// Compares the sums with the header's. Frames of the main form were decoded by an earlier launch; for the others, the
// last thread block to finish compares.
H5L_DEVICE void check_sums(const DecodePlan& plan, const DecodeJob& job) {
  if (job.check_sum == 0 && job.check_table == 0) return;
  if (job.form == FrameForm::main) {
    if (block_number() != 0) return;
  } else {
    sync_block();
    bool is_last = false;
    if (thread() == 0) {
      fence();
      is_last = atomic_add_and_get(&sums_of(plan, 0)->done, 1) + 1 == grid_blocks();
      fence();  // read the other blocks' sums after their counts
    }
    if (!any_in_block(is_last)) return;
  }
  if (warp() != 0) return;
  static_assert(gpu::kMostSlots <= kWarpThreads);
  const DecodeSums* const sums = sums_of(plan, lane());
  const bool is_slot = lane() < plan.slots;
  const u32 payload = sum_of_warp(is_slot ? load_relaxed(&sums->payload) : 0);
  const u32 table = sum_of_warp(is_slot ? load_relaxed(&sums->table) : 0);
  if (lane() != 0) return;
  if (job.check_table != 0 && table != job.table_sum) {
    plan.statuses[block_row()] = static_cast<u32>(gpu::DecodeStatus::other);
  } else if (job.check_sum != 0 && payload != job.payload_sum) {
    plan.statuses[block_row()] = static_cast<u32>(gpu::DecodeStatus::corrupt);
  }
}

}  // namespace h5lossy::H5L_TARGET
