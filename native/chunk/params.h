// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Checks requests (h5l_params), and turns them into quantizers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codecs/codec.h"
#include "frame/message.h"
#include "h5lossy.h"

namespace h5lossy {

// Checks the user's choices: codec, bound, mode.
[[nodiscard]] h5l_status check_request(const h5l_params& params, const Message& why);

// Checks that the type exists, and that the request, which has been checked, can be met for it.
[[nodiscard]] h5l_status check_type(const h5l_params& params, const Message& why);

// Checks the exact values, including the fill value. The request and the type have been checked.
[[nodiscard]] h5l_status check_exact_values(const h5l_params& params, const Message& why);

// Also checks the data's properties: type, shape and fill value.
[[nodiscard]] h5l_status check_params(const h5l_params& params, const Message& why);

// Whether the request is for the smallest frame of all codecs (docs/format/auto.md).
bool prefers_size(const h5l_params& params);

// Whether values are moved before a chunk is encoded. The host must do this: there are no kernels for it.
bool moves_values(const h5l_params& params);

// Whether codecs must treat the fill value specially. NaN and zero (of floats, +0.0) are always kept bit for bit.
bool fill_must_match_exactly(const h5l_params& params);

// The range of the valid values (h5l_value_range). The type is a float.
h5l_range value_range(const h5l_params& params, std::span<const std::uint8_t> raw);
h5l_range value_range(const h5l_params& params, std::span<const std::uint8_t> raw, std::uint32_t threads);

// The absolute bound for a range-relative one (h5l_absolute_bound).
double absolute_bound(double range_relative, double min, double max);

// The quantizer for one chunk. Reads the data for a range-relative bound, on up to `threads` threads, and to find the
// stride of lossless integers.
Quantizer make_quantizer(const h5l_params& params, std::span<const std::uint8_t> raw, std::uint32_t threads = 1);

}  // namespace h5lossy
