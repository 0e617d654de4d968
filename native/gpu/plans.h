// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What the host tells the kernels: plain data, compiled on both sides. Pointers are the device's.
#pragma once

#include "codecs/codec.h"
#include "codecs/portable.h"

namespace h5lossy::gpu {

// Threads of every thread block.
inline constexpr u32 kThreads = 128;

// Items are what a thread block encodes at once: tiles, or, of AATROX, parts of tiles.
inline constexpr u32 kPartValues = 4096;

// One thread block may wait for what the next ones of the grid say about their parts of the same tile, so a grid has this
// many at least, or one for each item.
inline constexpr u32 kLeastBlocks = 16;

// How the values of one chunk lie; the same for all chunks of a batch.
struct Shape {
  u32 count;      // values
  u32 raw_bytes;  // of all values
  u32 tiles;
  u32 dims[3];   // z, y, x: with blocks in several dimensions
  u32 boxes[3];  // such blocks along each axis
};

// All chunks of a batch have one shape, one codec and one mode. Chunks whose quantizer is not the kernel's (lossless or
// not) are left out: another launch does them.
struct EncodePlan {
  const u8* const* raw;         // of each chunk; aligned to a value
  u8* const* frames;            // of each chunk, with room for raw_bytes + 40; aligned to 4 bytes
  const Quantizer* quantizers;  // of each chunk, or of all
  u32 quantizer_stride;         // 1, or 0: one for all
  u32 chunks;
  u32 mode;
  u32 header_bytes;
  u32 items_per_chunk;
  u32 with_checksum;
  Shape shape;
  u64* sizes;   // of each item, 0 at the start: see placing.cuh
  u32* sums;    // of each chunk: checksum of its payload, 0 at the start
  u32* totals;  // of each chunk: bytes of its payload
};

// Headers, and stored frames for chunks that do not shrink.
struct FinishPlan {
  EncodePlan encode;
  double bound;  // as requested
  u32 requested_kind;
  u32 codec;
  u32 value_bytes;
  u32 big_endian;     // what the header says; the values are little-endian here
  u32* done;          // of each chunk: thread blocks that have stored their share, 0 at the start
  u64* frame_bytes;   // of each chunk
};

// Why a frame could not be decoded.
enum class DecodeStatus : u32 { ok = 0, corrupt = 1 };

// One frame, whose header and tile table have been checked.
struct DecodeJob {
  const u8* payload;  // aligned to 4 bytes
  const u32* ends;    // tile table
  u8* raw;            // aligned to a value; receives values [first, first + wanted)
  u64 first, wanted;
  u32 payload_bytes;
  u32 first_tile;  // the first tile that holds any of them
  u32 tiles;       // that hold them
  u32 check_sum;   // whether payload_sum is there to be checked
  u32 payload_sum;
  Quantizer quantizer;
  Shape shape;
};

struct DecodePlan {
  const DecodeJob* jobs;
  u32 count;
  u32 mode;
  u32* sums;       // of each frame: checksum of its payload, 0 at the start
  u32* statuses;   // of each frame: DecodeStatus, 0 at the start
};

}  // namespace h5lossy::gpu
