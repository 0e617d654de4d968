// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Selects a codec and mode for a chunk to be encoded, from a request.
#pragma once

#include <cstdint>

#include "chunk/choice.h"
#include "codecs/codec.h"
#include "h5lossy.h"
#include "runtime/registry.h"

namespace h5lossy {

// A chunk of `count` values as codecs see it: its extents without those of 1. It has one axis if the shape is missing
// or does not multiply to `count`. `values` is null if the values are on a GPU.
Chunk read_chunk(const h5l_params& params, const Quantizer& quantizer, std::uint64_t count, const std::uint8_t* values);

// Chooses the actual mode for a requested one, and lays out the chunk. False if out of memory, or if the codec needs
// the values to choose and they are on a GPU.
[[nodiscard]] bool make_choice(const CodecEntry& entry, std::uint32_t requested, const Chunk& chunk, Choice& choice);

// The same codec and mode for a part of the chunk, of `count` values, encoded as its own chunk. Blocks keep their
// number of dimensions even if the part has fewer.
Choice make_choice_of_part(const Choice& of_chunk, std::uint32_t value_bytes, const std::uint32_t (&dims)[kAxes],
                           std::uint64_t count);

}  // namespace h5lossy
