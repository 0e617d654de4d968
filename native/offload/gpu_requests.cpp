// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "offload/gpu_requests.h"

#include <algorithm>

#include "chunk/auto.h"
#include "chunk/codec_selection.h"
#include "chunk/integers.h"
#include "chunk/params.h"

namespace h5lossy {
namespace {

gpu::CodecVariant make_variant(const Choice& choice, std::uint32_t value_class, std::uint32_t value_bytes,
                               std::size_t raw_bytes) {
  gpu::CodecVariant variant;
  variant.codec = codec_name(choice.number);
  variant.number = choice.number;
  variant.mode = choice.mode;
  variant.header_bytes = choice.header_bytes(value_class);
  variant.header_dims = choice.header_dims;
  variant.layout = choice.layout;
  variant.tile_values = choice.geometry.max_tile_values();
  gpu::Shape& shape = variant.shape;
  shape.count = static_cast<std::uint32_t>(raw_bytes / value_bytes);
  shape.raw_bytes = static_cast<std::uint32_t>(raw_bytes);
  shape.tiles = choice.geometry.tiles();
  for (std::size_t i = 0; i < kAxes; ++i) {
    const std::uint32_t extent = choice.layout.box[i];
    shape.dims[i] = choice.dims[i];
    shape.box[i] = extent;
    shape.boxes[i] = choice.dims[i] / extent + (choice.dims[i] % extent != 0 ? 1 : 0);
  }
  return variant;
}

// Returns an empty variant if the codec does not take such values, or needs them to choose a mode.
gpu::CodecVariant make_variant(const CodecEntry& entry, std::uint32_t requested, const Chunk& chunk,
                               std::size_t raw_bytes) {
  Choice choice;
  const auto value_class = static_cast<std::uint32_t>(chunk.value_class);
  const Codec* const codec = codec_for(entry, value_class);
  if (codec == nullptr) return {};
  if (codec->possible_modes == nullptr) {
    return make_choice(entry, requested, chunk, choice)
               ? make_variant(choice, value_class, chunk.value_bytes, raw_bytes)
               : gpu::CodecVariant{};
  }
  // Kernels choose the mode: allocate for the tiles of every possible mode.
  std::uint32_t modes[kMostPossibleModes];
  const std::uint32_t count = codec->possible_modes(chunk, requested, modes);
  gpu::CodecVariant variant;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!make_choice(entry, modes[i], chunk, choice)) return {};
    const gpu::CodecVariant one = make_variant(choice, value_class, chunk.value_bytes, raw_bytes);
    const std::uint32_t most_tiles = std::max(variant.most_tiles, one.shape.tiles);
    const std::uint32_t tile_values = std::max(variant.tile_values, one.tile_values);
    const std::uint32_t stage_bytes = std::max(variant.layout.encode_stage_bytes, one.layout.encode_stage_bytes);
    variant = one;
    variant.most_tiles = most_tiles;
    variant.tile_values = tile_values;
    variant.layout.encode_stage_bytes = stage_bytes;
  }
  variant.mode = requested;
  return variant;
}

gpu::FrameTiles tiles_of(const Choice& choice, const gpu::Shape& shape, std::uint64_t first, std::uint64_t wanted) {
  gpu::FrameTiles tiles = {};
  std::uint32_t end = 0;
  tiles.count = shape.tiles;
  choice.geometry.range(first, wanted, tiles.first, end);
  tiles.wanted = end - tiles.first;
  std::copy_n(shape.boxes, kAxes, tiles.boxes);
  return tiles;
}

}  // namespace

gpu::EncodeCall make_encode_call(const h5l_params& params, std::size_t raw_bytes, std::uint32_t chunks) {
  gpu::EncodeCall call;
  const bool has_codec = params.codec != H5L_CODEC_AUTO;
  call.has_integers = has_integers(params);
  call.plan.encode.quantizer =  // the fields that do not depend on values
      call.has_integers ? integer_quantizer_without_values(params) : make_quantizer(params, {});
  const Chunk chunk = read_chunk(params, call.plan.encode.quantizer, raw_bytes / params.value_bytes, nullptr);
  const CodecEntry& lossless = lossless_codec(all_codecs(), params.codec);
  call.lossless = make_variant(lossless, lossless.number == params.codec ? params.mode : 0, chunk, raw_bytes);
  call.variant = has_codec ? make_variant(*codec_entry(params.codec), params.mode, chunk, raw_bytes) : call.lossless;
  if (call.has_integers) {
    const CodecEntry& entry = integer_codec(all_codecs(), params.codec);
    call.variant = make_variant(entry, entry.number == params.codec ? params.mode : 0, chunk, raw_bytes);
  } else if (!has_codec && params.bound_kind != H5L_BOUND_LOSSLESS) {
    const Sample sample(chunk);
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
    const bool has_all = for_each_candidate(all_codecs(), chunk, [&](const Choice& choice) {
      gpu::Candidate& candidate = call.candidates.emplace_back();
      candidate.of_chunk = make_variant(choice, params.value_class, params.value_bytes, raw_bytes);
      for (std::uint32_t i = 0; i < call.sample_parts; ++i) {
        const Sample::Part& part = sample.all[i];
        const Choice of_piece = make_choice_of_part(choice, params.value_bytes, part.dims, part.values());
        candidate.of_parts[i] =
            make_variant(of_piece, params.value_class, params.value_bytes, call.sample[i].piece_bytes);
      }
      return true;
    });
    if (!has_all) {  // a candidate has no mode for this chunk, so the call gets no kernels
      call.candidates.clear();
      call.variant = {};
    }
  }
  call.plan.value_class = params.value_class;
  call.plan.value_bytes = params.value_bytes;
  call.plan.requested_kind = params.bound_kind;
  call.plan.bound = params.bound;
  call.plan.encode.with_checksum = params.no_checksum == 0 ? 1 : 0;
  call.plan.big_endian = params.big_endian != 0 ? 1 : 0;
  if (has_codec) call.step_rule = codec_entry(params.codec)->codec->step_rule;
  call.from_range = params.bound_kind == H5L_BOUND_RANGE_RELATIVE;
  call.skip_zeros = params.maybe_padded != 0;
  call.range_has_fill = params.has_fill != 0;
  call.range_fill_bits = params.fill_bits;
  if (call.from_range) call.plan.encode.quantizer.kind = BoundKind::range_relative;
  call.plan.encode.chunks = chunks;
  return call;
}

gpu::DecodeCall make_decode_call(const FrameHeader& header, std::uint64_t first, std::uint64_t wanted,
                                 std::uint32_t frames) {
  gpu::DecodeCall call;
  call.kind = header.bound_kind;
  call.value_class = header.value_class;
  call.value_bytes = header.value_bytes;
  call.big_endian = header.big_endian;
  call.first = first;
  call.wanted = wanted;
  call.frames = frames;
  const CodecEntry& lossless = lossless_codec(all_codecs(), header.codec);
  Choice choice;
  choice.number = lossless.number;
  choice.codec = codec_for(lossless, header.value_class);
  if (header.codec == lossless.number) choice.header_dims = choice.codec->header_dims(0);
  open_geometry(header, choice);
  call.lossless = make_variant(choice, header.value_class, header.value_bytes, header.raw_bytes);
  call.lossless_tiles = tiles_of(choice, call.lossless.shape, first, wanted);
  if (header.codec == H5L_CODEC_STORED) {
    call.variant.shape.count = header.raw_bytes / header.value_bytes;
    call.variant.shape.raw_bytes = header.raw_bytes;
    return call;
  }
  const bool has_codec =
      has_kernels(Direction::decode, header.codec, header.mode, header.value_class, header.bound_kind) &&
      open_codec(header, choice, Message(nullptr)) == H5L_OK;
  if (!has_codec) return call;
  call.layout_bits = choice.codec->layout_bits;
  call.other_bits = ~(choice.codec->layout_bits | choice.codec->ignored_bits);
  FrameHeader other = header;
  std::uint32_t stage_bytes = 0;  // allocate for the tiles of every mode
  for (std::uint32_t bits = 0; bits <= call.layout_bits; ++bits) {
    other.mode = static_cast<std::uint8_t>((header.mode & ~call.layout_bits) | bits);
    if (open_codec(other, choice, Message(nullptr)) != H5L_OK) continue;
    open_geometry(other, choice);
    const gpu::CodecVariant variant = make_variant(choice, header.value_class, header.value_bytes, header.raw_bytes);
    call.layouts[bits] = tiles_of(choice, variant.shape, first, wanted);
    stage_bytes = std::max(stage_bytes, variant.layout.stage_bytes);
    if (other.mode == header.mode) call.variant = variant;
  }
  call.variant.layout.stage_bytes = stage_bytes;
  return call;
}

}  // namespace h5lossy
