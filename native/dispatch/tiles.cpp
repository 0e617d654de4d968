// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "dispatch/tiles.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "dispatch/params.h"
#include "dispatch/registry.h"
#include "dispatch/swap.h"
#include "format/bytes.h"
#include "format/checksum.h"

namespace h5lossy {
namespace {

using Bytes = std::span<const std::uint8_t>;
using MutableBytes = std::span<std::uint8_t>;

// Memory that one call needs beside its input and output; one allocation, never one for a tile.
class Workspace {
 public:
  explicit Workspace(std::size_t size) : memory_(new (std::nothrow) std::uint8_t[size]) {}
  [[nodiscard]] bool ok() const { return memory_ != nullptr; }
  [[nodiscard]] std::uint8_t* data() const { return memory_.get(); }

 private:
  std::unique_ptr<std::uint8_t[]> memory_;
};

std::uint32_t count_tiles(std::size_t raw_bytes, std::uint32_t tile_bytes) {
  return static_cast<std::uint32_t>((raw_bytes + tile_bytes - 1) / tile_bytes);
}

const TileFunctions& tile_functions(const Codec& codec, std::uint32_t value_bytes) {
  return value_bytes == 4 ? codec.float32 : codec.float64;
}

FrameHeader make_header(const h5l_params& params, const Quantizer& quantizer, std::size_t raw_bytes) {
  FrameHeader header;
  header.codec = static_cast<std::uint8_t>(resolve_codec(params));
  header.value_bytes = static_cast<std::uint8_t>(params.value_bytes);
  header.big_endian = params.big_endian != 0;
  header.bound_kind = static_cast<std::uint8_t>(quantizer.kind);
  header.mode = static_cast<std::uint8_t>(params.mode);
  header.has_checksum = params.no_checksum == 0;
  header.raw_bytes = static_cast<std::uint32_t>(raw_bytes);
  header.bound = params.bound;
  header.step = quantizer.step;
  header.scale = quantizer.scale;
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

// The codec of a frame that read_header has passed.
h5l_status find_codec(const FrameHeader& header, const Codec*& codec, const Message& why) {
  const Backend* backend = nullptr;
  if (const h5l_status status = choose_backend(backend, why); status != H5L_OK) return status;
  codec = backend->find(header.codec);
  if (codec != nullptr) return H5L_OK;
  return why.fail(H5L_UNSUPPORTED, "codec %u is not in this version of h5lossy; a newer one may read it", header.codec);
}

// Decodes tile i into `raw`, which is as large as the tile, in little-endian order.
bool decode_tile(const Frame& frame, const TileFunctions& functions, std::uint32_t i, MutableBytes raw) {
  const Bytes payload = frame.tile_payload(i);
  if (payload.size() > raw.size()) return false;
  if (payload.size() == raw.size()) {
    std::memcpy(raw.data(), payload.data(), raw.size());
    return true;
  }
  if (payload.empty()) {
    std::memset(raw.data(), 0, raw.size());
    return true;
  }
  const std::uint32_t count = static_cast<std::uint32_t>(raw.size() / frame.header.value_bytes);
  return functions.decode(read_quantizer(frame.header), payload.data(), static_cast<std::uint32_t>(payload.size()),
                          count, raw.data());
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

h5l_status encode_chunk(const h5l_params& params, Bytes raw, MutableBytes frame, std::size_t& frame_bytes,
                        const Message& why) {
  if (params.value_bytes == 0 || raw.size() % params.value_bytes != 0) {
    store_chunk(params, raw, frame, frame_bytes);
    return H5L_OK;
  }
  const Quantizer quantizer = make_quantizer(params, raw);
  const FrameHeader header = make_header(params, quantizer, raw.size());
  const Codec* codec = nullptr;
  if (const h5l_status status = find_codec(header, codec, why); status != H5L_OK) return status;

  const TileFunctions& functions = tile_functions(*codec, params.value_bytes);
  const std::uint32_t tiles = count_tiles(raw.size(), codec->tile_bytes);
  const std::size_t stored_frame_bytes = kHeaderBytes + raw.size();
  const Workspace workspace(std::size_t{codec->max_payload_bytes} + codec->tile_bytes);
  if (!workspace.ok()) return why.fail(H5L_OUT_OF_MEMORY, "no memory for a workspace");
  std::uint8_t* const payload = workspace.data();
  std::uint8_t* const swapped = payload + codec->max_payload_bytes;

  std::size_t written = header.header_bytes + kTileEntryBytes * tiles;
  const std::size_t payload_at = written;
  std::uint32_t sum = 0;
  bool shrinks = written < stored_frame_bytes;
  for (std::uint32_t i = 0; i < tiles && shrinks; ++i) {
    const std::size_t tile_at = std::size_t{i} * codec->tile_bytes;
    const std::uint32_t tile_bytes =
        static_cast<std::uint32_t>(std::min<std::size_t>(codec->tile_bytes, raw.size() - tile_at));
    const std::uint8_t* values = raw.data() + tile_at;
    if (header.big_endian) {
      copy_swapped(values, swapped, tile_bytes, params.value_bytes);
      values = swapped;
    }
    std::uint32_t size = functions.encode(quantizer, values, tile_bytes / params.value_bytes, payload);
    const std::uint8_t* from = payload;
    if (size == kStoreTile) {
      size = tile_bytes;
      from = values;
    }
    shrinks = written + size < stored_frame_bytes;
    if (!shrinks) break;
    if (size != 0) std::memcpy(frame.data() + written, from, size);
    if (header.has_checksum) sum += checksum(Bytes(from, size), i);
    written += size;
    write_u32(frame.data() + header.header_bytes + kTileEntryBytes * i,
              static_cast<std::uint32_t>(written - payload_at));
  }
  if (!shrinks) {
    store_chunk(params, raw, frame, frame_bytes);
    return H5L_OK;
  }
  write_header(header, sum, tiles, frame);
  frame_bytes = written;
  return H5L_OK;
}

h5l_status open_frame(Bytes bytes, Frame& frame, const Message& why) {
  FrameHeader header;
  if (const h5l_status status = read_header(bytes, header, why); status != H5L_OK) return status;
  if (header.mode != 0) {
    return why.fail(H5L_UNSUPPORTED, "mode %u of codec %u is not in this version of h5lossy; a newer one may read it",
                    header.mode, header.codec);
  }
  std::uint32_t tiles = 0;
  if (header.codec != H5L_CODEC_STORED) {
    const Codec* codec = nullptr;
    if (const h5l_status status = find_codec(header, codec, why); status != H5L_OK) return status;
    tiles = count_tiles(header.raw_bytes, codec->tile_bytes);
  }
  return read_frame(bytes, header, tiles, frame, why);
}

std::uint32_t count_stored_tiles(const Frame& frame) {
  const Backend* backend = nullptr;
  if (frame.tiles == 0 || choose_backend(backend, Message(nullptr)) != H5L_OK) return 0;
  const std::uint32_t tile_bytes = backend->find(frame.header.codec)->tile_bytes;
  std::uint32_t stored = 0;
  for (std::uint32_t i = 0; i < frame.tiles; ++i) {
    const std::size_t left = frame.header.raw_bytes - std::size_t{i} * tile_bytes;
    stored += frame.tile_payload(i).size() == std::min<std::size_t>(tile_bytes, left) ? 1 : 0;
  }
  return stored;
}

h5l_status decode_chunk(const Frame& frame, MutableBytes raw, const Message& why) {
  if (const h5l_status status = check_payload(frame, why); status != H5L_OK) return status;
  return decode_values(frame, 0, raw, why);
}

h5l_status decode_values(const Frame& frame, std::uint64_t first, MutableBytes raw, const Message& why) {
  const FrameHeader& header = frame.header;
  const std::size_t begin = static_cast<std::size_t>(first) * header.value_bytes;
  const std::size_t end = begin + raw.size();
  if (raw.empty()) return H5L_OK;
  if (header.codec == H5L_CODEC_STORED) {
    std::memcpy(raw.data(), frame.payload.data() + begin, raw.size());
  } else {
    const Codec* codec = nullptr;
    if (const h5l_status status = find_codec(header, codec, why); status != H5L_OK) return status;
    const TileFunctions& functions = tile_functions(*codec, header.value_bytes);
    const std::size_t tile_bytes = codec->tile_bytes;
    const Workspace workspace(begin % tile_bytes == 0 && end == header.raw_bytes ? 0 : tile_bytes);
    if (!workspace.ok()) return why.fail(H5L_OUT_OF_MEMORY, "no memory for a workspace");

    for (std::size_t i = begin / tile_bytes; i * tile_bytes < end; ++i) {
      const std::size_t tile_begin = i * tile_bytes;
      const std::size_t tile_end = std::min<std::size_t>(tile_begin + tile_bytes, header.raw_bytes);
      const bool whole = tile_begin >= begin && tile_end <= end;
      const MutableBytes target = whole ? raw.subspan(tile_begin - begin, tile_end - tile_begin)
                                        : MutableBytes(workspace.data(), tile_end - tile_begin);
      if (!decode_tile(frame, functions, static_cast<std::uint32_t>(i), target)) {
        return why.fail(H5L_CORRUPT, "tile %zu contradicts itself: the file is damaged", i);
      }
      if (!whole) {
        const std::size_t from = std::max(begin, tile_begin), to = std::min(end, tile_end);
        std::memcpy(raw.data() + (from - begin), target.data() + (from - tile_begin), to - from);
      }
    }
  }
  if (header.big_endian) copy_swapped(raw.data(), raw.data(), raw.size(), header.value_bytes);
  return H5L_OK;
}

}  // namespace h5lossy
