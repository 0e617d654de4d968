// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Safeguards promise more than a bound: values do not change sides of a threshold, nor leave their valid range. The
// rules and their proof are in docs/design/bound.md, "Safeguards".
#pragma once

#include <cstdint>
#include <span>

#include "chunk/memory.h"
#include "codecs/codec.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

bool has_safeguards(const h5l_params& params);

// Checks that the safeguards are numbers, and allowed for the bound and the type.
h5l_status check_safeguards(const h5l_params& params, const Message& why);

// The cuts for a quantizer of floats that is not lossless.
Cuts make_cuts(const h5l_params& params, const Quantizer& quantizer);

// Copies a chunk and moves values that are near one of the quantizer's cuts, within the bound and on their side: to
// their bin, or else to a number that nearby values are also moved to, so that exceptions repeat. Null if out of
// memory.
Array<std::uint8_t> move_from_cuts(const h5l_params& params, const Quantizer& quantizer,
                                   std::span<const std::uint8_t> raw);

}  // namespace h5lossy
