// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What is done for whole chunks: headers and stored frames after encoding, the checksum's verdict after decoding, and the
// range of a chunk's values before a range-relative bound.
#pragma once

#include "codecs/bounds.h"
#include "placing.cuh"
#include "reading.cuh"

namespace h5lossy::H5L_TARGET {

using gpu::FinishPlan;

struct FinishShared {
  u32 totals[kWarps];
};

// A frame's header (docs/format/frame.md) as words; its own sum is still 0.
struct HeaderWords {
  u32 words[13];
  u32 count;
};

H5L_DEVICE HeaderWords make_header(const FinishPlan& plan, const Quantizer& quantizer, bool is_stored, u32 payload_sum) {
  const EncodePlan& encode = plan.encode;
  HeaderWords header = {};
  header.count = is_stored ? 10 : encode.header_bytes / 4;
  const u32 codec = is_stored ? 0 : plan.codec;
  const u32 mode = is_stored ? 0 : encode.mode;
  const u32 kind = is_stored ? plan.requested_kind : static_cast<u32>(quantizer.kind);
  header.words[0] = 0x594C3548;  // "H5LY"
  header.words[1] = 1 | header.count << 8 | codec << 16 | (plan.value_bytes | (plan.big_endian != 0 ? 0x80u : 0)) << 24;
  header.words[2] = kind | mode << 8 | (encode.with_checksum != 0 ? 1u : 0) << 16;
  header.words[3] = encode.shape.raw_bytes;
  header.words[5] = encode.with_checksum != 0 ? payload_sum : 0;
  const u64 bound = bit_cast<u64>(plan.bound);
  header.words[6] = static_cast<u32>(bound);
  header.words[7] = static_cast<u32>(bound >> 32);
  u64 step = quantizer.kind == BoundKind::pointwise_relative ? quantizer.scale : bit_cast<u64>(quantizer.step);
  if (is_stored || quantizer.kind == BoundKind::lossless) step = 0;
  header.words[8] = static_cast<u32>(step);
  header.words[9] = static_cast<u32>(step >> 32);
  for (u32 i = 0; i < 3; ++i) header.words[10 + i] = encode.shape.dims[i];
  return header;
}

// Writes a header with its sum, over all words but its own, of which `table_sum` is the tile table's share. By one thread.
H5L_DEVICE void write_header(HeaderWords header, u32 table_sum, u8* frame) {
  u32 sum = table_sum;
  for (u32 i = 0; i < header.count; ++i) {
    if (i != 4) sum += mix(header.words[i] + (i < 4 ? i + 1 : i) * 0x9E3779B9u);
  }
  header.words[4] = sum;
  for (u32 i = 0; i < header.count; ++i) reinterpret_cast<u32*>(frame)[i] = header.words[i];
}

// A column of thread blocks for each chunk (block_row). The first one writes the header; all together store the chunk where
// its frame would not shrink.
template <bool is_lossless>
H5L_DEVICE void finish_frames(const FinishPlan& plan) {
  const EncodePlan& encode = plan.encode;
  const u32 chunk = block_row();
  const Quantizer& quantizer = quantizer_of(encode, chunk);
  if ((quantizer.kind == BoundKind::lossless) != is_lossless) return;
  u32* const totals = reinterpret_cast<FinishShared*>(shared_memory())->totals;
  u8* const frame = encode.frames[chunk];
  const u32 payload = encode.totals[chunk];
  const u64 frame_bytes = encode.header_bytes + u64{4} * encode.shape.tiles + payload;
  u32 sum = 0;
  if (frame_bytes < u64{40} + encode.shape.raw_bytes) {
    if (block_number() != 0) return;
    const u32 first = encode.header_bytes / 4;
    for (u32 i = thread(); i < encode.shape.tiles; i += kThreads) {
      sum += mix(reinterpret_cast<const u32*>(frame)[first + i] + (first + i) * 0x9E3779B9u);
    }
    u32 table_sum = 0;
    scan_of_block(sum, totals, table_sum);
    if (thread() != 0) return;
    write_header(make_header(plan, quantizer, false, encode.sums[chunk]), table_sum, frame);
    plan.frame_bytes[chunk] = frame_bytes;
    return;
  }
  // The checksum of what did not shrink is of no use; the stored values' goes where it was, once all blocks are here. They
  // add to a second word.
  const u32* const words = reinterpret_cast<const u32*>(encode.raw[chunk]);
  u32* const out = reinterpret_cast<u32*>(frame + 40);
  const u32 count = encode.shape.raw_bytes / 4;
  for (u32 i = block_number() * kThreads + thread(); i < count; i += grid_blocks() * kThreads) {
    out[i] = words[i];
    sum += mix(words[i] + (i + 1) * 0x9E3779B9u);
  }
  u32 total = 0;
  scan_of_block(sum, totals, total);
  if (thread() != 0) return;
  atomic_add(plan.done + 2 * chunk + 1, total);
  fence();
  if (atomic_add_and_get(plan.done + 2 * chunk, 1) + 1 != grid_blocks()) return;
  const u32 stored_sum = atomic_add_and_get(plan.done + 2 * chunk + 1, 0);
  write_header(make_header(plan, quantizer, true, stored_sum), 0, frame);
  plan.frame_bytes[chunk] = u64{40} + encode.shape.raw_bytes;
}

// One thread for each frame.
H5L_DEVICE void check_sums(const DecodePlan& plan) {
  const u32 i = block_number() * kThreads + thread();
  if (i >= plan.count || plan.jobs[i].check_sum == 0) return;
  if (plan.sums[i] != plan.jobs[i].payload_sum) plan.statuses[i] = static_cast<u32>(gpu::DecodeStatus::corrupt);
}

}  // namespace h5lossy::H5L_TARGET
