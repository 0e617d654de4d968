// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Codec 0 (auto): which codec a chunk gets. docs/format/auto.md is the rule.
#pragma once

#include <cstdint>
#include <span>

#include "codecs/codec.h"
#include "dispatch/choice.h"
#include "dispatch/registry.h"
#include "format/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Picks codec and mode for a chunk that is not empty. The quantizer is not lossless.
[[nodiscard]] h5l_status pick_codec(const Backend& backend, const h5l_params& params, const Quantizer& quantizer,
                                    std::span<const std::uint8_t> raw, Choice& choice, const Message& why);

}  // namespace h5lossy
