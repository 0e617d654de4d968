// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// cuSZp2 (Huang et al., SC 2024): modes, codes and predictions. The format is in docs/format/cuszp2.md.
#pragma once

#include "codecs/blocks.h"
#include "codecs/portable.h"

namespace h5lossy::H5L_TARGET::cuszp2 {

inline constexpr u32 kTileValues = 4096;
inline constexpr u32 kTileBoxes = 64;  // blocks in two or three dimensions

enum class Selection : u32 { plain = 0, outlier = 1, fixed = 2 };

// The frame's mode byte.
struct Mode {
  Selection selection;
  u32 dimensions;  // of its blocks
};

H5L_FN bool unpack_mode(u32 byte, Mode& mode) {
  mode = {static_cast<Selection>(byte & 3), byte >> 4 & 3};
  return (byte & ~0x33u) == 0 && (byte & 3) != 3 && mode.dimensions != 0;
}

H5L_FN constexpr u32 pack_mode(const Mode& mode) { return static_cast<u32>(mode.selection) | mode.dimensions << 4; }

// Largest width of a magnitude: of a bin, or of the difference of two.
template <class T>
H5L_FN constexpr u32 max_width(bool is_difference) {
  return kMantissaBits<T> - (is_difference ? 0 : 1);
}

// A block's code.
struct Code {
  u32 width;       // F; G for an outlier block
  u32 first_size;  // bytes of the first residual; 0: a plain block
};

template <class T>
inline constexpr u32 kCodeBytes = sizeof(T) == 4 ? 1 : 2;

// Bit fields of a code.
template <class T>
inline constexpr u32 kFirstSizeAt = sizeof(T) == 4 ? 5 : 6;
template <class T>
inline constexpr u32 kOutlierAt = sizeof(T) == 4 ? 7 : 9;

template <class T>
H5L_FN u32 pack_code(const Code& code) {
  const u32 outlier = u32{1} << kOutlierAt<T> | (code.first_size - 1) << kFirstSizeAt<T>;
  return code.width | (code.first_size == 0 ? 0 : outlier);
}

// False if no block has this code.
template <class T>
H5L_FN bool unpack_code(u32 bits, bool may_be_outlier, u32 largest_width, Code& code) {
  constexpr u32 first_size_bits = kOutlierAt<T> - kFirstSizeAt<T>;
  const u32 first_size = bits >> kFirstSizeAt<T> & ((u32{1} << first_size_bits) - 1);
  const bool is_outlier = (bits >> kOutlierAt<T> & 1) != 0;
  code = {bits & ((u32{1} << kFirstSizeAt<T>)-1), is_outlier ? first_size + 1 : 0};
  if (bits >> (kOutlierAt<T> + 1) != 0 || code.width > largest_width) return false;
  return is_outlier ? may_be_outlier && code.first_size < sizeof(T) : first_size == 0;
}

template <u32 n>
H5L_FN u32 planes_bytes(const Code& code) {
  return code.first_size == 0 ? blocks::planes_bytes<n>(code.width) : (code.width + 1) * (n / 8);
}

// Bytes of the magnitude of a first residual.
template <class W>
H5L_FN u32 first_size_of(W magnitude) {
  return (blocks::width_of(static_cast<W>(magnitude | 1)) + 7) / 8;
}

// The position that predicts position i > 0 of a block. Blocks of two dimensions have rows of 8, of three dimensions
// rows of 4 and slices of 16.
template <u32 dimensions>
H5L_FN constexpr u32 before(u32 i) {
  if (dimensions == 2 && i % 8 == 0) return i - 8;
  if (dimensions == 3 && i % 16 == 0) return i - 16;
  if (dimensions == 3 && i % 4 == 0) return i - 4;
  return i - 1;
}

}  // namespace h5lossy::H5L_TARGET::cuszp2
