// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/codec_selection.h"

#include <algorithm>

#include "chunk/integers.h"
#include "chunk/workspace.h"

namespace h5lossy {
namespace {

// Folds a chunk's dims to those that tiles are cut from. A header holds only the last `header_dims`, so earlier dims
// are multiplied into the first of these. With header_dims 0, the chunk is one run of values.
void fold_dims(const std::uint32_t (&dims)[kAxes], std::uint32_t header_dims, std::uint32_t (&folded)[kAxes]) {
  const std::size_t first = header_dims == 0 ? kAxes - 1 : kAxes - header_dims;
  std::fill_n(folded, kAxes, 1);
  for (std::size_t i = 0; i < kAxes; ++i) folded[std::max(i, first)] *= dims[i];
}

}  // namespace

Chunk read_chunk(const h5l_params& params, const Quantizer& quantizer, std::uint64_t count,
                 const std::uint8_t* values) {
  Chunk chunk = {{1, 1, 1, static_cast<std::uint32_t>(count)},
                 1,
                 has_integers(params) ? static_cast<ValueClass>(params.value_class) : ValueClass::floating,
                 params.value_bytes,
                 params.big_endian != 0,
                 quantizer,
                 values};
  std::uint32_t extents[H5L_MAX_RANK];
  std::uint32_t rank = 0;
  std::uint64_t product = 1;
  for (std::uint32_t i = 0; i < params.rank && product <= count; ++i) {
    product *= params.shape[i];
    if (params.shape[i] != 1) extents[rank++] = params.shape[i];
  }
  if (product != count || rank < 2) return chunk;
  chunk.rank = rank;
  chunk.dims[kAxes - 1] = 1;
  for (std::uint32_t i = 0; i < rank; ++i) {
    const std::uint32_t from_last = rank - 1 - i;
    chunk.dims[from_last < kAxes ? kAxes - 1 - from_last : 0] *= extents[i];
  }
  return chunk;
}

bool make_choice(const CodecEntry& entry, std::uint32_t requested, const Chunk& chunk, Choice& choice) {
  const Codec& codec = *codec_for(entry, static_cast<std::uint32_t>(chunk.value_class));
  const Workspace workspace(chunk.values == nullptr ? 0 : codec.choice_bytes);
  if (!workspace.ok()) return false;
  choice.number = entry.number;
  choice.codec = &codec;
  choice.mode = codec.choose_mode(chunk, requested, workspace.data());
  if (choice.mode == kNoMode) return false;
  choice.header_dims = codec.header_dims(choice.mode);
  fold_dims(chunk.dims, choice.header_dims, choice.dims);
  const auto& d = choice.dims;
  lay_out(chunk.value_bytes, std::uint64_t{d[0]} * d[1] * d[2] * d[3], choice);
  return true;
}

Choice make_choice_of_part(const Choice& of_chunk, std::uint32_t value_bytes, const std::uint32_t (&dims)[kAxes],
                           std::uint64_t count) {
  Choice choice = of_chunk;
  fold_dims(dims, choice.header_dims, choice.dims);
  lay_out(value_bytes, count, choice);
  return choice;
}

}  // namespace h5lossy
