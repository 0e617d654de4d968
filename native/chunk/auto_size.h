// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Codec 0 (auto) for size: first encodes with the codec that it tries only for size (size_codec), then checks whether
// another codec's frame is smaller and may replace it. The rule is in docs/format/auto.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "chunk/codec_selection.h"
#include "codecs/codec.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// The codec for size decodes values to fine points under an absolute bound: multiples of step / kFineUnit, up to the
// multiple kMostFine. docs/design/bound.md says why the other codecs must know that.
inline constexpr int kFineUnit = 16;
template <class T>
inline constexpr int kMostFine = sizeof(T) == 4 ? (1 << 18) - 1 : 1 << 20;

// Whether this multiple, of up to kMostFine, is a fine point: of float32, only even ones are from 2^15 on, only
// multiples of 4 from 2^16 on, and only multiples of 8 from 2^17 on.
template <class T>
constexpr bool is_fine_number(int number) {
  const int beyond = sizeof(T) == 4 ? (number < 0 ? -number : number) >> 15 : 0;
  return (number & (beyond | beyond >> 1 | beyond >> 2)) == 0;
}

// The quantizer of the other codecs, from that of the codec for size: the same step, with half of it as the bound. So
// values that they decode do not move when the codec for size encodes them later.
Quantizer quantizer_of_others(const Quantizer& quantizer);

// Finds auto's candidate with the smallest frame, the first of equals, if that frame has fewer than `least` bytes.
// Otherwise leaves `choice` unchanged.
[[nodiscard]] h5l_status find_smaller(const h5l_params& params, const Quantizer& quantizer,
                                      std::span<const std::uint8_t> raw, std::size_t least, Choice& choice,
                                      const Message& why, std::uint32_t threads);

// Whether a value of the chunk is a fine point, but not a multiple of the step. The codec for size may have
// decoded such a value, and the other codecs would move it again.
bool has_fine_points(const h5l_params& params, const Quantizer& quantizer, std::span<const std::uint8_t> raw);

}  // namespace h5lossy
