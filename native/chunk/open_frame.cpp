// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/open_frame.h"

#include <bit>

#include "chunk/choice.h"
#include "codecs/bounds.h"
#include "runtime/registry.h"

namespace h5lossy {
namespace {

// Reads the fields of a header that are needed to find its checksum, and computes the number of tiles.
h5l_status open_header(const FrameFront& front, FrameHeader& header, std::uint32_t& tiles, const Message& why) {
  tiles = 0;
  if (const h5l_status status = read_header(front, header, why); status != H5L_OK) return status;
  if (header.codec == H5L_CODEC_STORED) {
    if (header.mode != 0) {
      return why.fail(H5L_UNSUPPORTED,
                      "mode %u of a stored frame is not in this version of h5lossy; a newer one may read it",
                      header.mode);
    }
    return read_dims(front, 0, header, why);
  }
  Choice choice;
  if (const h5l_status status = open_codec(header, choice, why); status != H5L_OK) return status;
  if (const h5l_status status = read_dims(front, choice.header_dims, header, why); status != H5L_OK) return status;
  open_geometry(header, choice);
  tiles = choice.geometry.tiles();
  return H5L_OK;
}

}  // namespace

h5l_status open_front(const FrameFront& front, FrameHeader& header, std::uint32_t& tiles, const Message& why) {
  if (const h5l_status status = open_header(front, header, tiles, why); status != H5L_OK) return status;
  if (const h5l_status status = check_room(header, tiles, front.frame_bytes, why); status != H5L_OK) return status;
  if (front.bytes.size() < payload_begin(header, tiles)) return H5L_OK;
  if (const h5l_status status = check_front(front, header, tiles, why); status != H5L_OK) return status;
  if (header.codec != H5L_CODEC_STORED && header.bound_kind == H5L_BOUND_LOSSLESS &&
      !codec_for(*codec_entry(header.codec), header.value_class)->has_lossless) {
    return why.fail(H5L_CORRUPT, "codec %u has no lossless frames", header.codec);
  }
  return H5L_OK;
}

h5l_status open_frame(std::span<const std::uint8_t> bytes, Frame& frame, const Message& why) {
  FrameHeader header;
  std::uint32_t tiles = 0;
  const h5l_status status = open_front({bytes, bytes.size()}, header, tiles, why);
  if (status == H5L_OK) frame = make_frame(bytes, header, tiles);
  return status;
}

Quantizer quantizer_of(const FrameHeader& header) {
  const auto kind = static_cast<BoundKind>(header.bound_kind);
  if (has_floats(header.value_class)) return scalar::quantizer_of_step(kind, header.step_bits);
  Quantizer quantizer;
  quantizer.kind = kind;
  quantizer.scale = header.step_bits;
  quantizer.bound = is_half(header.value_class) ? std::bit_cast<double>(header.step_bits) : 0;
  quantizer.noise = header.noise;
  quantizer.exact_count = header.exact_count;
  quantizer.exact[0] = header.first_exact();
  quantizer.exact[1] = header.second_exact();
  quantizer.stride = header.stride();
  quantizer.base = header.base();
  return quantizer;
}

std::uint32_t count_stored_tiles(const Frame& frame) {
  Choice choice;
  if (frame.tiles == 0 || open_choice(frame, choice, Message(nullptr)) != H5L_OK) return 0;
  const std::size_t least_bytes = std::size_t{choice.geometry.least_values()} * frame.header.value_bytes;
  std::uint32_t stored = 0;
  for (std::uint32_t i = 0; i < frame.tiles; ++i) {
    const std::size_t payload_bytes = frame.tile_payload(i).size();
    if (payload_bytes < least_bytes && i + 1 < frame.tiles) continue;
    stored += payload_bytes == std::size_t{choice.geometry.count_values(i)} * frame.header.value_bytes ? 1 : 0;
  }
  return stored;
}

}  // namespace h5lossy
