// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Geometry, which says where the tiles of a chunk lie, against a walk over all values: for the blocks of every codec and
// mode, and extents of any kind. Gathering a tile's values and scattering them again moves each to its place, and no
// others; a range of values is found in the tiles that hold it.

#include <algorithm>
#include <cstring>
#include <vector>

#include "check.h"
#include "chunk/geometry.h"
#include "guarded_memory.h"
#include "methods.h"

namespace h5lossy::test {
namespace {

using Dims = std::uint32_t[3];

struct NaiveTile {
  std::vector<std::uint64_t> values;  // their places in the chunk
  std::vector<std::uint64_t> inside;  // by box
};

// docs/format/cuszp2.md, "Blocks and tiles"; or runs of values.
std::vector<NaiveTile> walk(const Blocking& blocking, std::uint64_t count, const Dims& dims) {
  std::vector<NaiveTile> tiles;
  const auto& [box_z, box_y, box_x] = blocking.extents;
  if (box_x == 0) {
    for (std::uint64_t value = 0; value < count; ++value) {
      if (value % blocking.tile_values == 0) tiles.emplace_back();
      tiles.back().values.push_back(value);
    }
    return tiles;
  }
  std::uint64_t boxes = 0;
  for (std::uint64_t z = 0; z < dims[0]; z += box_z) {
    for (std::uint64_t y = 0; y < dims[1]; y += box_y) {
      for (std::uint64_t x = 0; x < dims[2]; x += box_x) {
        if (boxes++ % kMaxTileBoxes == 0) tiles.emplace_back();
        NaiveTile& tile = tiles.back();
        tile.inside.push_back(0);
        for (std::uint32_t e = 0; e < box_z * box_y * box_x; ++e) {
          const std::uint64_t at_z = z + e / box_x / box_y, at_y = y + e / box_x % box_y, at_x = x + e % box_x;
          if (at_z >= dims[0] || at_y >= dims[1] || at_x >= dims[2]) continue;
          tile.inside.back() |= std::uint64_t{1} << e;
          tile.values.push_back((at_z * dims[1] + at_y) * dims[2] + at_x);
        }
      }
    }
  }
  return tiles;
}

class Walk {
 public:
  void check(Random& random, const Blocking& blocking, std::uint32_t value_bytes, const Dims& dims) {
    const std::uint64_t count = std::uint64_t{dims[0]} * dims[1] * dims[2];
    const std::vector<NaiveTile> expected = walk(blocking, count, dims);
    const Geometry geometry(blocking, value_bytes, count, dims);
    CHECK(geometry.tiles() == expected.size(), "%u x %u x %u: %u tiles, expected %zu", dims[0], dims[1], dims[2],
          geometry.tiles(), expected.size());
    CHECK(geometry.max_tile_bytes() == std::size_t{blocking.tile_values} * value_bytes, "%zu bytes",
          geometry.max_tile_bytes());

    std::vector<std::uint8_t> chunk(count * value_bytes);
    for (std::uint8_t& byte : chunk) byte = static_cast<std::uint8_t>(random.next());
    const std::span<std::uint8_t> in = chunk_.at_end(chunk.size()), out = scattered_.at_end(chunk.size());
    std::copy(chunk.begin(), chunk.end(), in.begin());
    std::fill(out.begin(), out.end(), std::uint8_t{0xEE});
    std::vector<std::uint8_t> scattered(chunk.size(), 0xEE);
    for (std::uint32_t i = 0; i < geometry.tiles(); ++i) {
      const NaiveTile& tile = expected[i];
      check_place(geometry, i, tile);
      const std::span<std::uint8_t> values = tile_.at_end(tile.values.size() * value_bytes);
      geometry.gather(i, in.data(), values.data());
      for (std::size_t j = 0; j < tile.values.size(); ++j) {
        const std::size_t at = tile.values[j] * value_bytes;
        CHECK(std::memcmp(values.data() + j * value_bytes, chunk.data() + at, value_bytes) == 0,
              "%u x %u x %u: value %zu of tile %u", dims[0], dims[1], dims[2], j, i);
        std::memcpy(scattered.data() + at, chunk.data() + at, value_bytes);
      }
      geometry.scatter(i, values.data(), 0, count, out.data());
      CHECK(std::equal(out.begin(), out.end(), scattered.begin()), "%u x %u x %u: tile %u is scattered elsewhere",
            dims[0], dims[1], dims[2], i);
    }
    CHECK(scattered == chunk, "the walk leaves values out");
    for (int i = 0; i < 20; ++i) check_range(random, geometry, expected, chunk, value_bytes);
  }

 private:
  static void check_place(const Geometry& geometry, std::uint32_t i, const NaiveTile& tile) {
    PlacedTile placed;
    geometry.place(i, placed);
    CHECK(placed.tile.count == tile.values.size() && geometry.count_values(i) == tile.values.size(),
          "tile %u has %u values, expected %zu", i, placed.tile.count, tile.values.size());
    CHECK(placed.tile.boxes == tile.inside.size(), "tile %u has %u boxes, expected %zu", i, placed.tile.boxes,
          tile.inside.size());
    for (std::size_t b = 0; b < tile.inside.size(); ++b) {
      CHECK(placed.tile.inside[b] == tile.inside[b], "box %zu of tile %u is 0x%llx", b, i, placed.tile.inside[b]);
    }
    CHECK(i + 1 == geometry.tiles() || tile.values.size() >= geometry.least_values(), "tile %u has %zu values", i,
          tile.values.size());
  }

  // Some of the values, from all tiles that are said to hold them.
  void check_range(Random& random, const Geometry& geometry, const std::vector<NaiveTile>& expected,
                   const std::vector<std::uint8_t>& chunk, std::uint32_t value_bytes) {
    const std::uint64_t values = chunk.size() / value_bytes, first = random.below(values + 1);
    const std::uint64_t count =
        random.below(std::min<std::uint64_t>(values - first, random.one_in(2) ? 20 : values) + 1);
    std::uint32_t begin = 0, end = 0;
    geometry.range(first, count, begin, end);
    CHECK(begin <= end && end <= geometry.tiles(), "tiles %u to %u", begin, end);
    CHECK(count != 0 || begin == end, "tiles %u to %u hold nothing", begin, end);
    if (count == 0) return;
    const std::span<std::uint8_t> part = scattered_.at_end(count * value_bytes);
    std::fill(part.begin(), part.end(), std::uint8_t{0});
    for (std::uint32_t i = 0; i < geometry.tiles(); ++i) {
      const std::vector<std::uint64_t>& mine = expected[i].values;
      const bool holds = std::any_of(mine.begin(), mine.end(),
                                     [&](std::uint64_t value) { return value >= first && value < first + count; });
      CHECK(geometry.holds(i, first, count) == holds, "tile %u, values %llu and %llu more", i,
            static_cast<unsigned long long>(first), static_cast<unsigned long long>(count));
      CHECK(!holds || (i >= begin && i < end), "tile %u is not among %u to %u", i, begin, end);
      if (!holds) continue;
      const std::span<std::uint8_t> tile = tile_.at_end(mine.size() * value_bytes);
      for (std::size_t j = 0; j < mine.size(); ++j) {
        std::memcpy(tile.data() + j * value_bytes, chunk.data() + mine[j] * value_bytes, value_bytes);
      }
      geometry.scatter(i, tile.data(), first, count, part.data());
    }
    CHECK(std::equal(part.begin(), part.end(), chunk.begin() + static_cast<std::ptrdiff_t>(first * value_bytes)),
          "values %llu and %llu more", static_cast<unsigned long long>(first), static_cast<unsigned long long>(count));
  }

  static constexpr std::size_t kMostBytes = 1 << 20;
  GuardedMemory chunk_{kMostBytes}, scattered_{kMostBytes}, tile_{kMostBytes};
};

// Extents of up to 30000 values in all: equal to multiples of a block's, just past them, 1, or thin.
void make_dims(Random& random, Dims& dims) {
  std::uint64_t left = 1 + random.below(random.one_in(4) ? 30000 : 3000);
  const std::size_t longest = random.below(3);
  for (std::size_t i = 0; i < 3; ++i) {
    if (i == longest) continue;
    const std::uint64_t extents[] = {1, 1 + random.below(4), 4, 5, 8, 9, 16, 17, 1 + random.below(200)};
    dims[i] = static_cast<std::uint32_t>(std::min(extents[random.below(9)], left));
    left /= dims[i];
  }
  dims[longest] = static_cast<std::uint32_t>(std::max<std::uint64_t>(left, 1));
}

// Dims that do not hold the values, whatever their product is modulo 2^32 or 2^64.
void check_wrong_dims(const Blocking& blocking) {
  const Dims wrong[] = {{2, 5, 9},
                        {1, 1, 101},
                        {0, 10, 10},
                        {10, 10, 0},
                        {0, 0, 0},
                        {1u << 31, 2, 100},
                        {1u << 31, 1u << 31, 4},
                        {~0u, ~0u, ~0u},
                        {100, ~0u, ~0u},
                        {0, ~0u, ~0u}};
  for (const Dims& dims : wrong) {
    const Geometry geometry(blocking, 4, 100, dims);
    CHECK(geometry.tiles() == 0, "%u x %u x %u: %u tiles", dims[0], dims[1], dims[2], geometry.tiles());
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  Random random(18);
  Walk walk;
  std::vector<h5lossy::Blocking> blockings = {{1, {}}, {100, {}}};
  for (const Method& method : methods()) {
    const h5lossy::Blocking blocking = method.blocking(4);
    if (method.has_boxes) check_wrong_dims(blocking);
    const bool is_new = std::none_of(blockings.begin(), blockings.end(), [&](const h5lossy::Blocking& other) {
      return std::memcmp(&blocking, &other, sizeof blocking) == 0;
    });
    if (is_new) blockings.push_back(blocking);
  }
  for (const h5lossy::Blocking& blocking : blockings) {
    for (int i = 0; i < 150; ++i) {
      Dims dims;
      make_dims(random, dims);
      walk.check(random, blocking, random.one_in(2) ? 4 : 8, dims);
    }
  }
}
