// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Codec 0 (auto): picks the codec for a chunk by the rule in docs/format/auto.md.
#pragma once

#include <cstdint>
#include <span>

#include "chunk/codec_selection.h"
#include "codecs/codec.h"
#include "frame/message.h"
#include "h5lossy.h"
#include "runtime/registry.h"

namespace h5lossy {

// The sample of a chunk that candidates encode: some of the pieces that a chunk can be cut into without cutting blocks,
// and parts of the edge if blocks extend beyond the chunk there.
struct Sample {
  // The pieces of the chunk from which the sample is taken. Each consists of runs of values, and begins after the first
  // run of the previous piece.
  struct Part {
    // The first value of the j-th sampled piece.
    [[nodiscard]] std::uint64_t begin(std::uint64_t j) const {
      return first + ((2 * j + 1) * pieces - 1) / (2 * size) * run;
    }
    [[nodiscard]] std::uint64_t values() const { return runs * run; }  // of a piece

    std::uint32_t dims[kAxes] = {1};  // of a piece encoded as its own chunk
    std::uint64_t first = 0;          // index of the first piece's first value in the chunk
    std::uint64_t runs = 1;           // in a piece
    std::uint64_t run = 0;            // values in a run
    std::uint64_t apart = 0;          // distance from the start of a run to the start of the next one
    std::uint64_t pieces = 0;         // in the chunk
    std::uint64_t size = 0;           // pieces in the sample
    std::uint64_t weight = 1;         // of the parts' frame sizes in the estimate
  };

  explicit Sample(const Chunk& chunk);

  [[nodiscard]] std::span<const Part> parts() const { return {all, has_edge ? 2u : 1u}; }

  Part all[2];  // whole rows of blocks, and the edge
  bool has_edge = false;
};

// Calls f(choice) for each candidate of a chunk, in order, while it returns true.
template <class F>
bool for_each_candidate(std::span<const CodecEntry> codecs, const Chunk& chunk, F f) {
  for (const CodecEntry& entry : codecs) {
    if (codec_for(entry, static_cast<std::uint32_t>(chunk.value_class)) == nullptr) continue;
    std::uint32_t last_mode = kNoMode;
    for (std::uint32_t i = 0; i < entry.codec->auto_mode_count; ++i) {
      Choice choice;
      if (!make_choice(entry, entry.codec->auto_modes[i], chunk, choice)) return false;
      if (choice.mode == last_mode) continue;  // reduced to the previous candidate's mode
      last_mode = choice.mode;
      if (!f(choice)) return false;
    }
  }
  return true;
}

// Picks codec and mode for a chunk that is not empty. The quantizer is not lossless.
[[nodiscard]] h5l_status pick_codec(const Backend& backend, const h5l_params& params, const Quantizer& quantizer,
                                    std::span<const std::uint8_t> raw, Choice& choice, const Message& why);

}  // namespace h5lossy
