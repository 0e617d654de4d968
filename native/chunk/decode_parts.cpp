// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/decode_parts.h"

#include <algorithm>
#include <vector>

#include "chunk/choice.h"
#include "chunk/decode.h"
#include "chunk/decode_tiles.h"
#include "frame/swap.h"

namespace h5lossy {
namespace {

// Destination of tiles: a part of a chunk in an array. Only tiles that hold some of it are decoded.
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

  [[nodiscard]] RowsAhead ahead(std::uint32_t) const { return {}; }
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

// Copies values of a stored frame.
void copy_stored(const Frame& frame, const Part& part, std::uint8_t* array) {
  if (!frame.header.big_endian) return part.scatter(0, part.chunk_values(), frame.payload.data(), array);
  constexpr std::uint64_t most = 2048;  // number of values of up to 8 bytes
  std::uint8_t values[most * 8];
  for (std::uint64_t at = part.next(0); at != Part::kNone; at = part.next(at + most)) {
    const std::uint64_t count = std::min(most, part.chunk_values() - at);
    copy_swapped(frame.payload.data() + at * part.value_bytes(), values,
                 static_cast<std::size_t>(count * part.value_bytes()), part.value_bytes());
    part.scatter(at, count, values, array);
  }
}

}  // namespace

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
  // Boxes with short rows are decoded faster to a whole chunk first.
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

}  // namespace h5lossy
