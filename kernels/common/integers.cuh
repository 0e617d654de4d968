// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Integers in kernels: their types, and lattices in the form that kernels use (codecs/integers.h).
#pragma once

#include "codecs/integers.h"
#include "frame/header.h"
#include "kernels/common/device_primitives.cuh"

namespace h5lossy::H5L_TARGET {

using gpu::WordLattice;

// The sign bit in words of a type. Halves have that of signed integers.
H5L_DEVICE u64 sign_of_words(u32 value_class, u32 value_bytes) {
  return value_class == H5L_CLASS_UNSIGNED ? 0 : u64{1} << (8 * value_bytes - 1);
}

H5L_DEVICE WordLattice word_lattice_of(const Quantizer& quantizer, u32 value_class, u32 value_bytes) {
  const u64 sign = sign_of_words(value_class, value_bytes);
  const Lattice lattice = lattice_of(quantizer, ~u64{0} >> (64 - 8 * value_bytes), sign);
  WordLattice words = {};
  words.zero = sign;
  words.step = lattice.step;
  words.origin = (lattice.origin + sign * lattice.step) & lattice.mask;
  words.special_count = lattice.special_count;
  for (u32 i = 0; i < lattice.special_count; ++i) {
    words.special_words[i] = lattice.rank_of(lattice.special[i].word);
    words.special_values[i] = lattice.special[i].value;
  }
  words.first = lattice.rank_of(lattice.first);
  words.shift = lattice.shift;
  words.exact_count = lattice.exact_count;
  for (u32 i = 0; i < lattice.exact_count; ++i) {
    const ExactValue& exact = lattice.exact[i];
    words.exact[i] = {lattice.rank_of(exact.value), lattice.rank_of(exact.word), lattice.rank_of(exact.bin),
                      lattice.rank_of(exact.below), lattice.rank_of(exact.above)};
  }
  return words;
}

// Called by a whole thread block.
H5L_DEVICE void copy_lattice(const WordLattice* from, WordLattice& to) {
  constexpr u32 words = sizeof(WordLattice) / 4;
  static_assert(words <= kThreads);
  if (thread() < words) reinterpret_cast<u32*>(&to)[thread()] = reinterpret_cast<const u32*>(from)[thread()];
}

// Whether kernels can decode a frame with these fields; for other frames, the host reports the error.
H5L_DEVICE bool has_plain_integer_fields(const FrameHeader& header) {
  const u64 largest = largest_bits(header);
  if (header.noise != 0) return false;
  if (header.bound_kind == H5L_BOUND_LOSSLESS) {
    const u64 base = header.base(), stride = header.stride();
    const bool has_stride = !is_half(header.value_class) && stride >= 2 && stride <= largest && base < stride;
    return header.step_bits == 0 && header.exact_count == 0 && header.exact_bits == 0 &&
           (header.stride_bits == 0 || has_stride);
  }
  if (is_half(header.value_class) || header.bound_kind == H5L_BOUND_POINTWISE_RELATIVE) return false;
  const bool has_step = header.step_bits >= 2 && header.step_bits <= largest;
  return has_step && header.stride_bits == 0 && has_valid_exact_values(header);
}

H5L_DEVICE Quantizer integer_quantizer_of(const FrameHeader& header) {
  Quantizer quantizer;
  quantizer.kind = static_cast<BoundKind>(header.bound_kind);
  quantizer.scale = header.step_bits;
  quantizer.exact_count = header.exact_count;
  quantizer.exact[0] = header.first_exact();
  quantizer.exact[1] = header.second_exact();
  quantizer.stride = header.stride();
  quantizer.base = header.base();
  return quantizer;
}

// Converts values to words, as ranks. Keeps a reference to the lattice.
template <class W>
class ValueWords {
 public:
  H5L_DEVICE explicit ValueWords(const WordLattice& lattice) : lattice_(lattice), zero_(static_cast<W>(lattice.zero)) {
    ranks_.mask = static_cast<W>(~W{0});
    ranks_.step = static_cast<W>(lattice.step);
    ranks_.shift = static_cast<W>(lattice.shift);
    ranks_.first = static_cast<W>(lattice.first);
    if constexpr (sizeof(W) <= 2) {
      // n / step, rounded down, is (n + 1) times the largest integer below 2^k / step, shifted right by k, since
      // (n + 1) step < 2^k; k is 33, or 24 with 8 bits. The largest integer below 2^33 / step is found in two parts.
      const u32 step = static_cast<u32>(ranks_.step);
      const u32 times = (sizeof(W) == 1 ? (u32{1} << 24) - 1 : ~u32{0}) / step;
      times_ = sizeof(W) == 1 ? times : 2 * times + (2 * (~u32{0} - times * step) + 1 >= step ? 1 : 0);
      // Opaque, since compilers would take the sum apart.
      ahead_ = opaque((ranks_.shift + 1) * times_ + (ranks_.first << (sizeof(W) == 1 ? 24 : 33)));
    } else if constexpr (sizeof(W) == 4) {
      shift_ = static_cast<double>(static_cast<W>(ranks_.shift)) + 0.5;
      inverse_ = 1 / static_cast<double>(static_cast<W>(ranks_.step));
    }
  }

  // Whether words are the values themselves.
  H5L_DEVICE static bool are_values(const WordLattice& lattice) {
    return static_cast<W>(lattice.step) == 1 && lattice.exact_count == 0;
  }

  // Replaces values by their words.
  template <u32 n>
  H5L_DEVICE void to_words(W (&values)[n]) const {
    H5L_UNROLL for (u32 k = 0; k < n; ++k) values[k] = static_cast<W>(values[k] ^ zero_);
    ranks_to_words<true>(values);
  }

  // The same of ranks. `may_have_step_1`: values may be the words, except exact ones.
  template <bool may_have_step_1 = false, u32 n>
  H5L_DEVICE void ranks_to_words(W (&values)[n]) const {
    W ranks[n];
    H5L_UNROLL for (u32 k = 0; k < n; ++k) {
      ranks[k] = values[k];
      if (!may_have_step_1 || ranks_.step != 1) values[k] = bin_of(ranks[k]);
    }
    H5L_NO_UNROLL for (u32 j = 0; j < lattice_.exact_count; ++j) {
      const gpu::WordOfExact& exact = lattice_.exact[j];
      const W value = static_cast<W>(exact.value), word = static_cast<W>(exact.word), bin = static_cast<W>(exact.bin);
      const W below = static_cast<W>(exact.below), above = static_cast<W>(exact.above);
      H5L_UNROLL for (u32 k = 0; k < n; ++k) {
        const W beside = ranks[k] > value ? above : below;
        values[k] = ranks[k] == value ? word : values[k] == bin ? beside : values[k];
      }
    }
  }

 private:
  // Ignores exact values.
  H5L_DEVICE W bin_of(W rank) const {
    if constexpr (sizeof(W) == 8) {
      u64 place;
      return ranks_.divide(rank, place);
    } else if constexpr (sizeof(W) == 4) {
      const double steps = multiply(add(static_cast<double>(rank), shift_), inverse_);
      return static_cast<W>(ranks_.first + static_cast<W>(static_cast<u32>(steps)));
    } else if constexpr (sizeof(W) == 2) {
      return static_cast<W>((u64{rank} * times_ + ahead_) >> 33);
    } else {
      return static_cast<W>((rank * times_ + static_cast<u32>(ahead_)) >> 24);
    }
  }

  const WordLattice& lattice_;
  Lattice ranks_;  // for values that are ranks
  W zero_;
  u32 times_ = 0;  // up to 16 bits
  u64 ahead_ = 0;
  double shift_ = 0, inverse_ = 0;  // 32 bits
};

// A tile: rows of a chunk, `pitch` values apart.
struct RowTile {
  u64 first;  // value in the chunk
  u32 rows, length, pitch;

  [[nodiscard]] H5L_DEVICE u32 count() const { return rows * length; }
  [[nodiscard]] H5L_DEVICE u64 place(u32 y, u32 x) const { return first + u64{y} * pitch + x; }
};

H5L_DEVICE RowTile row_tile_of(const gpu::Shape& shape, u32 tile) {
  const u32 x = tile % shape.boxes[3], rest = tile / shape.boxes[3];
  const u32 y = rest % shape.boxes[2], z = rest / shape.boxes[2];
  const u32 begin[3] = {z * shape.box[1], y * shape.box[2], x * shape.box[3]};
  u32 size[3];
  H5L_UNROLL for (u32 i = 0; i < 3; ++i) {
    const u32 left = shape.dims[1 + i] - begin[i];
    size[i] = left < shape.box[1 + i] ? left : shape.box[1 + i];
  }
  const u64 first = (u64{begin[0]} * shape.dims[2] + begin[1]) * shape.dims[3] + begin[2];
  return {first, size[0] * size[1], size[2], shape.dims[3]};  // if more than one slice, whole ones
}

// Divides numbers up to 2^15 by the length of rows, which is up to 2^14.
struct RowDivider {
  u32 length, inverse;

  H5L_DEVICE explicit RowDivider(u32 row_length) : length(row_length), inverse(~u32{0} / row_length + 1) {}
  [[nodiscard]] H5L_DEVICE u32 row(u32 i) const {
    return inverse == 0 ? i : static_cast<u32>(u64{i} * inverse >> 32);  // 0: rows of one value
  }
};

// The position of a thread's next value, or piece of values, in rows of `length`. A thread owns every kThreads-th one.
class RowWalk {
 public:
  H5L_DEVICE explicit RowWalk(u32 length) : RowWalk(RowDivider(length)) {}
  H5L_DEVICE void step() {
    y += down_;
    x += along_;
    if (x >= length_) {
      x -= length_;
      ++y;
    }
  }

 private:
  H5L_DEVICE explicit RowWalk(const RowDivider& rows)
      : length_(rows.length),
        down_(rows.row(kThreads)),
        along_(kThreads - down_ * length_),
        y(rows.row(thread())),
        x(thread() - y * length_) {}

  u32 length_, down_, along_;

 public:
  u32 y, x;
};

}  // namespace h5lossy::H5L_TARGET
