// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The C API for single frames, and for properties of the library.

#include <algorithm>
#include <bit>
#include <span>

#include "api/guards.h"
#include "chunk/decode.h"
#include "chunk/decode_parts.h"
#include "chunk/open_frame.h"
#include "chunk/params.h"
#include "filter/cd_values.h"
#include "frame/frame.h"
#include "frame/message.h"
#include "h5lossy.h"
#include "runtime/entry.h"
#include "runtime/registry.h"
#include "runtime/threads.h"

namespace h5lossy {
namespace {

void describe(const FrameHeader& header, std::uint32_t tiles, std::size_t frame_bytes, h5l_frame_info& info) {
  info.version = kFormatVersion;
  info.codec = header.codec;
  info.bound_kind = header.bound_kind;
  info.value_bytes = header.value_bytes;
  info.value_class = header.value_class;
  info.big_endian = header.big_endian ? 1 : 0;
  info.mode = header.mode;
  info.has_checksum = header.has_checksum ? 1 : 0;
  info.header_bytes = header.header_bytes;
  info.raw_bytes = header.raw_bytes;
  info.frame_bytes = frame_bytes;
  info.tiles = tiles;
  info.bound = header.bound;
  // A bin is S ulps wide, so its largest relative width is S / 2^m for an m-bit mantissa.
  const bool pointwise = header.bound_kind == H5L_BOUND_POINTWISE_RELATIVE;
  const bool has_integers = !has_floats(header.value_class);
  const bool has_bins = is_half(header.value_class) && header.bound_kind != H5L_BOUND_LOSSLESS;
  const bool is_noise = header.bound_kind == H5L_BOUND_NOISE && header.codec != H5L_CODEC_STORED;
  info.step = has_bins       ? 2 * std::bit_cast<double>(header.step_bits)
              : is_noise     ? 2 * static_cast<double>(header.step_bits) + 1
              : has_integers ? static_cast<double>(header.step_bits)
              : pointwise    ? static_cast<double>(header.step_bits) / (header.value_bytes == 4 ? 0x1p23 : 0x1p52)
                             : std::bit_cast<double>(header.step_bits);
  info.rank = header.dim_count;
  std::copy_n(header.dims, header.dim_count, info.dims);
}

}  // namespace
}  // namespace h5lossy

using namespace h5lossy;

extern "C" {

const char* h5l_version(void) { return H5L_VERSION; }

const char* h5l_build(void) { return H5L_BUILD; }

const char* h5l_status_name(h5l_status status) {
  switch (status) {
    case H5L_OK:
      return "ok";
    case H5L_INVALID_ARGUMENT:
      return "invalid argument";
    case H5L_UNSUPPORTED:
      return "unsupported";
    case H5L_OUTPUT_TOO_SMALL:
      return "output too small";
    case H5L_TRUNCATED:
      return "truncated";
    case H5L_CORRUPT:
      return "corrupt";
    case H5L_OUT_OF_MEMORY:
      return "out of memory";
    case H5L_DEVICE_ERROR:
      return "device error";
    case H5L_INTERNAL:
      return "internal";
  }
  return "unknown";
}

const char* h5l_codec_name(uint32_t codec) { return codec_name(codec); }

const char* h5l_backend_name(void) {
  const Backend* backend = nullptr;
  const h5l_status status = guarded(nullptr, [&](const Message& why) { return choose_backend(backend, why); });
  return status == H5L_OK && backend != nullptr ? backend->name : nullptr;
}

const char* h5l_backend_at(uint32_t i, int* usable) {
  if (i >= backends().size()) return nullptr;
  if (usable != nullptr) *usable = backends()[i].runs_here() ? 1 : 0;
  return backends()[i].name;
}

h5l_status h5l_self_test(h5l_message* message) {
  return guarded(message, [](const Message& why) {
    const Backend* backend = nullptr;
    return choose_backend(backend, why);
  });
}

size_t h5l_max_encoded_size(size_t raw_bytes) { return raw_bytes > kMaxRawBytes ? 0 : raw_bytes + kHeaderBytes; }

h5l_status h5l_encode(const h5l_params* params, const void* raw, size_t raw_bytes, void* frame, size_t capacity,
                      size_t* frame_bytes, h5l_message* message) {
  return encode_checked(params, raw, raw_bytes, frame, capacity, frame_bytes, 1, message);
}

h5l_status h5l_inspect(const void* frame, size_t frame_bytes, h5l_frame_info* info, h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    if (info == nullptr) return why.fail(H5L_INVALID_ARGUMENT, "info must not be null");
    *info = {};
    Frame opened;
    if (const h5l_status status = open_checked(frame, frame_bytes, opened, why); status != H5L_OK) return status;
    describe(opened.header, opened.tiles, frame_bytes, *info);
    info->stored_tiles = count_stored_tiles(opened);
    return H5L_OK;
  });
}

h5l_status h5l_inspect_header(const void* header, size_t header_bytes, size_t frame_bytes, h5l_frame_info* info,
                              h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    if (info == nullptr) return why.fail(H5L_INVALID_ARGUMENT, "info must not be null");
    *info = {};
    if (const h5l_status status = check_pointer(header, header_bytes, "header", why); status != H5L_OK) return status;
    FrameHeader read;
    std::uint32_t tiles = 0;
    const std::size_t least = std::min(frame_bytes, kLeastFrontBytes);
    if (header_bytes < least) {
      return why.fail(H5L_INVALID_ARGUMENT, "the first %zu bytes of this frame of %zu are needed, got %zu", least,
                      frame_bytes, header_bytes);
    }
    const FrameFront front = {bytes_of(header, std::min(header_bytes, frame_bytes)), frame_bytes};
    if (const h5l_status status = open_front(front, read, tiles, why); status != H5L_OK) return status;
    describe(read, tiles, frame_bytes, *info);
    return H5L_OK;
  });
}

h5l_status h5l_decode(const void* frame, size_t frame_bytes, void* raw, size_t raw_bytes, h5l_message* message) {
  return decode_checked(frame, frame_bytes, raw, raw_bytes, 1, message);
}

h5l_status h5l_decode_range(const void* frame, size_t frame_bytes, uint64_t first, uint64_t count, void* raw,
                            size_t raw_bytes, h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    if (const h5l_status status = check_pointer(raw, raw_bytes, "raw", why); status != H5L_OK) return status;
    Frame opened;
    if (const h5l_status status = open_checked(frame, frame_bytes, opened, why); status != H5L_OK) return status;
    const std::uint64_t values = opened.header.raw_bytes / opened.header.value_bytes;
    if (first > values || count > values - first) {
      return why.fail(H5L_INVALID_ARGUMENT,
                      "values from %llu on, %llu of them, were requested, but the frame holds %llu",
                      static_cast<unsigned long long>(first), static_cast<unsigned long long>(count),
                      static_cast<unsigned long long>(values));
    }
    if (raw_bytes != count * opened.header.value_bytes) {
      return why.fail(H5L_INVALID_ARGUMENT, "%llu values need %llu bytes, but raw has %zu",
                      static_cast<unsigned long long>(count),
                      static_cast<unsigned long long>(count) * opened.header.value_bytes, raw_bytes);
    }
    if (count == 0) return H5L_OK;
    return decode_values(opened, Part(values, first, count, opened.header.value_bytes), static_cast<std::uint8_t*>(raw),
                         why);
  });
}

h5l_status h5l_pack_cd_values(const h5l_params* params, uint32_t words[16], size_t* count, h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    if (params == nullptr || words == nullptr || count == nullptr) {
      return why.fail(H5L_INVALID_ARGUMENT, "params, words and count must not be null");
    }
    if (const h5l_status status = check_params(*params, why); status != H5L_OK) return status;
    *count = pack_cd_values(*params, std::span<std::uint32_t, H5L_MAX_CD_VALUES>(words, H5L_MAX_CD_VALUES));
    return H5L_OK;
  });
}

h5l_status h5l_unpack_cd_values(const uint32_t* words, size_t count, h5l_params* params, h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    if (params == nullptr) return why.fail(H5L_INVALID_ARGUMENT, "params must not be null");
    if (const h5l_status status = check_pointer(words, count, "words", why); status != H5L_OK) return status;
    return unpack_cd_values({words, count}, *params, why);
  });
}

h5l_status h5l_value_range(const h5l_params* params, const void* raw, size_t raw_bytes, uint32_t threads,
                           h5l_range* range, h5l_message* message) {
  return guarded(message, [&](const Message& why) {
    if (params == nullptr || range == nullptr) {
      return why.fail(H5L_INVALID_ARGUMENT, "params and range must not be null");
    }
    *range = {};
    if (const h5l_status status = check_pointer(raw, raw_bytes, "raw", why); status != H5L_OK) return status;
    const bool are_floats = has_floats(params->value_class) && (params->value_bytes == 4 || params->value_bytes == 8);
    if (!are_floats && !(is_half(params->value_class) && params->value_bytes == 2)) {
      return why.fail(H5L_INVALID_ARGUMENT,
                      "values must be halves, or have 4 bytes (float32) or 8 (float64), got %u (class %u)",
                      params->value_bytes, params->value_class);
    }
    if (raw_bytes % params->value_bytes != 0) {
      return why.fail(H5L_INVALID_ARGUMENT, "%zu bytes are not a multiple of the value size, %u", raw_bytes,
                      params->value_bytes);
    }
    std::uint32_t chosen = 1;
    if (const h5l_status status = choose_threads(threads, chosen, why); status != H5L_OK) return status;
    *range = value_range(*params, bytes_of(raw, raw_bytes), chosen);
    return H5L_OK;
  });
}

double h5l_absolute_bound(double range_relative, double min, double max) {
  double bound = 0;
  guarded(nullptr, [&](const Message&) {
    bound = absolute_bound(range_relative, min, max);
    return H5L_OK;
  });
  return bound;
}

}  // extern "C"
