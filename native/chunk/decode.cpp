// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/decode.h"

#include <cstring>

#include "chunk/choice.h"
#include "chunk/decode_tiles.h"
#include "chunk/tile_runs.h"
#include "frame/swap.h"
#include "runtime/registry.h"

namespace h5lossy {
namespace {

// Destination of tiles: a buffer for the whole chunk.
class Whole {
 public:
  Whole(const Geometry& geometry, std::uint32_t value_bytes, std::span<std::uint8_t> raw)
      : geometry_(geometry), value_bytes_(value_bytes), raw_(raw) {}

  [[nodiscard]] std::size_t bytes() const { return raw_.size(); }
  [[nodiscard]] std::uint32_t tiles() const { return geometry_.tiles(); }
  [[nodiscard]] std::uint32_t tile(std::uint32_t i) const { return i; }
  [[nodiscard]] bool needs_room() const { return !geometry_.is_linear(); }

  // The memory of a tile's values, if contiguous, so that the tile is decoded in place; otherwise null.
  [[nodiscard]] std::uint8_t* memory(std::uint32_t tile, std::uint32_t) const {
    const std::uint64_t run = geometry_.run_of(tile);
    return run != Geometry::kNoRun ? raw_.data() + run * value_bytes_ : nullptr;
  }

  [[nodiscard]] RowsAhead ahead(std::uint32_t tile) const { return geometry_.rows_of(tile, raw_.data()); }
  void put(std::uint32_t tile, const std::uint8_t* values) const { geometry_.scatter(tile, values, raw_.data()); }

 private:
  const Geometry& geometry_;
  std::uint32_t value_bytes_;
  std::span<std::uint8_t> raw_;
};

h5l_status decode_whole(const Frame& frame, std::span<std::uint8_t> raw, const Message& why, std::uint32_t threads) {
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

bool decode_tile(const Frame& frame, const Choice& choice, const Quantizer& quantizer, const Tile& tile,
                 std::span<const std::uint8_t> payload, std::span<std::uint8_t> raw, std::uint8_t* workspace) {
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

h5l_status check_sum(const Frame& frame, const Message& why, std::uint32_t threads) {
  if (!frame.header.has_checksum) return H5L_OK;
  return check_payload(frame, sum_payload(frame, best_checksum(), threads), why);
}

h5l_status decode_chunk(const Frame& frame, std::span<std::uint8_t> raw, const Message& why, std::uint32_t threads) {
  if (const h5l_status status = check_sum(frame, why, threads_for_chunk(threads, raw.size())); status != H5L_OK) {
    return status;
  }
  return decode_whole(frame, raw, why, threads);
}

}  // namespace h5lossy
