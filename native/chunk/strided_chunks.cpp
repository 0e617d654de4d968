// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/strided_chunks.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace h5lossy {
namespace {

// Calls visit(word) with a word of the size of a value.
template <class Visit>
void with_word(std::uint32_t value_bytes, Visit visit) {
  switch (value_bytes) {
    case 1:
      return visit(std::uint8_t{});
    case 2:
      return visit(std::uint16_t{});
    case 4:
      return visit(std::uint32_t{});
    default:
      return visit(std::uint64_t{});
  }
}

// Copies values that are not adjacent in the source or in the destination.
template <class Word>
void copy_apart(const std::uint8_t* from, std::int64_t from_stride, std::uint8_t* to, std::int64_t to_stride,
                std::uint64_t count) {
  for (; count != 0; --count, from += from_stride, to += to_stride) std::memcpy(to, from, sizeof(Word));
}

void copy_run(const std::uint8_t* from, std::int64_t from_stride, std::uint8_t* to, std::int64_t to_stride,
              std::uint64_t count, std::uint32_t value_bytes) {
  if (from_stride == to_stride) {  // both are value_bytes
    std::memcpy(to, from, count * value_bytes);
  } else {
    with_word(value_bytes, [&](auto word) { copy_apart<decltype(word)>(from, from_stride, to, to_stride, count); });
  }
}

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
  if (value_bytes == 0 || value_bytes > 8 || !std::has_single_bit(value_bytes)) {
    return why.fail(H5L_INVALID_ARGUMENT, "parts have values of 1, 2, 4 or 8 bytes, got %u", value_bytes);
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

Part::Part(const h5l_parts& parts, std::size_t i, std::uint32_t value_bytes) : value_bytes_(value_bytes) {
  const std::size_t row = i * parts.rank;
  for (std::uint32_t axis = 0; axis < parts.rank; ++axis) {
    add_axis({parts.chunk[axis], parts.first[row + axis], parts.extents[row + axis], parts.strides[axis]});
  }
  finish_axes();
}

Part::Part(std::uint64_t chunk_values, std::uint64_t first, std::uint64_t count, std::uint32_t value_bytes)
    : value_bytes_(value_bytes) {
  add_axis({chunk_values, first, count, value_bytes});
  finish_axes();
}

void Part::add_axis(const Axis& axis) {
  if (axis.chunk == 1) return;
  if (axis_count_ != 0 && axis.extent == axis.chunk) {
    Axis& outer = axes_[axis_count_ - 1];
    if (outer.extent == 1 || outer.stride == axis.stride * static_cast<std::int64_t>(axis.extent)) {
      outer = {outer.chunk * axis.chunk, outer.first * axis.chunk, outer.extent * axis.chunk, axis.stride};
      return;
    }
  }
  axes_[axis_count_++] = axis;
}

void Part::finish_axes() {
  if (axis_count_ == 0) axes_[axis_count_++] = {1, 0, 1, value_bytes_};
  for (std::uint32_t i = axis_count_ - 1; i-- > 0;) axes_[i].apart = axes_[i + 1].apart * axes_[i + 1].chunk;
}

std::uint64_t Part::values() const {
  std::uint64_t values = 1;
  for (std::uint32_t i = 0; i < axis_count_; ++i) values *= axes_[i].extent;
  return values;
}

bool Part::find(std::uint64_t at, Cursor& cursor) const {
  std::uint64_t (&index)[H5L_MAX_PART_RANK] = cursor.index;
  std::uint32_t i = 0;
  for (std::uint64_t left = at; i < axis_count_; ++i) {
    const Axis& axis = axes_[i];
    index[i] = left / axis.apart;
    left %= axis.apart;
    if (index[i] < axis.first) break;
    if (index[i] - axis.first < axis.extent) continue;
    do {  // past the end of this axis: advance an earlier axis
      if (i == 0) return false;
      --i;
    } while (++index[i] - axes_[i].first == axes_[i].extent);
    ++i;
    break;
  }
  for (; i < axis_count_; ++i) index[i] = axes_[i].first;
  cursor.at = 0;
  cursor.offset = 0;
  for (i = 0; i < axis_count_; ++i) {
    cursor.at += index[i] * axes_[i].apart;
    cursor.offset += static_cast<std::int64_t>(index[i] - axes_[i].first) * axes_[i].stride;
  }
  return true;
}

bool Part::next_row(Cursor& cursor) const {
  for (std::uint32_t i = axis_count_;;) {
    const Axis& inner = axes_[--i];
    const std::uint64_t done = cursor.index[i] - inner.first;
    cursor.index[i] = inner.first;
    cursor.at -= done * inner.apart;
    cursor.offset -= static_cast<std::int64_t>(done) * inner.stride;
    if (i == 0) return false;
    const Axis& outer = axes_[i - 1];
    if (++cursor.index[i - 1] - outer.first == outer.extent) {
      --cursor.index[i - 1];
      continue;
    }
    cursor.at += outer.apart;
    cursor.offset += outer.stride;
    return true;
  }
}

template <class Visit>
void Part::for_runs(std::uint64_t first, std::uint64_t count, Visit visit) const {
  const Axis& row = axes_[axis_count_ - 1];
  const std::uint64_t end = first + count;
  Cursor cursor;
  if (!find(first, cursor)) return;
  while (cursor.at < end) {
    const std::uint64_t left = row.first + row.extent - cursor.index[axis_count_ - 1];
    visit(cursor.at, cursor.offset, std::min(left, end - cursor.at));
    if (!next_row(cursor)) return;
  }
}

std::uint64_t Part::next(std::uint64_t at) const {
  Cursor cursor;
  return find(at, cursor) ? cursor.at : kNone;
}

Region Part::region(const std::uint32_t (&dims)[kAxes]) const {
  Region region = {};
  std::copy_n(dims, kAxes, region.end);
  std::uint32_t left = axis_count_;
  std::uint64_t extent = 1, first = 0, last = 0;  // of adjacent axes of the chunk, merged
  for (std::size_t i = kAxes; i-- > 0;) {
    while (extent < dims[i] && left > 0) {
      const Axis& axis = axes_[--left];
      first += axis.first * extent;
      last += (axis.first + axis.extent - 1) * extent;
      extent *= axis.chunk;
    }
    if (extent % dims[i] != 0) return region;
    if (first / dims[i] == last / dims[i]) {
      region.begin[i] = static_cast<std::uint32_t>(first % dims[i]);
      region.end[i] = static_cast<std::uint32_t>(last % dims[i] + 1);
    }
    extent /= dims[i];
    first /= dims[i];
    last /= dims[i];
  }
  return region;
}

void Part::gather(const std::uint8_t* array, std::uint64_t padding_bits, std::uint8_t* chunk) const {
  if (values() != chunk_values()) {
    with_word(value_bytes_, [&](auto word) {
      fill<decltype(word)>(chunk, static_cast<std::size_t>(chunk_values() * value_bytes_), &padding_bits);
    });
  }
  const std::int64_t stride = axes_[axis_count_ - 1].stride;
  for_runs(0, chunk_values(), [&](std::uint64_t at, std::int64_t offset, std::uint64_t count) {
    copy_run(array + offset, stride, chunk + at * value_bytes_, value_bytes_, count, value_bytes_);
  });
}

void Part::scatter(std::uint64_t first, std::uint64_t count, const std::uint8_t* values, std::uint8_t* array) const {
  const std::int64_t stride = axes_[axis_count_ - 1].stride;
  for_runs(first, count, [&](std::uint64_t at, std::int64_t offset, std::uint64_t run) {
    copy_run(values + (at - first) * value_bytes_, value_bytes_, array + offset, stride, run, value_bytes_);
  });
}

std::uint8_t* Part::memory(std::uint64_t first, std::uint64_t count, std::uint8_t* array) const {
  const Axis& row = axes_[axis_count_ - 1];
  Cursor cursor;
  if (row.stride != value_bytes_ || !find(first, cursor) || cursor.at != first) return nullptr;
  return row.first + row.extent - cursor.index[axis_count_ - 1] >= count ? array + cursor.offset : nullptr;
}

}  // namespace h5lossy
