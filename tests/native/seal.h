// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Makes a changed frame pass its checksums (docs/format/frame.md, "Checksum"), so that what lies behind them is
// reached.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "format/checksum.h"

namespace h5lossy::test {

inline std::uint32_t word_at(std::span<const std::uint8_t> frame, std::size_t at) {
  std::uint32_t word;
  std::memcpy(&word, frame.data() + at, sizeof word);
  return word;
}

inline void set_word(std::span<std::uint8_t> frame, std::size_t at, std::uint32_t word) {
  std::memcpy(frame.data() + at, &word, sizeof word);
}

// Writes payload_sum and header_sum anew. Where the frame is cut or its tile table contradicts itself, as much is
// summed as there is.
inline void seal(std::span<std::uint8_t> frame) {
  constexpr std::size_t flags_at = 10, raw_bytes_at = 12, header_sum_at = 16, payload_sum_at = 20, fixed_bytes = 40;
  constexpr std::size_t pfpl_tile_bytes = 16384;
  if (frame.size() < fixed_bytes) return;
  const bool is_stored = frame[6] == 0;
  const std::size_t header_bytes = std::min<std::size_t>(4 * std::size_t{frame[5]}, frame.size());
  if (header_bytes < fixed_bytes) return;
  const std::size_t tiles =
      is_stored ? 0 : (std::size_t{word_at(frame, raw_bytes_at)} + pfpl_tile_bytes - 1) / pfpl_tile_bytes;
  const std::size_t table_bytes = std::min<std::size_t>(4 * tiles, frame.size() - header_bytes);

  const std::span<const std::uint8_t> payload = frame.subspan(header_bytes + table_bytes);
  std::uint32_t payload_sum = 0;
  if (is_stored) {
    payload_sum = checksum(payload, 0);
  } else {
    std::size_t begin = 0;
    for (std::size_t i = 0; 4 * (i + 1) <= table_bytes; ++i) {
      const std::size_t end = word_at(frame, header_bytes + 4 * i);
      if (end < begin || end > payload.size()) break;
      payload_sum += checksum(payload.subspan(begin, end - begin), static_cast<std::uint32_t>(i));
      begin = end;
    }
  }
  set_word(frame, payload_sum_at, (frame[flags_at] & 1) != 0 ? payload_sum : 0);
  const std::span<const std::uint8_t> front = frame.first(header_bytes + table_bytes);
  set_word(frame, header_sum_at,
           checksum(front.first(header_sum_at), 0) + checksum(front.subspan(payload_sum_at), 0, header_sum_at / 4));
}

}  // namespace h5lossy::test
