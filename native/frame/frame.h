// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The frame around a codec's payload (docs/format/frame.md): its header, its tile table, and the order in which they
// are checked. Independent of the codecs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "frame/header.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Whether values are IEEE floats, or pairs of them.
inline bool has_floats(std::uint32_t value_class) {
  return value_class == H5L_CLASS_FLOAT || value_class == H5L_CLASS_COMPLEX;
}

// Largest input. The frame's size must fit in a u32, too, since HDF5 before 2.0 stores it in 32 bits.
inline constexpr std::size_t kMaxRawBytes = 0xFFFFFFFFu - kHeaderBytes;

// A frame whose header and tile table have been checked. The spans point into the frame.
struct Frame {
  FrameHeader header;
  std::uint32_t payload_sum = 0;
  std::uint32_t tiles = 0;
  std::span<const std::uint8_t> tile_table;
  std::span<const std::uint8_t> payload;
  std::span<const std::uint8_t> bytes;  // all of it

  // Payload bytes of tile i, i < tiles.
  [[nodiscard]] std::span<const std::uint8_t> tile_payload(std::uint32_t i) const;
};

// The first bytes of a frame: at least kLeastFrontBytes, or all of it. The rest may be on a GPU.
inline constexpr std::size_t kLeastFrontBytes = 64;
struct FrameFront {
  std::span<const std::uint8_t> bytes;
  std::uint64_t frame_bytes = 0;  // of the whole frame
};

// The words of the header, 0 beyond the end of the front.
HeaderWords read_words(const FrameFront& front);

// First step: reads the fixed fields, and checks that this is a frame of this version. The caller then checks that the
// codec and mode are supported; they determine the number of dims.
[[nodiscard]] h5l_status read_header(const FrameFront& front, FrameHeader& header, const Message& why);

// Second step: reads the dims, and checks type, raw_bytes and dims, which determine the number of tiles.
[[nodiscard]] h5l_status read_dims(const FrameFront& front, std::uint32_t dim_count, FrameHeader& header,
                                   const Message& why);

// The offset of the payload, after header and tile table.
std::size_t payload_begin(const FrameHeader& header, std::uint32_t tiles);

// Third step: checks that the frame is long enough for the tile table. `tiles` is computed by the codec; 0 for a stored
// frame.
[[nodiscard]] h5l_status check_room(const FrameHeader& header, std::uint32_t tiles, std::uint64_t frame_bytes,
                                    const Message& why);

// Fourth step: checks header_sum, then all other fields, the tile table and the sizes. No field may be trusted before.
// The front must include the tile table.
[[nodiscard]] h5l_status check_front(const FrameFront& front, const FrameHeader& header, std::uint32_t tiles,
                                     const Message& why);

// The frame of bytes that have passed these four steps.
Frame make_frame(std::span<const std::uint8_t> bytes, const FrameHeader& header, std::uint32_t tiles);

// Fifth step, for whole frames that have a checksum: checks that the payload's checksum is `sum`.
[[nodiscard]] h5l_status check_payload(const Frame& frame, std::uint32_t sum, const Message& why);

// Writes header and header_sum. The tile table after them, of `tiles` entries, must already be complete.
void write_header(const FrameHeader& header, std::uint32_t payload_sum, std::uint32_t tiles,
                  std::span<std::uint8_t> bytes);

}  // namespace h5lossy
