// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "frame/integer_header.h"

#include <bit>
#include <cmath>

#include "frame/bytes.h"

namespace h5lossy {
namespace {

constexpr std::size_t kReservedAt = 52, kNoiseAt = 4 * kNoiseWord;

h5l_status check_stride(const FrameHeader& header, const Message& why) {
  const std::uint64_t base = header.base(), stride = header.stride();
  const bool is_none = stride == 0 && base == 0;
  if (is_none || (stride >= 2 && stride <= scalar::largest_bits(header) && base < stride)) return H5L_OK;
  return why.fail(H5L_CORRUPT, "base %llu and stride %llu are not those of any values of %u bytes",
                  static_cast<unsigned long long>(base), static_cast<unsigned long long>(stride), header.value_bytes);
}

h5l_status check_exact_values(const FrameHeader& header, const Message& why) {
  if (scalar::has_valid_exact_values(header)) return H5L_OK;
  return why.fail(H5L_CORRUPT, "the exact values 0x%llx are not those of a frame with %u of them",
                  static_cast<unsigned long long>(header.exact_bits), header.exact_count);
}

// For a frame of halves that is not lossless.
h5l_status check_half_fields(const FrameHeader& header, const Message& why) {
  const auto bound = std::bit_cast<double>(header.step_bits);
  const bool is_relative = header.bound_kind == H5L_BOUND_POINTWISE_RELATIVE;
  if (!(bound > 0) || !(bound < (is_relative ? 1.0 : HUGE_VAL))) {
    return why.fail(H5L_CORRUPT, "the step of halves must be greater than 0 and %s, got %.17g",
                    is_relative ? "less than 1" : "finite", bound);
  }
  return H5L_OK;
}

}  // namespace

h5l_status check_integer_fields(std::span<const std::uint8_t> front, const FrameHeader& header, const Message& why) {
  const bool is_noise = header.bound_kind == H5L_BOUND_NOISE;
  const bool may_be_noise = !is_half(header.value_class) && header.value_bytes <= 4;
  if (header.bound_kind > H5L_BOUND_NOISE || (is_noise && !may_be_noise)) {
    return why.fail(H5L_UNSUPPORTED, "bound kind %u of type 0x%02x needs a newer h5lossy", header.bound_kind,
                    type_code(header.value_class, header.value_bytes));
  }
  if (!is_half(header.value_class) && header.bound_kind == H5L_BOUND_POINTWISE_RELATIVE) {
    return why.fail(H5L_CORRUPT, "integers have no pointwise-relative frames");
  }
  for (const std::size_t at : {kReservedAt, kNoiseAt}) {
    const bool is_field = at == kNoiseAt ? is_noise : header.dim_count == kMaxDims;
    if (read_u32(front.data() + at) != 0 && !is_field) {
      return why.fail(H5L_UNSUPPORTED, "the header's field at byte %zu needs a newer h5lossy", at);
    }
  }
  if (header.exact_count > (header.value_bytes == 8 ? 1 : H5L_MAX_EXACT)) {
    return why.fail(H5L_UNSUPPORTED, "%u exact values need a newer h5lossy", header.exact_count);
  }
  const auto step = static_cast<unsigned long long>(header.step_bits);
  if (header.bound_kind == H5L_BOUND_LOSSLESS) {
    if (step != 0) return why.fail(H5L_CORRUPT, "step must be 0 in a stored or lossless frame");
    if (header.exact_count != 0 || header.exact_bits != 0) {
      return why.fail(H5L_CORRUPT, "a lossless frame has no exact values");
    }
    if (is_half(header.value_class) && header.stride_bits != 0) {
      return why.fail(H5L_CORRUPT, "halves have no base and stride");
    }
    return check_stride(header, why);
  }
  if (header.stride_bits != 0) return why.fail(H5L_CORRUPT, "a frame with a bound has no base and stride");
  if (const h5l_status status = check_exact_values(header, why); status != H5L_OK) return status;
  if (is_half(header.value_class)) return check_half_fields(header, why);
  if (is_noise && (step > kLargestNoiseFloor || header.noise < kLeastNoise || header.noise > kLargestNoise)) {
    return why.fail(H5L_CORRUPT, "a noise bound of %u / 256 and at least %llu is not allowed", header.noise, step);
  }
  if (!is_noise && (step < 2 || step > scalar::largest_bits(header))) {
    return why.fail(H5L_CORRUPT, "step must be from 2 to %llu, got %llu",
                    static_cast<unsigned long long>(scalar::largest_bits(header)), step);
  }
  return H5L_OK;
}

}  // namespace h5lossy
