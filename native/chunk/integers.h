// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Integers: from a request and a chunk's values to the quantizer of the chunk, and from a frame's header back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "chunk/word_tables.h"
#include "codecs/codec.h"
#include "frame/frame.h"
#include "h5lossy.h"

namespace h5lossy {

// Also true of halves, whose bins are numbered, and whose words are those of integers.
inline bool has_integers(const h5l_params& params) { return !has_floats(params.value_class); }
inline bool has_integers(const FrameHeader& header) { return !has_floats(header.value_class); }

// The bound in counts: that of the request, rounded down; at most half the type's range. 0: lossless.
std::uint64_t bound_in_counts(double bound, std::uint32_t value_bytes);

// The quantizer of a chunk that is not empty, without bins. Reads the values of a lossless one, for their stride.
Quantizer make_integer_quantizer(const h5l_params& params, std::span<const std::uint8_t> raw);

// Gives a quantizer the tables or bins that it needs, if any. The result keeps them.
std::shared_ptr<const MadeBins> add_bins(std::uint32_t value_class, std::uint32_t value_bytes, Quantizer& quantizer);

// The range of the valid values of halves, as h5l_value_range has it.
h5l_range half_range(const h5l_params& params, std::span<const std::uint8_t> raw);

// The fields of a header for a quantizer, and the quantizer of a header.
void describe_integers(const Quantizer& quantizer, FrameHeader& header);
Quantizer integer_quantizer_of(const FrameHeader& header);

}  // namespace h5lossy
