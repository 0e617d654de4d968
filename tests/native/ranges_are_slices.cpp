// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Decoding some of a frame's values gives the slice of the full decode, whatever the slice; it reads the payloads of
// the tiles that it needs and no others; ranges outside the frame are refused.

#include <algorithm>
#include <cinttypes>

#include "check.h"
#include "frames.h"
#include "guarded_memory.h"
#include "samples.h"

namespace h5lossy::test {
namespace {

class Ranges {
 public:
  explicit Ranges(const Bytes& frame) : frame_(frame), info_(inspect(frame)), all_(decode(frame)) {}

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

  void check_all() const {
    for (std::uint64_t first = 0; first <= values(); ++first) {
      for (std::uint64_t count = 0; first + count <= values(); ++count) check(frame_, first, count);
    }
  }

  // All pairs of interesting borders.
  void check_borders() const {
    const std::uint64_t tile = 16384 / info_.value_bytes;
    std::vector<std::uint64_t> borders;
    for (std::uint64_t i = 0; i <= info_.tiles; ++i) {
      for (const std::uint64_t near : {i * tile - 1, i * tile, i * tile + 1, i * tile + tile / 3}) {
        if (near <= values()) borders.push_back(near);
      }
    }
    borders.push_back(values());
    for (const std::uint64_t first : borders) {
      for (const std::uint64_t end : borders) {
        if (first <= end) check(frame_, first, end - first);
      }
    }
  }

  // A range within tile i, while the payloads of all others are damaged.
  void check_tile_alone(std::uint64_t i) const {
    const std::uint64_t tile = 16384 / info_.value_bytes, begin = i * tile, end = std::min(values(), begin + tile);
    const std::size_t table = info_.header_bytes, payload = payload_begin(frame_);
    const auto end_of = [&](std::uint64_t j) {
      std::uint32_t at;
      std::memcpy(&at, frame_.data() + table + 4 * j, sizeof at);
      return payload + at;
    };
    Bytes damaged = frame_;
    const std::size_t mine_begin = i == 0 ? payload : end_of(i - 1), mine_end = end_of(i);
    for (std::size_t at = payload; at < damaged.size(); ++at) {
      if (at < mine_begin || at >= mine_end) damaged[at] ^= 0xFF;
    }
    check(damaged, begin, end - begin);
    check(damaged, begin + (end - begin) / 2, 1);
    Bytes raw(info_.raw_bytes);
    CHECK(
        info_.tiles == 1 || h5l_decode(damaged.data(), damaged.size(), raw.data(), raw.size(), nullptr) == H5L_CORRUPT,
        "tile %" PRIu64, i);
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
  Bytes frame_;
  h5l_frame_info info_;
  Bytes all_;
  GuardedMemory memory_{1 << 20};
};

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  for (const Sample& sample : make_samples(120, true)) {
    const Ranges ranges(sample.frame);
    ranges.check_all();
    ranges.check_refusals();
  }
  std::uint64_t most_tiles = 0;
  for (const std::size_t frame_bytes : {4096u, 8000u}) {
    for (const Sample& sample : make_samples(frame_bytes, true)) {
      const Ranges ranges(sample.frame);
      ranges.check_borders();
      for (std::uint64_t i = 0; i < ranges.info().tiles; ++i) ranges.check_tile_alone(i);
      most_tiles = std::max(most_tiles, ranges.info().tiles);
    }
  }
  CHECK(most_tiles >= 3, "%" PRIu64 " tiles at most", most_tiles);

  // Bytes of no known type count one by one.
  const Bytes bytes = {1, 2, 3, 4, 5, 6, 7};
  Ranges(encode(make_params(H5L_BOUND_LOSSLESS, 0, 0), bytes)).check_all();
}
