// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/strided_chunks.h"

#include <algorithm>
#include <cstring>

namespace h5lossy {
namespace {

// The strides of a contiguous chunk.
void dense_strides(const h5l_parts& parts, std::uint32_t value_bytes, std::int64_t (&strides)[H5L_MAX_PART_RANK]) {
  auto stride = static_cast<std::int64_t>(value_bytes);
  for (std::uint32_t axis = parts.rank; axis-- > 0;) {
    strides[axis] = stride;
    stride *= static_cast<std::int64_t>(parts.chunk[axis]);
  }
}

// One axis of a copy.
struct Axis {
  std::uint64_t extent;
  std::int64_t from, to;  // strides
};

// Copies a row of values that are not adjacent.
template <class Word>
void copy_apart(const std::uint8_t* from, std::uint8_t* to, const Axis& axis) {
  for (std::uint64_t i = 0; i < axis.extent; ++i, from += axis.from, to += axis.to) std::memcpy(to, from, sizeof(Word));
}

class Copy {
 public:
  Copy(std::uint32_t rank, const std::uint64_t* extents, const std::int64_t* from, const std::int64_t* to,
       std::uint32_t value_bytes)
      : value_bytes_(value_bytes) {
    const auto value = static_cast<std::int64_t>(value_bytes);
    for (std::uint32_t axis = 0; axis < rank; ++axis) {
      if (extents[axis] == 1) continue;
      const Axis next{extents[axis], from[axis], to[axis]};
      const auto extent = static_cast<std::int64_t>(next.extent);
      // Merge two axes if source and destination are both contiguous across them.
      Axis* const last = count_ == 0 ? nullptr : &axes_[count_ - 1];
      if (last != nullptr && last->from == next.from * extent && last->to == next.to * extent) {
        *last = {last->extent * next.extent, next.from, next.to};
      } else {
        axes_[count_++] = next;
      }
    }
    if (count_ == 0) axes_[count_++] = {1, value, value};
  }

  void run(const std::uint8_t* from, std::uint8_t* to) const { run(0, from, to); }

 private:
  void run(std::uint32_t depth, const std::uint8_t* from, std::uint8_t* to) const {
    const Axis& axis = axes_[depth];
    if (depth + 1 < count_) {
      for (std::uint64_t i = 0; i < axis.extent; ++i, from += axis.from, to += axis.to) run(depth + 1, from, to);
    } else if (axis.from == value_bytes_ && axis.to == value_bytes_) {
      std::memcpy(to, from, axis.extent * value_bytes_);
    } else if (value_bytes_ == 4) {
      copy_apart<std::uint32_t>(from, to, axis);
    } else {
      copy_apart<std::uint64_t>(from, to, axis);
    }
  }

  Axis axes_[H5L_MAX_PART_RANK + 1];
  std::uint32_t count_ = 0;
  std::uint32_t value_bytes_;
};

template <class Word>
void fill(std::uint8_t* chunk, std::size_t bytes, const void* value) {
  for (std::size_t at = 0; at < bytes; at += sizeof(Word)) std::memcpy(chunk + at, value, sizeof(Word));
}

}  // namespace

h5l_status check_parts(const h5l_parts& parts, std::size_t count, const std::size_t* chunk_bytes,
                       std::uint32_t value_bytes, const Message& why) {
  if (parts.rank > H5L_MAX_PART_RANK) {
    return why.fail(H5L_INVALID_ARGUMENT, "rank must be 0 to %d, got %u", H5L_MAX_PART_RANK, parts.rank);
  }
  if (value_bytes != 4 && value_bytes != 8) {
    return why.fail(H5L_INVALID_ARGUMENT, "parts have values of 4 or 8 bytes, got %u", value_bytes);
  }
  if (parts.rank > 0 && (parts.first == nullptr || parts.extents == nullptr)) {
    return why.fail(H5L_INVALID_ARGUMENT, "parts.first and parts.extents must not be null");
  }
  std::uint64_t bytes = value_bytes;
  for (std::uint32_t axis = 0; axis < parts.rank; ++axis) {
    const std::uint64_t extent = parts.chunk[axis];
    if (extent == 0 || extent > UINT32_MAX || bytes > UINT32_MAX / extent) {
      return why.fail(H5L_INVALID_ARGUMENT, "a chunk must not be empty, and must be smaller than 4 GiB");
    }
    bytes *= extent;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (chunk_bytes[i] != bytes) {
      return why.fail(H5L_INVALID_ARGUMENT, "a chunk has %llu bytes, but raw_bytes of part %zu is %zu",
                      static_cast<unsigned long long>(bytes), i, chunk_bytes[i]);
    }
    for (std::uint32_t axis = 0; axis < parts.rank; ++axis) {
      const std::uint64_t first = parts.first[i * parts.rank + axis], extent = parts.extents[i * parts.rank + axis];
      if (first >= parts.chunk[axis] || extent == 0 || extent > parts.chunk[axis] - first) {
        return why.fail(H5L_INVALID_ARGUMENT, "part %zu is not in its chunk along axis %u", i, axis);
      }
    }
  }
  return H5L_OK;
}

bool Part::is_whole() const { return std::equal(extents_, extents_ + parts_.rank, parts_.chunk); }

bool Part::is_chunk() const {
  std::int64_t dense[H5L_MAX_PART_RANK];
  dense_strides(parts_, value_bytes_, dense);
  for (std::uint32_t axis = 0; axis < parts_.rank; ++axis) {
    if (parts_.chunk[axis] != 1 && parts_.strides[axis] != dense[axis]) return false;
  }
  return is_whole();
}

void Part::span(std::uint64_t& begin, std::uint64_t& count) const {
  std::uint64_t last = 0;
  begin = 0;
  for (std::uint32_t axis = 0; axis < parts_.rank; ++axis) {
    begin = begin * parts_.chunk[axis] + first_[axis];
    last = last * parts_.chunk[axis] + first_[axis] + extents_[axis] - 1;
  }
  count = last + 1 - begin;
}

void Part::gather(const std::uint8_t* values, std::uint8_t* chunk) const {
  std::int64_t dense[H5L_MAX_PART_RANK];
  dense_strides(parts_, value_bytes_, dense);
  if (!is_whole()) {
    std::size_t bytes = value_bytes_;
    for (std::uint32_t axis = 0; axis < parts_.rank; ++axis) bytes *= static_cast<std::size_t>(parts_.chunk[axis]);
    const auto fill_chunk = value_bytes_ == 4 ? fill<std::uint32_t> : fill<std::uint64_t>;
    fill_chunk(chunk, bytes, &parts_.padding_bits);
  }
  std::uint64_t begin = 0, count = 0;
  span(begin, count);
  Copy(parts_.rank, extents_, parts_.strides, dense, value_bytes_).run(values, chunk + begin * value_bytes_);
}

void Part::scatter(const std::uint8_t* chunk, std::uint64_t begin, std::uint8_t* values) const {
  std::int64_t dense[H5L_MAX_PART_RANK];
  dense_strides(parts_, value_bytes_, dense);
  std::uint64_t first = 0, count = 0;
  span(first, count);
  Copy(parts_.rank, extents_, dense, parts_.strides, value_bytes_).run(chunk + (first - begin) * value_bytes_, values);
}

}  // namespace h5lossy
