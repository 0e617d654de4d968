// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What all decoders share. A thread block decodes one tile after the other, and trusts nothing that a frame says: a payload
// that breaks a rule sets its frame's status, and every read and write stays inside of the frame, of the chunk and of shared
// memory.
#pragma once

#include "vocabulary.cuh"

namespace h5lossy::H5L_TARGET {

using gpu::DecodeJob;
using gpu::DecodePlan;

// Where a tile's payload lies in its frame.
struct TileSpan {
  u32 begin, bytes;
  bool is_sane;
};

H5L_DEVICE void report_corrupt(const DecodePlan& plan) {
  if (thread() == 0) plan.statuses[block_row()] = static_cast<u32>(gpu::DecodeStatus::corrupt);
}

// The payload's share of the checksum, of words [first, end) of the tile, which word(i) gives. `in_flight` loads go ahead of the
// sums, for memory where each takes long.
template <u32 in_flight, class Word>
H5L_DEVICE void sum_payload(const DecodePlan& plan, const DecodeJob& job, u32 tile, u32 first, u32 end, Word word) {
  if (job.check_sum == 0) return;
  u32 sum = 0;
  u32 i = first + thread();
  u32 salt = tile * 0x85EBCA77u + (i + 1) * 0x9E3779B9u;
  const auto add = [&](u32 own) {
    sum += mix(own + salt);
    salt += kThreads * 0x9E3779B9u;
  };
  H5L_NO_UNROLL for (; i + (in_flight - 1) * kThreads < end; i += in_flight * kThreads) {
    u32 words[in_flight];
    H5L_UNROLL for (u32 k = 0; k < in_flight; ++k) words[k] = word(i + k * kThreads);
    H5L_UNROLL for (u32 k = 0; k < in_flight; ++k) add(words[k]);
  }
  if constexpr (in_flight > 1) {
    u32 words[in_flight - 1];
    H5L_UNROLL for (u32 k = 0; k < in_flight - 1; ++k) words[k] = i + k * kThreads < end ? word(i + k * kThreads) : 0;
    H5L_UNROLL for (u32 k = 0; k < in_flight - 1; ++k) {
      if (i + k * kThreads < end) add(words[k]);
    }
  }
  sum = sum_of_warp(sum);
  if (lane() == 0) atomic_add(plan.sums + block_row(), sum);
}

// A frame's job, and where payloads come to.
template <u32 half_bytes>
struct PayloadShared {
  DecodeJob job;
  // Two halves, or one payload that is too large for a half; each with the bytes around it up to multiples of 16.
  alignas(16) u8 area[2 * (half_bytes + 32)];
};

// Brings the payloads of the items that a thread block decodes, every n-th one of a frame, into shared memory: the next one's
// while this one is worked on, if both fit into a half. So what would be one wait after the other, for the job, the tile
// table and the payload, mostly lies behind the work on the items before.
//
// An item is one of the `parts` of a tile, and `most_bytes` are what is brought of a payload that has more.
template <u32 half_bytes, u32 most_bytes, u32 parts = 1>
class Payloads {
  using Shared = PayloadShared<half_bytes>;

 public:
  H5L_DEVICE Payloads(const DecodePlan& plan, Shared& shared, u32 tile_bytes)
      : plan_(plan), shared_(shared), tile_bytes_(tile_bytes) {
    static_assert(sizeof(DecodeJob) % 4 == 0 && half_bytes % 16 == 0 && most_bytes <= 2 * half_bytes);
    const u32* const job = reinterpret_cast<const u32*>(plan.jobs + block_row());
    for (u32 i = thread(); i < sizeof(DecodeJob) / 4; i += kThreads)
      reinterpret_cast<u32*>(&shared.job)[i] = load_constant(job + i);
    sync_block();
    items_ = shared.job.form == plan.form ? shared.job.tiles * parts : 0;
    item_ = block_number();
    if (!has_item()) return;
    const Ends first = load_ends(item_);
    next_ends_ = load_ends(item_ + grid_blocks());
    span_ = span_of(first);
    start(span_, 0);
  }

  [[nodiscard]] H5L_DEVICE bool has_item() const { return item_ < items_; }
  [[nodiscard]] H5L_DEVICE u32 item() const { return item_; }
  [[nodiscard]] H5L_DEVICE u32 tile() const { return shared_.job.first_tile + item_ / parts; }
  [[nodiscard]] H5L_DEVICE const TileSpan& span() const { return span_; }

  // Waits for the item's payload, and starts to bring the next one's.
  H5L_DEVICE void wait() {
    wait_for_copies();
    sync_block();
    const DecodeJob& job = shared_.job;
    if (job.check_table != 0 && item_ % parts == 0 && thread() == 0) {
      atomic_add(plan_.table_sums + block_row(),
                 mix(span_.begin + span_.bytes + (job.header_words + tile()) * 0x9E3779B9u));
    }
    next_ = span_of(next_ends_);
    is_started_ = fits(span_) && fits(next_);
    if (is_started_) start(next_, half_ ^ 1);
    next_ends_ = load_ends(item_ + 2 * grid_blocks());
  }

  // To the next item. Every thread is at the same place.
  H5L_DEVICE void go_on() {
    if (is_started_) {
      half_ ^= 1;
    } else {
      sync_block();
      half_ = 0;
      start(next_, 0);
    }
    item_ += grid_blocks();
    span_ = next_;
  }

  // The item's payload begins `shift` bytes behind here.
  [[nodiscard]] H5L_DEVICE const u8* area() const { return shared_.area + half_ * kHalfBytes; }
  [[nodiscard]] H5L_DEVICE u32 shift() const {
    return static_cast<u32>(reinterpret_cast<u64>(shared_.job.payload + span_.begin)) & 15;
  }

 private:
  static constexpr u32 kHalfBytes = half_bytes + 32;

  // What the tile table says, which nothing is done with before it is needed: it may be long in coming.
  struct Ends {
    u32 begin, end;
  };
  H5L_DEVICE Ends load_ends(u32 item) const {
    if (item >= items_) return {1, 0};
    const u32 tile = shared_.job.first_tile + item / parts;
    const u32* const ends = shared_.job.ends + tile;
    return {tile == 0 ? 0 : load_constant(ends - 1), load_constant(ends)};
  }
  H5L_DEVICE TileSpan span_of(const Ends& ends) const {
    const u32 bytes = ends.end - ends.begin;
    return {ends.begin, bytes, ends.begin <= ends.end && ends.end <= shared_.job.payload_bytes && bytes <= tile_bytes_};
  }

  H5L_DEVICE static u32 brought(const TileSpan& span) { return span.bytes < most_bytes ? span.bytes : most_bytes; }
  H5L_DEVICE static bool fits(const TileSpan& span) { return !span.is_sane || brought(span) <= half_bytes; }

  // Brings a payload, with the bytes around it up to the next multiples of 16.
  H5L_DEVICE void start(const TileSpan& span, u32 half) {
    if (!span.is_sane) return;
    const DecodeJob& job = shared_.job;
    const u8* const from = job.payload + span.begin;
    const u32 shift = static_cast<u32>(reinterpret_cast<u64>(from)) & 15, end = shift + brought(span);
    const u32 left = job.payload_bytes - span.begin + shift;  // of the frame
    u8* const to = shared_.area + half * kHalfBytes;
    H5L_NO_UNROLL for (u32 at = thread() * 16; at < end; at += kThreads * 16) {
      if (at + 16 <= left) {
        copy_async<16>(to + at, from - shift + at);
      } else {
        H5L_NO_UNROLL for (u32 i = at; i < left; ++i) to[i] = load_constant(from - shift + i);
      }
    }
  }

  const DecodePlan& plan_;
  Shared& shared_;
  const u32 tile_bytes_;  // at most, of values
  u32 items_ = 0, item_ = 0;
  u32 half_ = 0;
  bool is_started_ = false;
  TileSpan span_ = {}, next_ = {};
  Ends next_ends_ = {};
};

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
