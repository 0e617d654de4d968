// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/geometry.h"

#include <algorithm>
#include <cstring>

namespace h5lossy {
namespace {

// Copies a box with sizes known at compile time, so that each row takes a few instructions. `values` is contiguous.
template <std::size_t row_bytes, std::uint32_t rows, std::uint32_t slices, bool to_box, class Part, class Values>
void copy_rows(Part part, std::size_t rows_apart, std::size_t slices_apart, Values values) {
  for (std::uint32_t z = 0; z < slices; ++z, part += slices_apart) {
    Part row = part;
    for (std::uint32_t y = 0; y < rows; ++y, row += rows_apart, values += row_bytes) {
      if constexpr (to_box) {
        std::memcpy(values, row, row_bytes);
      } else {
        std::memcpy(row, values, row_bytes);
      }
    }
  }
}

}  // namespace

Geometry::Geometry(const TileLayout& layout, std::uint32_t value_bytes, std::uint64_t count,
                   const std::uint32_t (&dims)[kAxes])
    : box_values_(1),
      tile_boxes_(layout.boxes),
      value_bytes_(value_bytes),
      count_(count),
      is_linear_(layout.boxes == 1 && dims[0] == 1 && dims[1] == 1 && dims[2] == 1) {
  std::copy_n(layout.box, kAxes, box_);
  for (const std::uint32_t extent : box_) box_values_ *= extent;
  tile_values_ = tile_boxes_ * box_values_;
  const auto has_box = [&](std::uint32_t z, std::uint32_t y, std::uint32_t x) {
    return box_[0] == 1 && box_[1] == z && box_[2] == y && box_[3] == x;
  };
  const bool is_copied_whole = value_bytes == 4 || value_bytes == 8;  // copy_whole supports only these
  shape_ = !is_copied_whole   ? Shape::any
           : has_box(1, 8, 8) ? Shape::square8
           : has_box(4, 4, 4) ? Shape::cube4
                              : Shape::any;
  std::uint64_t values = 1, boxes = 1;
  for (std::size_t i = 0; i < kAxes; ++i) {
    values *= dims[i];  // cannot overflow: the previous product is at most `count`, so both factors are below 2^32
    if (values > count) return;
    dims_[i] = dims[i];
    boxes_[i] = dims[i] / box_[i] + (dims[i] % box_[i] != 0 ? 1 : 0);
    boxes *= boxes_[i];
  }
  if (values != count) return;
  all_boxes_ = static_cast<std::uint32_t>(boxes);
  tiles_ = all_boxes_ / tile_boxes_ + (all_boxes_ % tile_boxes_ != 0 ? 1 : 0);
}

template <class Visit>
void Geometry::for_box_rows(const PlacedBox& box, Visit visit) const {
  std::uint32_t rows[kAxes] = {box.size[0], box.size[1], box.size[2], 1};
  std::size_t bytes = std::size_t{box.size[3]} * value_bytes_;
  for (std::size_t a = kAxes - 1; a > 0 && box.size[a] == dims_[a]; --a) {
    bytes *= rows[a - 1];
    rows[a - 1] = 1;
  }
  for (std::uint32_t w = 0; w < rows[0]; ++w) {
    for (std::uint32_t z = 0; z < rows[1]; ++z) {
      std::uint64_t row =
          ((std::uint64_t{box.begin[0] + w} * dims_[1] + box.begin[1] + z) * dims_[2] + box.begin[2]) * dims_[3] +
          box.begin[3];
      for (std::uint32_t y = 0; y < rows[2]; ++y, row += dims_[3]) visit(row, bytes);
    }
  }
}

std::uint32_t Geometry::count_values(std::uint32_t tile) const {
  if (is_linear()) return static_cast<std::uint32_t>(std::min<std::uint64_t>(box_[3], count_ - first_value(tile)));
  std::uint32_t count = 0;
  for_boxes(tile, [&](const PlacedBox& box) { count += box.values(); });
  return count;
}

std::uint32_t Geometry::least_values() const {
  if (is_linear()) return box_[3];
  std::uint32_t least = tile_boxes_;
  for (std::size_t i = 0; i < kAxes; ++i) least *= dims_[i] % box_[i] == 0 ? box_[i] : dims_[i] % box_[i];
  return least;
}

void Geometry::place(std::uint32_t tile, PlacedTile& placed) const {
  placed.tile = {0, 0, placed.boxes};
  if (is_linear()) {
    placed.tile.count = count_values(tile);
    placed.tile.box_count = 1;
    placed.boxes[0] = {{1, 1, 1, static_cast<u16>(placed.tile.count)}};
    return;
  }
  for_boxes(tile, [&](const PlacedBox& box) {
    placed.tile.count += box.values();
    Box& inside = placed.boxes[placed.tile.box_count++];
    for (std::size_t i = 0; i < kAxes; ++i) inside.extents[i] = static_cast<u16>(box.size[i]);
  });
}

Geometry::PlacedBox Geometry::first_box(std::uint32_t tile) const {
  PlacedBox box;
  std::uint32_t number = tile * tile_boxes_;
  for (std::size_t i = kAxes; i-- > 0; number /= boxes_[i]) {
    box.begin[i] = number % boxes_[i] * box_[i];
    box.size[i] = std::min(box_[i], dims_[i] - box.begin[i]);
  }
  return box;
}

RowsAhead Geometry::rows_of(std::uint32_t tile, const std::uint8_t* chunk) const {
  RowsAhead rows;
  if (tile >= tiles_ || tile_boxes_ != 1 || is_linear_) return rows;
  const PlacedBox box = first_box(tile);
  if (box.size[0] != 1 || box.size[1] != 1 || box.size[3] == dims_[3]) return rows;
  rows.first = chunk + first_of(box) * value_bytes_;
  rows.count = box.size[2];
  rows.bytes = box.size[3] * value_bytes_;
  rows.apart = std::uint64_t{dims_[3]} * value_bytes_;
  return rows;
}

std::uint64_t Geometry::run_of(std::uint32_t tile) const {
  if (is_linear_) return first_value(tile);
  if (tile_boxes_ != 1) return kNoRun;
  const PlacedBox box = first_box(tile);
  std::size_t a = kAxes - 1;
  while (a > 0 && box.size[a] == dims_[a]) --a;
  std::uint32_t runs = 1;
  for (; a > 0; --a) runs *= box.size[a - 1];
  return runs == 1 ? first_of(box) : kNoRun;
}

void Geometry::range(std::uint64_t first, std::uint64_t count, std::uint32_t& begin, std::uint32_t& end) const {
  begin = end = 0;
  if (count == 0 || tiles_ == 0) return;
  const std::uint64_t last = first + count - 1;
  // The layers of boxes that the range intersects, along the first axis whose extent is not 1.
  std::size_t axis = 0;
  while (axis < kAxes - 1 && dims_[axis] == 1) ++axis;
  std::uint64_t layer_values = box_[axis], layer_boxes = 1;
  for (std::size_t i = axis + 1; i < kAxes; ++i) {
    layer_values *= dims_[i];
    layer_boxes *= boxes_[i];
  }
  begin = static_cast<std::uint32_t>(first / layer_values * layer_boxes / tile_boxes_);
  const std::uint64_t behind = (last / layer_values + 1) * layer_boxes;
  end = static_cast<std::uint32_t>(std::min<std::uint64_t>((behind + tile_boxes_ - 1) / tile_boxes_, tiles_));
}

template <bool to_box, class Part, class Values>
void Geometry::copy_whole(const PlacedBox& box, Part chunk, Values values) const {
  const Part part = chunk + first_of(box) * value_bytes_;
  const std::size_t rows_apart = std::size_t{dims_[3]} * value_bytes_, slices_apart = rows_apart * dims_[2];
  if (shape_ == Shape::square8) {
    if (value_bytes_ == 4) return copy_rows<32, 8, 1, to_box>(part, rows_apart, slices_apart, values);
    return copy_rows<64, 8, 1, to_box>(part, rows_apart, slices_apart, values);
  }
  if (value_bytes_ == 4) return copy_rows<16, 4, 4, to_box>(part, rows_apart, slices_apart, values);
  return copy_rows<32, 4, 4, to_box>(part, rows_apart, slices_apart, values);
}

// Calling memcpy takes longer than copying a short row.
static void copy_row(const std::uint8_t* from, std::uint8_t* to, std::size_t bytes) {
  for (; bytes >= 64; bytes -= 64, from += 64, to += 64) std::memcpy(to, from, 64);
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void Geometry::gather(std::uint32_t tile, const std::uint8_t* chunk, std::uint8_t* values) const {
  for_boxes(tile, [&](const PlacedBox& box) {
    if (shape_ != Shape::any && is_whole(box)) {
      copy_whole<true>(box, chunk, values);
      values += std::size_t{box_values_} * value_bytes_;
      return;
    }
    for_box_rows(box, [&](std::uint64_t row, std::size_t row_bytes) {
      copy_row(chunk + row * value_bytes_, values, row_bytes);
      values += row_bytes;
    });
  });
}

void Geometry::scatter(std::uint32_t tile, const std::uint8_t* values, std::uint8_t* chunk) const {
  for_boxes(tile, [&](const PlacedBox& box) {
    if (shape_ != Shape::any && is_whole(box)) {
      copy_whole<false>(box, chunk, values);
      values += std::size_t{box_values_} * value_bytes_;
      return;
    }
    for_box_rows(box, [&](std::uint64_t row, std::size_t row_bytes) {
      copy_row(values, chunk + row * value_bytes_, row_bytes);
      values += row_bytes;
    });
  });
}

}  // namespace h5lossy
