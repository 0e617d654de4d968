// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The vector code of native/codecs/simd/ as plain functions, one table for each backend, so that tests can call each by itself.
// twins.cpp is compiled once for each, with the backend's instructions.
#pragma once

#include "codecs/codec.h"

namespace h5lossy::test {

template <class W>
struct TwinsOfWords {
  // PFPL's words of values, in whole groups of a multiple of 8. False: a value has none.
  bool (*words_of)(const Quantizer& quantizer, const u8* values, u32 count, W* words);
  void (*bits_of)(const Quantizer& quantizer, const W* words, u32 count, W* bits);
  // PFPL's planes of the residuals of any words. Return how many groups they did, the first ones.
  u32 (*to_planes)(const W* words, u32 groups, W* planes);
  u32 (*from_planes)(const W* planes, u32 groups, bool non_temporal, W* words);
  W (*running_sums)(W* words, u32 count, W sum);
};

struct Twins {
  const char* backend;
  u32 stream_overrun;  // how far behind a multiple of 8 bytes restore_zeros may write
  u32 (*remove_zeros)(const u8* stream, u32 size, u8* out);
  bool (*restore_zeros)(const u8* payload, u32 payload_bytes, u8* stream, u32 size);
  TwinsOfWords<u32> words32;
  TwinsOfWords<u64> words64;

  template <class W>
  [[nodiscard]] const TwinsOfWords<W>& words() const {
    if constexpr (sizeof(W) == 4) {
      return words32;
    } else {
      return words64;
    }
  }
};

}  // namespace h5lossy::test
