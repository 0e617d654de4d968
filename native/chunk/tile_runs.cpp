// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/tile_runs.h"

#include <algorithm>
#include <atomic>
#include <span>

namespace h5lossy {
namespace {

// The least work worth waking a thread for: about 100 us, several times the cost of waking it.
constexpr std::size_t kLeastThreadBytes = 1 << 20;

}  // namespace

std::uint32_t threads_for_chunk(std::uint32_t threads, std::size_t raw_bytes) {
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(raw_bytes / kLeastThreadBytes, 1, threads));
}

std::uint32_t sum_payload(const Frame& frame, ChecksumFunction checksum, std::uint32_t threads) {
  if (frame.header.codec == H5L_CODEC_STORED) {
    return checksum(frame.payload.data(), static_cast<std::uint32_t>(frame.payload.size()), 0, 0);
  }
  constexpr std::size_t typical_tile_bytes = 16 << 10;
  std::atomic<std::uint32_t> sum = 0;
  for_runs(0, frame.tiles, typical_tile_bytes, threads, [&](std::uint32_t first, std::uint32_t last, std::uint32_t) {
    std::uint32_t own = 0;
    for (std::uint32_t tile = first; tile < last; ++tile) {
      const std::span<const std::uint8_t> payload = frame.tile_payload(tile);
      own += checksum(payload.data(), static_cast<std::uint32_t>(payload.size()), tile, 0);
    }
    sum.fetch_add(own, std::memory_order_relaxed);
  });
  return sum.load(std::memory_order_relaxed);
}

}  // namespace h5lossy
