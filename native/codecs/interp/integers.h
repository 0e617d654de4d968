// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Integers and half-precision floats: their words are coded as exact numbers of a float type, so everything that holds
// for floats holds for them (docs/format/interp.md, "Integers").
#pragma once

#include <type_traits>

#include "codecs/codec.h"
#include "codecs/integers.h"
#include "codecs/interp/format.h"
#include "codecs/interp/survey.h"
#include "codecs/interp/values.h"
#include "codecs/words.h"

namespace h5lossy::H5L_TARGET::interp {

// The float type whose tiles hold words of type W.
template <class W>
using LaneOf = Select<sizeof(W) <= 2, float, double>;

struct IntegerType {
  u32 bytes;
  bool is_signed;

  const WordFunctions& words() const { return word_functions[is_signed ? 1 : 0][31 - count_leading_zeros(bytes)]; }
  u64 sign() const { return is_signed ? u64{1} << (8 * bytes - 1) : 0; }
};

// Calls visit() with a word of the type that has this size.
template <class F>
void with_word(u32 bytes, F&& visit) {
  if (bytes == 1) {
    visit(u8{});
  } else if (bytes == 2) {
    visit(u16{});
  } else if (bytes == 4) {
    visit(u32{});
  } else {
    visit(u64{});
  }
}

// Converts the words of a tile to its values. `ranks` is free memory.
template <class W, bool is_signed>
void write_values(const Quantizer& quantizer, const u8* words, u32 count, u8* values, u8* ranks) {
  constexpr IntegerType type = {sizeof(W), is_signed};
  for (u32 i = 0; i < count; ++i) {
    const auto word = static_cast<W>(load<Word<LaneOf<W>>>(words + i * sizeof(LaneOf<W>)));
    store(ranks + i * sizeof(W), static_cast<W>(word ^ static_cast<W>(type.sign())));
  }
  type.words().to_values(quantizer, ranks, count, values);
}

// Widens words to numbers of more bits. Captures nothing by reference: compilers assume that bytes alias anything.
template <class T>
void widen(const u8* ranks, u32 count, const IntegerType& type, u8* words) {
  with_word(type.bytes, [ranks, count, words, sign = static_cast<Word<T>>(type.sign())](auto word) {
    if constexpr (sizeof word <= sizeof(T)) {
      const u8* const __restrict__ from = ranks;
      u8* const __restrict__ to = words;
      for (u32 i = 0; i < count; ++i) {
        const auto rank = load<decltype(word)>(from + i * sizeof word);
        store(to + i * sizeof(T), static_cast<Word<T>>(static_cast<Word<T>>(rank) - sign));
      }
    }
  });
}

// Converts the values of a tile to words, and returns the lattice with which these are encoded. `ranks` is free memory.
template <class T>
Lattice<T> read_words(const Quantizer& quantizer, const IntegerType& type, const u8* values, u32 count, u8* words,
                      u8* ranks) {
  type.words().to_words(quantizer, values, count, ranks);
  widen<T>(ranks, count, type, words);
  // Exact values are consecutive, except for 0, which is listed first and has a number like other values.
  const u32 first = quantizer.exact_count != 0 && quantizer.exact[0] == 0 ? 1 : 0;
  const u32 exact_count = quantizer.exact_count - first;
  if (exact_count == 0) return lattice_of_words<T>(load<Word<T>>(words));
  alignas(u64) u8 exact[sizeof(u64)], rank[sizeof(u64)] = {}, word[sizeof(T)] = {};
  store(exact, quantizer.exact[first]);
  type.words().to_words(quantizer, exact, 1, rank);
  widen<T>(rank, 1, type, word);
  const auto of_exact = load<Word<T>>(word);
  u32 i = 0;
  while (i + 1 < count && load<Word<T>>(words + i * sizeof(T)) - of_exact < exact_count) ++i;
  Lattice<T> lattice = lattice_of_words<T>(load<Word<T>>(words + i * sizeof(T)));
  lattice.exact = of_exact;
  lattice.exact_count = exact_count;
  return lattice;
}

template <class T, class W, bool is_signed, u32 count>
void read_some(const ValueReader<T>& reader, u64 place, Word<T>* bits) {
  constexpr IntegerType type = {sizeof(W), is_signed};
  const Quantizer& quantizer = reader.chunk->quantizer;
  alignas(u64) u8 values[count * sizeof(W)], ranks[count * sizeof(W)];
  memcpy(values, reader.values + place * sizeof(W), count * sizeof(W));
  if (reader.chunk->big_endian) {
    for (u32 i = 0; i < count; ++i) {
      for (u32 b = 0; b < sizeof(W) / 2; ++b) {
        u8 &one = values[i * sizeof(W) + b], &other = values[(i + 1) * sizeof(W) - 1 - b];
        const u8 byte = one;
        one = other;
        other = byte;
      }
    }
  }
  const u8* from = values;
  W flip = 0;
  if (are_words(quantizer)) {
    type.words().to_words(quantizer, values, count, ranks);
    from = ranks;
    flip = static_cast<W>(type.sign());
  }
  using Number = std::conditional_t<is_signed, std::make_signed_t<W>, W>;
  for (u32 i = 0; i < count; ++i) {
    bits[i] = bit_cast<Word<T>>(static_cast<T>(static_cast<Number>(load<W>(from + i * sizeof(W)) ^ flip)));
  }
  for (u32 e = 0; e < quantizer.exact_count; ++e) {
    const auto exact = static_cast<W>(quantizer.exact[e]);
    for (u32 i = 0; i < count; ++i) {
      if (exact != 0 && load<W>(values + i * sizeof(W)) == exact) bits[i] = kNoMask<T>;
    }
  }
}

// Common counts are compile-time constants, so that compilers find instructions for them.
template <class T, class W, bool is_signed>
void read_numbers(const ValueReader<T>& reader, u64 place, u32 count, Word<T>* bits) {
  const auto read = count == kGroupValues ? read_some<T, W, is_signed, kGroupValues>
                    : count == 8          ? read_some<T, W, is_signed, 8>
                    : count == 4          ? read_some<T, W, is_signed, 4>
                                          : read_some<T, W, is_signed, 1>;
  read(reader, place, bits);
}

template <class T>
ValueReader<T> numbers_of(const Chunk& chunk) {
  ValueReader<T> reader = {chunk.values, false};
  reader.chunk = &chunk;
  const bool is_unsigned = chunk.value_class == ValueClass::unsigned_integer;
  with_word(chunk.value_bytes, [&](auto word) {
    using W = decltype(word);
    if constexpr (sizeof(T) == 8 || sizeof(W) <= 2) {  // wider words are read as float64
      reader.convert = is_unsigned ? read_numbers<T, W, false> : read_numbers<T, W, true>;
    }
  });
  return reader;
}

}  // namespace h5lossy::H5L_TARGET::interp
