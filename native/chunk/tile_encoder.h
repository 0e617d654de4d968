// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Encodes single tiles of a chunk in buffers that are allocated once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "chunk/codec_selection.h"
#include "chunk/geometry.h"
#include "chunk/workspace.h"
#include "codecs/codec.h"
#include "h5lossy.h"

namespace h5lossy {

class TileEncoder {
 public:
  // Keeps references to all three.
  TileEncoder(const h5l_params& params, const Quantizer& quantizer, const Choice& choice);

  // False if out of memory.
  [[nodiscard]] bool ok() const { return workspace_.ok(); }

  // Encodes tile i of a chunk. The payload is valid until the next call. It is at the front of `room` if the largest
  // payload fits there, unless the tile is stored.
  std::span<const std::uint8_t> encode(std::span<const std::uint8_t> raw, std::uint32_t i,
                                       std::span<std::uint8_t> room = {});

 private:
  const h5l_params& params_;
  const Quantizer& quantizer_;
  const Choice& choice_;
  const TileFunctions& functions_;
  std::size_t codec_room_, payload_room_;
  Workspace workspace_;
  PlacedTile placed_;
};

}  // namespace h5lossy
