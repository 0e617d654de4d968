// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/tiles.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "chunk/auto.h"
#include "chunk/codec_selection.h"
#include "chunk/gpu_requests.h"
#include "chunk/parallel_tiles.h"
#include "chunk/params.h"
#include "chunk/streaming.h"
#include "chunk/swap.h"
#include "chunk/tile_encoder.h"
#include "chunk/workspace.h"
#include "frame/bytes.h"
#include "frame/checksum.h"
#include "gpu/chunks.h"
#include "runtime/device_selection.h"
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
  header.big_endian = params.big_endian != 0;
  header.bound_kind = static_cast<std::uint8_t>(quantizer.kind);
  header.mode = static_cast<std::uint8_t>(choice.mode);
  header.has_checksum = params.no_checksum == 0;
  header.raw_bytes = static_cast<std::uint32_t>(raw_bytes);
  header.bound = params.bound;
  header.step = quantizer.step;
  header.scale = quantizer.scale;
  header.has_dims = choice.has_dims;
  std::copy_n(choice.dims, 3, header.dims);
  header.header_bytes = choice.header_bytes();
  return header;
}

// What a decoder needs of the quantizer.
Quantizer read_quantizer(const FrameHeader& header) {
  Quantizer quantizer;
  quantizer.kind = static_cast<BoundKind>(header.bound_kind);
  quantizer.step = header.step;
  quantizer.scale = header.scale;
  return quantizer;
}

// The codec and mode for a chunk that is not empty.
h5l_status choose(const h5l_params& params, const Quantizer& quantizer, Bytes raw, Choice& choice, const Message& why) {
  const Backend* backend = nullptr;
  if (const h5l_status status = choose_backend(backend, why); status != H5L_OK) return status;
  const bool is_lossless = quantizer.kind == BoundKind::lossless;
  if (params.codec == H5L_CODEC_AUTO && !is_lossless) return pick_codec(*backend, params, quantizer, raw, choice, why);
  const CodecEntry* entry = params.codec == H5L_CODEC_AUTO ? nullptr : backend->find(params.codec);
  if (is_lossless && (entry == nullptr || !entry->codec->has_lossless)) entry = backend->find(H5L_CODEC_PFPL);
  const std::uint32_t mode = entry->number == params.codec ? params.mode : 0;
  choice = make_choice(*entry, mode, params, raw.size() / params.value_bytes);
  return H5L_OK;
}

// Decodes a tile's payload into `raw`, which is as large as the tile, in little-endian order.
bool decode_tile(const Frame& frame, const Choice& choice, const Tile& tile, Bytes payload, MutableBytes raw) {
  if (payload.size() > raw.size()) return false;
  if (payload.size() == raw.size()) {
    std::memcpy(raw.data(), payload.data(), raw.size());
    return true;
  }
  if (payload.empty()) {
    std::memset(raw.data(), 0, raw.size());
    return true;
  }
  return choice.functions(frame.header.value_bytes)
      .decode(read_quantizer(frame.header), choice.mode, tile, payload.data(),
              static_cast<std::uint32_t>(payload.size()), raw.data());
}

}  // namespace

void store_chunk(const h5l_params& params, Bytes raw, MutableBytes frame, std::size_t& frame_bytes) {
  FrameHeader header;
  const bool known_type = params.value_bytes != 0 && raw.size() % params.value_bytes == 0;
  header.codec = H5L_CODEC_STORED;
  header.value_bytes = static_cast<std::uint8_t>(known_type ? params.value_bytes : 1);
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

// A chunk that has a type, on the CPU.
h5l_status encode_on_cpu(const h5l_params& params, Bytes raw, MutableBytes frame, std::size_t& frame_bytes,
                         const Message& why, std::uint32_t threads) {
  const Quantizer quantizer = make_quantizer(params, raw);
  Choice choice;
  if (const h5l_status status = choose(params, quantizer, raw, choice, why); status != H5L_OK) return status;
  const FrameHeader header = make_header(params, choice, quantizer, raw.size());
  const std::uint32_t tiles = choice.geometry.tiles();
  const std::size_t payload_at = header.header_bytes + std::size_t{kTileEntryBytes} * tiles;
  const std::size_t stored_frame_bytes = kHeaderBytes + raw.size();
  const ChecksumFunction checksum = best_checksum();
  std::size_t written = payload_at;
  std::uint32_t sum = 0;
  bool shrinks = written < stored_frame_bytes;
  if (threads = threads_for_chunk(threads, raw.size()); threads > 1 && shrinks) {
    EncodedTiles encoded;
    const h5l_status status = encode_tiles(params, quantizer, choice, raw,
                                           frame.subspan(header.header_bytes, payload_at - header.header_bytes),
                                           frame.subspan(payload_at, stored_frame_bytes - payload_at - 1),
                                           header.has_checksum ? checksum : nullptr, threads, encoded, why);
    if (status != H5L_OK) return status;
    shrinks = encoded.fit;
    written += encoded.payload_bytes;
    sum = encoded.sum;
  } else if (shrinks) {
    TileEncoder encoder(params, quantizer, choice);
    if (!encoder.ok()) return why.fail(H5L_OUT_OF_MEMORY, "no memory for a workspace");
    for (std::uint32_t i = 0; i < tiles; ++i) {
      const Bytes payload = encoder.encode(raw, i);
      shrinks = written + payload.size() < stored_frame_bytes;
      if (!shrinks) break;
      if (!payload.empty()) std::memcpy(frame.data() + written, payload.data(), payload.size());
      const auto size = static_cast<std::uint32_t>(payload.size());
      if (header.has_checksum) sum += checksum(payload.data(), size, i, 0);
      written += payload.size();
      write_u32(frame.data() + header.header_bytes + kTileEntryBytes * i,
                static_cast<std::uint32_t>(written - payload_at));
    }
  }
  if (!shrinks) {
    store_chunk(params, raw, frame, frame_bytes);
    return H5L_OK;
  }
  write_header(header, sum, tiles, frame);
  frame_bytes = written;
  return H5L_OK;
}

}  // namespace

h5l_status encode_chunk(const h5l_params& params, Bytes raw, MutableBytes frame, std::size_t& frame_bytes,
                        const Message& why, std::uint32_t threads) {
  if (raw.empty() || params.value_bytes == 0 || raw.size() % params.value_bytes != 0) {
    store_chunk(params, raw, frame, frame_bytes);
    return H5L_OK;
  }
  Turn turn(Direction::encode, params.codec, params.value_bytes, raw.size());
  h5l_status status = H5L_OK;
  if (turn.device() == nullptr ||
      !gpu::encode_chunk(*turn.device(), make_encode_call(params, raw.size(), 1), raw, frame, frame_bytes)) {
    if (turn.device() != nullptr) turn.give_up();
    status = encode_on_cpu(params, raw, frame, frame_bytes, why, threads);
  }
  if (status == H5L_OK) turn.finish();
  return status;
}

namespace {

// Reads what can be read of a header before its checksum is known to be right, and the number of tiles.
h5l_status open_header(const FrameFront& front, FrameHeader& header, std::uint32_t& tiles, const Message& why) {
  tiles = 0;
  if (const h5l_status status = read_header(front, header, why); status != H5L_OK) return status;
  if (header.codec == H5L_CODEC_STORED) {
    if (header.mode != 0) {
      return why.fail(H5L_UNSUPPORTED,
                      "mode %u of a stored frame is not in this version of h5lossy; a newer one may read it",
                      header.mode);
    }
    return check_size(header, why);
  }
  Choice choice;
  if (const h5l_status status = open_codec(header, choice, why); status != H5L_OK) return status;
  header.has_dims = choice.has_dims;
  if (const h5l_status status = check_size(header, why); status != H5L_OK) return status;
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
      !codec_entry(header.codec)->codec->has_lossless) {
    return why.fail(H5L_CORRUPT, "codec %u has no lossless frames", header.codec);
  }
  return H5L_OK;
}

h5l_status open_frame(Bytes bytes, Frame& frame, const Message& why) {
  FrameHeader header;
  std::uint32_t tiles = 0;
  const h5l_status status = open_front({bytes, bytes.size()}, header, tiles, why);
  if (status == H5L_OK) frame = make_frame(bytes, header, tiles);
  return status;
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

h5l_status check_sum(const Frame& frame, const Message& why, std::uint32_t threads) {
  if (!frame.header.has_checksum) return H5L_OK;
  return check_payload(frame, sum_payload(frame, best_checksum(), threads), why);
}

namespace {

h5l_status decode_on_cpu(const Frame& frame, MutableBytes raw, const Message& why, std::uint32_t threads) {
  threads = threads_for_chunk(threads, raw.size());
  if (const h5l_status status = check_sum(frame, why, threads); status != H5L_OK) return status;
  return decode_values(frame, 0, raw, why, threads);
}

}  // namespace

h5l_status decode_chunk(const Frame& frame, MutableBytes raw, const Message& why, std::uint32_t threads) {
  const FrameHeader& header = frame.header;
  if (header.codec != H5L_CODEC_STORED && !raw.empty()) {
    Turn turn(Direction::decode, header.codec, header.value_bytes, raw.size());
    // What the GPU takes amiss, the CPU knows the words for.
    if (turn.device() != nullptr &&
        gpu::decode_chunk(*turn.device(), make_decode_call(header, 0, raw.size() / header.value_bytes, 1), frame.bytes,
                          raw)) {
      turn.finish();
      return H5L_OK;
    }
    if (turn.device() != nullptr) turn.give_up();
    const h5l_status status = decode_on_cpu(frame, raw, why, threads);
    if (status == H5L_OK) turn.finish();
    return status;
  }
  return decode_on_cpu(frame, raw, why, threads);
}

h5l_status decode_values(const Frame& frame, std::uint64_t first, MutableBytes raw, const Message& why,
                         std::uint32_t threads) {
  const FrameHeader& header = frame.header;
  if (raw.empty()) return H5L_OK;
  if (header.codec == H5L_CODEC_STORED) {
    std::memcpy(raw.data(), frame.payload.data() + first * header.value_bytes, raw.size());
    if (header.big_endian) copy_swapped(raw.data(), raw.data(), raw.size(), header.value_bytes);
    return H5L_OK;
  }
  Choice choice;
  if (const h5l_status status = open_choice(frame, choice, why); status != H5L_OK) return status;
  const Geometry& geometry = choice.geometry;
  const std::uint64_t count = raw.size() / header.value_bytes;
  const bool is_whole = raw.size() == header.raw_bytes;
  const bool is_streamed = raw.size() >= kStreamedBytes && !header.big_endian;
  std::uint32_t begin = 0, end = 0;
  geometry.range(first, count, begin, end);

  const bool needs_room = !is_whole || !geometry.is_linear();
  threads = threads_for_chunk(threads, raw.size());
  const std::size_t tile_room = needs_room ? geometry.max_tile_bytes() : 0;
  const Workspace workspace(tile_room * threads);
  if (!workspace.ok()) return why.fail(H5L_OUT_OF_MEMORY, "no memory for a workspace");
  std::atomic<std::uint32_t> broken = end;  // the first tile that is
  const auto decode_one = [&](std::uint32_t i, std::uint32_t seat) {
    if (!is_whole && !geometry.holds(i, first, count)) return;
    PlacedTile placed;
    geometry.place(i, placed);
    // Payloads are read from both ends, which no processor foresees.
    if (i + 1 < end) prefetch(frame.tile_payload(i + 1));
    const std::size_t tile_bytes = std::size_t{placed.tile.count} * header.value_bytes;
    // A tile that lies in the chunk as it is, and is wanted whole, is decoded in place.
    const std::uint64_t tile_first = std::uint64_t{i} * geometry.max_tile_values();
    const bool in_place =
        geometry.is_linear() && tile_first >= first && tile_first + placed.tile.count <= first + count;
    std::uint8_t* const target = in_place
                                     ? raw.data() + static_cast<std::size_t>(tile_first - first) * header.value_bytes
                                     : workspace.data() + tile_room * seat;
    placed.tile.is_streamed = in_place && is_streamed;
    if (!decode_tile(frame, choice, placed.tile, frame.tile_payload(i), MutableBytes(target, tile_bytes))) {
      std::uint32_t known = broken.load(std::memory_order_relaxed);
      while (i < known && !broken.compare_exchange_weak(known, i, std::memory_order_relaxed)) continue;
      return;
    }
    if (!in_place) geometry.scatter(i, target, first, count, raw.data());
  };
  for_runs(begin, end, geometry.max_tile_bytes(), threads,
           [&](std::uint32_t run_begin, std::uint32_t run_end, std::uint32_t seat) {
             for (std::uint32_t i = run_begin; i < run_end && i < broken.load(std::memory_order_relaxed); ++i) {
               decode_one(i, seat);
             }
             if (is_streamed) finish_streaming();
           });
  if (broken.load() != end) {
    return why.fail(H5L_CORRUPT, "tile %u contradicts itself: the file is damaged", broken.load());
  }
  if (header.big_endian) copy_swapped(raw.data(), raw.data(), raw.size(), header.value_bytes);
  return H5L_OK;
}

}  // namespace h5lossy
