// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Converts integers and halves to words and back (docs/format/integers.md, "Lattice"), for codecs that handle all of
// these types alike. Words are given as ranks: unsigned numbers of the value's size, in the order of the words.
#pragma once

#include "codecs/codec.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET {

struct WordFunctions {
  void (*to_words)(const Quantizer& quantizer, const u8* values, u32 count, u8* ranks);  // null if decode-only
  void (*to_values)(const Quantizer& quantizer, const u8* ranks, u32 count, u8* values);
};

// For unsigned and signed types, of 1, 2, 4 and 8 bytes.
extern const WordFunctions word_functions[kIntegerClasses][kIntegerSizes];

}  // namespace h5lossy::H5L_TARGET
