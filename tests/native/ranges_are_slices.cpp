// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Decoding a range of a frame's values gives the same values as the full decode, for every range. It reads only the
// payloads of the tiles that it needs. Ranges outside the frame are refused.

#include <algorithm>
#include <cinttypes>

#include "check.h"
#include "frames.h"
#include "guarded_memory.h"
#include "layout.h"
#include "samples.h"

namespace h5lossy::test {
namespace {

class Ranges {
 public:
  explicit Ranges(const Bytes& frame)
      : frame_(frame), info_(inspect(frame)), layout_(layout_of(frame)), all_(decode(frame)) {}

  [[nodiscard]] std::uint64_t values() const { return info_.raw_bytes / info_.value_bytes; }
  [[nodiscard]] const h5l_frame_info& info() const { return info_; }

  // `frame` is the one of the constructor, or one with damage that must not matter.
  void check(const Bytes& frame, std::uint64_t first, std::uint64_t count) const {
    const std::size_t size = count * info_.value_bytes;
    const std::span<std::uint8_t> part = memory_.at_end(size);
    h5l_message message;
    const h5l_status status =
        h5l_decode_range(frame.data(), frame.size(), first, count, part.data(), part.size(), &message);
    CHECK(status == H5L_OK, "values %" PRIu64 " and %" PRIu64 " more: %s", first, count, message.text);
    CHECK(std::equal(part.begin(), part.end(), all_.begin() + static_cast<std::ptrdiff_t>(first * info_.value_bytes)),
          "values %" PRIu64 " and %" PRIu64 " more", first, count);
  }

  // All, or one in so many of both.
  void check_all() const {
    for (std::uint64_t first = 0; first <= values(); first += kCaseStep) {
      for (std::uint64_t count = 0; first + count <= values(); count += kCaseStep) check(frame_, first, count);
    }
  }

  void check_some(Random& random, int times) const {
    for (; times > 0; --times) {
      const std::uint64_t first = random.below(values() + 1);
      check(frame_, first, random.below(values() - first + 1));
    }
  }

  // Pairs of interesting borders: all, or some where there are many.
  void check_borders(Random& random) const {
    std::vector<std::uint64_t> borders = {0, 1, values()};
    for (std::uint32_t i = 0; i < info_.tiles; ++i) {
      const std::vector<std::uint64_t> mine = layout_.values_of(i);
      const std::uint64_t first = mine.front(), last = mine.back(), middle = mine[mine.size() / 3];
      for (const std::uint64_t near : {first - 1, first, first + 1, middle, last, last + 1}) {
        if (near <= values()) borders.push_back(near);
      }
    }
    const std::uint64_t pairs = borders.size() * borders.size() / 2;
    for (const std::uint64_t first : borders) {
      for (const std::uint64_t end : borders) {
        if (first <= end && random.below(pairs) < 200) check(frame_, first, end - first);
      }
    }
  }

  // Ranges within tile i, while the payloads of all others are damaged.
  void check_tile_alone(std::uint32_t i) const {
    const std::size_t table = layout_.table_at(), payload = layout_.payload_at();
    const auto end_of = [&](std::uint32_t j) {
      std::uint32_t at;
      std::memcpy(&at, frame_.data() + table + 4 * j, sizeof at);
      return payload + at;
    };
    Bytes damaged = frame_;
    const std::size_t mine_begin = i == 0 ? payload : end_of(i - 1), mine_end = end_of(i);
    for (std::size_t at = payload; at < damaged.size(); ++at) {
      if (at < mine_begin || at >= mine_end) damaged[at] ^= 0xFF;
    }
    for (const auto& [begin, count] : runs_of(layout_.values_of(i))) {
      check(damaged, begin, count);
      check(damaged, begin + count / 2, 1);
    }
    Bytes raw(info_.raw_bytes);
    CHECK(
        info_.tiles == 1 || h5l_decode(damaged.data(), damaged.size(), raw.data(), raw.size(), nullptr) == H5L_CORRUPT,
        "tile %u", i);
  }

  void check_refusals() const {
    std::uint8_t raw[16];
    const std::uint64_t n = values(), most = ~std::uint64_t{0};
    const std::uint64_t wrong[][2] = {{n + 1, 0}, {n, 1},       {0, n + 1},       {most, 1},
                                      {1, most},  {most, most}, {most / 4 + 1, 0}};
    for (const auto& [first, count] : wrong) {
      const h5l_status status = h5l_decode_range(frame_.data(), frame_.size(), first, count, raw,
                                                 static_cast<std::size_t>(count * info_.value_bytes), nullptr);
      CHECK(status == H5L_INVALID_ARGUMENT, "values %" PRIu64 " and %" PRIu64 " more of %" PRIu64, first, count, n);
    }
    const h5l_status status = h5l_decode_range(frame_.data(), frame_.size(), 0, 1, raw, 3, nullptr);
    CHECK(status == H5L_INVALID_ARGUMENT, "one value into 3 bytes: %s", h5l_status_name(status));
  }

 private:
  // First value and number of consecutive values.
  static std::vector<std::pair<std::uint64_t, std::uint64_t>> runs_of(const std::vector<std::uint64_t>& values) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> runs;
    for (const std::uint64_t value : values) {
      if (runs.empty() || value != runs.back().first + runs.back().second) runs.emplace_back(value, 0);
      ++runs.back().second;
    }
    return runs;
  }

  Bytes frame_;
  h5l_frame_info info_;
  Layout layout_;
  Bytes all_;
  GuardedMemory memory_{1 << 21};
};

// Thin ones, and with extents of 1, where a tile has many short rows.
void check_random_shapes(Random& random, const Method& method) {
  for (int i = 0; i < 30; ++i) {
    h5l_params params = make_params(method, H5L_BOUND_ABSOLUTE, 1e-3, 4);
    const std::vector<std::uint32_t> extents = random_extents(random, 1 + random.below(5000));
    set_shape(params, extents);
    Values<float> source(random, {params.bound_kind, params.bound}, 100);
    const Bytes raw = to_bytes<float>(source.make(product(extents)), false);
    const Ranges ranges(encode(params, raw));
    ranges.check_some(random, 50);
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  Random random(20);
  for (const Method& method : methods()) {
    for (const Sample& sample : make_samples(method, 120, true)) {
      const Ranges ranges(sample.frame);
      if (method.is_default) ranges.check_all();
      ranges.check_some(random, cases(500));
      ranges.check_refusals();
    }
    std::uint64_t most_tiles = 0;
    for (const std::size_t frame_bytes : {4096u, 8000u}) {
      for (const Sample& sample : make_samples(method, frame_bytes, true)) {
        const Ranges ranges(sample.frame);
        ranges.check_borders(random);
        for (std::uint32_t i = 0; i < ranges.info().tiles; ++i) ranges.check_tile_alone(i);
        most_tiles = std::max(most_tiles, ranges.info().tiles);
      }
    }
    CHECK(most_tiles >= 3, "%s: %" PRIu64 " tiles at most", method.name.c_str(), most_tiles);
    if (method.has_boxes) check_random_shapes(random, method);
  }

  const Ranges stored(make_stored_sample(120, true).frame);
  stored.check_all();
  stored.check_refusals();
  // Bytes of no known type count one by one.
  const Bytes bytes = {1, 2, 3, 4, 5, 6, 7};
  Ranges(encode(make_params(H5L_BOUND_LOSSLESS, 0, 0), bytes)).check_all();
}
