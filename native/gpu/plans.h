// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Parameters of the codec kernels: plain data, compiled for host and device. Pointers are device pointers.
#pragma once

#include "codecs/codec.h"
#include "codecs/portable.h"

namespace h5lossy::gpu {

// Threads of a thread block, unless a kernel sets another number (kThreadsWith).
inline constexpr u32 kThreads = 128;

// A work item is what a thread block encodes at once: a tile, or a part of a split tile.
inline constexpr u32 kPartValues = 4096;

// Tiles in a group, whose sizes are added up. If items are parts, a group is the parts of one tile.
inline constexpr u32 kGroupTiles = 32;

// A grid has at least this many thread blocks, or one for each item, because a thread block may wait for the next ones
// to publish their parts of the same tile.
inline constexpr u32 kLeastBlocks = 16;

// The shape of one chunk; the same for all chunks of a batch.
struct Shape {
  u32 count;      // values
  u32 raw_bytes;  // of all values
  u32 tiles;
  u32 dims[kAxes];   // w, z, y, x; without dims in the header {1, 1, 1, count}
  u32 box[kAxes];    // extents of a box
  u32 boxes[kAxes];  // along each axis
};

// The lattice of one chunk of integers (codecs/integers.h) of any type. All arithmetic is modulo 2^W, and words are
// ranks.
inline constexpr u32 kMostSpecialWords = 2 + 3 * kMostExact;
struct WordOfExact {
  u64 value, word, bin, below, above;  // its rank, its word, and the words of its bin and of the values on either side
};
struct alignas(16) WordLattice {
  u64 zero;           // the rank of word 0
  u64 step, origin;   // a word decodes to origin + word * step,
  u32 special_count;  // except for these; the last match counts
  u64 special_words[kMostSpecialWords], special_values[kMostSpecialWords];
  // For encoding, as in Lattice.
  u64 first, shift;
  u32 exact_count;
  WordOfExact exact[kMostExact];
};

// All chunks of a batch have one shape, one codec and one mode. A kernel skips chunks whose quantizer it does not
// support (lossless or lossy); another launch encodes them.
struct EncodePlan {
  const u8* raw;  // of the first chunk; aligned to a value, and so is the stride
  u64 raw_stride;
  u8* frames;  // each with room for raw_bytes + kHeaderBytes; aligned to 4 bytes, and so is the stride
  u64 frame_stride;
  const Quantizer* quantizers;  // of each chunk; null if all use `quantizer`
  Quantizer quantizer;
  const WordLattice* lattices;  // of each chunk of integers
  u32 chunks;
  u32 mode;
  u32 header_bytes;
  u32 items_per_chunk;
  u32 chunk_step, index_step;  // from a thread block's item to its next one: chunks, and items within a chunk
  u32 with_checksum;
  Shape shape;
  u32* sizes;       // of each item, if items are tiles; 0 at the start: see kernels/common/lookback.cuh
  u32* group_sums;  // of each group's sizes; 0 at the start
  u32 groups_per_chunk;
  u64* parts;       // if items are parts of tiles: one word for each, 0 at the start, then three more words for each
  u32* sums;        // of each chunk: checksum of its payload, 0 at the start
  u32* table_sums;  // of each chunk: the tile table's share of the header's checksum, 0 at the start
  u32* totals;      // of each chunk: bytes of its payload
};

// Writes headers, and stored frames for chunks that do not shrink.
struct FinishPlan {
  EncodePlan encode;
  double bound;  // as requested
  u32 requested_kind;
  u32 codec;
  u32 header_dims;
  u32 value_class;
  u32 value_bytes;
  u32 big_endian;    // the header's flag; the values are already little-endian
  u32* done;         // two for each chunk: thread blocks that have stored their share, and its checksum; 0 at the start
  u64* frame_bytes;  // of each chunk
};

// What the values of a chunk determine: its mode, and the tiles that follow from it.
struct ChunkForm {
  u32 mode;
  u32 tiles;
  u32 boxes[kAxes];  // along each axis
};

// An encoder that chooses the mode, and so the tiles, for each chunk. It takes several kernels, which keep memory for
// each tile between them.
struct StagedPlan {
  FinishPlan finish;      // mode, tiles and boxes are those of `forms`; `mode` is as requested
  Quantizer* quantizers;  // of each chunk, as chosen: values may have a step of their own
  ChunkForm* forms;       // of each chunk
  u32 most_tiles;         // of a chunk
  u32 tile_values;        // of a tile, at most
  u32 stage_bytes;        // of a tile
  u8* stages;             // `most_tiles` for each chunk
  u32* sizes;             // of each tile's payload, as many
  // Integers only: the chunks' words, which are encoded in place of the values, and which chunks are left to the host
  // (0 at the start).
  u8* words;
  u64 words_stride;
  u32* are_left;
};

// The quantizers for a range-relative bound, one for each chunk.
struct RangePlan {
  const u8* raw;
  u64 raw_stride;
  u32 chunks;
  u32 count;  // values of a chunk
  u32 value_bytes;
  u32 skip_zeros;
  u32 has_fill;  // fill values are excluded from the range
  u64 fill_bits;
  double bound;
  StepRule step_rule;
  Quantizer quantizer;  // template for the chunks' quantizers
  u64* ends;            // two for each chunk, 0 at the start: the largest value, and the complement of the smallest
  Quantizer* quantizers;
};

// The quantizers and lattices of chunks of integers, from their ranges and strides if these are needed.
struct IntegerPlan {
  const u8* raw;
  u64 raw_stride;
  u32 chunks;
  u32 count;  // values of a chunk
  u32 value_class;
  u32 value_bytes;
  u32 from_range;
  u32 skip_zeros;  // zeros are excluded from the range, like exact values
  double bound;
  Quantizer quantizer;  // template for the chunks' quantizers
  u64* ends;            // as in RangePlan, of ranks
  u64* strides;         // of each thread block that measures a chunk, `blocks` per chunk; 0 at the start
  u32 blocks;           // 0: nothing was measured
  Quantizer* quantizers;
  WordLattice* lattices;
};

constexpr u32 kSampleParts = 2;  // whole rows of blocks, and the edge

// The pieces of a chunk from which the sample is taken. Each consists of runs of values, and begins after the first run
// of the previous piece.
struct SamplePart {
  u32 first_byte;  // offset of the first piece in the chunk
  u32 pieces;      // in a chunk
  u32 sampled;     // pieces in the sample
  u32 piece_bytes;
  u32 run_bytes;
  u32 apart_bytes;       // from the start of a run to the start of the next one
  u32 weight;            // of their frames' sizes
  u8* values;            // of the sampled pieces of all chunks
  Quantizer* of_pieces;  // of each sampled piece; null if not needed
  u64* sizes;            // of the sampled pieces' frames
};

// Codec auto: each candidate encodes a sample of each chunk, and the one with the smallest frames is picked
// (docs/format/auto.md).
struct AutoPlan {
  const u8* raw;
  u64 raw_stride;
  u32 chunks;
  const Quantizer* quantizers;  // of each chunk; null if all use `quantizer`
  Quantizer quantizer;
  SamplePart parts[kSampleParts];
  u32 part_count;
  u32 part;           // index of the part to sample
  u32 candidate;      // index of the candidate that encoded the sample, or that encodes its chunks
  u64* least;         // smallest estimate of each chunk
  u32* picked;        // the candidate with that estimate
  Quantizer* chosen;  // lossless, so that the kernel skips the chunk, if another candidate was picked
};

// Swaps the byte order of values.
struct SwapPlan {
  u8* values;
  u64 count;
  u32 value_bytes;
};

// Copies frames one after another, each to the next multiple of 16 bytes.
struct PackPlan {
  const u8* frames;  // aligned to 16 bytes, as are the stride and the target
  u64 frame_stride;
  const u64* frame_bytes;
  u8* packed;
};

// Gathers chunks from an array, or scatters them into it. Chunks are padded outside the array.
struct ChunkPlan {
  u8* array;       // of the first value
  i64 strides[8];  // in bytes
  u64 extents[8];  // of the array; an axis of 1 value has stride 0
  u32 chunk[8];
  u32 start[8];  // position of the array's first value in its chunk
  u32 rank;
  u32 value_bytes;
  u64 first_chunk;  // chunks are numbered in C order over the array
  u32 chunks;
  u8* chunk_values;
  u64 chunk_stride;
  u64 padding;  // bits of a value
};

// The result of decoding a frame. `other`: the frame is malformed or of another kind than requested; the host decodes
// it or reports the error.
enum class DecodeStatus : u32 { ok = 0, corrupt = 1, other = 2 };

// The kernel that decodes a frame: the one for the batch's codec and bound kind, the one for lossless frames, or none.
enum class FrameForm : u32 { main = 0, lossless = 1, stored = 2, none = 3 };

// A frame's tiles, which follow from its mode.
struct FrameTiles {
  u32 count;          // 0: there is no such mode
  u32 first, wanted;  // those that may hold any of the wanted values
  u32 boxes[kAxes];   // along each axis
};

// The properties of one frame that may differ between frames of a form. The header has been checked.
struct alignas(16) DecodeJob {
  FrameForm form;
  u32 mode;
  FrameTiles tiles;
  u32 payload_bytes;
  u32 check_sum;  // whether the frame has a payload_sum
  u32 payload_sum;
  u32 check_table;  // whether the tile table's share of the header's checksum must still be checked
  u32 table_sum;    // its expected value
  u64 step_bits;    // from the header
};

// Sums over the thread blocks that decode a frame, 0 at the start. Each frame has several, because atomic additions to
// one address are serialized.
struct alignas(16) DecodeSums {
  u32 payload;  // its checksum
  u32 table;    // the tile table's share of the header's checksum
  u32 done;     // thread blocks that have finished; the last one checks the sums
  u32 rest[5];
};
inline constexpr u32 kMostSlots = 32;

// Decodes values [first, first + wanted) of frames of one form.
struct DecodePlan {
  const u8* frames;  // aligned to 4 bytes, and so is the stride
  u64 frame_stride;
  u8* raw;  // aligned to a value, and so is the stride
  u64 raw_stride;
  u64 first, wanted;
  const DecodeJob* jobs;
  const WordLattice* lattices;  // of each frame of integers
  u32 mode;                     // if all frames of a batch of this codec have one mode
  FrameForm form;               // the kernel skips jobs of another form
  u32 header_bytes;
  u32 tiles;  // of a frame, at most, that may hold any of the values
  Shape shape;
  DecodeSums* sums;  // `slots` for each frame
  u32 slots;         // a power of two
  u32* statuses;     // of each frame: DecodeStatus
  // If items are parts of tiles: sums that the warps of a tile publish, a word for each four bytes of a value; 0 at the
  // start.
  u64* published;
  // If one kernel unpacks tiles for a second one, which decodes them: `stage_bytes` for each tile.
  u8* stages;
  u32 stage_bytes;
};

// Checks that frames are of the requested kind, and creates their jobs.
struct OpenPlan {
  DecodePlan decode;                                      // for frames of the requested kind
  const u64* frame_bytes;                                 // of each frame
  u32 codec, kind, value_class, value_bytes, big_endian;  // the requested kind
  u32 other_bits;   // bits of the mode that must equal those of the requested mode in all frames
  u32 layout_bits;  // bits of the mode that determine the layout of a frame
  u32 header_dims;  // dims in the headers of frames of the requested kind
  FrameTiles layouts[kMostLayouts];
  u32 lossless_codec;  // of lossless frames
  FrameTiles lossless_tiles;
  u32 published_words;  // of each frame
  DecodeJob* jobs;
  WordLattice* lattices;  // of integers
};

}  // namespace h5lossy::gpu
