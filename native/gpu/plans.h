// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Parameters of the codec kernels: plain data, compiled on both sides. Pointers are the device's.
#pragma once

#include "codecs/codec.h"
#include "codecs/portable.h"

namespace h5lossy::gpu {

// Threads of a thread block, unless a kernel says otherwise (kThreadsWith).
inline constexpr u32 kThreads = 128;

// Items are what a thread block encodes at once: tiles, or parts of tiles that are split.
inline constexpr u32 kPartValues = 4096;

// Tiles whose sizes are added up. Where items are parts, the sizes of a tile's are.
inline constexpr u32 kGroupTiles = 32;

// One thread block may wait for what the next ones of the grid say about their parts of the same tile, so a grid has this
// many at least, or one for each item.
inline constexpr u32 kLeastBlocks = 16;

// How the values of one chunk lie; the same for all chunks of a batch.
struct Shape {
  u32 count;      // values
  u32 raw_bytes;  // of all values
  u32 tiles;
  u32 dims[kAxes];   // w, z, y, x; without dims in the header {1, 1, 1, count}
  u32 boxes[kAxes];  // along each axis
};

// All chunks of a batch have one shape, one codec and one mode. Chunks whose quantizer is not the kernel's (lossless or
// not) are left out: another launch does them.
struct EncodePlan {
  const u8* raw;  // of the first chunk; aligned to a value, and so is the stride
  u64 raw_stride;
  u8* frames;  // each with room for raw_bytes + kHeaderBytes; aligned to 4 bytes, and so is the stride
  u64 frame_stride;
  const Quantizer* quantizers;  // of each chunk; null: all have `quantizer`
  Quantizer quantizer;
  u32 chunks;
  u32 mode;
  u32 header_bytes;
  u32 items_per_chunk;
  u32 chunk_step, index_step;  // from an item to the one that a thread block takes next: chunks, and items in one
  u32 with_checksum;
  Shape shape;
  u32* sizes;       // of each item, where items are tiles; 0 at the start: see kernels/common/lookback.cuh
  u32* group_sums;  // of groups of these, or of each tile's parts; 0 at the start
  u32 groups_per_chunk;
  u64* parts;  // where they are parts of tiles: a word for each, 0 at the start, and behind them three more for each
  u32* sums;   // of each chunk: checksum of its payload, 0 at the start
  u32* table_sums;  // of each chunk: the tile table's share of the header's checksum, 0 at the start
  u32* totals;      // of each chunk: bytes of its payload
};

// Headers, and stored frames for chunks that do not shrink.
struct FinishPlan {
  EncodePlan encode;
  double bound;  // as requested
  u32 requested_kind;
  u32 codec;
  u32 value_bytes;
  u32 big_endian;    // what the header says; the values are little-endian here
  u32* done;         // two for each chunk: thread blocks that have stored their share, and its checksum; 0 at the start
  u64* frame_bytes;  // of each chunk
};

// The quantizers for a range-relative bound, one for each chunk.
struct RangePlan {
  const u8* raw;
  u64 raw_stride;
  u32 chunks;
  u32 count;  // values of a chunk
  u32 value_bytes;
  u32 skip_zeros;
  u32 has_fill;  // the range leaves it out
  u64 fill_bits;
  double bound;
  Quantizer quantizer;  // what those for the chunks are made from
  u64* ends;            // two for each chunk, 0 at the start: the largest value, and the smallest one's complement
  Quantizer* quantizers;
};

constexpr u32 kSampleParts = 2;  // whole rows of blocks, and the edge

// The pieces of a chunk that are sampled from. Each consists of runs of values, and begins behind the first run of the
// previous piece.
struct SamplePart {
  u32 first_byte;  // of the chunk, where they begin
  u32 pieces;      // of a chunk
  u32 sampled;     // of these
  u32 piece_bytes;
  u32 run_bytes;
  u32 apart_bytes;       // from one run's first byte to the next one's
  u32 weight;            // of their frames' sizes
  u8* values;            // of the sampled pieces of all chunks
  Quantizer* of_pieces;  // of each sampled piece; null: not needed
  u64* sizes;            // of the sampled pieces' frames
};

// Codec auto: a sample of each chunk is encoded by each candidate, and the sizes of the frames decide
// (docs/format/auto.md).
struct AutoPlan {
  const u8* raw;
  u64 raw_stride;
  u32 chunks;
  const Quantizer* quantizers;  // of each chunk; null: all have `quantizer`
  Quantizer quantizer;
  SamplePart parts[kSampleParts];
  u32 part_count;
  u32 part;           // which one is taken
  u32 candidate;      // which one made the frames, or is asked about
  u64* least;         // smallest estimate of each chunk
  u32* picked;        // whose it was
  Quantizer* chosen;  // lossless for chunks that another candidate gets
};

// Values of the other byte order.
struct SwapPlan {
  u8* values;
  u64 count;
  u32 value_bytes;
};

// Frames copied together, each to the next multiple of 16 bytes.
struct PackPlan {
  const u8* frames;  // aligned to 16 bytes, and so are the stride and the target
  u64 frame_stride;
  const u64* frame_bytes;
  u8* packed;
};

// Chunks cut from an array, or put back into it. Where the array has nothing, a chunk is padded.
struct ChunkPlan {
  u8* array;       // of the first value
  i64 strides[8];  // in bytes
  u64 extents[8];  // of the array; an axis of 1 value has stride 0
  u32 chunk[8];
  u32 start[8];  // where in its chunk the array's first value lies
  u32 rank;
  u32 value_bytes;
  u64 first_chunk;  // chunks are numbered in C order over the array
  u32 chunks;
  u8* chunk_values;
  u64 chunk_stride;
  u64 padding;  // bits of a value
};

// How decoding a frame went. `other`: it is broken, or of another kind than was asked for; the host has to look at it.
enum class DecodeStatus : u32 { ok = 0, corrupt = 1, other = 2 };

// Which kernel a frame is for: that of the batch's codec and bound kind, or that for lossless frames, or none.
enum class FrameForm : u32 { main = 0, lossless = 1, stored = 2, none = 3 };

// What a decoder needs to know of one frame and the others of its form need not share; its header has been checked.
struct alignas(16) DecodeJob {
  FrameForm form;
  u32 payload_bytes;
  u32 check_sum;  // whether payload_sum is there to be checked
  u32 payload_sum;
  u32 check_table;  // whether the tile table's share of the header's checksum is still to be found
  u32 table_sum;    // what it must be
  u64 step_bits;    // as the header has it
};

// What the thread blocks that decode a frame add up: 0 at the start. There are some for each frame, since additions to one
// place wait for each other.
struct alignas(16) DecodeSums {
  u32 payload;  // its checksum
  u32 table;    // the tile table's share of the header's checksum
  u32 done;     // thread blocks that are through with a frame, where one of them has to be the last
  u32 rest[5];
};
inline constexpr u32 kMostSlots = 32;

// Frames of one form, each with room for values [first, first + wanted).
struct DecodePlan {
  const u8* frames;  // aligned to 4 bytes, and so is the stride
  u64 frame_stride;
  u8* raw;  // aligned to a value, and so is the stride
  u64 raw_stride;
  u64 first, wanted;
  const DecodeJob* jobs;
  u32 mode;
  FrameForm form;  // of the jobs that the kernel is for
  u32 header_bytes;
  u32 first_tile;  // the first tile that holds any of the values
  u32 tiles;       // that hold them
  Shape shape;
  DecodeSums* sums;  // `slots` for each frame
  u32 slots;         // a power of two
  u32* statuses;     // of each frame: DecodeStatus
  // If items are parts of tiles: sums that a tile's decoders publish for each other, a word per four bytes of a value.
  // Initially 0.
  u64* published_sums;
};

// Checks frames that are to be of one kind, and makes their jobs.
struct OpenPlan {
  DecodePlan decode;                         // frames that match the description of the batch
  const u64* frame_bytes;                    // of each frame
  u32 codec, kind, value_bytes, big_endian;  // the description of the batch
  u32 lossless_codec, lossless_tiles;        // of a frame that is lossless
  u32 published_words;                       // of each frame
  DecodeJob* jobs;
};

}  // namespace h5lossy::gpu
