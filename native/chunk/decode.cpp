// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/decode.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "chunk/codec_selection.h"
#include "chunk/integers.h"
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
bool decode_tile(const Frame& frame, const Choice& choice, const Quantizer& quantizer, const Tile& tile, Bytes payload,
                 MutableBytes raw, std::uint8_t* workspace) {
  if (payload.size() > raw.size()) return false;
  if (payload.size() == raw.size()) {
    std::memcpy(raw.data(), payload.data(), raw.size());
    return true;
  }
  const FrameHeader& header = frame.header;
  if (payload.empty()) {  // all words are 0
    std::memset(raw.data(), 0, raw.size());
    for (std::size_t at = 0; quantizer.base != 0 && at < raw.size(); at += header.value_bytes) {
      std::memcpy(raw.data() + at, &quantizer.base, header.value_bytes);
    }
    return true;
  }
  return choice.functions(header.value_class, header.value_bytes)
      .decode(quantizer, choice.mode, tile, payload.data(), static_cast<std::uint32_t>(payload.size()), raw.data(),
              workspace);
}

// A whole chunk in a buffer of its size, as a destination of tiles.
class Whole {
 public:
  Whole(const Geometry& geometry, std::uint32_t value_bytes, MutableBytes raw)
      : geometry_(geometry), value_bytes_(value_bytes), raw_(raw) {}

  [[nodiscard]] std::size_t bytes() const { return raw_.size(); }
  [[nodiscard]] std::uint32_t tiles() const { return geometry_.tiles(); }
  [[nodiscard]] std::uint32_t tile(std::uint32_t i) const { return i; }
  [[nodiscard]] bool needs_room() const { return !geometry_.is_linear(); }

  // Where a tile's values are contiguous in memory, so that it is decoded in place; null if nowhere.
  [[nodiscard]] std::uint8_t* memory(std::uint32_t tile, std::uint32_t) const {
    return geometry_.is_linear() ? raw_.data() + geometry_.first_value(tile) * value_bytes_ : nullptr;
  }

  void put(std::uint32_t tile, const std::uint8_t* values) const { geometry_.scatter(tile, values, raw_.data()); }

 private:
  const Geometry& geometry_;
  std::uint32_t value_bytes_;
  MutableBytes raw_;
};

// A part of a chunk in an array, as a destination of the tiles that hold some of it.
class Partial {
 public:
  Partial(const Geometry& geometry, const Part& part, std::uint8_t* array)
      : geometry_(geometry), part_(part), array_(array), region_(part.region(geometry.dims())) {
    tiles_.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(geometry.tiles(), part.values())));
    if (geometry.is_linear()) {
      for (std::uint64_t at = part.next(0); at != Part::kNone;
           at = part.next(geometry.first_value(tiles_.back() + 1))) {
        tiles_.push_back(static_cast<std::uint32_t>(at / geometry.max_tile_values()));
      }
      return;
    }
    geometry.for_tiles(region_, [&](std::uint32_t tile) {
      if (holds_some(tile)) tiles_.push_back(tile);
    });
  }

  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(part_.values() * part_.value_bytes()); }
  [[nodiscard]] std::uint32_t tiles() const { return static_cast<std::uint32_t>(tiles_.size()); }
  [[nodiscard]] std::uint32_t tile(std::uint32_t i) const { return tiles_[i]; }
  [[nodiscard]] bool are_most_of(const Frame& frame) const { return 2 * std::uint64_t{tiles()} > frame.tiles; }
  [[nodiscard]] bool needs_room() const { return true; }

  [[nodiscard]] std::uint8_t* memory(std::uint32_t tile, std::uint32_t count) const {
    return geometry_.is_linear() ? part_.memory(geometry_.first_value(tile), count, array_) : nullptr;
  }

  void put(std::uint32_t tile, const std::uint8_t* values) const {
    geometry_.for_rows(tile, region_, [&](std::uint64_t first, std::uint32_t in_tile, std::uint32_t count) {
      part_.scatter(first, count, values + std::size_t{in_tile} * part_.value_bytes(), array_);
    });
  }

 private:
  // A region may be larger than the part.
  [[nodiscard]] bool holds_some(std::uint32_t tile) const {
    bool found = false;
    geometry_.for_rows(tile, region_, [&](std::uint64_t first, std::uint32_t, std::uint32_t count) {
      found = found || part_.next(first) < first + count;
    });
    return found;
  }

  const Geometry& geometry_;
  const Part& part_;
  std::uint8_t* array_;
  Region region_;
  std::vector<std::uint32_t> tiles_;
};

// Decodes the tiles that `to` needs.
template <class Destination>
h5l_status decode_tiles(const Frame& frame, const Choice& choice, const Destination& to, const Message& why,
                        std::uint32_t threads) {
  const FrameHeader& header = frame.header;
  const Geometry& geometry = choice.geometry;
  Quantizer quantizer = has_integers(header)
                            ? integer_quantizer_of(header)
                            : scalar::quantizer_of_step(static_cast<BoundKind>(header.bound_kind), header.step_bits);
  const std::shared_ptr<const MadeBins> bins = add_bins(header.value_class, header.value_bytes, quantizer);
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
    const std::size_t tile_bytes = std::size_t{placed.tile.count} * header.value_bytes;
    std::uint8_t* const own = workspace.data() + worker_bytes * worker;
    std::uint8_t* const in_place = to.memory(tile, placed.tile.count);
    std::uint8_t* const values = in_place != nullptr ? in_place : own + codec_room;
    placed.tile.non_temporal = in_place != nullptr && non_temporal;
    if (!decode_tile(frame, choice, quantizer, placed.tile, frame.tile_payload(tile), MutableBytes(values, tile_bytes),
                     own)) {
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

// Copies values of a stored frame.
void copy_stored(const Frame& frame, const Part& part, std::uint8_t* array) {
  if (!frame.header.big_endian) return part.scatter(0, part.chunk_values(), frame.payload.data(), array);
  constexpr std::uint64_t most = 2048;  // values of up to 8 bytes
  std::uint8_t values[most * 8];
  for (std::uint64_t at = part.next(0); at != Part::kNone; at = part.next(at + most)) {
    const std::uint64_t count = std::min(most, part.chunk_values() - at);
    copy_swapped(frame.payload.data() + at * part.value_bytes(), values,
                 static_cast<std::size_t>(count * part.value_bytes()), part.value_bytes());
    part.scatter(at, count, values, array);
  }
}

h5l_status decode_whole(const Frame& frame, MutableBytes raw, const Message& why, std::uint32_t threads) {
  const FrameHeader& header = frame.header;
  if (raw.empty()) return H5L_OK;
  if (header.codec == H5L_CODEC_STORED) {
    std::memcpy(raw.data(), frame.payload.data(), raw.size());
    if (header.big_endian) copy_swapped(raw.data(), raw.data(), raw.size(), header.value_bytes);
    return H5L_OK;
  }
  Choice choice;
  if (const h5l_status status = open_choice(frame, choice, why); status != H5L_OK) return status;
  return decode_tiles(frame, choice, Whole(choice.geometry, header.value_bytes, raw), why, threads);
}

}  // namespace

h5l_status check_sum(const Frame& frame, const Message& why, std::uint32_t threads) {
  if (!frame.header.has_checksum) return H5L_OK;
  return check_payload(frame, sum_payload(frame, best_checksum(), threads), why);
}

h5l_status decode_values(const Frame& frame, const Part& part, std::uint8_t* array, const Message& why,
                         std::uint32_t threads) {
  if (frame.header.codec == H5L_CODEC_STORED) {
    copy_stored(frame, part, array);
    return H5L_OK;
  }
  Choice choice;
  if (const h5l_status status = open_choice(frame, choice, why); status != H5L_OK) return status;
  return decode_tiles(frame, choice, Partial(choice.geometry, part, array), why, threads);
}

bool needs_most_tiles(const Frame& frame, const Part& part) {
  Choice choice;
  return open_choice(frame, choice, Message(nullptr)) == H5L_OK &&
         Partial(choice.geometry, part, nullptr).are_most_of(frame);
}

h5l_status decode_part(const Frame& frame, const Part& part, std::uint8_t* array, Scratch& scratch, const Message& why,
                       std::uint32_t threads) {
  const FrameHeader& header = frame.header;
  if (header.codec == H5L_CODEC_STORED) {
    if (const h5l_status status = check_sum(frame, why); status != H5L_OK) return status;
    copy_stored(frame, part, array);
    return H5L_OK;
  }
  Choice choice;
  if (const h5l_status status = open_choice(frame, choice, why); status != H5L_OK) return status;
  const Partial some(choice.geometry, part, array);
  // Short rows of boxes are copied faster to a chunk.
  if (some.are_most_of(frame) && !choice.geometry.is_linear()) {
    std::uint8_t* const chunk = scratch.get(header.raw_bytes);
    if (chunk == nullptr) return why.fail(H5L_OUT_OF_MEMORY, "out of memory for a chunk");
    const h5l_status status = decode_chunk(frame, {chunk, header.raw_bytes}, why, threads);
    if (status == H5L_OK) part.scatter(0, part.chunk_values(), chunk, array);
    return status;
  }
  if (const h5l_status status = check_sum(frame, why, threads_for_chunk(threads, some.bytes())); status != H5L_OK) {
    return status;
  }
  return decode_tiles(frame, choice, some, why, threads);
}

h5l_status decode_chunk(const Frame& frame, MutableBytes raw, const Message& why, std::uint32_t threads) {
  if (const h5l_status status = check_sum(frame, why, threads_for_chunk(threads, raw.size())); status != H5L_OK) {
    return status;
  }
  return decode_whole(frame, raw, why, threads);
}

}  // namespace h5lossy
