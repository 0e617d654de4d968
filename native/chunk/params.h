// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What a caller may ask for (h5l_params), checked, and turned into what codecs work with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codecs/codec.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Codec, bound, mode: what a user chooses.
[[nodiscard]] h5l_status check_request(const h5l_params& params, const Message& why);

// Type and shape as well: what the data has.
[[nodiscard]] h5l_status check_params(const h5l_params& params, const Message& why);

// Whether values with these bits need care: NaN and +0.0 come back bit for bit in any case.
bool fill_needs_care(std::uint32_t value_bytes, std::uint64_t fill_bits);

// Range of the values that count (h5l_value_range). params.value_bytes is 4 or 8.
h5l_range value_range(const h5l_params& params, std::span<const std::uint8_t> raw);

// The absolute bound for a range-relative one (h5l_absolute_bound).
double absolute_bound(double range_relative, double min, double max);

// The quantizer for one chunk; looks at the data only for a range-relative bound. params.value_bytes is 4 or 8.
Quantizer make_quantizer(const h5l_params& params, std::span<const std::uint8_t> raw);

}  // namespace h5lossy
