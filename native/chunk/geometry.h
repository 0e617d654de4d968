// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Where the tiles of a chunk lie: runs of values, or rows of boxes whose values are scattered over the chunk. Everybody who
// needs a tile's place or size asks here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"

namespace h5lossy {

// A tile with the memory behind Tile::boxes.
struct PlacedTile {
  Tile tile;
  Box boxes[kMaxTileBoxes];
};

class Geometry {
 public:
  Geometry() = default;

  // `count` values of `value_bytes`. Dims (w, z, y, x) that do not hold `count` values give no tiles.
  Geometry(const TileLayout& layout, std::uint32_t value_bytes, std::uint64_t count,
           const std::uint32_t (&dims)[kAxes]);

  [[nodiscard]] std::uint32_t tiles() const { return tiles_; }

  // Whether tiles are runs of values, so that they lie in the chunk as they are; and where a tile then begins.
  [[nodiscard]] bool is_linear() const { return is_linear_; }
  [[nodiscard]] std::uint64_t first_value(std::uint32_t tile) const { return std::uint64_t{tile} * box_[3]; }

  // Positions of a full tile, and the bytes of as many values.
  [[nodiscard]] std::uint32_t max_tile_values() const { return tile_values_; }
  [[nodiscard]] std::size_t max_tile_bytes() const { return std::size_t{tile_values_} * value_bytes_; }

  [[nodiscard]] std::uint32_t count_values(std::uint32_t tile) const;

  // No tile but the last one has fewer; quicker to tell.
  [[nodiscard]] std::uint32_t least_values() const;

  // Fills in `placed`, whose tile then points to its own boxes.
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
  struct PlacedBox {
    std::uint32_t begin[kAxes];  // of its first value
    std::uint32_t size[kAxes];   // values inside of the chunk

    [[nodiscard]] std::uint32_t values() const { return size[0] * size[1] * size[2] * size[3]; }
  };

  // Calls visit(box) for each box of a tile, in their order.
  template <class Visit>
  void for_boxes(std::uint32_t tile, Visit visit) const;

  // Calls visit(number of its first value) for each row of a box along x, in their order.
  template <class Visit>
  void for_rows(const PlacedBox& box, Visit visit) const;

  // Boxes that are copied row by row with instructions for just their size.
  enum class Shape : std::uint8_t { any, square8, cube4 };
  [[nodiscard]] bool is_whole(const PlacedBox& box) const { return box.values() == box_values_; }
  template <bool to_box, class Part, class Values>
  void copy_whole(const PlacedBox& box, Part chunk, Values values) const;

  [[nodiscard]] std::uint64_t first_of(const PlacedBox& box) const {
    return ((std::uint64_t{box.begin[0]} * dims_[1] + box.begin[1]) * dims_[2] + box.begin[2]) * dims_[3] +
           box.begin[3];
  }

  std::uint32_t box_[kAxes] = {};  // extents
  std::uint32_t dims_[kAxes] = {};
  std::uint32_t boxes_[kAxes] = {};  // along each axis
  std::uint32_t box_values_ = 0;
  std::uint32_t tile_boxes_ = 0;
  std::uint32_t tile_values_ = 0;
  std::uint32_t value_bytes_ = 1;
  std::uint32_t all_boxes_ = 0;
  std::uint32_t tiles_ = 0;
  std::uint64_t count_ = 0;
  bool is_linear_ = false;
  Shape shape_ = Shape::any;
};

}  // namespace h5lossy
