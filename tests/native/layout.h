// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A frame's header and the positions of its tiles, from the library's own functions, for tests that modify frames.
#pragma once

#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "check.h"
#include "chunk/codec_selection.h"
#include "frame/frame.h"
#include "runtime/registry.h"

namespace h5lossy::test {

struct Layout {
  FrameHeader header;
  Geometry geometry;  // without tiles where the header says nothing that makes sense, or the frame is stored

  [[nodiscard]] std::size_t table_at() const { return header.header_bytes; }
  [[nodiscard]] std::size_t payload_at() const { return table_at() + kTileEntryBytes * std::size_t{geometry.tiles()}; }

  // The places in the chunk of a tile's values, in the tile's order.
  [[nodiscard]] std::vector<std::uint64_t> values_of(std::uint32_t tile) const {
    return header.value_bytes == 4 ? values_as<std::uint32_t>(tile) : values_as<std::uint64_t>(tile);
  }

 private:
  template <class Number>
  [[nodiscard]] std::vector<std::uint64_t> values_as(std::uint32_t tile) const {
    std::vector<Number> places(header.raw_bytes / sizeof(Number)), mine(geometry.count_values(tile));
    std::iota(places.begin(), places.end(), Number{0});
    geometry.gather(tile, reinterpret_cast<const std::uint8_t*>(places.data()),
                    reinterpret_cast<std::uint8_t*>(mine.data()));
    return {mine.begin(), mine.end()};
  }
};

// False if the fixed fields are wrong. Otherwise the frame has header_bytes, and nothing else is certain.
inline bool read_layout(std::span<const std::uint8_t> frame, Layout& layout) {
  FrameHeader& header = layout.header;
  if (read_header({frame, frame.size()}, header, Message(nullptr)) != H5L_OK) return false;
  const CodecEntry* const entry = codec_entry(header.codec);
  if (entry == nullptr || (header.value_bytes != 4 && header.value_bytes != 8)) return true;
  Choice choice;
  choice.codec = entry->codec;
  choice.mode = header.mode;
  choice.header_dims = entry->codec->header_dims(header.mode);
  if (choice.header_dims == kNoMode) return true;
  H5L_TARGET::unpack_dims(read_words({frame, frame.size()}), choice.header_dims, header);
  open_geometry(header, choice);
  layout.geometry = choice.geometry;
  return true;
}

inline Layout layout_of(std::span<const std::uint8_t> frame) {
  Layout layout;
  CHECK(read_layout(frame, layout), "a frame of %zu bytes", frame.size());
  return layout;
}

}  // namespace h5lossy::test
