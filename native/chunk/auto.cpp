// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/auto.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "chunk/tile_encoder.h"
#include "chunk/workspace.h"

namespace h5lossy {
namespace {

using Bytes = std::span<const std::uint8_t>;

// The size of a chunk's frame, at most that of a stored frame.
std::size_t measure_frame(TileEncoder& encoder, const Choice& choice, Bytes raw) {
  const std::size_t stored = kHeaderBytes + raw.size();
  std::size_t bytes = choice.header_bytes(H5L_CLASS_FLOAT) + std::size_t{kTileEntryBytes} * choice.geometry.tiles();
  for (std::uint32_t i = 0; i < choice.geometry.tiles() && bytes < stored; ++i) bytes += encoder.encode(raw, i).size();
  return std::min(bytes, stored);
}

std::uint64_t round_up(std::uint64_t n, std::uint64_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

Sample::Sample(const Chunk& chunk) {
  constexpr std::uint64_t least_values = 8192, least_edge_values = 2048;
  constexpr std::array<std::uint64_t, 3> blocks = {4, 8, 32};
  const std::uint32_t dims[3] = {chunk.dims[0] * chunk.dims[1], chunk.dims[2], chunk.dims[3]};
  const std::uint64_t count = std::uint64_t{dims[0]} * dims[1] * dims[2];
  // Pieces are whole rows of blocks, cut along the slowest axis.
  const std::size_t axis = dims[0] > 1 ? 0 : dims[1] > 1 ? 1 : 2;
  const std::uint64_t extent = dims[axis], block = blocks[axis];
  const std::uint64_t slice = count / extent, row = block * slice;
  const std::uint64_t piece_rows = round_up(least_values, row) / row;
  const auto choose = [](Part& part) { part.size = std::max<std::uint64_t>(1, (part.pieces + 2) / 4); };
  Part& rows = all[0];
  std::copy_n(dims, 3, rows.dims + 1);
  rows.dims[axis + 1] = static_cast<std::uint32_t>(std::min(extent, piece_rows * block));
  rows.run = rows.apart = rows.dims[axis + 1] * slice;
  rows.pieces = count / rows.run;
  choose(rows);
  has_edge = axis != 2 && rows.run < count && extent % block != 0;
  if (!has_edge) return;
  // The edge is cut along the next axis, at boundaries of blocks.
  Part& edge = all[1];
  std::copy_n(dims, 3, edge.dims + 1);
  edge.runs = edge.dims[axis + 1] = static_cast<std::uint32_t>(extent % block);
  const std::uint64_t width = dims[axis + 1], line = slice / width, unit = edge.runs * blocks[axis + 1] * line;
  const std::uint64_t piece_width = std::min(width, round_up(least_edge_values, unit) / unit * blocks[axis + 1]);
  edge.dims[axis + 2] = static_cast<std::uint32_t>(piece_width);
  edge.first = count / row * row;
  edge.run = piece_width * line;
  edge.apart = slice;
  edge.pieces = width / piece_width;
  choose(edge);
  // The number of values that each part stands for, times a common factor that avoids a division.
  rows.weight = count / row * edge.size * piece_width;
  edge.weight = width * rows.size * piece_rows;
}

h5l_status pick_codec(const Backend& backend, const h5l_params& params, const Quantizer& quantizer, Bytes raw,
                      Choice& choice, const Message& why) {
  const Chunk chunk = read_chunk(params, quantizer, raw.size() / params.value_bytes, raw.data());
  const Sample sample(chunk);
  std::uint64_t least = 0;
  const auto try_one = [&](const Choice& candidate) {
    std::uint64_t estimate = 0;
    for (const Sample::Part& part : sample.parts()) {
      const Choice of_piece = make_choice_of_part(candidate, params.value_bytes, part.dims, part.values());
      TileEncoder encoder(params, quantizer, of_piece);
      const auto bytes_of = [&](std::uint64_t values) { return static_cast<std::size_t>(values) * params.value_bytes; };
      const std::size_t piece_bytes = bytes_of(part.values()), run_bytes = bytes_of(part.run);
      const bool needs_copy = part.runs > 1 && part.run != part.apart;
      const Workspace copy(needs_copy ? piece_bytes : 0);
      if (!encoder.ok() || !copy.ok()) return false;
      // Stop once the candidate can no longer be picked.
      for (std::uint64_t j = 0; j < part.size && (choice.codec == nullptr || estimate < least); ++j) {
        const Bytes from = raw.subspan(bytes_of(part.begin(j)));
        for (std::uint64_t i = 0; needs_copy && i < part.runs; ++i) {
          std::memcpy(copy.data() + bytes_of(i * part.run), from.data() + bytes_of(i * part.apart), run_bytes);
        }
        const Bytes piece = needs_copy ? Bytes(copy.data(), piece_bytes) : from.first(piece_bytes);
        estimate += part.weight * measure_frame(encoder, of_piece, piece);
      }
    }
    if (choice.codec != nullptr && estimate >= least) return true;
    choice = candidate;
    least = estimate;
    return true;
  };
  return for_each_candidate(backend.codecs, chunk, try_one)
             ? H5L_OK
             : why.fail(H5L_OUT_OF_MEMORY, "out of memory for a workspace");
}

}  // namespace h5lossy
