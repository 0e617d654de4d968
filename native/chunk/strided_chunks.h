// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Copies parts of chunks between an array and contiguous chunks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Checks that all parts lie within chunks of `chunk_bytes` each.
[[nodiscard]] h5l_status check_parts(const h5l_parts& parts, std::size_t count, const std::size_t* chunk_bytes,
                                     std::uint32_t value_bytes, const Message& why);

class Part {
 public:
  // Part i. The parts have passed check_parts.
  Part(const h5l_parts& parts, std::size_t i, std::uint32_t value_bytes)
      : parts_(parts),
        first_(parts.first + i * parts.rank),
        extents_(parts.extents + i * parts.rank),
        value_bytes_(value_bytes) {}

  // Whether the part is a whole, contiguous chunk, which needs no copy.
  [[nodiscard]] bool is_chunk() const;

  // The range of chunk values from the part's first to its last one: `count` values from index `begin` on.
  void span(std::uint64_t& begin, std::uint64_t& count) const;

  // Copies the part from the array into a padded chunk. `values` is the part's first value in the array.
  void gather(const std::uint8_t* values, std::uint8_t* chunk) const;

  // Copies the part into the array. `chunk` holds the chunk's values from index `begin` on.
  void scatter(const std::uint8_t* chunk, std::uint64_t begin, std::uint8_t* values) const;

 private:
  [[nodiscard]] bool is_whole() const;

  const h5l_parts& parts_;
  const std::uint64_t* first_;
  const std::uint64_t* extents_;
  std::uint32_t value_bytes_;
};

}  // namespace h5lossy
