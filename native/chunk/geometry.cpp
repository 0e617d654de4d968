// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/geometry.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace h5lossy {
namespace {

// Copies rows of `size` bytes that lie some bytes apart.
void copy_rows(const std::uint8_t* from, std::size_t from_apart, std::uint8_t* to, std::size_t to_apart,
               std::uint32_t rows, std::size_t size) {
  for (; rows != 0; --rows, from += from_apart, to += to_apart) std::memcpy(to, from, size);
}

// A whole box: all of known size, so that each row is a few instructions. `values` are the box's, one behind the other.
template <std::size_t row_bytes, bool to_box>
[[gnu::always_inline]] inline void copy_box(std::conditional_t<to_box, const std::uint8_t*, std::uint8_t*> rows,
                                            std::size_t rows_apart, std::size_t slices_apart, std::uint32_t slices,
                                            std::conditional_t<to_box, std::uint8_t*, const std::uint8_t*> values) {
  const std::uint32_t rows_of_slice = slices == 1 ? 8 : 4;
  for (std::uint32_t z = 0; z < slices; ++z, rows += slices_apart) {
    auto* row = rows;
    for (std::uint32_t y = 0; y < rows_of_slice; ++y, row += rows_apart, values += row_bytes) {
      if constexpr (to_box) {
        std::memcpy(values, row, row_bytes);
      } else {
        std::memcpy(row, values, row_bytes);
      }
    }
  }
}

template <bool to_box, class Rows, class Values>
void copy_box(Rows rows, std::size_t rows_apart, std::size_t slices_apart, std::uint32_t slices, std::size_t row_bytes,
              Values values) {
  if (slices == 1) {
    if (row_bytes == 32) return copy_box<32, to_box>(rows, rows_apart, slices_apart, 1, values);
    return copy_box<64, to_box>(rows, rows_apart, slices_apart, 1, values);
  }
  if (row_bytes == 16) return copy_box<16, to_box>(rows, rows_apart, slices_apart, 4, values);
  return copy_box<32, to_box>(rows, rows_apart, slices_apart, 4, values);
}

}  // namespace

Geometry::Geometry(const Blocking& blocking, std::uint32_t value_bytes, std::uint64_t count,
                   const std::uint32_t (&dims)[3])
    : tile_values_(blocking.tile_values), value_bytes_(value_bytes), count_(count) {
  std::copy_n(blocking.extents, 3, extents_);
  if (is_linear()) {
    tiles_ = static_cast<std::uint32_t>((count + tile_values_ - 1) / tile_values_);
    return;
  }
  std::uint64_t values = 1, boxes = 1;
  for (int i = 0; i < 3; ++i) {
    values *= dims[i];           // each factor is below 2^32, and so is the product before it:
    if (values > count) return;  // nothing overflows
    dims_[i] = dims[i];
    boxes_[i] = dims[i] / extents_[i] + (dims[i] % extents_[i] != 0 ? 1 : 0);
    boxes *= boxes_[i];
  }
  if (values == count) tiles_ = static_cast<std::uint32_t>((boxes + kMaxTileBoxes - 1) / kMaxTileBoxes);
}

template <class Visit>
void Geometry::for_boxes(std::uint32_t tile, Visit visit) const {
  const std::uint32_t first = tile * kMaxTileBoxes;
  std::uint32_t place[3] = {first / boxes_[2] / boxes_[1], first / boxes_[2] % boxes_[1], first % boxes_[2]};
  for (std::uint32_t b = 0; b < kMaxTileBoxes && place[0] < boxes_[0]; ++b) {
    Box box;
    for (int i = 0; i < 3; ++i) {
      box.begin[i] = place[i] * extents_[i];
      box.size[i] = std::min(extents_[i], dims_[i] - box.begin[i]);
    }
    visit(box);
    if (++place[2] < boxes_[2]) continue;
    place[2] = 0;
    if (++place[1] < boxes_[1]) continue;
    place[1] = 0;
    ++place[0];
  }
}

std::uint32_t Geometry::count_values(std::uint32_t tile) const {
  if (is_linear()) {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(tile_values_, count_ - std::uint64_t{tile} * tile_values_));
  }
  std::uint32_t count = 0;
  for_boxes(tile, [&](const Box& box) { count += box.size[0] * box.size[1] * box.size[2]; });
  return count;
}

std::uint32_t Geometry::least_values() const {
  if (is_linear()) return tile_values_;
  std::uint32_t least = kMaxTileBoxes;
  for (int i = 0; i < 3; ++i) least *= dims_[i] % extents_[i] == 0 ? extents_[i] : dims_[i] % extents_[i];
  return least;
}

void Geometry::place(std::uint32_t tile, PlacedTile& placed) const {
  if (is_linear()) {
    placed.tile = {count_values(tile), 0, nullptr};
    return;
  }
  placed.tile = {0, 0, placed.inside};
  for_boxes(tile, [&](const Box& box) {
    placed.tile.count += box.size[0] * box.size[1] * box.size[2];
    u64& inside = placed.inside[placed.tile.boxes++];
    inside = ~u64{0};
    if (is_whole(box)) return;
    const u64 row = (u64{1} << box.size[2]) - 1;
    inside = 0;
    for (std::uint32_t z = 0; z < box.size[0]; ++z) {
      for (std::uint32_t y = 0; y < box.size[1]; ++y) inside |= row << ((z * extents_[1] + y) * extents_[2]);
    }
  });
}

void Geometry::range(std::uint64_t first, std::uint64_t count, std::uint32_t& begin, std::uint32_t& end) const {
  begin = end = 0;
  if (count == 0) return;
  const std::uint64_t last = first + count - 1;
  if (is_linear()) {
    begin = static_cast<std::uint32_t>(first / tile_values_);
    end = static_cast<std::uint32_t>(last / tile_values_) + 1;
    return;
  }
  // The layers of boxes that the range goes through.
  const std::uint64_t layer_values = std::uint64_t{dims_[1]} * dims_[2] * extents_[0];
  const std::uint64_t layer_boxes = std::uint64_t{boxes_[1]} * boxes_[2];
  begin = static_cast<std::uint32_t>(first / layer_values * layer_boxes / kMaxTileBoxes);
  const std::uint64_t behind = (last / layer_values + 1) * layer_boxes;
  end = static_cast<std::uint32_t>(std::min<std::uint64_t>((behind + kMaxTileBoxes - 1) / kMaxTileBoxes, tiles_));
}

bool Geometry::holds(std::uint32_t tile, std::uint64_t first, std::uint64_t count) const {
  const std::uint64_t end = first + count;
  if (is_linear()) {
    const std::uint64_t begin = std::uint64_t{tile} * tile_values_;
    return begin < end && first < begin + count_values(tile);
  }
  bool holds = false;
  for_boxes(tile, [&](const Box& box) {
    for (std::uint32_t z = 0; z < box.size[0] && !holds; ++z) {
      const std::uint64_t slice = (std::uint64_t{box.begin[0] + z} * dims_[1] + box.begin[1]) * dims_[2] + box.begin[2];
      // First whether the range meets the rows from the first to the last one at all.
      if (slice >= end || slice + std::uint64_t{box.size[1] - 1} * dims_[2] + box.size[2] <= first) continue;
      for (std::uint32_t y = 0; y < box.size[1]; ++y) {
        const std::uint64_t row = slice + std::uint64_t{y} * dims_[2];
        holds |= row < end && first < row + box.size[2];
      }
    }
  });
  return holds;
}

void Geometry::gather(std::uint32_t tile, const std::uint8_t* chunk, std::uint8_t* values) const {
  if (is_linear()) {
    std::memcpy(values, chunk + tile * max_tile_bytes(), std::size_t{count_values(tile)} * value_bytes_);
    return;
  }
  const std::size_t rows_apart = std::size_t{dims_[2]} * value_bytes_, slices_apart = rows_apart * dims_[1];
  for_boxes(tile, [&](const Box& box) {
    const std::uint8_t* slice = chunk + first_of(box) * value_bytes_;
    const std::size_t row_bytes = std::size_t{box.size[2]} * value_bytes_;
    if (is_whole(box)) {
      copy_box<true>(slice, rows_apart, slices_apart, box.size[0], row_bytes, values);
      values += row_bytes * box.size[1] * box.size[0];
      return;
    }
    for (std::uint32_t z = 0; z < box.size[0]; ++z, slice += slices_apart, values += row_bytes * box.size[1]) {
      copy_rows(slice, rows_apart, values, row_bytes, box.size[1], row_bytes);
    }
  });
}

void Geometry::scatter(std::uint32_t tile, const std::uint8_t* values, std::uint64_t first, std::uint64_t count,
                       std::uint8_t* part) const {
  const auto copy_row = [&](std::uint64_t row, std::uint32_t size) {
    const std::uint64_t begin = std::max(row, first), end = std::min(row + size, first + count);
    if (begin < end) {
      std::memcpy(part + (begin - first) * value_bytes_, values + (begin - row) * value_bytes_,
                  static_cast<std::size_t>(end - begin) * value_bytes_);
    }
    values += std::size_t{size} * value_bytes_;
  };
  if (is_linear()) return copy_row(std::uint64_t{tile} * tile_values_, count_values(tile));
  const bool is_all = first == 0 && count == count_;
  const std::size_t rows_apart = std::size_t{dims_[2]} * value_bytes_, slices_apart = rows_apart * dims_[1];
  for_boxes(tile, [&](const Box& box) {
    const std::uint64_t corner = first_of(box);
    if (is_all && is_whole(box)) {
      const std::size_t row_bytes = std::size_t{box.size[2]} * value_bytes_;
      copy_box<false>(part + corner * value_bytes_, rows_apart, slices_apart, box.size[0], row_bytes, values);
      values += row_bytes * box.size[1] * box.size[0];
      return;
    }
    for (std::uint32_t z = 0; z < box.size[0]; ++z) {
      for (std::uint32_t y = 0; y < box.size[1]; ++y) {
        copy_row(corner + (std::uint64_t{z} * dims_[1] + y) * dims_[2], box.size[2]);
      }
    }
  });
}

}  // namespace h5lossy
