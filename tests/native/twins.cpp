// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "twins.h"

#include "codecs/pfpl.h"
#include "codecs/simd/pfpl_planes.h"
#include "codecs/simd/pfpl_words.h"
#include "codecs/simd/pfpl_zero_removal.h"
#include "codecs/simd/sums.h"

namespace h5lossy::H5L_TARGET {
namespace {

#if defined(H5L_AVX512) || defined(H5L_AVX2)
template <class Q, class W>
bool words_with(const Q& q, const u8* values, u32 count, W* words) {
  bool has_no_word = false;
  const simd::Words<Q> twin(q);
  for (u32 i = 0; i < count; i += 4 * kLanes<W>) {
    Vector<W> some[4];
    memcpy(some, values + i * sizeof(W), sizeof some);
    twin.from_bits(some, has_no_word);
    memcpy(words + i, some, sizeof some);
  }
  return !has_no_word;
}

template <class Q, class W>
void bits_with(const Q& q, const W* words, u32 count, W* bits) {
  const simd::Words<Q> twin(q);
  for (u32 i = 0; i < count; i += 4 * kLanes<W>) {
    Vector<W> some[4];
    memcpy(some, words + i, sizeof some);
    twin.to_bits(some);
    memcpy(bits + i, some, sizeof some);
  }
}
#else
template <class Q, class W>
bool words_with(const Q& q, const u8* values, u32 count, W* words) {
  bool all_have_words = true;
  for (u32 i = 0; i < count; ++i) all_have_words &= pfpl::word_of(q, load<W>(values + i * sizeof(W)), words[i]);
  return all_have_words;
}

template <class Q, class W>
void bits_with(const Q& q, const W* words, u32 count, W* bits) {
  for (u32 i = 0; i < count; ++i) bits[i] = pfpl::bits_of(q, words[i]);
}
#endif

template <class T>
bool words_of(const Quantizer& quantizer, const u8* values, u32 count, Word<T>* words) {
  return pfpl::with_quantizer<T>(quantizer, [&](const auto& q) { return words_with(q, values, count, words); });
}

template <class T>
void bits_of(const Quantizer& quantizer, const Word<T>* words, u32 count, Word<T>* bits) {
  pfpl::with_quantizer<T>(quantizer, [&](const auto& q) { bits_with(q, words, count, bits); });
}

template <class T>
u32 to_planes(const Word<T>* words, u32 groups, Word<T>* planes) {
  simd::Residuals<T, pfpl::NoQuantizer<T>> residuals({}, reinterpret_cast<const u8*>(words));
  return simd::to_planes(groups, residuals, planes);
}

template <class T>
u32 from_planes(const Word<T>* planes, u32 groups, bool non_temporal, Word<T>* words) {
  simd::Values<T, pfpl::NoQuantizer<T>> values({}, reinterpret_cast<u8*>(words), non_temporal);
  return simd::from_planes(planes, groups, values);
}

template <class T>
constexpr test::TwinsOfWords<Word<T>> kWords = {words_of<T>, bits_of<T>, to_planes<T>, from_planes<T>,
                                                simd::running_sums<Word<T>>};

}  // namespace

extern const test::Twins twins;
#define H5L_STRING_OF(name) #name
#define H5L_STRING(name) H5L_STRING_OF(name)
#if defined(H5L_AVX512) || defined(H5L_AVX2) || defined(H5L_NEON)
constexpr u32 kReadsBeyond = 56;
#else
constexpr u32 kReadsBeyond = 0;
#endif
const test::Twins twins = {H5L_STRING(H5L_TARGET), kReadsBeyond,  simd::remove_zeros,
                           simd::restore_zeros,    kWords<float>, kWords<double>};

}  // namespace h5lossy::H5L_TARGET
