// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A payload is written directly into the frame if a tile's largest payload fits in the room that is left; otherwise it
// is moved there. In this test, the room left for the last of some tiles shrinks from more than its largest payload to
// less than its values, before a guard page: floats within a bound with all codecs, and integers without loss.

#include <cmath>
#include <cstring>

#include "check.h"
#include "chunk/choice.h"
#include "chunk/geometry.h"
#include "frames.h"
#include "guarded_memory.h"
#include "methods.h"
#include "random.h"

namespace h5lossy::test {
namespace {

constexpr double kBound = 1e-3;

// The first `zeros` values of some tiles are 0, the others any that do not shrink; the last tile may be a ramp.
template <class T>
std::vector<T> values_of(std::size_t tile, std::size_t zeros, bool has_ramp) {
  Random random(5);
  std::vector<T> values(3 * tile);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint64_t bits = random.next();
    T value = static_cast<T>(bits);
    if constexpr (!std::is_integral_v<T>) value = std::ldexp(value, static_cast<int>(bits % 100) - 100);
    values[i] = i < zeros ? T{0} : has_ramp && i >= 2 * tile ? static_cast<T>(i) : value;
  }
  return values;
}

// Encodes them, and returns what the last tile found left; 0 if the chunk was stored.
template <class T>
std::size_t rest_of(const h5l_params& params, const std::vector<T>& values, std::span<std::uint8_t> out,
                    const std::string& name) {
  std::size_t size = 0;
  CHECK(h5l_encode(&params, values.data(), values.size() * sizeof(T), out.data(), out.size(), &size, nullptr) == H5L_OK,
        "%s", name.c_str());
  const std::span<const std::uint8_t> frame = out.first(size);
  const Bytes raw = decode(frame);
  for (std::size_t i = 0; i < values.size(); ++i) {
    T decoded;
    std::memcpy(&decoded, raw.data() + i * sizeof(T), sizeof(T));
    const double error = static_cast<double>(decoded) - static_cast<double>(values[i]);
    CHECK(std::abs(error) <= (std::is_integral_v<T> ? 0 : kBound), "%s: value %zu is off by %g", name.c_str(), i,
          error);
  }
  const h5l_frame_info info = inspect(frame);
  if (info.codec == H5L_CODEC_STORED) return 0;
  std::uint32_t end;  // of the last tile but one
  std::memcpy(&end, frame.data() + info.header_bytes + 4 * (info.tiles - 2), sizeof end);
  return out.size() - 1 - payload_begin(frame) - end;
}

// Whether some of the chunks left less than the largest payload, and not less than the values of a tile.
template <class T>
bool check_method(const h5l_params& params, const Method& method) {
  const Codec& codec = *codec_for(*codec_entry(method.codec), params.value_class);
  const TileLayout of_many = codec.layout(method.mode, sizeof(T), {1, 1, 1, 1 << 20});
  const std::size_t tile = Geometry(of_many, sizeof(T), 0, {1, 1, 1, 0}).max_tile_values(), count = 3 * tile;
  const std::uint32_t dims[kAxes] = {1, 1, 1, static_cast<std::uint32_t>(count)};
  const Geometry geometry(codec.layout(method.mode, sizeof(T), dims), sizeof(T), count, dims);
  const std::size_t bytes = geometry.max_tile_bytes(), capacity = count * sizeof(T) + 40;
  const GuardedMemory memory(capacity);
  const auto rest = [&](std::size_t zeros, bool has_ramp) {
    return rest_of(params, values_of<T>(tile, zeros, has_ramp), memory.at_end(capacity), method.name);
  };
  // The number of zeros from which on the last tile finds room for its values.
  std::size_t low = 0, high = tile;
  CHECK(rest(low, false) < bytes && rest(high, false) >= bytes + codec.spare_bytes, "%s", method.name.c_str());
  while (low + 1 < high) {
    const std::size_t middle = (low + high) / 2;
    (rest(middle, false) < bytes ? low : high) = middle;
  }
  bool has_some = false;
  constexpr std::size_t near = 100;
  const std::size_t more = near + codec.spare_bytes / sizeof(T),
                    step = (kCaseStep == 1 ? 1 : 5) * (1 + more / (2 * near));
  for (std::size_t zeros = high > near ? high - near : 0; zeros < high + more; zeros += step) {
    const std::size_t left = rest(zeros, zeros % 3 == 0);
    has_some = has_some || (left >= bytes && left < bytes + codec.spare_bytes);
  }
  return has_some;
}

void check() {
  int with_some = 0;
  for (const Method& method : all_methods()) {
    if (!method.is_default) continue;
    h5l_params params = make_params(H5L_BOUND_ABSOLUTE, kBound, 4);
    params.codec = method.codec;
    params.mode = method.mode;
    with_some += check_method<float>(params, method) ? 1 : 0;
    if (codec_for(*codec_entry(method.codec), H5L_CLASS_UNSIGNED) == nullptr) continue;
    params = make_params(H5L_BOUND_LOSSLESS, 0, 2);
    params.codec = method.codec;
    params.value_class = H5L_CLASS_UNSIGNED;
    with_some += check_method<std::uint16_t>(params, method) ? 1 : 0;
  }
  CHECK(with_some >= 4, "%d", with_some);  // of one codec, 32 zeros take more than that off
}

}  // namespace
}  // namespace h5lossy::test

int main() { h5lossy::test::check(); }
