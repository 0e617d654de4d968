// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The tiles of one large chunk on several threads. The bytes are those that one thread makes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "chunk/codec_selection.h"
#include "codecs/checksum.h"
#include "frame/frame.h"
#include "frame/message.h"
#include "h5lossy.h"
#include "runtime/pool.h"

namespace h5lossy {

// How many of `threads` are worth their waking for a chunk of this size.
std::uint32_t threads_for_chunk(std::uint32_t threads, std::size_t raw_bytes);

// Tiles are shared out in runs of about 128 KiB: that fits a core's own cache, and threads seldom meet.
constexpr std::uint32_t tiles_in_run(std::size_t tile_bytes) {
  return static_cast<std::uint32_t>(std::max<std::size_t>(1, (128 << 10) / tile_bytes));
}

// Calls call(first, last, seat) for runs of the tiles from `begin` to before `end`, as run_batch does.
template <class Call>
void for_runs(std::uint32_t begin, std::uint32_t end, std::size_t tile_bytes, std::uint32_t threads, const Call& call) {
  const std::uint32_t run = tiles_in_run(tile_bytes), tiles = end - begin;
  run_batch(tiles / run + (tiles % run != 0 ? 1 : 0), threads, [&](std::size_t i, std::uint32_t seat) {
    const std::uint32_t first = begin + static_cast<std::uint32_t>(i) * run;
    call(first, first + std::min(run, end - first), seat);
  });
}

// What all tiles of a chunk became.
struct EncodedTiles {
  bool fit = false;  // whether their payloads had room; if not, the rest is of no use
  std::size_t payload_bytes = 0;
  std::uint32_t sum = 0;  // 0 without a checksum
};

// Encodes all tiles. Their payloads follow each other in `payloads`; `table` gets the ends.
[[nodiscard]] h5l_status encode_tiles_in_parallel(const h5l_params& params, const Quantizer& quantizer,
                                                  const Choice& choice, std::span<const std::uint8_t> raw,
                                                  std::span<std::uint8_t> table, std::span<std::uint8_t> payloads,
                                                  ChecksumFunction checksum, std::uint32_t threads,
                                                  EncodedTiles& encoded, const Message& why);

// The checksum of a frame's payload.
std::uint32_t sum_payload(const Frame& frame, ChecksumFunction checksum, std::uint32_t threads);

}  // namespace h5lossy
