// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/decode.h"

#include <atomic>
#include <cstring>

#include "chunk/codec_selection.h"
#include "chunk/parallel_tiles.h"
#include "chunk/streaming.h"
#include "chunk/workspace.h"
#include "codecs/bounds.h"
#include "frame/swap.h"
#include "runtime/registry.h"

namespace h5lossy {
namespace {

using Bytes = std::span<const std::uint8_t>;
using MutableBytes = std::span<std::uint8_t>;

// Decodes a tile's payload into `raw`, which has the tile's size, in little-endian order.
bool decode_tile(const Frame& frame, const Choice& choice, const Tile& tile, Bytes payload, MutableBytes raw,
                 std::uint8_t* workspace) {
  if (payload.size() > raw.size()) return false;
  if (payload.size() == raw.size()) {
    std::memcpy(raw.data(), payload.data(), raw.size());
    return true;
  }
  if (payload.empty()) {
    std::memset(raw.data(), 0, raw.size());
    return true;
  }
  const Quantizer quantizer =
      scalar::quantizer_of_step(static_cast<BoundKind>(frame.header.bound_kind), frame.header.step_bits);
  return choice.functions(frame.header.value_bytes)
      .decode(quantizer, choice.mode, tile, payload.data(), static_cast<std::uint32_t>(payload.size()), raw.data(),
              workspace);
}

}  // namespace

h5l_status check_sum(const Frame& frame, const Message& why, std::uint32_t threads) {
  if (!frame.header.has_checksum) return H5L_OK;
  return check_payload(frame, sum_payload(frame, best_checksum(), threads), why);
}

h5l_status decode_values(const Frame& frame, std::uint64_t first, MutableBytes raw, const Message& why,
                         std::uint32_t threads) {
  const FrameHeader& header = frame.header;
  if (raw.empty()) return H5L_OK;
  if (header.codec == H5L_CODEC_STORED) {
    std::memcpy(raw.data(), frame.payload.data() + first * header.value_bytes, raw.size());
    if (header.big_endian) copy_swapped(raw.data(), raw.data(), raw.size(), header.value_bytes);
    return H5L_OK;
  }
  Choice choice;
  if (const h5l_status status = open_choice(frame, choice, why); status != H5L_OK) return status;
  const Geometry& geometry = choice.geometry;
  const std::uint64_t count = raw.size() / header.value_bytes;
  const bool is_whole = raw.size() == header.raw_bytes;
  const bool non_temporal = raw.size() >= kStreamedBytes && !header.big_endian;
  std::uint32_t begin = 0, end = 0;
  geometry.range(first, count, begin, end);

  const bool needs_room = !is_whole || !geometry.is_linear();
  threads = threads_for_chunk(threads, raw.size());
  const std::size_t codec_room = round_to_alignment(choice.functions(header.value_bytes).workspace_bytes);
  const std::size_t worker_bytes = codec_room + (needs_room ? round_to_alignment(geometry.max_tile_bytes()) : 0);
  const Workspace workspace(worker_bytes * threads);
  if (!workspace.ok()) return why.fail(H5L_OUT_OF_MEMORY, "out of memory for a workspace");
  std::atomic<std::uint32_t> broken = end;  // the first corrupt tile
  const auto decode_one = [&](std::uint32_t i, std::uint32_t worker) {
    if (!is_whole && !geometry.holds(i, first, count)) return;
    PlacedTile placed;
    geometry.place(i, placed);
    // Payloads are read from both ends, which hardware prefetchers do not handle.
    if (i + 1 < end) prefetch(frame.tile_payload(i + 1));
    const std::size_t tile_bytes = std::size_t{placed.tile.count} * header.value_bytes;
    // A contiguous tile of which all values are wanted is decoded in place.
    const std::uint64_t tile_first = geometry.first_value(i);
    std::uint8_t* const own = workspace.data() + worker_bytes * worker;
    const bool in_place =
        geometry.is_linear() && tile_first >= first && tile_first + placed.tile.count <= first + count;
    std::uint8_t* const target =
        in_place ? raw.data() + static_cast<std::size_t>(tile_first - first) * header.value_bytes : own + codec_room;
    placed.tile.non_temporal = in_place && non_temporal;
    if (!decode_tile(frame, choice, placed.tile, frame.tile_payload(i), MutableBytes(target, tile_bytes), own)) {
      std::uint32_t first_broken = broken.load(std::memory_order_relaxed);
      while (i < first_broken && !broken.compare_exchange_weak(first_broken, i, std::memory_order_relaxed)) continue;
      return;
    }
    if (!in_place) geometry.scatter(i, target, first, count, raw.data());
  };
  for_runs(begin, end, geometry.max_tile_bytes(), threads,
           [&](std::uint32_t run_begin, std::uint32_t run_end, std::uint32_t worker) {
             for (std::uint32_t i = run_begin; i < run_end && i < broken.load(std::memory_order_relaxed); ++i) {
               decode_one(i, worker);
             }
             if (non_temporal) finish_streaming();
           });
  if (broken.load() != end) {
    return why.fail(H5L_CORRUPT, "tile %u contradicts itself: the file is damaged", broken.load());
  }
  if (header.big_endian) copy_swapped(raw.data(), raw.data(), raw.size(), header.value_bytes);
  return H5L_OK;
}

h5l_status decode_chunk(const Frame& frame, MutableBytes raw, const Message& why, std::uint32_t threads) {
  if (const h5l_status status = check_sum(frame, why, threads_for_chunk(threads, raw.size())); status != H5L_OK) {
    return status;
  }
  return decode_values(frame, 0, raw, why, threads);
}

}  // namespace h5lossy
