// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Decodes the tiles of a frame to where their values belong: a whole chunk (decode.cpp), or a part of one in an array
// (decode_parts.cpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "chunk/choice.h"
#include "chunk/open_frame.h"
#include "chunk/streaming.h"
#include "chunk/tile_runs.h"
#include "chunk/word_tables.h"
#include "chunk/workspace.h"
#include "frame/frame.h"
#include "frame/message.h"
#include "frame/swap.h"
#include "h5lossy.h"

namespace h5lossy {

// Decodes a tile's payload into `raw`, which has the tile's size, in little-endian order.
[[nodiscard]] bool decode_tile(const Frame& frame, const Choice& choice, const Quantizer& quantizer, const Tile& tile,
                               std::span<const std::uint8_t> payload, std::span<std::uint8_t> raw,
                               std::uint8_t* workspace);

// Decodes the tiles that `to` needs.
template <class Destination>
h5l_status decode_tiles(const Frame& frame, const Choice& choice, const Destination& to, const Message& why,
                        std::uint32_t threads) {
  const FrameHeader& header = frame.header;
  const Geometry& geometry = choice.geometry;
  Quantizer quantizer = quantizer_of(header);
  KeptBins bins;
  if (!add_bins(header.value_class, header.value_bytes, quantizer, bins)) {
    return why.fail(H5L_OUT_OF_MEMORY, "out of memory for bins");
  }
  const bool non_temporal = to.bytes() >= kStreamedBytes && !header.big_endian;
  threads = threads_for_chunk(threads, to.bytes());
  const std::size_t codec_room =
      round_to_alignment(choice.functions(header.value_class, header.value_bytes).workspace_bytes);
  const std::size_t worker_bytes = codec_room + (to.needs_room() ? round_to_alignment(geometry.max_tile_bytes()) : 0);
  const Workspace workspace(worker_bytes * threads);
  if (!workspace.ok()) return why.fail(H5L_OUT_OF_MEMORY, "out of memory for a workspace");
  std::atomic<std::uint32_t> broken = frame.tiles;  // the first corrupt tile
  const auto decode_one = [&](std::uint32_t i, std::uint32_t worker) {
    const std::uint32_t tile = to.tile(i);
    PlacedTile placed;
    geometry.place(tile, placed);
    // Payloads are read from both ends, which hardware prefetchers do not handle.
    if (i + 1 < to.tiles()) prefetch(frame.tile_payload(to.tile(i + 1)));
    placed.tile.ahead = to.ahead(tile);
    const std::size_t tile_bytes = std::size_t{placed.tile.count} * header.value_bytes;
    std::uint8_t* const own = workspace.data() + worker_bytes * worker;
    std::uint8_t* const in_place = to.memory(tile, placed.tile.count);
    std::uint8_t* const values = in_place != nullptr ? in_place : own + codec_room;
    placed.tile.non_temporal = in_place != nullptr && non_temporal;
    if (!decode_tile(frame, choice, quantizer, placed.tile, frame.tile_payload(tile),
                     std::span<std::uint8_t>(values, tile_bytes), own)) {
      std::uint32_t first_broken = broken.load(std::memory_order_relaxed);
      while (tile < first_broken && !broken.compare_exchange_weak(first_broken, tile, std::memory_order_relaxed)) {
      }
      return;
    }
    if (header.big_endian) copy_swapped(values, values, tile_bytes, header.value_bytes);
    if (in_place == nullptr) to.put(tile, values);
  };
  for_runs(0, to.tiles(), geometry.max_tile_bytes(), threads,
           [&](std::uint32_t begin, std::uint32_t end, std::uint32_t worker) {
             for (std::uint32_t i = begin; i < end && to.tile(i) < broken.load(std::memory_order_relaxed); ++i) {
               decode_one(i, worker);
             }
             if (non_temporal) finish_streaming();
           });
  if (broken.load() != frame.tiles) {
    return why.fail(H5L_CORRUPT, "tile %u contradicts itself: the file is damaged", broken.load());
  }
  return H5L_OK;
}

}  // namespace h5lossy
