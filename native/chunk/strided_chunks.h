// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Copies parts of chunks between an array and contiguous chunks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "chunk/geometry.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Checks that all parts lie within chunks of `chunk_bytes` each.
[[nodiscard]] h5l_status check_parts(const h5l_parts& parts, std::size_t count, const std::size_t* chunk_bytes,
                                     std::uint32_t value_bytes, const Message& why);

// A box of a chunk, and where its values are in an array. A place in the chunk is the index of a value in C order.
class Part {
 public:
  static constexpr std::uint64_t kNone = UINT64_MAX;

  // Part i. The parts have passed check_parts.
  Part(const h5l_parts& parts, std::size_t i, std::uint32_t value_bytes);

  // A run of values of a chunk of `chunk_values`, in an array of the same order.
  Part(std::uint64_t chunk_values, std::uint64_t first, std::uint64_t count, std::uint32_t value_bytes);

  [[nodiscard]] std::uint64_t chunk_values() const { return axes_[0].chunk * axes_[0].apart; }
  [[nodiscard]] std::uint64_t values() const;
  [[nodiscard]] std::uint32_t value_bytes() const { return value_bytes_; }

  // Whether the part is a whole, contiguous chunk, which needs no copy.
  [[nodiscard]] bool is_chunk() const {
    return axis_count_ == 1 && axes_[0].extent == axes_[0].chunk && axes_[0].stride == value_bytes_;
  }

  // The first place at or after `at` that is in the part, or kNone.
  [[nodiscard]] std::uint64_t next(std::uint64_t at) const;

  // The smallest box, in a chunk of these dims, that contains the part; a larger one if the chunk's axes do not
  // correspond to the dims.
  [[nodiscard]] Region region(const std::uint32_t (&dims)[kAxes]) const;

  // Copies the part from the array into a chunk, and fills the rest of the chunk with padding.
  void gather(const std::uint8_t* array, std::uint64_t padding_bits, std::uint8_t* chunk) const;

  // Copies the chunk's values [first, first + count) that are in the part to the array.
  void scatter(std::uint64_t first, std::uint64_t count, const std::uint8_t* values, std::uint8_t* array) const;

  // The memory of the chunk's values [first, first + count) in the array; null unless all of them are in the part and
  // contiguous.
  [[nodiscard]] std::uint8_t* memory(std::uint64_t first, std::uint64_t count, std::uint8_t* array) const;

 private:
  // An axis of the chunk, or several axes that the part treats as one.
  struct Axis {
    std::uint64_t chunk, first, extent;
    std::int64_t stride;      // in the array, in bytes
    std::uint64_t apart = 1;  // in the chunk, in values
  };

  // A value of the part.
  struct Cursor {
    std::uint64_t at;     // place in the chunk
    std::int64_t offset;  // in the array, in bytes
    std::uint64_t index[H5L_MAX_PART_RANK];
  };

  void add_axis(const Axis& axis);
  void finish_axes();
  [[nodiscard]] bool find(std::uint64_t at, Cursor& cursor) const;
  [[nodiscard]] bool next_row(Cursor& cursor) const;

  // Calls visit(place, offset, count) for the values of the part among [first, first + count), which are contiguous in
  // the chunk.
  template <class Visit>
  void for_runs(std::uint64_t first, std::uint64_t count, Visit visit) const;

  Axis axes_[H5L_MAX_PART_RANK];
  std::uint32_t axis_count_ = 0;
  std::uint32_t value_bytes_;
};

}  // namespace h5lossy
