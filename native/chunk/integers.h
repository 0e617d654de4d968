// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Integers: from a request and a chunk's values to the quantizer of the chunk, and the fields of a header for it.
#pragma once

#include <cstdint>
#include <span>

#include "codecs/codec.h"
#include "frame/frame.h"
#include "h5lossy.h"

namespace h5lossy {

// Also true for halves, whose bins are numbered, so their words are integers.
inline bool has_integers(const h5l_params& params) { return !has_floats(params.value_class); }

// The exact values of a request, the fill value among them, as bits in ascending order.
struct ExactValues {
  std::uint32_t count = 0;
  std::uint64_t bits[1 + H5L_MAX_EXACT] = {};
};
ExactValues exact_values(const h5l_params& params);

// Finds the bits of a whole number in the type. False if the type cannot hold the number.
bool find_bits(const h5l_params& params, std::int64_t number, std::uint64_t& bits);

// The inverse. False if the bits are those of a half that is not a whole number of 64 bits.
bool find_number(const h5l_params& params, std::uint64_t bits, std::int64_t& number);

// The requested bound rounded down to counts, at most half the type's range. 0: lossless.
std::uint64_t bound_in_counts(double bound, std::uint32_t value_bytes);

// The quantizer of a chunk that is not empty, without bins. If it is lossless, reads the values to find their stride.
Quantizer make_integer_quantizer(const h5l_params& params, std::span<const std::uint8_t> raw);

// The same for kernels, which read the values themselves: without the step of a range-relative bound, and without a
// stride.
Quantizer integer_quantizer_without_values(const h5l_params& params);

// The range of the valid values of halves, as in h5l_value_range.
h5l_range half_range(const h5l_params& params, std::span<const std::uint8_t> raw);

// The fields of a header for a quantizer.
void describe_integers(const Quantizer& quantizer, FrameHeader& header);

}  // namespace h5lossy
