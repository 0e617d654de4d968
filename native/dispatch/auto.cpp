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

// What codecs are tried on: some of the pieces that a chunk can be cut into without cutting blocks.
class Sample {
 public:
  Sample(const h5l_params& params, std::uint64_t count) : params_(params) {
    constexpr std::uint64_t least_values = 8192;
    std::uint32_t dims[3];
    read_shape(params, count, dims);
    const std::uint64_t slice = std::uint64_t{dims[1]} * dims[2];
    const std::uint64_t unit = dims[0] > 1 ? 4 * slice : dims[1] > 1 ? std::uint64_t{8} * dims[2] : 32;
    values_ = std::min(count, (least_values + unit - 1) / unit * unit);
    pieces_ = count / values_;
    size_ = std::max<std::uint64_t>(1, (pieces_ + 2) / 4);
    // A piece's shape is the chunk's, but for the extent that it is cut along.
    params_.rank = 0;
    if (dims[0] > 1) params_.shape[params_.rank++] = static_cast<std::uint32_t>(values_ / slice);
    if (dims[1] > 1) {
      params_.shape[params_.rank++] = dims[0] > 1 ? dims[1] : static_cast<std::uint32_t>(values_ / dims[2]);
    }
    params_.shape[params_.rank++] = dims[1] > 1 ? dims[2] : static_cast<std::uint32_t>(values_);
  }

  // The parameters of a piece as a chunk of its own.
  [[nodiscard]] const h5l_params& params() const { return params_; }
  [[nodiscard]] std::uint64_t values() const { return values_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }

  [[nodiscard]] Bytes piece(Bytes raw, std::uint64_t j) const {
    const std::size_t bytes = static_cast<std::size_t>(values_) * params_.value_bytes;
    return raw.subspan(static_cast<std::size_t>(((2 * j + 1) * pieces_ - 1) / (2 * size_)) * bytes, bytes);
  }

 private:
  h5l_params params_;
  std::uint64_t values_ = 0;
  std::uint64_t pieces_ = 0;
  std::uint64_t size_ = 0;
};

}  // namespace

h5l_status pick_codec(const Backend& backend, const h5l_params& params, const Quantizer& quantizer, Bytes raw,
                      Choice& choice, const Message& why) {
  const std::uint64_t count = raw.size() / params.value_bytes;
  const Sample sample(params, count);
  std::uint64_t least = 0;
  for (const CodecEntry& entry : backend.codecs) {
    std::uint32_t last_mode = kNoMode;
    for (std::uint32_t i = 0; i < entry.codec->auto_mode_count; ++i) {
      const std::uint32_t mode = entry.codec->auto_modes[i];
      const Choice candidate = make_choice(entry, mode, params, count);
      if (candidate.mode == last_mode) continue;  // lowered to the one before
      last_mode = candidate.mode;
      const Choice of_piece = make_choice(entry, mode, sample.params(), sample.values());
      TileEncoder encoder(sample.params(), quantizer, of_piece);
      if (!encoder.ok()) return why.fail(H5L_OUT_OF_MEMORY, "no memory for a workspace");
      std::uint64_t estimate = 0;
      // No further once it cannot be picked.
      for (std::uint64_t j = 0; j < sample.size() && (choice.codec == nullptr || estimate < least); ++j) {
        estimate += measure_frame(encoder, of_piece, sample.piece(raw, j));
      }
      if (choice.codec != nullptr && estimate >= least) continue;
      choice = candidate;
      least = estimate;
    }
  }
  return H5L_OK;
}

}  // namespace h5lossy
