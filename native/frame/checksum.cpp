// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "frame/checksum.h"

#include "codecs/checksum.h"

namespace h5lossy {

std::uint32_t checksum(std::span<const std::uint8_t> bytes, std::uint32_t tile, std::uint32_t first_word) {
  return scalar::checksum(bytes.data(), static_cast<std::uint32_t>(bytes.size()), tile, first_word);
}

}  // namespace h5lossy
