// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The places of a thread's 32 positions in a chunk: a block of a run of values, or half of a box.
#pragma once

#include "codecs/cuszp2.h"
#include "kernels/common/device_primitives.cuh"

namespace h5lossy::H5L_TARGET::cuszp2 {

// One dimension.
template <class T, u32 dimensions>
class Place {
 public:
  H5L_DEVICE Place(const gpu::Shape& shape, u32 tile, u32 of_thread = thread())
      : first_(u64{tile} * kTileValues), thread_(of_thread) {
    const u32 left = shape.count - tile * kTileValues;
    count_ = left < kTileValues ? left : kTileValues;
  }

  // The tile's first value, and the number of its values.
  [[nodiscard]] H5L_DEVICE u64 first() const { return first_; }
  [[nodiscard]] H5L_DEVICE u32 count() const { return count_; }
  [[nodiscard]] H5L_DEVICE u32 blocks() const { return (count_ + 31) / 32; }

  // The thread's positions inside the chunk.
  [[nodiscard]] H5L_DEVICE u32 inside() const {
    const u32 begin = thread_ * 32;
    return begin >= count_ ? 0 : static_cast<u32>(blocks::first_bits(count_ - begin < 32 ? count_ - begin : 32));
  }

  [[nodiscard]] H5L_DEVICE u64 number(u32 i) const { return first_ + thread_ * 32 + i; }
  [[nodiscard]] H5L_DEVICE const Word<T>* value(const u8* chunk, u32 i) const {
    return reinterpret_cast<const Word<T>*>(chunk) + number(i);
  }

 private:
  u64 first_;
  u32 count_, thread_;
};

// Two or three dimensions: boxes of 1 x 8 x 8 or 4 x 4 x 4 values, each of two threads.
template <class T, u32 dimensions>
  requires(dimensions > 1)
class Place<T, dimensions> {
  static constexpr u32 kRow = dimensions == 2 ? 8 : 4;    // values of a box along x
  static constexpr u32 kDepth = dimensions == 2 ? 1 : 4;  // along z; along y as along x
  static constexpr u32 kRows = 32 / kRow;                 // rows of a thread

 public:
  H5L_DEVICE Place(const gpu::Shape& shape, u32 tile, u32 of_thread = thread()) : shape_(shape), tile_(tile) {
    const u32 in_layer = shape.boxes[2] * shape.boxes[3];
    const u32 all = in_layer * shape.boxes[1];
    const u32 left = all - tile * 64;
    blocks_ = left < 64 ? left : 64;
    const u32 box = tile * 64 + of_thread / 2;
    is_idle_ = of_thread / 2 >= blocks_;
    const u32 layer = box / in_layer, in = box % in_layer;
    const u32 second = of_thread % 2;  // second half
    z_ = layer * kDepth + (dimensions == 3 ? 2 * second : 0);
    y_ = in / shape.boxes[3] * kRow + (dimensions == 2 ? 4 * second : 0);
    x_ = in % shape.boxes[3] * kRow;
    const u32 wide = shape.dims[3] - x_;
    row_values_ = wide < kRow ? wide : kRow;
  }

  [[nodiscard]] H5L_DEVICE u32 blocks() const { return blocks_; }
  [[nodiscard]] H5L_DEVICE u64 first() const { return 0; }

  [[nodiscard]] H5L_DEVICE u32 inside() const {
    u32 inside = 0;
    H5L_UNROLL for (u32 k = 0; k < kRows; ++k) {
      if (has_row(k)) inside |= static_cast<u32>(blocks::first_bits(row_values_)) << (k * kRow);
    }
    return inside;
  }

  // Counts the tile's values: a loop over the extents of its boxes, by all threads of a warp.
  [[nodiscard]] H5L_DEVICE u32 count() const {
    u32 total = 0;
    for (u32 t = lane(); t < kThreads; t += kWarpThreads) {
      const Place other(shape_, tile_, t);
      total += ones(other.inside());
    }
    return sum_of_warp(total);
  }

  [[nodiscard]] H5L_DEVICE u64 number(u32 i) const {
    const u32 k = i / kRow;
    return (u64{z_of(k)} * shape_.dims[2] + y_of(k)) * shape_.dims[3] + x_ + i % kRow;
  }
  [[nodiscard]] H5L_DEVICE const Word<T>* value(const u8* chunk, u32 i) const {
    return reinterpret_cast<const Word<T>*>(chunk) + number(i);
  }

  // Starts to copy the thread's values into its row, with zeros outside the chunk.
  H5L_DEVICE void start_row(const u8* chunk, u8* rows) const {
    constexpr u32 row_bytes = 32 * sizeof(T);
    H5L_UNROLL for (u32 k = 0; k < kRows; ++k) {
      const u32 values = has_row(k) ? row_values_ : 0;
      const u8* const from = values == 0 ? chunk : reinterpret_cast<const u8*>(value(chunk, k * kRow));
      if (values == kRow && reinterpret_cast<u64>(from) % 16 == 0) {
        constexpr u32 pieces = kRow * sizeof(T) / 16;
        H5L_UNROLL for (u32 p = 0; p < pieces; ++p) {
          copy_async<16>(rows + place_in_rows<row_bytes>(thread(), k * pieces + p), from + 16 * p);
        }
        continue;
      }
      H5L_UNROLL for (u32 i = 0; i < kRow; ++i) {
        Word<T>* const to = value_in_rows<row_bytes, Word<T>>(rows, thread(), k * kRow + i);
        if (i < values) {
          copy_async<sizeof(T)>(reinterpret_cast<u8*>(to), from + i * sizeof(T));
        } else {
          *to = 0;
        }
      }
    }
  }

  [[nodiscard]] H5L_DEVICE bool has_row(u32 k) const {
    return !is_idle_ && z_of(k) < shape_.dims[1] && y_of(k) < shape_.dims[2];
  }
  [[nodiscard]] H5L_DEVICE u32 row_values() const { return row_values_; }

 private:
  [[nodiscard]] H5L_DEVICE u32 z_of(u32 k) const { return z_ + (dimensions == 3 ? k / 4 : 0); }
  [[nodiscard]] H5L_DEVICE u32 y_of(u32 k) const { return y_ + (dimensions == 3 ? k % 4 : k); }

  const gpu::Shape& shape_;
  u32 tile_, blocks_;
  u32 z_, y_, x_;  // the thread's first position
  u32 row_values_;
  bool is_idle_;
};

}  // namespace h5lossy::H5L_TARGET::cuszp2
