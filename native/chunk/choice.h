// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A codec and one of its modes, and the layout of a chunk that follows from them and from a header.
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
  const Codec* codec = nullptr;    // for integers, the table for integers
  std::uint32_t header_dims = 0;   // the number of dims in the frame's header
  std::uint32_t dims[kAxes] = {};  // the dims that tiles are cut from
  TileLayout layout = {};
  Geometry geometry;

  // The type must be supported.
  [[nodiscard]] const TileFunctions& functions(std::uint32_t value_class, std::uint32_t value_bytes) const;
  [[nodiscard]] std::uint32_t header_bytes(std::uint32_t value_class) const {
    return has_floats(value_class) ? header_bytes_of(header_dims) : kIntegerHeaderBytes;
  }
};

// A codec's table for values of this class; null if it does not support them.
const Codec* codec_for(const CodecEntry& entry, std::uint32_t value_class);

// Lays out a chunk of `count` values for the codec, mode and dims of a choice.
void lay_out(std::uint32_t value_bytes, std::uint64_t count, Choice& choice);

// First step of decoding: codec and mode, once the fixed fields of the header have been read.
[[nodiscard]] h5l_status open_codec(const FrameHeader& header, Choice& choice, const Message& why);

// Second step: the tiles, once the dims have been read and checked.
void open_geometry(const FrameHeader& header, Choice& choice);

// Both steps, for a frame that has been opened.
[[nodiscard]] h5l_status open_choice(const Frame& frame, Choice& choice, const Message& why);

}  // namespace h5lossy
