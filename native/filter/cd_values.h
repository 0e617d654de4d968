// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// cd_values to parameters and back (docs/format/cd_values.md).
#pragma once

#include <cstdint>
#include <span>

#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Words that are enough to say what a user wants: up to the bound. Lossless needs no bound.
inline constexpr std::size_t kRequestedWords = 4;
inline constexpr std::size_t kRequestedWordsLossless = 2;

// Writes what is needed: all 16 words if params.value_bytes says what the data is, 5 if it does not. Returns how many.
std::size_t pack_cd_values(const h5l_params& params, std::span<std::uint32_t, H5L_MAX_CD_VALUES> words);

// Reads and checks. params.value_bytes stays 0 where the local part is missing.
[[nodiscard]] h5l_status unpack_cd_values(std::span<const std::uint32_t> words, h5l_params& params, const Message& why);

// Bytes of a chunk of this shape and type; 0 where the type is not known.
std::uint64_t chunk_bytes(const h5l_params& params);

}  // namespace h5lossy
