// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Bins that overlap (docs/format/integers.md, "Wide bins"): of the two multiples of the step that are within the bound
// of an integer, the one that its neighbours predict.
#pragma once

#include <cstdint>
#include <span>

#include "chunk/memory.h"
#include "codecs/codec.h"
#include "h5lossy.h"

namespace h5lossy {

// The values of a chunk, each moved to what it is to come back as; null if there is no memory.
Array<std::uint8_t> in_wide_bins(const h5l_params& params, const Quantizer& quantizer,
                                 std::span<const std::uint8_t> raw);

}  // namespace h5lossy
