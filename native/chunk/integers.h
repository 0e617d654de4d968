// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Integers: from a request and a chunk's values to the quantizer of the chunk, and from a frame's header back.
#pragma once

#include <cstdint>
#include <span>

#include "codecs/codec.h"
#include "frame/header.h"
#include "h5lossy.h"

namespace h5lossy {

inline bool has_integers(const h5l_params& params) { return params.value_class != H5L_CLASS_FLOAT; }
inline bool has_integers(const FrameHeader& header) { return header.value_class != H5L_CLASS_FLOAT; }

// Whether there is such a type of integers.
bool is_integer_type(std::uint32_t value_class, std::uint32_t value_bytes);

// The bound in counts: that of the request, rounded down; at most half the type's range. 0: lossless.
std::uint64_t bound_in_counts(double bound, std::uint32_t value_bytes);

// The quantizer of a chunk that is not empty. Reads the values of a lossless one, for their stride.
Quantizer make_integer_quantizer(const h5l_params& params, std::span<const std::uint8_t> raw);

// The fields of a header for a quantizer, and the quantizer of a header.
void describe_integers(const Quantizer& quantizer, FrameHeader& header);
Quantizer integer_quantizer_of(const FrameHeader& header);

}  // namespace h5lossy
