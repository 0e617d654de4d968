// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// libFuzzer: any bytes as parameters and a chunk. Where the parameters are allowed, the promise holds, a frame takes no
// more than raw_bytes + 40, and encoding what was decoded gives the same frame.
//
// An input is: bound kind and method (codec and mode, or auto), size of a value and shape, or a type of integers,
// switches (a byte each), the bound and the fill value's bits (8 bytes each), and what the chunk repeats, up to 16 times:
// so a short input can make several tiles. Any bytes have such a meaning.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>

#include "check.h"
#include "frame/swap.h"
#include "methods.h"
#include "values.h"

namespace h5lossy::test {
namespace {

constexpr std::size_t kFront = 3 + 8 + 8;

h5l_params read_params(std::span<const std::uint8_t> front) {
  static const std::vector<Method> all = methods_and_auto();
  const Method& method = all[front[0] / 4 % all.size()];
  h5l_params params = {};
  params.codec = method.codec;
  params.mode = method.mode;
  params.bound_kind = front[0] % 4;
  constexpr std::uint32_t sizes[] = {4, 8, 4, 0};
  params.value_bytes = sizes[front[1] % 4];
  params.big_endian = front[2] & 1u;
  params.no_checksum = front[2] >> 1 & 1u;
  params.has_fill = front[2] >> 2 & 1u;
  params.maybe_padded = front[2] >> 3 & 1u;
  std::memcpy(&params.bound, front.data() + 3, sizeof params.bound);
  std::memcpy(&params.fill_bits, front.data() + 11, sizeof params.fill_bits);
  if (params.bound_kind == H5L_BOUND_LOSSLESS) params.bound = 0;
  if (params.value_bytes == 4) params.fill_bits &= 0xFFFFFFFFu;
  if (front[1] % 4 == 2 && params.bound_kind != H5L_BOUND_LOSSLESS) {  // safeguards, of which 0 is one
    params.threshold_count = 2;
    params.has_valid_range = 1;
    params.valid_min = std::bit_cast<float>(static_cast<std::uint32_t>(params.fill_bits));
    params.valid_max = params.valid_min + params.bound;
    params.thresholds[1] = params.valid_min + 3 * params.bound;
    const double numbers[] = {params.valid_min, params.valid_max, params.thresholds[1]};
    const bool is_finite =
        std::all_of(std::begin(numbers), std::end(numbers), [](double x) { return std::isfinite(x); });
    if (!is_finite || params.valid_max < params.valid_min) params.threshold_count = params.has_valid_range = 0;
  }
  return params;
}

template <class T>
void check_values(const h5l_params& params, const Bytes& raw, const Bytes& decoded) {
  const bool big_endian = params.big_endian != 0;
  check_promise<T>("round trip", params, to_values<T>(raw, big_endian), to_values<T>(decoded, big_endian));
}

template <class T>
void check_again(const h5l_params& params, const Bytes& raw, const Bytes& decoded, const Bytes& again) {
  const bool big_endian = params.big_endian != 0;
  check_stays<T>("encoded again", params, to_values<T>(raw, big_endian), to_values<T>(decoded, big_endian),
                 to_values<T>(again, big_endian));
}

// Integers: their type is the shape of an input whose values have no size. Its upper bits ask for exact values (the fill
// value's bits), wide bins, and a noise bound.
bool read_integers(std::uint8_t shape, std::uint8_t switches, h5l_params& params) {
  if (params.value_bytes != 0 || shape == 0) return false;
  params.value_bytes = 1u << shape % 4;
  params.value_class = (shape & 4) != 0 ? H5L_CLASS_SIGNED : H5L_CLASS_UNSIGNED;
  if (params.value_bytes == 1) params.big_endian = 0;
  const std::uint64_t mask = ~std::uint64_t{0} >> (64 - 8 * params.value_bytes);
  params.fill_bits &= mask;
  if ((shape & 8) != 0) {
    params.exact_count = 1;
    params.exact[0] = static_cast<std::int64_t>(params.fill_bits >> 1);
    params.has_fill &= params.value_bytes == 8 ? 0u : 1u;
  }
  params.wide = shape >> 4 & 1u;
  if ((shape & 32) != 0) {
    params.bound_kind = H5L_BOUND_NOISE;
    params.noise_floor = switches;
  }
  return true;
}

template <class W>
void check_integers(const h5l_params& params, const Bytes& raw, const Bytes& decoded, const Bytes& again) {
  constexpr W sign = static_cast<W>(W{1} << (8 * sizeof(W) - 1));
  for (std::size_t i = 0; i < raw.size(); i += sizeof(W)) {
    W x, y, z;
    std::memcpy(&x, &raw[i], sizeof x);
    std::memcpy(&y, &decoded[i], sizeof y);
    std::memcpy(&z, &again[i], sizeof z);
    if (params.big_endian != 0) {
      x = swap_bytes(x);
      y = swap_bytes(y);
    }
    const auto at = [&](W exact) { CHECK((x == exact) == (y == exact), "%zu: an exact value", i); };
    const bool keeps = params.bound_kind != H5L_BOUND_LOSSLESS;
    if (keeps && params.has_fill != 0 && params.fill_bits != 0) at(static_cast<W>(params.fill_bits));
    if (keeps && params.exact_count != 0) at(static_cast<W>(params.exact[0]));
    const W from_sign = params.value_class == H5L_CLASS_SIGNED ? sign : W{0};
    const W a = x ^ from_sign, b = y ^ from_sign, error = a > b ? a - b : b - a;
    if (params.bound_kind == H5L_BOUND_LOSSLESS) CHECK(error == 0, "%zu: a changed value", i);
    if (params.bound_kind == H5L_BOUND_ABSOLUTE) {
      CHECK(static_cast<double>(error) <= params.bound, "%zu: off by %g counts", i, static_cast<double>(error));
    }
    if (params.bound_kind == H5L_BOUND_NOISE) {
      const double magnitude = static_cast<double>((x & from_sign) != 0 ? static_cast<W>(W{0} - x) : x);
      const double bound = std::max<double>(params.noise_floor, params.bound * std::sqrt(magnitude));
      CHECK(static_cast<double>(error) <= bound, "%zu: off by %g counts", i, static_cast<double>(error));
    }
    if (params.bound_kind != H5L_BOUND_RANGE_RELATIVE) {
      CHECK(std::memcmp(&decoded[i], &z, sizeof z) == 0, "%zu: a value that has moved twice", i);
    }
  }
}

void check_integers(const h5l_params& params, Bytes raw) {
  raw.resize(raw.size() / params.value_bytes * params.value_bytes);
  Bytes frame(raw.size() + 40);
  std::size_t frame_bytes = 0;
  h5l_message message;
  const h5l_status status =
      h5l_encode(&params, raw.data(), raw.size(), frame.data(), frame.size(), &frame_bytes, &message);
  if (status != H5L_OK) {
    CHECK(status == H5L_INVALID_ARGUMENT || status == H5L_UNSUPPORTED, "%s", message.text);
    return;
  }
  frame.resize(frame_bytes);
  const Bytes decoded = decode(frame), again = decode(encode(params, decoded));
  CHECK(decoded.size() == raw.size() && again.size() == raw.size(), "%zu bytes became %zu", raw.size(), decoded.size());
  if (params.value_bytes == 1) check_integers<std::uint8_t>(params, raw, decoded, again);
  if (params.value_bytes == 2) check_integers<std::uint16_t>(params, raw, decoded, again);
  if (params.value_bytes == 4) check_integers<std::uint32_t>(params, raw, decoded, again);
  if (params.value_bytes == 8) check_integers<std::uint64_t>(params, raw, decoded, again);
}

void check(std::span<const std::uint8_t> input) {
  if (input.size() < kFront) return;
  h5l_params params = read_params(input.first(kFront));
  Bytes raw;
  for (int repeats = 1 + (input[2] >> 4); repeats > 0; --repeats) {
    raw.insert(raw.end(), input.begin() + kFront, input.end());
  }
  if (read_integers(input[1] / 4, input[2], params)) return check_integers(params, raw);
  // One of many shapes, or none.
  if (const unsigned shape = input[1] / 4u; shape != 0 && params.value_bytes != 0) {
    Random random(shape);
    const std::vector<std::uint32_t> extents = random_extents(random, raw.size() / params.value_bytes);
    set_shape(params, extents);
    raw.resize(product(extents) * params.value_bytes);
  }
  Bytes frame(raw.size() + 40);
  std::size_t frame_bytes = 0;
  h5l_message message;
  const h5l_status status =
      h5l_encode(&params, raw.data(), raw.size(), frame.data(), frame.size(), &frame_bytes, &message);
  const bool wrong_bound = params.bound_kind != H5L_BOUND_LOSSLESS &&
                           (!(params.bound > 0) || !std::isfinite(params.bound) ||
                            (params.bound_kind == H5L_BOUND_POINTWISE_RELATIVE && params.bound >= 1));
  CHECK(status == (wrong_bound ? H5L_INVALID_ARGUMENT : H5L_OK), "%s: %s", h5l_status_name(status), message.text);
  if (status != H5L_OK) return;

  CHECK(frame_bytes <= raw.size() + 40, "%zu bytes became %zu", raw.size(), frame_bytes);
  frame.resize(frame_bytes);
  frame.shrink_to_fit();
  const Bytes decoded = decode(frame);
  CHECK(decoded.size() == raw.size(), "%zu bytes became %zu", raw.size(), decoded.size());

  const bool is_known = params.value_bytes != 0 && raw.size() % params.value_bytes == 0;
  if (!is_known) CHECK(decoded == raw, "bytes of an unknown type have changed");
  if (is_known && params.value_bytes == 4) check_values<float>(params, raw, decoded);
  if (is_known && params.value_bytes == 8) check_values<double>(params, raw, decoded);
  // The range of decoded values is another one.
  if (params.bound_kind == H5L_BOUND_RANGE_RELATIVE) return;
  const Bytes frame_again = encode(params, decoded);
  if (repeats_its_frames(params.codec, params.mode)) {
    CHECK(frame_again == frame, "another frame");
  } else {
    const Bytes again = decode(frame_again);
    CHECK(again.size() == raw.size(), "%zu bytes became %zu again", raw.size(), again.size());
    if (is_known && params.value_bytes == 4) check_again<float>(params, raw, decoded, again);
    if (is_known && params.value_bytes == 8) check_again<double>(params, raw, decoded, again);
  }
}

}  // namespace
}  // namespace h5lossy::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  h5lossy::test::check({data, size});
  return 0;
}
