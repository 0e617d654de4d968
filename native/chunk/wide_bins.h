// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Overlapping bins (docs/format/integers.md, "Wide bins"): of the two multiples of the step within the bound of an
// integer, picks the one that the neighbours predict.
#pragma once

#include <cstdint>
#include <span>

#include "chunk/memory.h"
#include "codecs/codec.h"
#include "h5lossy.h"

namespace h5lossy {

// Returns a copy of a chunk in which each value is replaced by its decoded value; null if out of memory.
Array<std::uint8_t> in_wide_bins(const h5l_params& params, const Quantizer& quantizer,
                                 std::span<const std::uint8_t> raw);

}  // namespace h5lossy
