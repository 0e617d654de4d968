// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// AATROX (ICS 2025): sizes. The format is in docs/format/aatrox.md.
#pragma once

#include "codecs/blocks.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::aatrox {

inline constexpr u32 kTileValues = 32768;  // the paper's warp layer
inline constexpr u32 kBlockValues = 32;    // its thread layer
inline constexpr u32 kLayerBlocks = 32;    // blocks of its iteration layer
inline constexpr u32 kMaxBlocks = kTileValues / kBlockValues;

// Largest width of the difference of two bins.
template <class T>
inline constexpr u32 kMaxWidth = kMantissaBits<T>;

}  // namespace h5lossy::H5L_TARGET::aatrox
