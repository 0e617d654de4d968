// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Codec 0 (auto): which codec a chunk gets. docs/format/auto.md is the rule.
#pragma once

#include <cstdint>
#include <span>

#include "chunk/codec_selection.h"
#include "codecs/codec.h"
#include "frame/message.h"
#include "h5lossy.h"
#include "runtime/registry.h"

namespace h5lossy {

// What the candidates are tried on: some of the pieces that a chunk can be cut into without cutting blocks, and parts of
// the edge, if blocks lie partly outside the chunk there.
struct Sample {
  // The pieces of the chunk that are sampled from. Each consists of runs of values, and begins behind the first run of the
  // previous piece.
  struct Part {
    // The first value of the piece that is number j of the sample.
    [[nodiscard]] std::uint64_t begin(std::uint64_t j) const {
      return first + ((2 * j + 1) * pieces - 1) / (2 * size) * run;
    }
    [[nodiscard]] std::uint64_t values() const { return runs * run; }  // of a piece

    std::uint32_t dims[kAxes] = {1};  // of a piece as a chunk of its own
    std::uint64_t first = 0;          // value of the chunk where they begin
    std::uint64_t runs = 1;           // of a piece
    std::uint64_t run = 0;            // values of each
    std::uint64_t apart = 0;          // values from one run's first to the next one's
    std::uint64_t pieces = 0;         // of the chunk
    std::uint64_t size = 0;           // how many of them are in the sample
    std::uint64_t weight = 1;         // of their frames' sizes in the estimate
  };

  explicit Sample(const Chunk& chunk);

  [[nodiscard]] std::span<const Part> parts() const { return {all, has_edge ? 2u : 1u}; }

  Part all[2];  // whole rows of blocks, and the edge
  bool has_edge = false;
};

// Calls f(choice) for each candidate of a chunk, in their order, as long as it returns true.
template <class F>
bool for_each_candidate(std::span<const CodecEntry> codecs, const Chunk& chunk, F f) {
  for (const CodecEntry& entry : codecs) {
    std::uint32_t last_mode = kNoMode;
    for (std::uint32_t i = 0; i < entry.codec->auto_mode_count; ++i) {
      Choice choice;
      if (!make_choice(entry, entry.codec->auto_modes[i], chunk, choice)) return false;
      if (choice.mode == last_mode) continue;  // lowered to the one before
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
