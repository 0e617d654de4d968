// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The interface between codecs and the rest of the library: tables of functions on tiles, one for each backend. These
// types are shared by all backends, so they are outside the backends' namespaces and hold plain data only.
#pragma once

#include "codecs/portable.h"

// H5L_ENCODER: an entry of a codec's table that only encoders need. It is null in the decode-only library, which
// therefore contains no encoder code. H5L_RARE: a function that should be compiled for size in that library.
#if defined(H5L_DECODE_ONLY)
#define H5L_ENCODER(entry) nullptr
#define H5L_RARE [[gnu::cold, gnu::noinline]]
#else
#define H5L_ENCODER(entry) entry
#define H5L_RARE
#endif

namespace h5lossy {

#if defined(H5L_DECODE_ONLY)
inline constexpr bool kEncodes = false;
#else
inline constexpr bool kEncodes = true;
#endif

// The numbers are those in frames and cd_values.
enum class BoundKind : u32 { absolute = 0, pointwise_relative = 1, range_relative = 2, lossless = 3, noise = 4 };

// The class of a value's type. The numbers are those in frames and cd_values.
enum class ValueClass : u32 { floating = 0, unsigned_integer = 1, signed_integer = 2, half = 3, bfloat = 4 };

// Bins that follow no formula, for types of up to 16 bits (docs/format/integers.md): the word of each value and the
// value of each word, indexed by their bits. Words are ranks (codecs/integers.h).
struct WordTables {
  u16 ranks[65536];
  u16 values[65536];
};

// The same for 32 bits: the bins of magnitudes, in order.
struct WordBins {
  u32 count = 0;
  const u32* first = nullptr;   // where each begins
  const u32* middle = nullptr;  // what it decodes to
  const u32* starts = nullptr;  // for each key: the bin of the first value with this key; and one more entry
};

inline constexpr u32 kMostExact = 2;

// Safeguards of floats (docs/design/bound.md). Each cut is a number of the value's type: values below it stay below it,
// and no other value gets there.
inline constexpr u32 kMostCuts = 10;
struct Cuts {
  u32 count = 0;
  double reach = 0;  // values nearer to a cut than this are exceptions, unless they decode to themselves
  double numbers[kMostCuts] = {};
};

// How the values of a chunk become integers. One struct serves all types, and is copied to GPUs as it is; which members
// have a meaning, and which one, depends on the type and on `kind`:
//
//                 absolute and range-relative           pointwise-relative  noise           lossless
//   floats        bound B, step 2 B, inverse_step       scale S             -               -
//   halves        bound B; tables                       bound b; tables     -               -
//   integers      scale: the step in counts             -                   noise, scale:   base, stride
//                                                                           its floor;
//                                                                           tables or bins
//
// Floats also have is_exact, has_fill, fill_bits and cuts, and a codec may keep 128 bits of its own in base and stride.
// Integers and halves with a bound also have exact values. (Rules: codecs/bounds.h for floats, codecs/integers.h and
// chunk/word_tables.h for the others.) Of floats, a decoder has only the kind, and the step or scale.
struct Quantizer {
  BoundKind kind = BoundKind::lossless;
  bool has_fill = false;
  bool is_exact = false;  // the step is that of a lattice that contains all values
  u64 fill_bits = 0;
  double bound = 0;  // numbers of the value's type are stored as double, which is exact
  double step = 0;
  double inverse_step = 0;  // 1 / step, rounded to the value's type
  u64 scale = 0;
  // Every value is `base` plus a multiple of `stride`.
  u64 base = 0;
  u64 stride = 1;
  // If not null, give the words instead of a lattice: of values of up to 16 bits, and of 32 bits. The creator of the
  // quantizer keeps them alive.
  const WordTables* tables = nullptr;
  const WordBins* bins = nullptr;
  const Cuts* cuts = nullptr;  // likewise; null without safeguards
  u32 noise = 0;               // C: the bound of a value x is C / 256 * sqrt(|x|), and not below the floor
  // The bits of the exact values, the smaller number first.
  u32 exact_count = 0;
  u64 exact[kMostExact] = {};
};

// How a codec derives a step from the bound B of a chunk. Frames store the step, so decoders do not need the rule.
struct StepRule {
  double share = 1;        // the step is 2 * fl(B * share); a number of both types
  double least_bound = 1;  // in units of the type's smallest normal number; chunks with a smaller B are lossless
};

// Returned by encode if the tile must be stored: it would not shrink, or the codec cannot represent it.
inline constexpr u32 kStoreTile = 0xFFFFFFFFu;

// Returned by a codec for a mode that it does not have.
inline constexpr u32 kNoMode = 0xFFFFFFFFu;

// Axes of a chunk: w, z, y, x, of which x is the fastest.
inline constexpr u32 kAxes = 4;

inline constexpr u32 kMaxTileValues = 32768;
inline constexpr u32 kMaxTileBoxes = 64;

// How a mode cuts a chunk into tiles, which are groups of consecutive boxes in raster order.
struct TileLayout {
  u32 box[kAxes];  // extents of a box inside the chunk: {1, 1, 1, n} is a run of n values
  u32 boxes = 1;   // boxes in a tile
  // For the host code that launches the GPU kernels of this mode.
  bool is_split = false;           // several thread blocks share a tile
  const char* kernel_suffix = "";  // of the kernels' names
  // If not 0, decoding takes two kernels: the first one unpacks a tile's payload into this many bytes for the second.
  u32 stage_bytes = 0;
  // If not 0, encoding takes several kernels that share this many bytes for each tile, and the mode is chosen on the
  // GPU from the chunk's values. If 0, it takes one kernel, and the mode does not depend on the values.
  u32 encode_stage_bytes = 0;
};

// The extents of one box, clipped to the chunk.
struct Box {
  u16 extents[kAxes];
};

// Rows of a chunk that are accessed outside the codec, which knows only its tile: copied in before the next tile is
// encoded, or out after this one is decoded. A codec may prefetch them. None if they are adjacent, since hardware
// prefetchers handle that.
struct RowsAhead {
  const u8* first = nullptr;
  u32 count = 0, bytes = 0;
  u64 apart = 0;  // bytes from one row to the next
};

// One tile. Its values are ordered box by box, in raster order within a box; positions outside the chunk have no value.
struct Tile {
  u32 count;  // values
  u32 box_count;
  const Box* boxes;
  // The decoded output is too large to stay in a cache: a codec may use non-temporal stores.
  bool non_temporal = false;
  RowsAhead ahead = {};
};

// The chunk for which a mode is chosen.
struct Chunk {
  u32 dims[kAxes];  // with more than four axes, the first ones are merged; without a shape {1, 1, 1, count}
  u32 rank;         // number of extents other than 1, at least 1
  ValueClass value_class;
  u32 value_bytes;
  bool big_endian;  // byte order of `values`
  const Quantizer& quantizer;
  const u8* values;  // null if they are on a GPU
};

// One codec for one type of value, in one backend. `mode` is the frame's; `values` are little-endian and unaligned.
// `workspace` has workspace_bytes, aligned to 64, and is not kept between calls.
struct TileFunctions {
  u32 workspace_bytes;

  // Writes the payload and returns its size, which is less than that of the values, or returns kStoreTile. `payload`
  // has room for a full tile plus the codec's spare_bytes.
  u32 (*encode)(const Quantizer& quantizer, u32 mode, const Tile& tile, const u8* values, u8* payload, u8* workspace);

  // Decodes a payload whose size is neither 0 nor that of the values. False if it is corrupt. Safe for any payload.
  bool (*decode)(const Quantizer& quantizer, u32 mode, const Tile& tile, const u8* payload, u32 payload_bytes,
                 u8* values, u8* workspace);
};

inline constexpr u32 kMaxAutoModes = 3;
inline constexpr u32 kMostPossibleModes = 16;
inline constexpr u32 kMostLayouts = 16;  // of a codec's frames of one shape

// Types of integers: 1, 2, 4 and 8 bytes, unsigned and signed. Halves are encoded as signed integers of 2 bytes.
inline constexpr u32 kIntegerSizes = 4;
inline constexpr u32 kIntegerClasses = 2;

struct Codec {
  u32 spare_bytes;            // room that encode needs after a full tile's raw bytes
  bool has_lossless = false;  // whether the codec has a lossless mode
  StepRule step_rule = {};
  // Whether a request may name this mode; 0 is the default.
  bool (*has_mode)(u32 requested);
  // The mode of a chunk's frame for a requested one. kNoMode if it depends on the values, and they are not available.
  u32 (*choose_mode)(const Chunk& chunk, u32 requested, u8* workspace);
  u32 choice_bytes = 0;  // size of choose_mode's workspace
  // Fills in modes that together have every layout that choose_mode may return for a requested mode; returns their
  // number. Null if kernels do not choose modes.
  u32 (*possible_modes)(const Chunk& chunk, u32 requested, u32 (&modes)[kMostPossibleModes]) = nullptr;
  // If all values lie on a coarser lattice than the bound requires, sets the step of `quantizer`, which must not be
  // that of the chunk, to the step of the lattice, and returns true. Null if the codec does not look for such a
  // lattice.
  bool (*take_own_step)(const Chunk& chunk, Quantizer& quantizer) = nullptr;
  // Masks of mode bits: the lowest ones, which determine a frame's layout, and those that decoders ignore. Kernels
  // decode frames that differ only in these bits in one batch.
  u32 layout_bits = 0, ignored_bits = 0;
  // The number of trailing dims that the header of a frame with this mode holds: 0, 3 or 4. With 0 the chunk is one run
  // of values. kNoMode if frames have no such mode.
  u32 (*header_dims)(u32 mode);
  // The layout for a mode of frames and a chunk of these dims. Dims that the header does not hold are multiplied into
  // the next one.
  TileLayout (*layout)(u32 mode, u32 value_bytes, const u32 (&dims)[kAxes]);
  // The requested modes that codec 0 (auto) compares, in this order (docs/format/auto.md). These codecs have the
  // default step rule, since a chunk gets its quantizer before its codec. One codec has no such modes: auto tries it
  // only for size.
  u32 auto_modes[kMaxAutoModes] = {};
  u32 auto_mode_count = 1;
  TileFunctions float32;
  TileFunctions float64;
  TileFunctions integers[kIntegerClasses][kIntegerSizes] = {};
  // This codec's table for integers, with its own tiles and modes; null if the codec does not support them.
  const Codec* for_integers = nullptr;
};

}  // namespace h5lossy
