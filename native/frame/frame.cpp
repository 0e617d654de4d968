// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "frame/frame.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "frame/bytes.h"
#include "frame/checksum.h"

namespace h5lossy {
namespace {

constexpr std::uint8_t kMagic[4] = {'H', '5', 'L', 'Y'};
constexpr std::uint16_t kChecksumFlag = 1;
constexpr std::uint16_t kMustUnderstandFlags = 0xFF00;
constexpr std::uint8_t kBigEndianBit = 0x80;

// Where the fields stand.
constexpr std::size_t kVersionAt = 4, kHeaderWordsAt = 5, kCodecAt = 6, kTypeAt = 7, kBoundKindAt = 8, kModeAt = 9,
                      kFlagsAt = 10, kRawBytesAt = 12, kHeaderSumAt = 16, kPayloadSumAt = 20, kBoundAt = 24,
                      kStepAt = 32, kDimsAt = 40;

// The header without its own sum, and the tile table, are summed as one string.
std::uint32_t header_sum(std::span<const std::uint8_t> header_and_table) {
  return checksum(header_and_table.first(kHeaderSumAt), 0) +
         checksum(header_and_table.subspan(kPayloadSumAt), 0, kHeaderSumAt / 4);
}

std::uint64_t step_bits(const FrameHeader& header) {
  return header.bound_kind == H5L_BOUND_POINTWISE_RELATIVE ? header.scale : std::bit_cast<std::uint64_t>(header.step);
}

bool is_float(double number) { return static_cast<double>(static_cast<float>(number)) == number; }

h5l_status check_step(const FrameHeader& header, const Message& why) {
  const std::uint64_t bits = step_bits(header);
  const bool is_f32 = header.value_bytes == 4;
  if (header.codec == H5L_CODEC_STORED || header.bound_kind == H5L_BOUND_LOSSLESS) {
    if (bits != 0) return why.fail(H5L_CORRUPT, "step must be 0 in a stored or lossless frame");
  } else if (header.bound_kind == H5L_BOUND_POINTWISE_RELATIVE) {
    const std::uint64_t largest = (std::uint64_t{1} << (is_f32 ? 23 : 52)) + 1;
    if (bits % 2 == 0 || bits < 3 || bits > largest) {
      return why.fail(H5L_CORRUPT, "step of a pointwise-relative frame must be odd, from 3 to %llu",
                      static_cast<unsigned long long>(largest));
    }
  } else {
    const double step = header.step;
    const double smallest = is_f32 ? 0x1p-125 : 0x1p-1021, largest = is_f32 ? 0x1p125 : 0x1p1021;
    if (!(step >= smallest && step <= largest) || (is_f32 && !is_float(step))) {
      return why.fail(H5L_CORRUPT, "step must be a %s from %g to %g, got %.17g", is_f32 ? "float32" : "float64",
                      smallest, largest, step);
    }
  }
  return H5L_OK;
}

h5l_status check_dims(const FrameHeader& header, const Message& why) {
  if (header.header_bytes < kHeaderBytesWithDims) {
    return why.fail(H5L_CORRUPT, "header of %zu bytes has no room for dims", header.header_bytes);
  }
  std::uint64_t product = 1;
  for (const std::uint32_t extent : header.dims) {
    product *= extent;                      // each factor is below 2^32, and so is the product before it:
    if (product > header.raw_bytes) break;  // nothing overflows
  }
  if (product == header.raw_bytes / header.value_bytes) return H5L_OK;
  return why.fail(H5L_CORRUPT, "dims %u x %u x %u do not hold %u values", header.dims[0], header.dims[1],
                  header.dims[2], header.raw_bytes / header.value_bytes);
}

// What a header says, once its checksum has shown that it says what was written.
h5l_status check_fields(const FrameHeader& header, const Message& why) {
  if (header.bound_kind > H5L_BOUND_LOSSLESS) {
    return why.fail(H5L_CORRUPT, "bound kind %u is not one of 0 to 3", header.bound_kind);
  }
  if (!std::isfinite(header.bound) || std::signbit(header.bound)) {
    return why.fail(H5L_CORRUPT, "bound %g is negative or not finite", header.bound);
  }
  return check_step(header, why);
}

}  // namespace

std::span<const std::uint8_t> Frame::tile_payload(std::uint32_t i) const {
  const std::size_t begin = i == 0 ? 0 : read_u32(tile_table.data() + kTileEntryBytes * (i - 1));
  const std::size_t end = read_u32(tile_table.data() + kTileEntryBytes * i);
  return payload.subspan(begin, end - begin);
}

h5l_status read_header(const FrameFront& front, FrameHeader& header, const Message& why) {
  const std::uint8_t* const at = front.bytes.data();
  const auto frame_bytes = static_cast<unsigned long long>(front.frame_bytes);
  if (frame_bytes < sizeof kMagic) {
    return why.fail(H5L_TRUNCATED, "a frame has at least %zu bytes, got %llu", kHeaderBytes, frame_bytes);
  }
  if (std::memcmp(at, kMagic, sizeof kMagic) != 0) {
    return why.fail(H5L_CORRUPT, "not an h5lossy frame: it begins with %02x %02x %02x %02x, not with \"H5LY\"", at[0],
                    at[1], at[2], at[3]);
  }
  if (frame_bytes < kHeaderBytes) {
    return why.fail(H5L_TRUNCATED, "a frame has at least %zu bytes, got %llu", kHeaderBytes, frame_bytes);
  }
  if (at[kVersionAt] != kFormatVersion) {
    return why.fail(H5L_UNSUPPORTED, "format version %u: this h5lossy reads version %u; a newer one may read it",
                    at[kVersionAt], kFormatVersion);
  }
  header.header_bytes = std::size_t{4} * at[kHeaderWordsAt];
  if (header.header_bytes < kHeaderBytes) {
    return why.fail(H5L_CORRUPT, "header of %zu bytes; at least %zu are needed", header.header_bytes, kHeaderBytes);
  }
  if (header.header_bytes > frame_bytes) {
    return why.fail(H5L_TRUNCATED, "header of %zu bytes in a frame of %llu", header.header_bytes, frame_bytes);
  }
  const std::uint16_t flags = read_u16(at + kFlagsAt);
  if ((flags & kMustUnderstandFlags) != 0) {
    return why.fail(H5L_UNSUPPORTED, "flags 0x%04x need a newer h5lossy", flags);
  }
  header.codec = at[kCodecAt];
  header.value_bytes = at[kTypeAt] & ~kBigEndianBit & 0xFF;
  header.big_endian = (at[kTypeAt] & kBigEndianBit) != 0;
  header.bound_kind = at[kBoundKindAt];
  header.mode = at[kModeAt];
  header.has_checksum = (flags & kChecksumFlag) != 0;
  header.raw_bytes = read_u32(at + kRawBytesAt);
  header.bound = std::bit_cast<double>(read_u64(at + kBoundAt));

  header.step = 0;
  header.scale = 0;
  if (header.bound_kind == H5L_BOUND_POINTWISE_RELATIVE) {
    header.scale = read_u64(at + kStepAt);
  } else {
    header.step = std::bit_cast<double>(read_u64(at + kStepAt));
  }
  if (header.header_bytes >= kHeaderBytesWithDims) {
    for (std::size_t i = 0; i < 3; ++i) header.dims[i] = read_u32(at + kDimsAt + 4 * i);
  }
  return H5L_OK;
}

h5l_status check_size(const FrameHeader& header, const Message& why) {
  const bool is_stored = header.codec == H5L_CODEC_STORED;
  const bool known_type = header.value_bytes == 4 || header.value_bytes == 8;
  if (!known_type && !(is_stored && header.value_bytes == 1 && !header.big_endian)) {
    return why.fail(H5L_CORRUPT, "values of %u bytes%s are not among those allowed: 4, 8%s", header.value_bytes,
                    header.big_endian ? ", big-endian," : "", is_stored ? ", 1" : "");
  }
  if (header.raw_bytes % header.value_bytes != 0) {
    return why.fail(H5L_CORRUPT, "%u raw bytes are no multiple of a value's %u", header.raw_bytes, header.value_bytes);
  }
  return header.has_dims ? check_dims(header, why) : H5L_OK;
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
  const std::uint32_t stated = read_u32(summed.data() + kHeaderSumAt);
  if (const std::uint32_t sum = header_sum(summed); sum != stated) {
    return why.fail(H5L_CORRUPT, "header checksum is %08x, the frame says %08x: the file is damaged", sum, stated);
  }
  if (const h5l_status status = check_fields(header, why); status != H5L_OK) return status;
  if (!header.has_checksum && read_u32(summed.data() + kPayloadSumAt) != 0) {
    return why.fail(H5L_CORRUPT, "a payload checksum stands in a frame that says it has none");
  }
  std::uint32_t end = 0;
  for (std::uint32_t i = 0; i < tiles; ++i) {
    const std::uint32_t next = read_u32(summed.data() + header.header_bytes + kTileEntryBytes * i);
    if (next < end)
      return why.fail(H5L_CORRUPT, "tile %u ends at %u, before the one in front of it, at %u", i, next, end);
    end = next;
  }
  const std::uint32_t payload_bytes = header.codec == H5L_CODEC_STORED ? header.raw_bytes : end;
  const auto there = static_cast<unsigned long long>(front.frame_bytes - summed.size());
  if (payload_bytes > there) {
    return why.fail(H5L_TRUNCATED, "payload of %u bytes, of which %llu are there", payload_bytes, there);
  }
  if (payload_bytes < there) {
    return why.fail(H5L_CORRUPT, "payload of %u bytes, but %llu follow the header", payload_bytes, there);
  }
  return H5L_OK;
}

Frame make_frame(std::span<const std::uint8_t> bytes, const FrameHeader& header, std::uint32_t tiles) {
  Frame frame;
  frame.header = header;
  frame.payload_sum = read_u32(bytes.data() + kPayloadSumAt);
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
  std::uint8_t* const at = bytes.data();
  std::memcpy(at, kMagic, sizeof kMagic);
  at[kVersionAt] = kFormatVersion;
  at[kHeaderWordsAt] = static_cast<std::uint8_t>(header.header_bytes / 4);
  at[kCodecAt] = header.codec;
  at[kTypeAt] = static_cast<std::uint8_t>(header.value_bytes | (header.big_endian ? kBigEndianBit : 0));
  at[kBoundKindAt] = header.bound_kind;
  at[kModeAt] = header.mode;
  write_u16(at + kFlagsAt, header.has_checksum ? kChecksumFlag : 0);
  write_u32(at + kRawBytesAt, header.raw_bytes);
  write_u32(at + kPayloadSumAt, payload_sum);
  write_u64(at + kBoundAt, std::bit_cast<std::uint64_t>(header.bound));
  write_u64(at + kStepAt, step_bits(header));
  if (header.has_dims) {
    for (std::size_t i = 0; i < 3; ++i) write_u32(at + kDimsAt + 4 * i, header.dims[i]);
  }
  write_u32(at + kHeaderSumAt, header_sum(bytes.first(header.header_bytes + kTileEntryBytes * tiles)));
}

}  // namespace h5lossy
