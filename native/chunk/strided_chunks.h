// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Parts of chunks that lie in an array: copies between the array and chunks in one piece, and how to do without.
#pragma once

#include <cstddef>
#include <cstdint>

#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Whether all parts lie in chunks of `chunk_bytes` each.
[[nodiscard]] h5l_status check_parts(const h5l_parts& parts, std::size_t count, const std::size_t* chunk_bytes,
                                     std::uint32_t value_bytes, const Message& why);

class Part {
 public:
  // Part i of those that check_parts has passed.
  Part(const h5l_parts& parts, std::size_t i, std::uint32_t value_bytes)
      : parts_(parts),
        first_(parts.first + i * parts.rank),
        extents_(parts.extents + i * parts.rank),
        value_bytes_(value_bytes) {}

  // Whether it is a whole chunk that lies in one piece.
  [[nodiscard]] bool is_chunk() const;

  // The values of the chunk from its first to its last one: these are `count`, from number `begin` on.
  void span(std::uint64_t& begin, std::uint64_t& count) const;

  // Makes a chunk of it. `values` is its first value in the array.
  void gather(const std::uint8_t* values, std::uint8_t* chunk) const;

  // Copies it into the array, out of the values of the chunk from number `begin` on.
  void scatter(const std::uint8_t* chunk, std::uint64_t begin, std::uint8_t* values) const;

 private:
  [[nodiscard]] bool is_whole() const;

  const h5l_parts& parts_;
  const std::uint64_t* first_;
  const std::uint64_t* extents_;
  std::uint32_t value_bytes_;
};

}  // namespace h5lossy
