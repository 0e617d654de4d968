// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The tiles of one large chunk on several threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "codecs/checksum.h"
#include "frame/frame.h"
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

// The checksum of a frame's payload.
std::uint32_t sum_payload(const Frame& frame, ChecksumFunction checksum, std::uint32_t threads);

}  // namespace h5lossy
