// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Zero removal written from docs/format/pfpl.md, one bit at a time: what the fast one is compared with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace h5lossy::test::naive {

using Bytes = std::vector<std::uint8_t>;

// Bytes of B0, B1, B2, B3.
inline constexpr std::array<std::size_t, 4> kBitmapBytes = {2048, 256, 32, 4};

inline bool bit(std::span<const std::uint8_t> bitmap, std::size_t i) { return ((bitmap[i >> 3] >> (i & 7)) & 1) != 0; }

inline void set_bit(Bytes& bitmap, std::size_t i) { bitmap[i >> 3] |= static_cast<std::uint8_t>(1u << (i & 7)); }

inline std::size_t ones(std::span<const std::uint8_t> bitmap) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < 8 * bitmap.size(); ++i) count += bit(bitmap, i) ? 1 : 0;
  return count;
}

// Empty where all is zero.
inline Bytes remove_zeros(std::span<const std::uint8_t> stream) {
  Bytes payload;
  Bytes bitmap(kBitmapBytes[0]);
  for (std::size_t i = 0; i < stream.size(); ++i) {
    if (stream[i] == 0) continue;
    set_bit(bitmap, i);
    payload.push_back(stream[i]);
  }
  if (payload.empty()) return payload;
  for (std::size_t level = 1; level < kBitmapBytes.size(); ++level) {
    Bytes changes(kBitmapBytes[level]);
    for (std::size_t i = 0; i < bitmap.size(); ++i) {
      if (bitmap[i] == (i == 0 ? 0 : bitmap[i - 1])) continue;
      set_bit(changes, i);
      payload.push_back(bitmap[i]);
    }
    bitmap = changes;
  }
  payload.insert(payload.end(), bitmap.begin(), bitmap.end());
  return payload;
}

// Nothing where a decoder has to refuse the payload.
inline std::optional<Bytes> restore_zeros(std::span<const std::uint8_t> payload, std::size_t size) {
  if (payload.size() < kBitmapBytes[3]) return std::nullopt;
  std::size_t left = payload.size() - kBitmapBytes[3];
  Bytes changes(payload.begin() + static_cast<std::ptrdiff_t>(left), payload.end());
  for (std::size_t level = 3; level-- > 0;) {
    if (ones(changes) > left) return std::nullopt;
    left -= ones(changes);
    Bytes bitmap(kBitmapBytes[level]);
    for (std::size_t i = 0, next = left; i < bitmap.size(); ++i) {
      bitmap[i] = bit(changes, i) ? payload[next++] : i == 0 ? std::uint8_t{0} : bitmap[i - 1];
    }
    changes = bitmap;
  }
  if (ones(changes) != left) return std::nullopt;
  for (std::size_t i = size; i < 8 * changes.size(); ++i) {
    if (bit(changes, i)) return std::nullopt;
  }
  Bytes stream(size);
  for (std::size_t i = 0, next = 0; i < size; ++i) stream[i] = bit(changes, i) ? payload[next++] : std::uint8_t{0};
  return stream;
}

}  // namespace h5lossy::test::naive
