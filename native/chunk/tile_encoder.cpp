// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/tile_encoder.h"

#include "frame/swap.h"

namespace h5lossy {

using Bytes = std::span<const std::uint8_t>;

TileEncoder::TileEncoder(const h5l_params& params, const Quantizer& quantizer, const Choice& choice)
    : params_(params),
      quantizer_(quantizer),
      choice_(choice),
      functions_(choice.functions(params.value_class, params.value_bytes)),
      codec_room_(round_to_alignment(functions_.workspace_bytes)),
      payload_room_(choice.geometry.max_tile_bytes() + choice.codec->spare_bytes),
      // With room for a tile's values if they may have to be gathered, or their bytes swapped.
      workspace_(codec_room_ + payload_room_ +
                 (params.big_endian != 0 || !choice.geometry.is_linear() ? choice.geometry.max_tile_bytes() : 0)) {}

Bytes TileEncoder::encode(Bytes raw, std::uint32_t i, std::span<std::uint8_t> room) {
  choice_.geometry.place(i, placed_);
  const std::size_t tile_bytes = std::size_t{placed_.tile.count} * params_.value_bytes;
  const std::uint64_t run = choice_.geometry.run_of(i);
  std::uint8_t* const own = workspace_.data() + codec_room_;
  std::uint8_t* const out = room.size() >= payload_room_ ? room.data() : own;
  std::uint8_t* const copy = own + payload_room_;
  const std::uint8_t* values = copy;
  if (run != Geometry::kNoRun) {
    values = raw.data() + run * params_.value_bytes;
  } else {
    choice_.geometry.gather(i, raw.data(), copy);
  }
  placed_.tile.ahead = choice_.geometry.rows_of(i + 1, raw.data());
  if (params_.big_endian != 0) {
    copy_swapped(values, copy, tile_bytes, params_.value_bytes);
    values = copy;
  }
  const std::uint32_t size = functions_.encode(quantizer_, choice_.mode, placed_.tile, values, out, workspace_.data());
  return size == kStoreTile ? Bytes(values, tile_bytes) : Bytes(out, size);
}

}  // namespace h5lossy
