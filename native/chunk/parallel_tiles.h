// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Encodes and decodes the tiles of one large chunk on several threads. The bytes do not depend on their number.
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

// The number of threads, at most `threads`, that make a chunk of this size faster.
std::uint32_t threads_for_chunk(std::uint32_t threads, std::size_t raw_bytes);

// Tiles are distributed in runs of about 128 KiB, which fit a core's cache and keep contention between threads low.
constexpr std::uint32_t tiles_in_run(std::size_t tile_bytes) {
  return static_cast<std::uint32_t>(std::max<std::size_t>(1, (128 << 10) / tile_bytes));
}

// Calls call(first, last, worker) for runs of the tiles [begin, end), as run_batch does.
template <class Call>
void for_runs(std::uint32_t begin, std::uint32_t end, std::size_t tile_bytes, std::uint32_t threads, const Call& call) {
  const std::uint32_t run = tiles_in_run(tile_bytes), tiles = end - begin;
  run_batch(tiles / run + (tiles % run != 0 ? 1 : 0), threads, [&](std::size_t i, std::uint32_t worker) {
    const std::uint32_t first = begin + static_cast<std::uint32_t>(i) * run;
    call(first, first + std::min(run, end - first), worker);
  });
}

// A chunk whose tiles are to be encoded: their payloads go to `payloads`, one after another, and their ends to `table`.
struct TileJob {
  const h5l_params& params;
  const Quantizer& quantizer;
  const Choice& choice;
  std::span<const std::uint8_t> raw;
  std::span<std::uint8_t> table;
  std::span<std::uint8_t> payloads;
  ChecksumFunction checksum;  // may be null
};

struct EncodedTiles {
  bool fit = false;  // whether the payloads fit; if not, the other members have no meaning
  std::size_t payload_bytes = 0;
  std::uint32_t sum = 0;  // 0 without a checksum
};

[[nodiscard]] h5l_status encode_tiles_in_parallel(const TileJob& job, std::uint32_t threads, EncodedTiles& encoded,
                                                  const Message& why);

// The checksum of a frame's payload.
std::uint32_t sum_payload(const Frame& frame, ChecksumFunction checksum, std::uint32_t threads);

}  // namespace h5lossy
