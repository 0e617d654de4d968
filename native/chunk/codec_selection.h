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

// A codec, one of its modes, and what they make of a chunk.
struct Choice {
  std::uint32_t number = 0;
  std::uint32_t mode = 0;
  const Codec* codec = nullptr;
  bool has_dims = false;
  std::uint32_t dims[3] = {};
  Geometry geometry;

  [[nodiscard]] const TileFunctions& functions(std::uint32_t value_bytes) const {
    return value_bytes == 4 ? codec->float32 : codec->float64;
  }
  [[nodiscard]] std::uint32_t header_bytes() const { return header_bytes_of(has_dims ? kHeaderDims : 0); }
};

// How many extents a chunk of `count` values has, without those of 1, and the dims that a frame makes of them: the last
// two, and all in front of them as one. A chunk without a shape, or of another size than its shape, has one dimension.
std::uint32_t read_shape(const h5l_params& params, std::uint64_t count, std::uint32_t (&dims)[3]);

// What a codec's `mode`, as requested, makes of a chunk.
Choice make_choice(const CodecEntry& entry, std::uint32_t mode, const h5l_params& params, std::uint64_t count);

// The same codec and mode for a part of the chunk, of `count` values, as a chunk of its own. Blocks keep their number of
// dimensions even if the part has fewer.
Choice make_choice_of_part(const Choice& of_chunk, std::uint32_t value_bytes, const std::uint32_t (&dims)[3],
                           std::uint64_t count);

// First step of reading: codec and mode of a frame of which only the fixed fields have been read.
[[nodiscard]] h5l_status open_codec(const FrameHeader& header, Choice& choice, const Message& why);

// Second step: its tiles, once check_size has passed.
void open_geometry(const FrameHeader& header, Choice& choice);

// Both, for a frame that has been opened.
[[nodiscard]] h5l_status open_choice(const Frame& frame, Choice& choice, const Message& why);

}  // namespace h5lossy
