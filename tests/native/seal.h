// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Recomputes the checksums of a modified frame (docs/format/frame.md, "Checksum"), so that later checks are reached.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "frame/checksum.h"
#include "layout.h"

namespace h5lossy::test {

inline std::uint32_t word_at(std::span<const std::uint8_t> frame, std::size_t at) {
  std::uint32_t word;
  std::memcpy(&word, frame.data() + at, sizeof word);
  return word;
}

inline void set_word(std::span<std::uint8_t> frame, std::size_t at, std::uint32_t word) {
  std::memcpy(frame.data() + at, &word, sizeof word);
}

// Recomputes payload_sum and header_sum. If the frame is truncated or its tile table is inconsistent, sums the bytes that
// exist.
inline void seal(std::span<std::uint8_t> frame) {
  constexpr std::size_t header_sum_at = 16, payload_sum_at = 20;  // as the page says, and not the library
  Layout layout;
  if (!read_layout(frame, layout)) return;
  const std::span<std::uint8_t> front = frame.first(std::min(layout.payload_at(), frame.size()));
  const std::span<const std::uint8_t> payload = frame.subspan(front.size());
  std::uint32_t payload_sum = 0;
  if (layout.header.codec == H5L_CODEC_STORED) {
    payload_sum = checksum(payload, 0);
  } else {
    std::size_t begin = 0;
    std::uint32_t tile = 0;
    for (std::size_t at = layout.table_at(); at + kTileEntryBytes <= front.size(); at += kTileEntryBytes, ++tile) {
      const std::size_t end = word_at(frame, at);
      if (end < begin || end > payload.size()) break;
      payload_sum += checksum(payload.subspan(begin, end - begin), tile);
      begin = end;
    }
  }
  set_word(frame, payload_sum_at, layout.header.has_checksum ? payload_sum : 0);
  set_word(frame, header_sum_at,
           checksum(front.first(header_sum_at), 0) + checksum(front.subspan(payload_sum_at), 0, header_sum_at / 4));
}

}  // namespace h5lossy::test
