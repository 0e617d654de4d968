// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Where the tiles of a chunk lie: runs of values, or rows of boxes (blocks in several dimensions) whose values are
// scattered over the chunk. Everybody who needs a tile's place or size asks here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"

namespace h5lossy {

// A tile with the memory behind Tile::inside.
struct PlacedTile {
  Tile tile;
  u64 inside[kMaxTileBoxes];
};

class Geometry {
 public:
  Geometry() = default;

  // `count` values of `value_bytes`. `dims` (z, y, x) count only with blocks in several dimensions. There, dims that do
  // not hold `count` values give no tiles.
  Geometry(const Blocking& blocking, std::uint32_t value_bytes, std::uint64_t count, const std::uint32_t (&dims)[3]);

  [[nodiscard]] std::uint32_t tiles() const { return tiles_; }

  // Whether tiles are runs of values, so that they lie in the chunk as they are.
  [[nodiscard]] bool is_linear() const { return extents_[2] == 0; }

  // Values of a full tile (with boxes: positions), and their bytes.
  [[nodiscard]] std::uint32_t max_tile_values() const { return tile_values_; }
  [[nodiscard]] std::size_t max_tile_bytes() const { return std::size_t{tile_values_} * value_bytes_; }

  [[nodiscard]] std::uint32_t count_values(std::uint32_t tile) const;

  // No tile but the last one has fewer; quicker to tell.
  [[nodiscard]] std::uint32_t least_values() const;

  // Fills in `placed`, whose tile then points to its own masks.
  void place(std::uint32_t tile, PlacedTile& placed) const;

  // The tiles from the first to behind the last one that may hold a value of [first, first + count), and whether a
  // tile among them does.
  void range(std::uint64_t first, std::uint64_t count, std::uint32_t& begin, std::uint32_t& end) const;
  [[nodiscard]] bool holds(std::uint32_t tile, std::uint64_t first, std::uint64_t count) const;

  // Copies a tile's values out of a chunk; and into the part of a chunk that begins with value `first` and has `count`,
  // where values outside of the part are left out.
  void gather(std::uint32_t tile, const std::uint8_t* chunk, std::uint8_t* values) const;
  void scatter(std::uint32_t tile, const std::uint8_t* values, std::uint64_t first, std::uint64_t count,
               std::uint8_t* part) const;

 private:
  struct Box {
    std::uint32_t begin[3];  // z, y, x of its first value
    std::uint32_t size[3];   // values inside of the data
  };

  // Calls visit(box) for each box of a tile, in their order.
  template <class Visit>
  void for_boxes(std::uint32_t tile, Visit visit) const;

  [[nodiscard]] bool is_whole(const Box& box) const {
    return box.size[0] == extents_[0] && box.size[1] == extents_[1] && box.size[2] == extents_[2];
  }

  // Number of a box's first value.
  [[nodiscard]] std::uint64_t first_of(const Box& box) const {
    return (std::uint64_t{box.begin[0]} * dims_[1] + box.begin[1]) * dims_[2] + box.begin[2];
  }

  std::uint32_t tile_values_ = 0;
  std::uint32_t value_bytes_ = 1;
  std::uint32_t tiles_ = 0;
  std::uint64_t count_ = 0;
  std::uint32_t extents_[3] = {};  // of a box
  std::uint32_t dims_[3] = {};
  std::uint32_t boxes_[3] = {};  // along each axis
};

}  // namespace h5lossy
