// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "filter/cd_values.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "chunk/integers.h"
#include "chunk/params.h"
#include "chunk/safeguards.h"
#include "frame/frame.h"

namespace h5lossy {
namespace {

constexpr std::size_t kCodecAt = 0, kBoundKindAt = 1, kBoundAt = 2, kFlagsAt = 4, kLocalAt = 5, kShapeAt = 6,
                      kFillAt = 14, kLocalEnd = 16;
constexpr std::size_t kRequestedExactAt = 6;  // without the local part

constexpr std::uint32_t kModeMask = 0xFF;
constexpr std::uint32_t kHasFill = 1u << 8;
constexpr std::uint32_t kNoChecksum = 1u << 9;
constexpr std::uint32_t kExactCountShift = 10, kExactCountMask = 3u << kExactCountShift;
constexpr std::uint32_t kWide = 1u << 12;
constexpr std::uint32_t kHasSafeguards = 1u << 13;
constexpr std::uint32_t kNoiseFloorShift = 16;  // the upper half of the flags' word

constexpr std::uint32_t kLayoutVersion = 1;
constexpr std::uint32_t kBigEndian = 1u << 16;
constexpr std::uint32_t kUnusedLocalBits = 0x00FE0000u;

std::uint64_t read_pair(std::span<const std::uint32_t, H5L_MAX_CD_VALUES> words, std::size_t at) {
  return words[at] | std::uint64_t{words[at + 1]} << 32;
}

void write_pair(std::span<std::uint32_t, H5L_MAX_CD_VALUES> words, std::size_t at, std::uint64_t number) {
  words[at] = static_cast<std::uint32_t>(number);
  words[at + 1] = static_cast<std::uint32_t>(number >> 32);
}

constexpr std::uint32_t kThresholdsMask = 0xFF, kHasValidRange = 1u << 8;
static_assert(kLocalEnd + 1 + 2 * (H5L_MAX_THRESHOLDS + 2) == H5L_MAX_CD_VALUES);

// Safeguards follow all other words. Returns their end.
std::size_t pack_safeguards(const h5l_params& params, std::size_t at,
                            std::span<std::uint32_t, H5L_MAX_CD_VALUES> words) {
  if (!has_safeguards(params)) return at;
  words[kFlagsAt] |= kHasSafeguards;
  words[at++] = params.threshold_count | (params.has_valid_range != 0 ? kHasValidRange : 0);
  const auto add = [&](double number) {
    write_pair(words, at, std::bit_cast<std::uint64_t>(number));
    at += 2;
  };
  std::for_each_n(params.thresholds, params.threshold_count, add);
  if (params.has_valid_range != 0) {
    add(params.valid_min);
    add(params.valid_max);
  }
  return at;
}

h5l_status unpack_safeguards(std::span<const std::uint32_t, H5L_MAX_CD_VALUES> words, std::size_t at,
                             h5l_params& params, const Message& why) {
  if ((words[kFlagsAt] & kHasSafeguards) == 0) return H5L_OK;
  const std::uint32_t listed = words[at], count = listed & kThresholdsMask;
  if ((listed & ~(kThresholdsMask | kHasValidRange)) != 0 || count > H5L_MAX_THRESHOLDS) {
    return why.fail(H5L_UNSUPPORTED, "cd_values word %zu is 0x%x: safeguards that need a newer h5lossy", at, listed);
  }
  if (listed == 0) return why.fail(H5L_INVALID_ARGUMENT, "cd_values word %zu is 0: no safeguard, beside bit 13", at);
  ++at;
  const auto next = [&] {
    at += 2;
    return std::bit_cast<double>(read_pair(words, at - 2));
  };
  params.threshold_count = count;
  params.has_valid_range = (listed & kHasValidRange) != 0 ? 1 : 0;
  std::generate_n(params.thresholds, count, next);
  if (params.has_valid_range != 0) {
    params.valid_min = next();
    params.valid_max = next();
  }
  return check_safeguards(params, why);
}

// The fill value is the first of two words, and exact values are the last of them, so one word may be both. Types of 8
// bytes have room for only one of them.
void pack_exact_values(const h5l_params& params, bool has_fill, std::span<std::uint32_t, H5L_MAX_CD_VALUES> words) {
  std::uint64_t bits[H5L_MAX_EXACT] = {};
  for (std::uint32_t i = 0; i < params.exact_count; ++i) static_cast<void>(find_bits(params, params.exact[i], bits[i]));
  if (params.value_bytes == 8) return write_pair(words, kFillAt, bits[0]);
  const bool is_swapped = params.exact_count == 1 || (has_fill && bits[1] == params.fill_bits);
  if (is_swapped) std::swap(bits[0], bits[1]);
  if (params.exact_count == 1 && has_fill) bits[0] = params.fill_bits;
  words[kFillAt] = static_cast<std::uint32_t>(bits[0]);
  words[kFillAt + 1] = static_cast<std::uint32_t>(bits[1]);
}

h5l_status unpack_exact_values(std::span<const std::uint32_t, H5L_MAX_CD_VALUES> words, h5l_params& params,
                               const Message& why) {
  if (params.exact_count == 0) return H5L_OK;
  for (std::uint32_t i = 0; i < params.exact_count; ++i) {
    const std::size_t at = kFillAt + H5L_MAX_EXACT - params.exact_count + i;
    const std::uint64_t bits = params.value_bytes == 8 ? read_pair(words, kFillAt) : words[at];
    if (bits > ~std::uint64_t{0} >> (64 - 8 * params.value_bytes) || !find_number(params, bits, params.exact[i])) {
      return why.fail(H5L_INVALID_ARGUMENT, "cd_values word %zu is 0x%llx, which is no exact value of the type", at,
                      static_cast<unsigned long long>(bits));
    }
  }
  return check_exact_values(params, why);
}

h5l_status unpack_local(std::span<const std::uint32_t, H5L_MAX_CD_VALUES> words, h5l_params& params,
                        const Message& why) {
  const std::uint32_t local = words[kLocalAt];
  if ((local & 0xFF) != kLayoutVersion || (local & kUnusedLocalBits) != 0) {
    return why.fail(H5L_UNSUPPORTED, "cd_values word 5 is 0x%08x, of a newer layout than %u", local, kLayoutVersion);
  }
  params.value_bytes = local >> 8 & kTypeBytesMask;
  params.value_class = local >> 12 & 0xF;
  params.big_endian = (local & kBigEndian) != 0 ? 1 : 0;
  params.rank = local >> 24;
  if (params.value_class > H5L_CLASS_COMPLEX) {
    return why.fail(H5L_UNSUPPORTED, "cd_values word 5 gives type 0x%02x, which needs a newer h5lossy",
                    type_code(params.value_class, params.value_bytes));
  }
  if (params.value_bytes == 0) {
    return why.fail(H5L_INVALID_ARGUMENT,
                    "cd_values word 5 gives values of 0 bytes; 4 or 8 are allowed, and of "
                    "integers 1, 2, 4 or 8");
  }
  if (const h5l_status status = check_type(params, why); status != H5L_OK) return status;
  if (params.rank > H5L_MAX_RANK) {
    return why.fail(H5L_INVALID_ARGUMENT, "cd_values word 5 gives rank %u; at most %d is allowed", params.rank,
                    H5L_MAX_RANK);
  }
  std::copy_n(words.begin() + kShapeAt, params.rank, params.shape);
  if (chunk_bytes(params) > kMaxRawBytes) {
    return why.fail(H5L_INVALID_ARGUMENT, "cd_values describe a chunk of more than %zu bytes", kMaxRawBytes);
  }
  const bool is_narrow = params.exact_count != 0 && params.value_bytes < 8;
  params.fill_bits = params.has_fill == 0 ? 0 : is_narrow ? words[kFillAt] : read_pair(words, kFillAt);
  if (params.value_bytes < 8 && params.fill_bits >> (8 * params.value_bytes) != 0) {
    return why.fail(H5L_INVALID_ARGUMENT, "cd_values hold a fill value of more than the %u bits of the type",
                    8 * params.value_bytes);
  }
  return unpack_exact_values(words, params, why);
}

}  // namespace

std::size_t pack_cd_values(const h5l_params& params, std::span<std::uint32_t, H5L_MAX_CD_VALUES> words) {
  std::fill(words.begin(), words.end(), 0);
  const bool has_fill = params.has_fill != 0 && fill_must_match_exactly(params);
  words[kCodecAt] = params.codec;
  words[kBoundKindAt] = params.bound_kind;
  write_pair(words, kBoundAt, std::bit_cast<std::uint64_t>(params.bound));
  words[kFlagsAt] = params.mode | (params.no_checksum != 0 ? kNoChecksum : 0) | (params.wide != 0 ? kWide : 0) |
                    params.exact_count << kExactCountShift | params.noise_floor << kNoiseFloorShift;
  if (params.value_bytes == 0) {
    if (params.exact_count == 0 && !has_safeguards(params)) return kLocalAt;
    for (std::uint32_t i = 0; i < params.exact_count; ++i) {
      write_pair(words, kRequestedExactAt + 2 * i, static_cast<std::uint64_t>(params.exact[i]));
    }
    return pack_safeguards(params, kRequestedExactAt + std::size_t{2} * params.exact_count, words);
  }
  if (has_fill) {
    words[kFlagsAt] |= kHasFill;
    write_pair(words, kFillAt, params.fill_bits);
  }
  if (params.exact_count != 0) pack_exact_values(params, has_fill, words);
  words[kLocalAt] = kLayoutVersion | type_code(params.value_class, params.value_bytes) << 8 |
                    (params.big_endian != 0 ? kBigEndian : 0) | params.rank << 24;
  std::copy_n(params.shape, params.rank, words.begin() + kShapeAt);
  return pack_safeguards(params, kLocalEnd, words);
}

h5l_status unpack_cd_values(std::span<const std::uint32_t> given, h5l_params& params, const Message& why) {
  params = {};
  std::uint32_t buffer[H5L_MAX_CD_VALUES] = {};
  std::copy_n(given.begin(), std::min<std::size_t>(given.size(), H5L_MAX_CD_VALUES), buffer);
  // NCO copies only the first word. Values that were decoded within a bound must not move again, so its copies are
  // lossless.
  if (given.size() == 1) buffer[kBoundKindAt] = H5L_BOUND_LOSSLESS;
  const std::span<const std::uint32_t, H5L_MAX_CD_VALUES> words(buffer);

  const bool is_lossless = words[kBoundKindAt] == H5L_BOUND_LOSSLESS;
  if (given.empty() || (!is_lossless && given.size() < kRequestedWords)) {
    return why.fail(H5L_INVALID_ARGUMENT,
                    "cd_values need at least 4 words (codec, bound kind, bound low and high word), got %zu; \"h5lossy "
                    "cd-values\" prints them",
                    given.size());
  }
  const bool is_noise = words[kBoundKindAt] == H5L_BOUND_NOISE;
  params.noise_floor = is_noise ? words[kFlagsAt] >> kNoiseFloorShift : 0;
  const std::uint32_t flags = words[kFlagsAt] ^ params.noise_floor << kNoiseFloorShift;
  params.exact_count = (flags & kExactCountMask) >> kExactCountShift;
  if ((flags & ~(kModeMask | kHasFill | kNoChecksum | kExactCountMask | kWide | kHasSafeguards)) != 0 ||
      params.exact_count > H5L_MAX_EXACT) {
    return why.fail(H5L_UNSUPPORTED, "cd_values flags 0x%x need a newer h5lossy", flags);
  }
  params.codec = words[kCodecAt];
  params.bound_kind = words[kBoundKindAt];
  params.bound = std::bit_cast<double>(read_pair(words, kBoundAt));
  params.mode = flags & kModeMask;
  params.no_checksum = (flags & kNoChecksum) != 0 ? 1 : 0;
  params.has_fill = (flags & kHasFill) != 0 ? 1 : 0;
  params.wide = (flags & kWide) != 0 ? 1 : 0;
  if (const h5l_status status = check_request(params, why); status != H5L_OK) return status;
  if (words[kLocalAt] != 0) {
    const h5l_status status = unpack_safeguards(words, kLocalEnd, params, why);
    return status == H5L_OK ? unpack_local(words, params, why) : status;
  }
  params.has_fill = 0;
  for (std::size_t i = 0; i < params.exact_count; ++i) {
    params.exact[i] = static_cast<std::int64_t>(read_pair(words, kRequestedExactAt + 2 * i));
  }
  return unpack_safeguards(words, kRequestedExactAt + std::size_t{2} * params.exact_count, params, why);
}

std::uint64_t chunk_bytes(const h5l_params& params) {
  // Clamped to 2^33, more than any chunk can have, so that no product overflows.
  constexpr std::uint64_t too_large = std::uint64_t{1} << 33;
  std::uint64_t bytes = params.value_bytes;
  for (std::uint32_t i = 0; i < params.rank; ++i) {
    if (params.shape[i] == 0) return 0;
    bytes = std::min(bytes * std::min<std::uint64_t>(params.shape[i], 0x7FFFFFFF), too_large);
  }
  return bytes;
}

}  // namespace h5lossy
