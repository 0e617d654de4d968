// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A codec and one of its modes for one chunk: from a request when encoding, from a header when decoding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "chunk/geometry.h"
#include "codecs/codec.h"
#include "frame/frame.h"
#include "frame/message.h"
#include "h5lossy.h"
#include "runtime/registry.h"

namespace h5lossy {

// A codec and mode, and the resulting layout of a chunk.
struct Choice {
  std::uint32_t number = 0;
  std::uint32_t mode = 0;
  const Codec* codec = nullptr;    // that of integers, for them
  std::uint32_t header_dims = 0;   // the number of dims in the frame's header
  std::uint32_t dims[kAxes] = {};  // the dims that tiles are cut from
  TileLayout layout = {};
  Geometry geometry;

  // For values of a type that there is.
  [[nodiscard]] const TileFunctions& functions(std::uint32_t value_class, std::uint32_t value_bytes) const;
  [[nodiscard]] std::uint32_t header_bytes() const { return header_bytes_of(header_dims); }
};

// A chunk of `count` values as codecs see it: its extents without those of 1. It has one axis if the shape is missing
// or holds another number of values. `values` is null if the values are on a GPU.
Chunk read_chunk(const h5l_params& params, const Quantizer& quantizer, std::uint64_t count, const std::uint8_t* values);

// Chooses the mode for a requested one, and lays out the chunk. False if out of memory, or if the codec needs the
// values to choose and they are on a GPU.
[[nodiscard]] bool make_choice(const CodecEntry& entry, std::uint32_t requested, const Chunk& chunk, Choice& choice);

// The same codec and mode for a part of the chunk, of `count` values, as a chunk of its own. Blocks keep their number
// of dimensions even if the part has fewer.
Choice make_choice_of_part(const Choice& of_chunk, std::uint32_t value_bytes, const std::uint32_t (&dims)[kAxes],
                           std::uint64_t count);

// First step of decoding: codec and mode, once the fixed fields of the header have been read.
[[nodiscard]] h5l_status open_codec(const FrameHeader& header, Choice& choice, const Message& why);

// Second step: the tiles, once the dims have been read and checked.
void open_geometry(const FrameHeader& header, Choice& choice);

// Both steps, for a frame that has been opened.
[[nodiscard]] h5l_status open_choice(const Frame& frame, Choice& choice, const Message& why);

}  // namespace h5lossy
