// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/encode.h"

#include <algorithm>
#include <cstring>

#include "chunk/auto.h"
#include "chunk/auto_size.h"
#include "chunk/codec_selection.h"
#include "chunk/integers.h"
#include "chunk/parallel_tiles.h"
#include "chunk/params.h"
#include "chunk/safeguards.h"
#include "chunk/tile_encoder.h"
#include "chunk/tile_runs.h"
#include "chunk/wide_bins.h"
#include "chunk/word_tables.h"
#include "codecs/bounds.h"
#include "frame/bytes.h"
#include "frame/checksum.h"
#include "frame/swap.h"
#include "runtime/registry.h"

namespace h5lossy {
namespace {

using Bytes = std::span<const std::uint8_t>;
using MutableBytes = std::span<std::uint8_t>;

FrameHeader make_header(const h5l_params& params, const Choice& choice, const Quantizer& quantizer,
                        std::size_t raw_bytes) {
  FrameHeader header;
  header.codec = static_cast<std::uint8_t>(choice.number);
  header.value_bytes = static_cast<std::uint8_t>(params.value_bytes);
  header.value_class = static_cast<std::uint8_t>(params.value_class);
  header.big_endian = params.big_endian != 0;
  header.bound_kind = static_cast<std::uint8_t>(quantizer.kind);
  header.mode = static_cast<std::uint8_t>(choice.mode);
  header.has_checksum = params.no_checksum == 0;
  header.raw_bytes = static_cast<std::uint32_t>(raw_bytes);
  header.bound = params.bound;
  header.step_bits = scalar::step_bits_of(quantizer);
  header.dim_count = choice.header_dims;
  std::copy(std::end(choice.dims) - choice.header_dims, std::end(choice.dims), header.dims);
  header.header_bytes = choice.header_bytes(params.value_class);
  if (has_integers(params)) describe_integers(quantizer, header);
  return header;
}

// The codec for a chunk, or for auto for size the first one to try; null if a sample decides.
const CodecEntry* codec_to_try(const Backend& backend, const h5l_params& params, const Quantizer& quantizer) {
  const bool is_lossless = quantizer.kind == BoundKind::lossless;
  if (has_integers(params) && !prefers_size(params)) return &integer_codec(backend.codecs, params.codec);
  if (prefers_size(params) && (!is_lossless || has_integers(params))) return &size_codec(backend.codecs);
  if (is_lossless) return &lossless_codec(backend.codecs, params.codec);
  return params.codec == H5L_CODEC_AUTO ? nullptr : find_codec(backend.codecs, params.codec);
}

// Whether the values have a step of their own; if so, sets it in the quantizer.
bool take_own_step(const CodecEntry* entry, const h5l_params& params, Bytes raw, Quantizer& quantizer) {
  const bool may_have = entry != nullptr && entry->codec->take_own_step != nullptr && !has_integers(params);
  if (!may_have || quantizer.kind == BoundKind::lossless) return false;
  Quantizer own = quantizer;
  const Chunk chunk = read_chunk(params, quantizer, raw.size() / params.value_bytes, raw.data());
  if (!entry->codec->take_own_step(chunk, own)) return false;
  quantizer = own;
  quantizer.is_exact = true;
  return true;
}

bool has_own_step(const h5l_params& params, Quantizer quantizer, Bytes raw) {
  const Backend* backend = nullptr;
  if (choose_backend(backend, Message(nullptr)) != H5L_OK) return false;
  return take_own_step(codec_to_try(*backend, params, quantizer), params, raw, quantizer);
}

// Chooses codec and mode for a chunk that is not empty, and its step if the values have one of their own.
h5l_status choose(const h5l_params& params, Quantizer& quantizer, Bytes raw, Choice& choice, const Message& why) {
  const Backend* backend = nullptr;
  if (const h5l_status status = choose_backend(backend, why); status != H5L_OK) return status;
  const CodecEntry* const entry = codec_to_try(*backend, params, quantizer);
  if (entry == nullptr) return pick_codec(*backend, params, quantizer, raw, choice, why);
  const std::uint32_t requested = entry->number == params.codec ? params.mode : 0;
  const Chunk chunk = read_chunk(params, quantizer, raw.size() / params.value_bytes, raw.data());
  take_own_step(entry, params, raw, quantizer);
  return make_choice(*entry, requested, chunk, choice) ? H5L_OK
                                                       : why.fail(H5L_OUT_OF_MEMORY, "out of memory for a workspace");
}

}  // namespace

void store_chunk(const h5l_params& params, Bytes raw, MutableBytes frame, std::size_t& frame_bytes) {
  FrameHeader header;
  const bool known_type = raw.empty() ? params.value_bytes != 0 : has_typed_values(params, raw.size());
  header.codec = H5L_CODEC_STORED;
  header.value_bytes = static_cast<std::uint8_t>(known_type ? params.value_bytes : 1);
  header.value_class = static_cast<std::uint8_t>(known_type ? params.value_class : H5L_CLASS_FLOAT);
  header.big_endian = known_type && params.big_endian != 0;
  header.bound_kind = static_cast<std::uint8_t>(params.bound_kind);
  header.has_checksum = params.no_checksum == 0;
  header.raw_bytes = static_cast<std::uint32_t>(raw.size());
  header.bound = params.bound;

  const MutableBytes payload = frame.subspan(kHeaderBytes, raw.size());
  if (header.big_endian) {
    copy_swapped(raw.data(), payload.data(), raw.size(), params.value_bytes);
  } else if (!raw.empty()) {
    std::memcpy(payload.data(), raw.data(), raw.size());
  }
  write_header(header, header.has_checksum ? checksum(payload, 0) : 0, 0, frame);
  frame_bytes = kHeaderBytes + raw.size();
}

namespace {

// Encodes all tiles on this thread.
h5l_status encode_tiles(const TileJob& job, EncodedTiles& encoded, const Message& why) {
  TileEncoder encoder(job.params, job.quantizer, job.choice);
  if (!encoder.ok()) return why.fail(H5L_OUT_OF_MEMORY, "out of memory for a workspace");
  for (std::uint32_t i = 0; i < job.choice.geometry.tiles(); ++i) {
    const MutableBytes room = job.payloads.subspan(encoded.payload_bytes);
    const Bytes payload = encoder.encode(job.raw, i, room);
    if (payload.size() > room.size()) return H5L_OK;
    const auto size = static_cast<std::uint32_t>(payload.size());
    if (size != 0 && payload.data() != room.data()) std::memcpy(room.data(), payload.data(), size);
    if (job.checksum != nullptr) encoded.sum += job.checksum(payload.data(), size, i, 0);
    encoded.payload_bytes += size;
    write_u32(job.table.data() + kTileEntryBytes * i, static_cast<std::uint32_t>(encoded.payload_bytes));
  }
  encoded.fit = true;
  return H5L_OK;
}

// Encodes a chunk with a codec and mode.
h5l_status encode_as(const Choice& choice, const h5l_params& params, const Quantizer& quantizer, Bytes raw,
                     MutableBytes frame, std::size_t& frame_bytes, const Message& why, std::uint32_t threads) {
  const FrameHeader header = make_header(params, choice, quantizer, raw.size());
  const std::uint32_t tiles = choice.geometry.tiles();
  const std::size_t payload_at = payload_begin(header, tiles);
  const std::size_t largest_frame = kHeaderBytes + raw.size() - 1;  // one byte smaller than the stored chunk
  EncodedTiles encoded;
  if (payload_at <= largest_frame) {
    const TileJob job = {params,
                         quantizer,
                         choice,
                         raw,
                         frame.subspan(header.header_bytes, kTileEntryBytes * tiles),
                         frame.subspan(payload_at, largest_frame - payload_at),
                         header.has_checksum ? best_checksum() : nullptr};
    const h5l_status status =
        threads > 1 ? encode_tiles_in_parallel(job, threads, encoded, why) : encode_tiles(job, encoded, why);
    if (status != H5L_OK) return status;
  }
  if (!encoded.fit) {
    store_chunk(params, raw, frame, frame_bytes);
    return H5L_OK;
  }
  write_header(header, encoded.sum, tiles, frame);
  frame_bytes = payload_at + encoded.payload_bytes;
  return H5L_OK;
}

// Whether the codec for size was requested for floats, and its frame is so large that others are tried, too.
bool may_save_little(const h5l_params& params, std::size_t frame_bytes, std::size_t raw_bytes) {
  const bool is_for_size = params.codec == size_codec(all_codecs()).number && !has_integers(params);
  return is_for_size && saves_little(frame_bytes, raw_bytes);
}

// Encodes a chunk that has a type and is not empty.
h5l_status encode_values(const h5l_params& params, Bytes raw, MutableBytes frame, std::size_t& frame_bytes,
                         const Message& why, std::uint32_t threads) {
  threads = threads_for_chunk(threads, raw.size());
  Quantizer quantizer = make_quantizer(params, raw, threads);
  Array<std::uint8_t> moved;
  if (params.wide != 0 && quantizer.kind != BoundKind::lossless) {
    moved = in_wide_bins(params, quantizer, raw);
    if (moved == nullptr) return why.fail(H5L_OUT_OF_MEMORY, "out of memory for a copy of the chunk");
    raw = {moved.get(), raw.size()};
  }
  Cuts cuts;
  if (has_safeguards(params) && !has_integers(params) && quantizer.kind != BoundKind::lossless) {
    cuts = make_cuts(params, quantizer);
    quantizer.cuts = &cuts;
    // Move values before choosing, so that encoding decoded values makes the same choice.
    if (cuts.reach > 0 && !has_own_step(params, quantizer, raw)) {
      moved = move_from_cuts(params, quantizer, raw);
      if (moved == nullptr) return why.fail(H5L_OUT_OF_MEMORY, "out of memory for a copy of the chunk");
      raw = {moved.get(), raw.size()};
    }
  }
  KeptBins bins;
  if (!add_bins(params.value_class, params.value_bytes, quantizer, bins)) {
    return why.fail(H5L_OUT_OF_MEMORY, "out of memory for bins");
  }
  Quantizer chosen = quantizer;
  Choice choice;
  h5l_status status = choose(params, chosen, raw, choice, why);
  if (status == H5L_OK) status = encode_as(choice, params, chosen, raw, frame, frame_bytes, why, threads);
  const bool are_integers = has_integers(params);
  const bool tries_others = prefers_size(params) || may_save_little(params, frame_bytes, raw.size());
  if (status != H5L_OK || !tries_others || (!are_integers && quantizer.kind == BoundKind::lossless)) return status;

  // Use another codec if its frame is smaller. Integers have the same words with all codecs.
  const Quantizer of_others = are_integers ? quantizer : quantizer_of_others(quantizer);
  choice = {};
  status = find_smaller(params, of_others, raw, frame_bytes, choice, why, threads);
  if (status != H5L_OK || choice.codec == nullptr) return status;
  if (!are_integers && has_fine_points(params, quantizer, raw)) return status;
  return encode_as(choice, params, of_others, raw, frame, frame_bytes, why, threads);
}

}  // namespace

bool has_typed_values(const h5l_params& params, std::size_t raw_bytes) {
  const std::size_t together = params.value_class == H5L_CLASS_COMPLEX ? 2 : 1;
  return raw_bytes != 0 && params.value_bytes != 0 && raw_bytes % (together * params.value_bytes) == 0;
}

h5l_status encode_chunk(const h5l_params& params, Bytes raw, MutableBytes frame, std::size_t& frame_bytes,
                        const Message& why, std::uint32_t threads) {
  if (has_typed_values(params, raw.size())) return encode_values(params, raw, frame, frame_bytes, why, threads);
  store_chunk(params, raw, frame, frame_bytes);
  return H5L_OK;
}

}  // namespace h5lossy
