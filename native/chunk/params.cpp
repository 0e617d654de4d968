// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "chunk/params.h"

#include <algorithm>
#include <cmath>

#include "chunk/integers.h"
#include "chunk/memory.h"
#include "chunk/safeguards.h"
#include "codecs/bounds.h"
#include "runtime/pool.h"
#include "runtime/registry.h"

namespace h5lossy {
namespace {

// "0 (auto), 1 (its name)" and so on.
const char* const kCodecList = "0 (auto)"
#define H5L_CODEC(number, name) ", " #number " (" #name ")"
#include "runtime/codecs.def"
#undef H5L_CODEC
    ;

const char* const kBoundNames[] = {"absolute", "pointwise-relative", "range-relative", "lossless", "noise"};

// The part of a range that a thread finds at a time: whole values, in its L2 cache.
constexpr std::size_t kRangeBytes = std::size_t{1} << 18;

template <class T>
Quantizer quantizer_of(const h5l_params& params, std::span<const std::uint8_t> raw, std::uint32_t threads) {
  Quantizer quantizer;
  quantizer.kind = static_cast<BoundKind>(params.bound_kind);
  quantizer.has_fill = params.has_fill != 0 && fill_must_match_exactly(params);
  quantizer.fill_bits = params.fill_bits;
  const CodecEntry* const entry = prefers_size(params) ? &size_codec(all_codecs()) : codec_entry(params.codec);
  const StepRule rule = entry == nullptr ? StepRule{} : entry->codec->step_rule;  // null: auto
  switch (quantizer.kind) {
    case BoundKind::absolute:
      return scalar::make_absolute<T>(quantizer, params.bound, rule);
    case BoundKind::range_relative: {
      const h5l_range range = value_range(params, raw, threads);
      return scalar::make_absolute<T>(quantizer, absolute_bound(params.bound, range.min, range.max), rule);
    }
    case BoundKind::pointwise_relative:
      return scalar::make_pointwise<T>(quantizer, params.bound);
    case BoundKind::lossless:
    case BoundKind::noise:  // integers only
      break;
  }
  return quantizer;
}

h5l_status check_codec(const h5l_params& params, const Message& why) {
  if (params.codec == H5L_CODEC_AUTO) {
    if (params.mode == H5L_AUTO_SPEED || params.mode == H5L_AUTO_SIZE) return H5L_OK;
    return why.fail(H5L_UNSUPPORTED, "the mode of codec 0 (auto) must be 0 (for speed) or 1 (for size), got %u",
                    params.mode);
  }
  const CodecEntry* const entry = codec_entry(params.codec);
  if (entry == nullptr) {
    return why.fail(H5L_UNSUPPORTED, "codec %u is not in this version of h5lossy; it has %s", params.codec, kCodecList);
  }
  if (entry->codec->has_mode(params.mode)) return H5L_OK;
  return why.fail(H5L_UNSUPPORTED, "%s has no mode %u; 0 is its default, the others are in docs/format/%s.md",
                  entry->name, params.mode, entry->name);
}

}  // namespace

h5l_status check_request(const h5l_params& params, const Message& why) {
  if (const h5l_status status = check_codec(params, why); status != H5L_OK) return status;
  if (params.bound_kind > H5L_BOUND_NOISE) {
    return why.fail(H5L_INVALID_ARGUMENT,
                    "bound kind must be 0 (absolute), 1 (pointwise-relative), 2 (range-relative), 3 (lossless) or 4 "
                    "(noise), got %u",
                    params.bound_kind);
  }
  if (params.noise_floor > (params.bound_kind == H5L_BOUND_NOISE ? kLargestNoiseFloor : 0)) {
    return why.fail(H5L_INVALID_ARGUMENT,
                    "the floor of a noise bound must be at most %u, and other bounds have none, "
                    "got %u",
                    kLargestNoiseFloor, params.noise_floor);
  }
  if (params.exact_count > (params.bound_kind == H5L_BOUND_LOSSLESS ? 0 : H5L_MAX_EXACT)) {
    return why.fail(H5L_INVALID_ARGUMENT,
                    "a chunk has at most %d exact values, and none with lossless, which keeps all; got %u",
                    H5L_MAX_EXACT, params.exact_count);
  }
  const char* const kind = kBoundNames[params.bound_kind];
  if (params.wide != 0 && params.bound_kind != H5L_BOUND_ABSOLUTE && params.bound_kind != H5L_BOUND_RANGE_RELATIVE) {
    return why.fail(H5L_INVALID_ARGUMENT,
                    "wide bins go with an absolute or a range-relative bound, not with %s; leave out wide", kind);
  }
  if (const h5l_status status = check_safeguards(params, why); status != H5L_OK) return status;
  if (params.bound_kind == H5L_BOUND_LOSSLESS) {
    if (params.bound == 0 && !std::signbit(params.bound)) return H5L_OK;
    return why.fail(H5L_INVALID_ARGUMENT, "lossless takes no bound (0), got %.17g", params.bound);
  }
  if (!(params.bound > 0) || !std::isfinite(params.bound)) {
    return why.fail(H5L_INVALID_ARGUMENT, "%s bound must be greater than 0 and finite, got %.17g", kind, params.bound);
  }
  constexpr double least_noise = kLeastNoise / 256.0, largest_noise = kLargestNoise / 256.0;
  if (params.bound_kind == H5L_BOUND_NOISE && !(params.bound >= least_noise && params.bound <= largest_noise)) {
    return why.fail(H5L_INVALID_ARGUMENT, "noise bound must be from %g to %g, got %.17g", least_noise, largest_noise,
                    params.bound);
  }
  if (params.bound_kind == H5L_BOUND_POINTWISE_RELATIVE && params.bound >= 1) {
    return why.fail(H5L_INVALID_ARGUMENT, "%s bound must be less than 1, got %.17g", kind, params.bound);
  }
  return H5L_OK;
}

h5l_status check_type(const h5l_params& params, const Message& why) {
  const bool is_noise = params.bound_kind == H5L_BOUND_NOISE;
  if (is_noise && params.value_bytes != 0 &&
      (!has_integers(params) || is_half(params.value_class) || params.value_bytes > 4)) {
    return why.fail(H5L_UNSUPPORTED,
                    "noise is a bound of integers of up to 32 bits; give another one, or convert the data");
  }
  if (params.wide != 0 && params.value_bytes != 0 && (!has_integers(params) || is_half(params.value_class))) {
    return why.fail(H5L_UNSUPPORTED, "wide bins are for integers; leave out wide");
  }
  if (const h5l_status status = check_safeguards(params, why); status != H5L_OK) return status;
  if (!has_integers(params)) {
    if (params.value_bytes == 0 || params.value_bytes == 4 || params.value_bytes == 8) return H5L_OK;
    return why.fail(H5L_INVALID_ARGUMENT, "values must have 4 bytes (float32) or 8 (float64), got %u",
                    params.value_bytes);
  }
  if (!is_integer_type(params.value_class, params.value_bytes)) {
    return why.fail(
        H5L_INVALID_ARGUMENT,
        "the class of the values must be 0 (floats), 1 (unsigned integers), 2 (signed ones), 3 (float16), "
        "4 (bfloat16) or 5 (complex); integers must have 1, 2, 4 or 8 bytes, halves 2; got class %u and %u bytes",
        params.value_class, params.value_bytes);
  }
  if (params.value_bytes == 1 && params.big_endian != 0) {
    return why.fail(H5L_INVALID_ARGUMENT, "values of one byte have no byte order, so big_endian must be 0");
  }
  const bool are_halves = is_half(params.value_class);
  const char* const instead =
      are_halves ? "give one of these its bound"
                 : "give a bound in counts, as in PFPL(absolute=3) or PFPL(noise=1.0), or PFPL(lossless=True)";
  const CodecEntry* const entry = codec_entry(params.codec);
  if (entry != nullptr && entry->codec->for_integers == nullptr) {
    return why.fail(H5L_UNSUPPORTED,
                    "%s are encoded by PFPL and Interp in this version of h5lossy, got codec %u (%s); %s",
                    are_halves ? "halves" : "integers", entry->number, entry->name, instead);
  }
  if (!are_halves && params.bound_kind == H5L_BOUND_POINTWISE_RELATIVE) {
    return why.fail(H5L_UNSUPPORTED, "integers take no %s bound in this version of h5lossy; %s",
                    kBoundNames[params.bound_kind], instead);
  }
  return H5L_OK;
}

h5l_status check_exact_values(const h5l_params& params, const Message& why) {
  if (params.value_bytes == 0) return H5L_OK;
  if (!has_integers(params)) {
    if (params.exact_count == 0) return H5L_OK;
    return why.fail(H5L_UNSUPPORTED,
                    "exact values are for integers and halves; of floats and complex numbers the dataset's fill value, "
                    "NaN and infinities are exact: make the value that has to stay the fill value, or NaN");
  }
  for (std::uint32_t i = 0; i < params.exact_count; ++i) {
    std::uint64_t bits = 0;
    if (find_bits(params, params.exact[i], bits)) continue;
    static constexpr const char* names[] = {"", "unsigned integers", "signed integers", "float16", "bfloat16"};
    return why.fail(H5L_INVALID_ARGUMENT, "the exact value %lld is none of %s of %u bits; give one that the data has",
                    static_cast<long long>(params.exact[i]), names[params.value_class], 8 * params.value_bytes);
  }
  const std::uint32_t count = exact_values(params).count, most = params.value_bytes == 8 ? 1 : H5L_MAX_EXACT;
  if (count <= most) return H5L_OK;
  return why.fail(
      H5L_UNSUPPORTED,
      "of values of %u bits at most %u can be exact, the fill value among them%s, got %u; leave one out, or "
      "give lossless",
      8 * params.value_bytes, most, params.threshold_count != 0 ? " and the threshold's 0" : "", count);
}

h5l_status check_params(const h5l_params& params, const Message& why) {
  if (const h5l_status status = check_request(params, why); status != H5L_OK) return status;
  if (const h5l_status status = check_type(params, why); status != H5L_OK) return status;
  if (params.rank > H5L_MAX_RANK) {
    return why.fail(H5L_INVALID_ARGUMENT, "rank must be at most %d, got %u", H5L_MAX_RANK, params.rank);
  }
  const std::uint32_t bits = 8 * params.value_bytes;
  if (bits != 0 && bits != 64 && params.has_fill != 0 && params.fill_bits >> bits != 0) {
    return why.fail(H5L_INVALID_ARGUMENT, "the bits of a fill value of %u bytes must be below 2^%u, got 0x%llx",
                    params.value_bytes, bits, static_cast<unsigned long long>(params.fill_bits));
  }
  return check_exact_values(params, why);
}

bool moves_values(const h5l_params& params) { return params.wide != 0 || has_safeguards(params); }

bool prefers_size(const h5l_params& params) { return params.codec == H5L_CODEC_AUTO && params.mode == H5L_AUTO_SIZE; }

bool fill_must_match_exactly(const h5l_params& params) {
  if (is_half(params.value_class)) {
    const std::uint64_t infinity = params.value_class == H5L_CLASS_HALF ? 0x7C00 : 0x7F80;
    return params.fill_bits != 0 && (params.fill_bits & 0x7FFF) < infinity;
  }
  const std::uint64_t infinity = params.value_bytes == 4 ? scalar::kInfinity<float> : scalar::kInfinity<double>;
  const std::uint64_t sign = params.value_bytes == 4 ? scalar::kSignBit<float> : scalar::kSignBit<double>;
  return params.fill_bits != 0 && (has_integers(params) || (params.fill_bits & ~sign) <= infinity);
}

h5l_range value_range(const h5l_params& params, std::span<const std::uint8_t> raw) {
  if (is_half(params.value_class)) return half_range(params, raw);
  const RangeFunctions& functions = best_ranges();
  const ValidValues valid{params.fill_bits, params.has_fill != 0, params.maybe_padded != 0, params.big_endian != 0};
  const FoundRange found = (params.value_bytes == 4 ? functions.float32 : functions.float64)(
      valid, raw.data(), raw.size() / params.value_bytes);
  return {found.min, found.max, found.count};
}

h5l_range value_range(const h5l_params& params, std::span<const std::uint8_t> raw, std::uint32_t threads) {
  const std::size_t count = (raw.size() + kRangeBytes - 1) / kRangeBytes;
  const Array<h5l_range> parts = threads > 1 && count > 1 ? allocate<h5l_range>(count) : nullptr;
  if (parts == nullptr) return value_range(params, raw);
  run_batch(count, threads, [&](std::size_t i) {
    const std::span<const std::uint8_t> rest = raw.subspan(i * kRangeBytes);
    parts[i] = value_range(params, rest.first(std::min(rest.size(), kRangeBytes)));
  });
  h5l_range all = {};
  for (std::size_t i = 0; i < count; ++i) {
    const h5l_range& part = parts[i];
    if (part.count == 0) continue;
    all.min = all.count == 0 ? part.min : std::min(all.min, part.min);
    all.max = all.count == 0 ? part.max : std::max(all.max, part.max);
    all.count += part.count;
  }
  return all;
}

double absolute_bound(double range_relative, double min, double max) {
  if (!(range_relative > 0) || !(max > min) || !std::isfinite(range_relative) || !std::isfinite(min) ||
      !std::isfinite(max)) {
    return 0;
  }
  return scalar::bound_of_range(range_relative, min, max);
}

Quantizer make_quantizer(const h5l_params& params, std::span<const std::uint8_t> raw, std::uint32_t threads) {
  if (has_integers(params)) return make_integer_quantizer(params, raw);
  return params.value_bytes == 4 ? quantizer_of<float>(params, raw, threads)
                                 : quantizer_of<double>(params, raw, threads);
}

}  // namespace h5lossy
