// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "dispatch/auto.h"

#include <algorithm>

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

Sample::Sample(const h5l_params& of_chunk, std::uint64_t count) : params(of_chunk) {
  constexpr std::uint64_t least_values = 8192;
  std::uint32_t dims[3];
  read_shape(params, count, dims);
  const std::uint64_t slice = std::uint64_t{dims[1]} * dims[2];
  const std::uint64_t unit = dims[0] > 1 ? 4 * slice : dims[1] > 1 ? std::uint64_t{8} * dims[2] : 32;
  values = std::min(count, (least_values + unit - 1) / unit * unit);
  pieces = count / values;
  size = std::max<std::uint64_t>(1, (pieces + 2) / 4);
  // A piece's shape is the chunk's, but for the extent that it is cut along.
  params.rank = 0;
  if (dims[0] > 1) params.shape[params.rank++] = static_cast<std::uint32_t>(values / slice);
  if (dims[1] > 1) params.shape[params.rank++] = dims[0] > 1 ? dims[1] : static_cast<std::uint32_t>(values / dims[2]);
  params.shape[params.rank++] = dims[1] > 1 ? dims[2] : static_cast<std::uint32_t>(values);
}

h5l_status pick_codec(const Backend& backend, const h5l_params& params, const Quantizer& quantizer, Bytes raw,
                      Choice& choice, const Message& why) {
  const std::uint64_t count = raw.size() / params.value_bytes;
  const Sample sample(params, count);
  const std::size_t piece_bytes = static_cast<std::size_t>(sample.values) * params.value_bytes;
  std::uint64_t least = 0;
  const auto try_one = [&](const CodecEntry& entry, std::uint32_t mode) {
    const Choice of_piece = make_choice(entry, mode, sample.params, sample.values);
    TileEncoder encoder(sample.params, quantizer, of_piece);
    if (!encoder.ok()) return false;
    std::uint64_t estimate = 0;
    // No further once it cannot be picked.
    for (std::uint64_t j = 0; j < sample.size && (choice.codec == nullptr || estimate < least); ++j) {
      const auto begin = static_cast<std::size_t>(sample.piece(j)) * piece_bytes;
      estimate += measure_frame(encoder, of_piece, raw.subspan(begin, piece_bytes));
    }
    if (choice.codec != nullptr && estimate >= least) return true;
    choice = make_choice(entry, mode, params, count);
    least = estimate;
    return true;
  };
  return for_each_candidate(backend.codecs, params, count, try_one)
             ? H5L_OK
             : why.fail(H5L_OUT_OF_MEMORY, "no memory for a workspace");
}

}  // namespace h5lossy
