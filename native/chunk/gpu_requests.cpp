// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/gpu_requests.h"

#include <algorithm>

#include "chunk/auto.h"
#include "chunk/codec_selection.h"
#include "chunk/params.h"

namespace h5lossy {
namespace {

gpu::Method make_method(const Choice& choice, std::uint32_t value_bytes, std::size_t raw_bytes,
                        const std::uint32_t (&dims)[3]) {
  gpu::Method method;
  method.codec = codec_name(choice.number);
  method.number = choice.number;
  method.mode = choice.mode;
  method.header_bytes = choice.header_bytes();
  Blocking blocking;
  choice.codec->blocking(choice.mode, value_bytes, blocking);
  method.tile_values = blocking.tile_values;
  method.is_split = choice.number == H5L_CODEC_AATROX;
  method.dimensions = blocking.extents[2] == 0 ? 1 : blocking.extents[0] == 1 ? 2 : 3;
  gpu::Shape& shape = method.shape;
  shape.count = static_cast<std::uint32_t>(raw_bytes / value_bytes);
  shape.raw_bytes = static_cast<std::uint32_t>(raw_bytes);
  shape.tiles = choice.geometry.tiles();
  for (int i = 0; i < 3; ++i) {
    method.extents[i] = blocking.extents[i];
    shape.dims[i] = dims[i];
    if (choice.has_dims) shape.boxes[i] = dims[i] / blocking.extents[i] + (dims[i] % blocking.extents[i] != 0 ? 1 : 0);
  }
  return method;
}

gpu::Method make_method(std::uint32_t codec, std::uint32_t mode, const h5l_params& params, std::size_t raw_bytes) {
  const Choice choice = make_choice(*codec_entry(codec), mode, params, raw_bytes / params.value_bytes);
  return make_method(choice, params.value_bytes, raw_bytes, choice.dims);
}

}  // namespace

gpu::EncodeCall make_encode_call(const h5l_params& params, std::size_t raw_bytes, std::uint32_t chunks) {
  gpu::EncodeCall call;
  const bool has_codec = params.codec != H5L_CODEC_AUTO;
  call.method = make_method(has_codec ? params.codec : H5L_CODEC_PFPL, has_codec ? params.mode : 0, params, raw_bytes);
  call.lossless = make_method(H5L_CODEC_PFPL, 0, params, raw_bytes);
  if (!has_codec && params.bound_kind != H5L_BOUND_LOSSLESS) {
    const std::uint64_t count = raw_bytes / params.value_bytes;
    const Sample sample(params, count);
    for (const Sample::Part& part : sample.parts()) {
      gpu::SamplePart& of_call = call.sample[call.sample_parts++];
      of_call.first_byte = static_cast<std::uint32_t>(part.first * params.value_bytes);
      of_call.pieces = static_cast<std::uint32_t>(part.pieces);
      of_call.sampled = static_cast<std::uint32_t>(part.size);
      of_call.piece_bytes = static_cast<std::uint32_t>(part.values() * params.value_bytes);
      of_call.run_bytes = static_cast<std::uint32_t>(part.run * params.value_bytes);
      of_call.apart_bytes = static_cast<std::uint32_t>(part.apart * params.value_bytes);
      of_call.weight = static_cast<std::uint32_t>(part.weight);
    }
    for_each_candidate(backends().back().codecs, params, count, [&](const CodecEntry& entry, std::uint32_t mode) {
      const Choice choice = make_choice(entry, mode, params, count);
      gpu::Candidate& candidate = call.candidates.emplace_back();
      candidate.of_chunk = make_method(choice, params.value_bytes, raw_bytes, choice.dims);
      for (std::uint32_t i = 0; i < call.sample_parts; ++i) {
        const Sample::Part& part = sample.all[i];
        const Choice of_piece = make_choice_of_part(choice, params.value_bytes, part.dims, part.values());
        candidate.of_parts[i] = make_method(of_piece, params.value_bytes, call.sample[i].piece_bytes, of_piece.dims);
      }
      return true;
    });
  }
  call.plan.value_bytes = params.value_bytes;
  call.plan.requested_kind = params.bound_kind;
  call.plan.bound = params.bound;
  call.plan.encode.with_checksum = params.no_checksum == 0 ? 1 : 0;
  call.plan.big_endian = params.big_endian != 0 ? 1 : 0;
  call.from_range = params.bound_kind == H5L_BOUND_RANGE_RELATIVE;
  call.skip_zeros = params.maybe_padded != 0;
  call.range_has_fill = params.has_fill != 0;
  call.range_fill_bits = params.fill_bits;
  call.plan.encode.quantizer = make_quantizer(params, {});  // of no values: what does not depend on them
  if (call.from_range) call.plan.encode.quantizer.kind = BoundKind::range_relative;
  call.plan.encode.chunks = chunks;
  return call;
}

gpu::DecodeCall make_decode_call(const FrameHeader& header, std::uint64_t first, std::uint64_t wanted,
                                 std::uint32_t frames) {
  gpu::DecodeCall call;
  call.kind = header.bound_kind;
  call.value_bytes = header.value_bytes;
  call.big_endian = header.big_endian;
  call.first = first;
  call.wanted = wanted;
  call.frames = frames;
  Blocking blocking;
  codec_entry(H5L_CODEC_PFPL)->codec->blocking(0, header.value_bytes, blocking);
  call.pfpl_tile_values = blocking.tile_values;
  if (header.codec == H5L_CODEC_STORED) {
    call.method.shape.count = header.raw_bytes / header.value_bytes;
    call.method.shape.raw_bytes = header.raw_bytes;
    return call;
  }
  Choice choice;
  if (open_codec(header, choice, Message(nullptr)) != H5L_OK) return call;
  open_geometry(header, choice);
  call.method = make_method(choice, header.value_bytes, header.raw_bytes, header.dims);
  std::uint32_t end = 0;
  choice.geometry.range(first, wanted, call.first_tile, end);
  call.tiles = end - call.first_tile;
  return call;
}

}  // namespace h5lossy
