// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "dispatch/auto.h"

#include <algorithm>
#include <array>

#include "dispatch/tile_encoder.h"

namespace h5lossy {
namespace {

using Bytes = std::span<const std::uint8_t>;

// Size of the frame of a chunk; not above that of a stored frame.
std::size_t measure_frame(TileEncoder& encoder, const Choice& choice, Bytes raw) {
  const std::size_t stored = kHeaderBytes + raw.size();
  std::size_t bytes = choice.header_bytes() + std::size_t{kTileEntryBytes} * choice.geometry.tiles();
  for (std::uint32_t i = 0; i < choice.geometry.tiles() && bytes < stored; ++i) bytes += encoder.encode(raw, i).size();
  return std::min(bytes, stored);
}

}  // namespace

Sample::Sample(const h5l_params& params, std::uint64_t count) {
  constexpr std::uint64_t least_values = 8192;
  std::uint32_t dims[3];
  read_shape(params, count, dims);
  // The chunk is cut along its slowest axis, into whole rows of blocks.
  const int axis = dims[0] > 1 ? 0 : dims[1] > 1 ? 1 : 2;
  const std::uint64_t extent = dims[axis], block = std::array{4u, 8u, 32u}[axis];
  const std::uint64_t step = count / extent;  // values between neighbours along the axis
  const std::uint64_t row = block * step;
  const auto make_part = [&](std::uint64_t first, std::uint64_t extent_of_piece) {
    Part part;
    std::copy_n(dims, 3, part.dims);
    part.dims[axis] = static_cast<std::uint32_t>(extent_of_piece);
    part.first = first;
    part.values = extent_of_piece * step;
    part.pieces = (count - first) / part.values;
    part.size = std::max<std::uint64_t>(1, (part.pieces + 2) / 4);
    return part;
  };
  const std::uint64_t rows = (least_values + row - 1) / row;  // of a piece
  Part& pieces = all[0] = make_part(0, std::min(extent, rows * block));
  has_edge = axis != 2 && pieces.values < count && extent % block != 0;
  if (!has_edge) return;
  Part& edge = all[1] = make_part(count / row * row, extent % block);
  pieces.weight = count / row;
  edge.weight = pieces.size * rows;
}

h5l_status pick_codec(const Backend& backend, const h5l_params& params, const Quantizer& quantizer, Bytes raw,
                      Choice& choice, const Message& why) {
  const std::uint64_t count = raw.size() / params.value_bytes;
  const Sample sample(params, count);
  std::uint64_t least = 0;
  const auto try_one = [&](const CodecEntry& entry, std::uint32_t mode) {
    const Choice candidate = make_choice(entry, mode, params, count);
    std::uint64_t estimate = 0;
    for (const Sample::Part& part : sample.parts()) {
      const Choice of_piece = make_choice_of_part(candidate, params.value_bytes, part.dims, part.values);
      TileEncoder encoder(params, quantizer, of_piece);
      if (!encoder.ok()) return false;
      // No further once it cannot be picked.
      for (std::uint64_t j = 0; j < part.size && (choice.codec == nullptr || estimate < least); ++j) {
        const auto begin = static_cast<std::size_t>(part.begin(j)) * params.value_bytes;
        const auto bytes = static_cast<std::size_t>(part.values) * params.value_bytes;
        estimate += part.weight * measure_frame(encoder, of_piece, raw.subspan(begin, bytes));
      }
    }
    if (choice.codec != nullptr && estimate >= least) return true;
    choice = candidate;
    least = estimate;
    return true;
  };
  return for_each_candidate(backend.codecs, params, count, try_one)
             ? H5L_OK
             : why.fail(H5L_OUT_OF_MEMORY, "no memory for a workspace");
}

}  // namespace h5lossy
