// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The frame around a codec's payload (docs/format/frame.md): its header, its tile table, and the order in which they are
// checked. It knows no codec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "frame/header.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Largest input: the frame's size, too, must be a u32, since HDF5 before 2.0 stores it in 32 bits.
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

// The words of the header, 0 behind the end of the front.
HeaderWords read_words(const FrameFront& front);

// First step of reading: whether these are the fixed fields of a frame of this version. The caller then decides whether
// it knows the codec and its mode, which say how many dims there are.
[[nodiscard]] h5l_status read_header(const FrameFront& front, FrameHeader& header, const Message& why);

// Second step: reads the dims, and checks what the number of tiles follows from: type, raw_bytes and dims.
[[nodiscard]] h5l_status read_dims(const FrameFront& front, std::uint32_t dim_count, FrameHeader& header,
                                   const Message& why);

// Where the payload begins, behind header and tile table.
std::size_t payload_begin(const FrameHeader& header, std::uint32_t tiles);

// Third step: whether there is room for the tile table behind the header. `tiles` is what the codec makes of the sizes (0
// for a stored frame).
[[nodiscard]] h5l_status check_room(const FrameHeader& header, std::uint32_t tiles, std::uint64_t frame_bytes,
                                    const Message& why);

// Fourth step: header_sum, then all other fields, the tile table and the sizes; nothing of the header may be trusted
// before. The front holds the tile table.
[[nodiscard]] h5l_status check_front(const FrameFront& front, const FrameHeader& header, std::uint32_t tiles,
                                     const Message& why);

// The frame of bytes that have passed all steps.
Frame make_frame(std::span<const std::uint8_t> bytes, const FrameHeader& header, std::uint32_t tiles);

// Fifth step, for whole frames that have a checksum: whether the payload's is `sum`.
[[nodiscard]] h5l_status check_payload(const Frame& frame, std::uint32_t sum, const Message& why);

// Writes header and header_sum in front of `tiles` entries of the tile table, which must be in place already.
void write_header(const FrameHeader& header, std::uint32_t payload_sum, std::uint32_t tiles,
                  std::span<std::uint8_t> bytes);

}  // namespace h5lossy
