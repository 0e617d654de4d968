// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Encodes the tiles of one large chunk on several threads. The bytes do not depend on their number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "chunk/choice.h"
#include "codecs/checksum.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// A chunk whose tiles are to be encoded: their payloads go to `payloads`, one after another, and their ends to `table`.
struct TileJob {
  const h5l_params& params;
  const Quantizer& quantizer;
  const Choice& choice;
  std::span<const std::uint8_t> raw;
  std::span<std::uint8_t> table;
  std::span<std::uint8_t> payloads;
  ChecksumFunction checksum;  // may be null
};

struct EncodedTiles {
  bool fit = false;  // whether the payloads fit; if not, the other members have no meaning
  std::size_t payload_bytes = 0;
  std::uint32_t sum = 0;  // 0 without a checksum
};

[[nodiscard]] h5l_status encode_tiles_in_parallel(const TileJob& job, std::uint32_t threads, EncodedTiles& encoded,
                                                  const Message& why);

}  // namespace h5lossy
