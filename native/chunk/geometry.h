// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The positions and sizes of a chunk's tiles: runs of values, or rows of boxes whose values are scattered over the
// chunk.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"

namespace h5lossy {

// A tile and the memory for Tile::boxes.
struct PlacedTile {
  Tile tile;
  Box boxes[kMaxTileBoxes];
};

class Geometry {
 public:
  Geometry() = default;

  // For `count` values of `value_bytes`. There are no tiles if dims (w, z, y, x) do not multiply to `count`.
  Geometry(const TileLayout& layout, std::uint32_t value_bytes, std::uint64_t count,
           const std::uint32_t (&dims)[kAxes]);

  [[nodiscard]] std::uint32_t tiles() const { return tiles_; }

  // Whether tiles are runs of values, contiguous in the chunk; and the first value of a tile if so.
  [[nodiscard]] bool is_linear() const { return is_linear_; }
  [[nodiscard]] std::uint64_t first_value(std::uint32_t tile) const { return std::uint64_t{tile} * box_[3]; }

  // The values of a full tile, and their bytes.
  [[nodiscard]] std::uint32_t max_tile_values() const { return tile_values_; }
  [[nodiscard]] std::size_t max_tile_bytes() const { return std::size_t{tile_values_} * value_bytes_; }

  [[nodiscard]] std::uint32_t count_values(std::uint32_t tile) const;

  // A lower bound of count_values for all tiles except the last one; faster.
  [[nodiscard]] std::uint32_t least_values() const;

  // Fills in `placed`; placed.tile points to placed.boxes.
  void place(std::uint32_t tile, PlacedTile& placed) const;

  // The range of tiles [begin, end) that may hold values of [first, first + count), and whether a tile among them does.
  void range(std::uint64_t first, std::uint64_t count, std::uint32_t& begin, std::uint32_t& end) const;
  [[nodiscard]] bool holds(std::uint32_t tile, std::uint64_t first, std::uint64_t count) const;

  // gather copies a tile's values out of a chunk. scatter copies them into `part`, values [first, first + count) of a
  // chunk, and skips values outside it.
  void gather(std::uint32_t tile, const std::uint8_t* chunk, std::uint8_t* values) const;
  void scatter(std::uint32_t tile, const std::uint8_t* values, std::uint64_t first, std::uint64_t count,
               std::uint8_t* part) const;

 private:
  struct PlacedBox {
    std::uint32_t begin[kAxes];  // of its first value
    std::uint32_t size[kAxes];   // extents inside the chunk

    [[nodiscard]] std::uint32_t values() const { return size[0] * size[1] * size[2] * size[3]; }
  };

  // Calls visit(box) for each box of a tile, in order.
  template <class Visit>
  void for_boxes(std::uint32_t tile, Visit visit) const;

  // Calls visit(index of its first value) for each row of a box along x, in order.
  template <class Visit>
  void for_rows(const PlacedBox& box, Visit visit) const;

  // Box shapes with specialised copies.
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
