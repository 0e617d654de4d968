// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The positions and sizes of a chunk's tiles: runs of values, or rows of boxes whose values are scattered over the
// chunk.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "codecs/codec.h"

namespace h5lossy {

// A box of a chunk: values from `begin` to before `end` along each axis.
struct Region {
  std::uint32_t begin[kAxes], end[kAxes];
};

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

  // The range of tiles [begin, end) that may hold values of [first, first + count).
  void range(std::uint64_t first, std::uint64_t count, std::uint32_t& begin, std::uint32_t& end) const;

  // Extents of the chunk.
  [[nodiscard]] const std::uint32_t (&dims() const)[kAxes] { return dims_; }

  // Calls visit(tile) for each tile that holds values of a region, in order.
  template <class Visit>
  void for_tiles(const Region& region, Visit visit) const;

  // Calls visit(first value in the chunk, first value in the tile, count) for each row of a tile's boxes, clipped to a
  // region.
  template <class Visit>
  void for_rows(std::uint32_t tile, const Region& region, Visit visit) const;

  // The rows of a tile that is one box and part of a slice.
  [[nodiscard]] RowsAhead rows_of(std::uint32_t tile, const std::uint8_t* chunk) const;

  // The place in a chunk of a tile's first value, if the others follow it there; kNoRun otherwise.
  static constexpr std::uint64_t kNoRun = ~std::uint64_t{0};
  [[nodiscard]] std::uint64_t run_of(std::uint32_t tile) const;

  // Copies a tile's values out of a chunk, or into it.
  void gather(std::uint32_t tile, const std::uint8_t* chunk, std::uint8_t* values) const;
  void scatter(std::uint32_t tile, const std::uint8_t* values, std::uint8_t* chunk) const;

 private:
  struct PlacedBox {
    std::uint32_t begin[kAxes];  // of its first value
    std::uint32_t size[kAxes];   // extents inside the chunk

    [[nodiscard]] std::uint32_t values() const { return size[0] * size[1] * size[2] * size[3]; }
  };

  [[nodiscard]] PlacedBox first_box(std::uint32_t tile) const;

  // Calls visit(box) for each box of a tile, in order.
  template <class Visit>
  void for_boxes(std::uint32_t tile, Visit visit) const;

  // Calls visit(index of its first value, bytes) for each row of a box along x, in order. Rows that are adjacent in the
  // chunk are merged.
  template <class Visit>
  void for_box_rows(const PlacedBox& box, Visit visit) const;

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

template <class Visit>
void Geometry::for_boxes(std::uint32_t tile, Visit visit) const {
  PlacedBox box = first_box(tile);
  for (std::uint32_t left = std::min(tile_boxes_, all_boxes_ - tile * tile_boxes_);;) {
    visit(box);
    if (--left == 0) return;
    for (std::size_t i = kAxes - 1;; --i) {  // the next box along x, or in the next row of boxes
      box.begin[i] += box_[i];
      const bool is_inside = box.begin[i] < dims_[i];
      if (!is_inside) box.begin[i] = 0;
      box.size[i] = std::min(box_[i], dims_[i] - box.begin[i]);
      if (is_inside) break;
    }
  }
}

template <class Visit>
void Geometry::for_tiles(const Region& region, Visit visit) const {
  std::uint32_t first[kAxes], last[kAxes];  // boxes
  for (std::size_t i = 0; i < kAxes; ++i) {
    first[i] = region.begin[i] / box_[i];
    last[i] = (region.end[i] - 1) / box_[i];
  }
  std::uint32_t next = 0;  // rows of boxes may share a tile
  for (std::uint32_t w = first[0]; w <= last[0]; ++w) {
    for (std::uint32_t z = first[1]; z <= last[1]; ++z) {
      for (std::uint32_t y = first[2]; y <= last[2]; ++y) {
        const std::uint32_t row = ((w * boxes_[1] + z) * boxes_[2] + y) * boxes_[3];
        const std::uint32_t end = (row + last[3]) / tile_boxes_ + 1;
        for (next = std::max(next, (row + first[3]) / tile_boxes_); next < end; ++next) visit(next);
      }
    }
  }
}

template <class Visit>
void Geometry::for_rows(std::uint32_t tile, const Region& region, Visit visit) const {
  std::uint32_t in_tile = 0;
  for_boxes(tile, [&](const PlacedBox& box) {
    std::uint32_t from[kAxes], to[kAxes];  // in the box
    bool is_empty = false;
    for (std::size_t i = 0; i < kAxes; ++i) {
      from[i] = std::max(region.begin[i], box.begin[i]) - box.begin[i];
      to[i] = std::min(region.end[i], box.begin[i] + box.size[i]) - box.begin[i];
      is_empty |= region.begin[i] >= box.begin[i] + box.size[i] || region.end[i] <= box.begin[i];
    }
    if (!is_empty) {
      const std::uint64_t first = first_of(box);
      for (std::uint32_t w = from[0]; w < to[0]; ++w) {
        for (std::uint32_t z = from[1]; z < to[1]; ++z) {
          for (std::uint32_t y = from[2]; y < to[2]; ++y) {
            visit(first + ((std::uint64_t{w} * dims_[1] + z) * dims_[2] + y) * dims_[3] + from[3],
                  in_tile + ((w * box.size[1] + z) * box.size[2] + y) * box.size[3] + from[3], to[3] - from[3]);
          }
        }
      }
    }
    in_tile += box.values();
  });
}

}  // namespace h5lossy
