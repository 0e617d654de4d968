// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Codec 0 (auto) for size: whether the frame of another codec is smaller than that of the one that auto tries for size
// only (size_codec), and may take its place. The rule is in docs/format/auto.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "chunk/codec_selection.h"
#include "codecs/codec.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// How the codec for size subdivides the step of an absolute bound: its decoded values can be multiples of step /
// kFineUnit, up to this number of them. docs/design/bound.md says why that matters here.
inline constexpr int kFineUnit = 16;
template <class T>
inline constexpr int kMostFine = sizeof(T) == 4 ? (1 << 15) - 1 : 1 << 20;

// The quantizer of the other codecs, from the first one's: its step, and half of that as the bound. What they decode to
// stays as it is with the first one, too.
Quantizer quantizer_of_others(const Quantizer& quantizer);

// Finds the candidate of auto with the smallest frame, the first of equals, if it has fewer than `least` bytes. If not,
// `choice` stays as it is.
[[nodiscard]] h5l_status find_smaller(const h5l_params& params, const Quantizer& quantizer,
                                      std::span<const std::uint8_t> raw, std::size_t least, Choice& choice,
                                      const Message& why, std::uint32_t threads);

// Whether a value of the chunk is a multiple of step / kFineUnit, but not of the step. The first codec may have made
// it, and the others would move it again.
bool has_fine_points(const h5l_params& params, const Quantizer& quantizer, std::span<const std::uint8_t> raw);

}  // namespace h5lossy
