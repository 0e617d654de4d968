// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A frame's header (docs/format/frame.md): its layout, the values allowed, and its checksum. Shared by host code and
// kernels, so that the layout is defined once.
#pragma once

#include "codecs/checksum.h"
#include "h5lossy.h"

namespace h5lossy {

// A noise bound's C is 256 times the bound, rounded down; C and its floor.
inline constexpr u32 kLeastNoise = 16, kLargestNoise = 65536, kLargestNoiseFloor = 32768;

inline constexpr u32 kFrameMagic = 0x594C3548;  // "H5LY"
inline constexpr u32 kFormatVersion = 1;
inline constexpr u32 kHeaderBytes = 40;  // without dims
inline constexpr u32 kMaxDims = 4;
inline constexpr u32 kTileEntryBytes = 4;

inline constexpr u32 kChecksumFlag = 1;
inline constexpr u32 kMustUnderstandFlags = 0xFF00;
inline constexpr u32 kBigEndianBit = 0x80;
inline constexpr u32 kTypeBytesMask = 0x0F;    // of the type's code; the class is above
inline constexpr u32 kLargestTypeCode = 0x7F;  // below the bit of the byte order
constexpr u32 type_code(u32 value_class, u32 value_bytes) { return value_class << 4 | value_bytes; }

constexpr u32 header_bytes_of(u32 dim_count) { return kHeaderBytes + 4 * dim_count; }

// Whether a frame is so large that a codec for size has its chunk encoded by the other codecs, too; not if the chunk is
// tiny, as headers then matter most.
constexpr bool saves_little(u64 frame_bytes, u64 raw_bytes) {
  return raw_bytes >= 1024 && 4 * frame_bytes > 3 * raw_bytes;
}

constexpr bool is_half(u32 value_class) { return value_class == H5L_CLASS_HALF || value_class == H5L_CLASS_BFLOAT; }

// Whether such a type exists among those whose values become integer words (docs/format/integers.md): integers and
// halves.
constexpr bool is_integer_type(u32 value_class, u32 value_bytes) {
  if (is_half(value_class)) return value_bytes == 2;
  return (value_class == H5L_CLASS_UNSIGNED || value_class == H5L_CLASS_SIGNED) &&
         (value_bytes == 1 || value_bytes == 2 || value_bytes == 4 || value_bytes == 8);
}

// Frames of integers have a longer header (docs/format/integers.md).
inline constexpr u32 kIntegerHeaderBytes = 80;

// The fields, without the checksums.
struct FrameHeader {
  u8 codec = H5L_CODEC_STORED;
  u8 value_bytes = 1;
  u8 value_class = H5L_CLASS_FLOAT;
  bool big_endian = false;
  u8 bound_kind = H5L_BOUND_LOSSLESS;
  u8 mode = 0;
  bool has_checksum = true;
  u32 raw_bytes = 0;
  double bound = 0;
  u64 step_bits = 0;  // a float64; an integer if the bound is pointwise-relative, or the values are integers
  u32 dim_count = 0;  // 0, 3 (z, y, x) or 4 (w, z, y, x)
  u32 dims[kMaxDims] = {};
  u32 header_bytes = kHeaderBytes;  // later versions may add fields after the dims
  // Integers only.
  u32 noise = 0;
  u32 exact_count = 0;
  u64 exact_bits = 0;
  u64 stride_bits = 0;

  // A 64-bit type has room for a stride without a base, and for one exact value.
  [[nodiscard]] H5L_FN u64 base() const { return value_bytes == 8 ? 0 : stride_bits & 0xFFFFFFFFu; }
  [[nodiscard]] H5L_FN u64 stride() const { return value_bytes == 8 ? stride_bits : stride_bits >> 32; }
  [[nodiscard]] H5L_FN u64 first_exact() const { return value_bytes == 8 ? exact_bits : exact_bits & 0xFFFFFFFFu; }
  [[nodiscard]] H5L_FN u64 second_exact() const { return value_bytes == 8 ? 0 : exact_bits >> 32; }
  H5L_FN void set_stride(u64 base, u64 stride) { stride_bits = value_bytes == 8 ? stride : base | stride << 32; }
  H5L_FN void set_exact(u64 first, u64 second) { exact_bits = value_bytes == 8 ? first : first | second << 32; }

  // False for bytes of an unknown type.
  [[nodiscard]] H5L_FN bool is_typed() const { return value_bytes != 1 || value_class != H5L_CLASS_FLOAT; }
};

// The header as little-endian words, with the checksums.
inline constexpr u32 kHeaderSumWord = 4, kPayloadSumWord = 5, kFirstDimWord = kHeaderBytes / 4;
inline constexpr u32 kNoiseWord = kFirstDimWord + kMaxDims;  // first field of integer frames
struct HeaderWords {
  u32 at[kIntegerHeaderBytes / 4];
};

namespace H5L_TARGET {

// Leaves the header's own checksum 0.
H5L_FN HeaderWords pack_header(const FrameHeader& header, u32 payload_sum) {
  const u64 bound = bit_cast<u64>(header.bound);
  const u32 type = type_code(header.value_class, header.value_bytes) | (header.big_endian ? kBigEndianBit : 0);
  const u32 flags = header.has_checksum ? kChecksumFlag : 0;
  HeaderWords words = {};
  words.at[0] = kFrameMagic;
  words.at[1] = kFormatVersion | header.header_bytes / 4 << 8 | u32{header.codec} << 16 | type << 24;
  words.at[2] = header.bound_kind | u32{header.mode} << 8 | flags << 16;
  words.at[3] = header.raw_bytes;
  words.at[kPayloadSumWord] = header.has_checksum ? payload_sum : 0;
  words.at[6] = static_cast<u32>(bound);
  words.at[7] = static_cast<u32>(bound >> 32);
  words.at[8] = static_cast<u32>(header.step_bits);
  words.at[9] = static_cast<u32>(header.step_bits >> 32);
  for (u32 i = 0; i < kMaxDims; ++i) words.at[kFirstDimWord + i] = i < header.dim_count ? header.dims[i] : 0;
  u32* const fields = words.at + kNoiseWord;
  fields[0] = header.noise;
  fields[1] = header.exact_count;
  fields[2] = static_cast<u32>(header.exact_bits);
  fields[3] = static_cast<u32>(header.exact_bits >> 32);
  fields[4] = static_cast<u32>(header.stride_bits);
  fields[5] = static_cast<u32>(header.stride_bits >> 32);
  return words;
}

H5L_FN u32 version_of(const HeaderWords& words) { return words.at[1] & 0xFF; }
H5L_FN u32 flags_of(const HeaderWords& words) { return words.at[2] >> 16; }

// All fields except the dims, whose number depends on the codec's mode, and the fields of integers.
H5L_FN FrameHeader unpack_header(const HeaderWords& words) {
  FrameHeader header;
  header.header_bytes = 4 * (words.at[1] >> 8 & 0xFF);
  header.codec = static_cast<u8>(words.at[1] >> 16);
  header.value_bytes = static_cast<u8>(words.at[1] >> 24 & kTypeBytesMask);
  header.value_class = static_cast<u8>((words.at[1] >> 24 & kLargestTypeCode) >> 4);
  header.big_endian = (words.at[1] >> 24 & kBigEndianBit) != 0;
  header.bound_kind = static_cast<u8>(words.at[2]);
  header.mode = static_cast<u8>(words.at[2] >> 8);
  header.has_checksum = (flags_of(words) & kChecksumFlag) != 0;
  header.raw_bytes = words.at[3];
  header.bound = bit_cast<double>(words.at[6] | u64{words.at[7]} << 32);
  header.step_bits = words.at[8] | u64{words.at[9]} << 32;
  return header;
}

H5L_FN void unpack_dims(const HeaderWords& words, u32 dim_count, FrameHeader& header) {
  header.dim_count = dim_count;
  for (u32 i = 0; i < kMaxDims; ++i) header.dims[i] = i < dim_count ? words.at[kFirstDimWord + i] : 0;
}

// The fields of integer frames that are not stored.
H5L_FN void unpack_integer_fields(const HeaderWords& words, FrameHeader& header) {
  const u32* const fields = words.at + kNoiseWord;
  header.noise = fields[0];
  header.exact_count = fields[1];
  header.exact_bits = fields[2] | u64{fields[3]} << 32;
  header.stride_bits = fields[4] | u64{fields[5]} << 32;
}

H5L_FN bool has_valid_bound(const FrameHeader& header) {  // finite, sign bit 0
  return bit_cast<u64>(header.bound) < u64{0x7FF} << 52;
}

H5L_FN double smallest_step(const FrameHeader& header) { return header.value_bytes == 4 ? 0x1p-125 : 0x1p-1021; }
H5L_FN double largest_step(const FrameHeader& header) { return header.value_bytes == 4 ? 0x1p125 : 0x1p1021; }
H5L_FN u64 largest_scale(const FrameHeader& header) { return (u64{1} << (header.value_bytes == 4 ? 23 : 52)) + 1; }

H5L_FN u64 largest_bits(const FrameHeader& header) { return ~u64{0} >> (64 - 8 * header.value_bytes); }

// Whether an encoder could have written these exact values; a 64-bit frame has room for one.
H5L_FN bool has_valid_exact_values(const FrameHeader& header) {
  const u64 infinity = header.value_class == H5L_CLASS_HALF ? 0x7C00 : 0x7F80;
  const u64 first = header.first_exact(), second = header.second_exact();
  const auto is_value = [&](u64 value) {
    return value <= largest_bits(header) && (!is_half(header.value_class) || (value & 0x7FFF) < infinity);
  };
  if (header.exact_count == 0) return header.exact_bits == 0;
  if (header.exact_count == 1) return is_value(header.exact_bits);
  return header.exact_count == 2 && header.value_bytes != 8 && first < second && is_value(first) && is_value(second);
}

// Whether an encoder could have written this step.
H5L_FN bool has_valid_step(const FrameHeader& header) {
  const u64 bits = header.step_bits;
  if (header.codec == H5L_CODEC_STORED || header.bound_kind == H5L_BOUND_LOSSLESS) return bits == 0;
  if (header.bound_kind == H5L_BOUND_POINTWISE_RELATIVE) {
    return bits % 2 == 1 && bits >= 3 && bits <= largest_scale(header);
  }
  const double step = bit_cast<double>(bits);
  return step >= smallest_step(header) && step <= largest_step(header) &&
         (header.value_bytes != 4 || static_cast<double>(static_cast<float>(step)) == step);
}

// The header's checksum covers header and tile table, except its own word. This is the share of word i of both.
H5L_FN u32 header_sum_share(u32 word, u32 i) {
  if (i == kHeaderSumWord) return 0;
  return checksum_share(word, 0, i < kHeaderSumWord ? i : i - 1);
}

// The share of a tile's entry in the table.
H5L_FN u32 table_sum_share(u32 entry, u32 header_bytes, u32 tile) {
  return checksum_share(entry, 0, header_bytes / 4 + tile - 1);
}

H5L_FN u32 header_sum(const u8* header_and_table, u32 bytes) {
  constexpr u32 behind = 4 * (kHeaderSumWord + 1);
  return checksum(header_and_table, 4 * kHeaderSumWord, 0, 0) +
         checksum(header_and_table + behind, bytes - behind, 0, kHeaderSumWord);
}

}  // namespace H5L_TARGET
}  // namespace h5lossy
