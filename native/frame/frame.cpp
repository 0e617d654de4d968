// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "frame/frame.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "frame/bytes.h"
#include "frame/integer_header.h"

namespace h5lossy {
namespace {

using namespace H5L_TARGET;

h5l_status check_step(const FrameHeader& header, const Message& why) {
  if (has_valid_step(header)) return H5L_OK;
  if (header.codec == H5L_CODEC_STORED || header.bound_kind == H5L_BOUND_LOSSLESS) {
    return why.fail(H5L_CORRUPT, "step must be 0 in a stored or lossless frame");
  }
  if (header.bound_kind == H5L_BOUND_POINTWISE_RELATIVE) {
    return why.fail(H5L_CORRUPT, "step of a pointwise-relative frame must be odd, from 3 to %llu",
                    largest_scale(header));
  }
  return why.fail(H5L_CORRUPT, "step must be a %s from %g to %g, got %.17g",
                  header.value_bytes == 4 ? "float32" : "float64", smallest_step(header), largest_step(header),
                  std::bit_cast<double>(header.step_bits));
}

h5l_status check_dims(const FrameHeader& header, const Message& why) {
  const bool has_integers = !has_floats(header.value_class);
  if (header.header_bytes < (has_integers ? kIntegerHeaderBytes : header_bytes_of(header.dim_count))) {
    return why.fail(H5L_CORRUPT, "header of %u bytes has no room for %s", header.header_bytes,
                    has_integers ? "the fields of integers" : "dims");
  }
  const std::span<const std::uint32_t> dims(header.dims, header.dim_count);
  std::uint64_t product = 1;
  for (const std::uint32_t extent : dims) {
    product *= extent;  // cannot overflow: the previous product is at most raw_bytes, so both factors are below 2^32
    if (product > header.raw_bytes) break;
  }
  if (product == header.raw_bytes / header.value_bytes) return H5L_OK;
  const auto& extents = header.dims;
  const std::uint32_t values = header.raw_bytes / header.value_bytes;
  if (header.dim_count == 3) {
    return why.fail(H5L_CORRUPT, "dims %u x %u x %u do not hold %u values", extents[0], extents[1], extents[2], values);
  }
  return why.fail(H5L_CORRUPT, "dims %u x %u x %u x %u do not hold %u values", extents[0], extents[1], extents[2],
                  extents[3], values);
}

// Checks the fields that are trusted only after the header's checksum has been checked.
h5l_status check_fields(const FrameFront& front, const FrameHeader& header, const Message& why) {
  const bool has_lattice = !has_floats(header.value_class) && header.codec != H5L_CODEC_STORED;
  if (has_lattice) {
    const h5l_status status = check_integer_fields(front.bytes, header, why);
    if (status != H5L_OK) return status;
  }
  // Stored frames keep the requested kind, even if the type is unknown.
  const bool may_be_noise =
      header.value_class == H5L_CLASS_UNSIGNED || header.value_class == H5L_CLASS_SIGNED || !header.is_typed();
  if (header.bound_kind > (may_be_noise ? H5L_BOUND_NOISE : H5L_BOUND_LOSSLESS)) {
    return why.fail(H5L_CORRUPT, "bound kind %u is not one of 0 to 3", header.bound_kind);
  }
  if (!has_valid_bound(header)) {
    return why.fail(H5L_CORRUPT, "bound %g is negative or not finite", header.bound);
  }
  return has_lattice ? H5L_OK : check_step(header, why);
}

}  // namespace

std::span<const std::uint8_t> Frame::tile_payload(std::uint32_t i) const {
  const std::size_t begin = i == 0 ? 0 : read_u32(tile_table.data() + kTileEntryBytes * (i - 1));
  const std::size_t end = read_u32(tile_table.data() + kTileEntryBytes * i);
  return payload.subspan(begin, end - begin);
}

HeaderWords read_words(const FrameFront& front) {
  HeaderWords words = {};
  std::memcpy(&words, front.bytes.data(), std::min(sizeof words, front.bytes.size()));
  return words;
}

h5l_status read_header(const FrameFront& front, FrameHeader& header, const Message& why) {
  const std::uint8_t* const at = front.bytes.data();
  const auto frame_bytes = static_cast<unsigned long long>(front.frame_bytes);
  if (frame_bytes < sizeof kFrameMagic) {
    return why.fail(H5L_TRUNCATED, "a frame has at least %u bytes, got %llu", kHeaderBytes, frame_bytes);
  }
  const HeaderWords words = read_words(front);
  if (words.at[0] != kFrameMagic) {
    return why.fail(H5L_CORRUPT, "not an h5lossy frame: it begins with %02x %02x %02x %02x, not with \"H5LY\"", at[0],
                    at[1], at[2], at[3]);
  }
  if (frame_bytes < kHeaderBytes) {
    return why.fail(H5L_TRUNCATED, "a frame has at least %u bytes, got %llu", kHeaderBytes, frame_bytes);
  }
  if (version_of(words) != kFormatVersion) {
    return why.fail(H5L_UNSUPPORTED, "format version %u: this h5lossy reads version %u; a newer one may read it",
                    version_of(words), kFormatVersion);
  }
  header = unpack_header(words);
  if (header.header_bytes < kHeaderBytes) {
    return why.fail(H5L_CORRUPT, "header of %u bytes; at least %u are needed", header.header_bytes, kHeaderBytes);
  }
  if (header.header_bytes > frame_bytes) {
    return why.fail(H5L_TRUNCATED, "header of %u bytes in a frame of %llu", header.header_bytes, frame_bytes);
  }
  if ((flags_of(words) & kMustUnderstandFlags) != 0) {
    return why.fail(H5L_UNSUPPORTED, "flags 0x%04x need a newer h5lossy", flags_of(words));
  }
  return H5L_OK;
}

h5l_status read_dims(const FrameFront& front, std::uint32_t dim_count, FrameHeader& header, const Message& why) {
  unpack_dims(read_words(front), dim_count, header);
  const bool is_stored = header.codec == H5L_CODEC_STORED;
  if (header.value_class > H5L_CLASS_COMPLEX) {
    return why.fail(
        H5L_UNSUPPORTED,
        "type 0x%02x is not in this version of h5lossy, which has floats, integers, halves and complex numbers; "
        "a newer one may read it",
        type_code(header.value_class, header.value_bytes));
  }
  if (!has_floats(header.value_class)) {
    const u32 bytes = header.value_bytes;
    if (!is_integer_type(header.value_class, bytes) || (bytes == 1 && header.big_endian)) {
      const bool are_halves = is_half(header.value_class);
      return why.fail(H5L_CORRUPT, "%s of %u bytes%s are not among those allowed: %s",
                      are_halves ? "halves" : "integers", bytes, header.big_endian ? ", big-endian," : "",
                      are_halves ? "2" : "1, 2, 4, 8");
    }
    if (!is_stored) unpack_integer_fields(read_words(front), header);
  }
  const bool known_type = !has_floats(header.value_class) || header.value_bytes == 4 || header.value_bytes == 8;
  const bool is_complex = header.value_class == H5L_CLASS_COMPLEX;
  if (!known_type && !(is_stored && !is_complex && header.value_bytes == 1 && !header.big_endian)) {
    return why.fail(H5L_CORRUPT, "values of %u bytes%s are not among those allowed: 4, 8%s", header.value_bytes,
                    header.big_endian ? ", big-endian," : "", is_stored ? ", 1" : "");
  }
  if (header.raw_bytes % (header.value_bytes * (is_complex ? 2u : 1u)) != 0) {
    return why.fail(H5L_CORRUPT, "%u raw bytes are not a multiple of the value size, %u", header.raw_bytes,
                    header.value_bytes);
  }
  return header.dim_count != 0 ? check_dims(header, why) : H5L_OK;
}

std::size_t payload_begin(const FrameHeader& header, std::uint32_t tiles) {
  return header.header_bytes + std::size_t{tiles} * kTileEntryBytes;
}

h5l_status check_room(const FrameHeader& header, std::uint32_t tiles, std::uint64_t frame_bytes, const Message& why) {
  if (payload_begin(header, tiles) <= frame_bytes) return H5L_OK;
  return why.fail(H5L_TRUNCATED, "the frame ends inside its table of %u tiles", tiles);
}

h5l_status check_front(const FrameFront& front, const FrameHeader& header, std::uint32_t tiles, const Message& why) {
  const std::span<const std::uint8_t> summed = front.bytes.first(payload_begin(header, tiles));
  const HeaderWords words = read_words(front);
  const std::uint32_t stated = words.at[kHeaderSumWord];
  if (const std::uint32_t sum = header_sum(summed.data(), static_cast<std::uint32_t>(summed.size())); sum != stated) {
    return why.fail(H5L_CORRUPT, "header checksum is %08x, the frame says %08x: the file is damaged", sum, stated);
  }
  if (const h5l_status status = check_fields(front, header, why); status != H5L_OK) return status;
  if (!header.has_checksum && words.at[kPayloadSumWord] != 0) {
    return why.fail(H5L_CORRUPT, "payload checksum is not 0, but the flags say that the frame has none");
  }
  std::uint32_t end = 0;
  for (std::uint32_t i = 0; i < tiles; ++i) {
    const std::uint32_t next = read_u32(summed.data() + header.header_bytes + kTileEntryBytes * i);
    if (next < end)
      return why.fail(H5L_CORRUPT, "tile %u ends at byte %u, before the end of the previous tile, %u", i, next, end);
    end = next;
  }
  const std::uint32_t payload_bytes = header.codec == H5L_CODEC_STORED ? header.raw_bytes : end;
  const auto available = static_cast<unsigned long long>(front.frame_bytes - summed.size());
  if (payload_bytes > available) {
    return why.fail(H5L_TRUNCATED, "payload of %u bytes, but only %llu follow the header", payload_bytes, available);
  }
  if (payload_bytes < available) {
    return why.fail(H5L_CORRUPT, "payload of %u bytes, but %llu follow the header", payload_bytes, available);
  }
  return H5L_OK;
}

Frame make_frame(std::span<const std::uint8_t> bytes, const FrameHeader& header, std::uint32_t tiles) {
  Frame frame;
  frame.header = header;
  frame.payload_sum = read_words({bytes, bytes.size()}).at[kPayloadSumWord];
  frame.tiles = tiles;
  frame.tile_table = bytes.first(payload_begin(header, tiles)).subspan(header.header_bytes);
  frame.payload = bytes.subspan(payload_begin(header, tiles));
  frame.bytes = bytes;
  return frame;
}

h5l_status check_payload(const Frame& frame, std::uint32_t sum, const Message& why) {
  if (sum == frame.payload_sum) return H5L_OK;
  return why.fail(H5L_CORRUPT, "payload checksum is %08x, the frame says %08x: the file is damaged", sum,
                  frame.payload_sum);
}

void write_header(const FrameHeader& header, std::uint32_t payload_sum, std::uint32_t tiles,
                  std::span<std::uint8_t> bytes) {
  HeaderWords words = pack_header(header, payload_sum);
  std::memcpy(bytes.data(), &words, std::min<std::size_t>(sizeof words, header.header_bytes));
  const std::size_t summed = payload_begin(header, tiles);
  write_u32(bytes.data() + 4 * kHeaderSumWord, header_sum(bytes.data(), static_cast<std::uint32_t>(summed)));
}

std::uint32_t checksum(std::span<const std::uint8_t> bytes, std::uint32_t tile, std::uint32_t first_word) {
  return scalar::checksum(bytes.data(), static_cast<std::uint32_t>(bytes.size()), tile, first_word);
}

}  // namespace h5lossy
