// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Compares Geometry, which computes the positions of tiles, with a loop over all values, for the boxes of all codecs, other
// boxes, and any extents. Gathering and scattering a tile's values restores them and changes no others. A range of values is
// found in the tiles that hold it. Boxes that follow from the dims are those of the format's page, and small enough for any
// dims that a header may claim.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "check.h"
#include "chunk/geometry.h"
#include "chunk/strided_chunks.h"
#include "guarded_memory.h"
#include "methods.h"
#include "random.h"

namespace h5lossy::test {
namespace {

using Dims = std::uint32_t[kAxes];

struct NaiveTile {
  std::vector<std::uint64_t> values;  // their places in the chunk
  std::vector<Box> boxes;
};

// The boxes of a chunk in raster order, grouped into tiles; their values are in raster order, too.
std::vector<NaiveTile> walk(const TileLayout& layout, const Dims& dims) {
  std::vector<NaiveTile> tiles;
  const auto& box = layout.box;
  std::uint32_t boxes = 0;
  std::uint32_t at[kAxes], end[kAxes];
  for (at[0] = 0; at[0] < dims[0]; at[0] += box[0]) {
    for (at[1] = 0; at[1] < dims[1]; at[1] += box[1]) {
      for (at[2] = 0; at[2] < dims[2]; at[2] += box[2]) {
        for (at[3] = 0; at[3] < dims[3]; at[3] += box[3]) {
          if (boxes++ % layout.boxes == 0) tiles.emplace_back();
          NaiveTile& tile = tiles.back();
          Box& inside = tile.boxes.emplace_back();
          for (std::size_t i = 0; i < kAxes; ++i) {
            end[i] = std::min(at[i] + box[i], dims[i]);
            inside.extents[i] = static_cast<std::uint16_t>(end[i] - at[i]);
          }
          for (std::uint64_t w = at[0]; w < end[0]; ++w) {
            for (std::uint64_t z = at[1]; z < end[1]; ++z) {
              for (std::uint64_t y = at[2]; y < end[2]; ++y) {
                for (std::uint64_t x = at[3]; x < end[3]; ++x) {
                  tile.values.push_back(((w * dims[1] + z) * dims[2] + y) * dims[3] + x);
                }
              }
            }
          }
        }
      }
    }
  }
  return tiles;
}

std::string text_of(const Dims& dims) {
  std::string text = std::to_string(dims[0]);
  for (std::size_t i = 1; i < kAxes; ++i) text += " x " + std::to_string(dims[i]);
  return text;
}

class Walk {
 public:
  void check(Random& random, const TileLayout& layout, std::uint32_t value_bytes, const Dims& dims) {
    const std::uint64_t count = std::uint64_t{dims[0]} * dims[1] * dims[2] * dims[3];
    const std::vector<NaiveTile> expected = walk(layout, dims);
    const Geometry geometry(layout, value_bytes, count, dims);
    CHECK(geometry.tiles() == expected.size(), "%s: %u tiles, expected %zu", text_of(dims).c_str(), geometry.tiles(),
          expected.size());

    std::vector<std::uint8_t> chunk(count * value_bytes);
    for (std::uint8_t& byte : chunk) byte = static_cast<std::uint8_t>(random.next());
    const std::span<std::uint8_t> in = chunk_.at_end(chunk.size()), out = scattered_.at_end(chunk.size());
    std::copy(chunk.begin(), chunk.end(), in.begin());
    std::fill(out.begin(), out.end(), std::uint8_t{0xEE});
    std::vector<std::uint8_t> scattered(chunk.size(), 0xEE);
    for (std::uint32_t i = 0; i < geometry.tiles(); ++i) {
      const NaiveTile& tile = expected[i];
      check_place(geometry, i, tile);
      const bool is_run = layout.boxes == 1 && tile.values.back() - tile.values.front() == tile.values.size() - 1;
      CHECK(geometry.run_of(i) == (is_run ? tile.values.front() : Geometry::kNoRun), "%s: tile %u is%s a run",
            text_of(dims).c_str(), i, is_run ? "" : " not");
      const std::span<std::uint8_t> values = tile_.at_end(tile.values.size() * value_bytes);
      geometry.gather(i, in.data(), values.data());
      for (std::size_t j = 0; j < tile.values.size(); ++j) {
        const std::size_t at = tile.values[j] * value_bytes;
        CHECK(std::memcmp(values.data() + j * value_bytes, chunk.data() + at, value_bytes) == 0,
              "%s: value %zu of tile %u", text_of(dims).c_str(), j, i);
        std::memcpy(scattered.data() + at, chunk.data() + at, value_bytes);
      }
      geometry.scatter(i, values.data(), out.data());
      CHECK(std::equal(out.begin(), out.end(), scattered.begin()), "%s: tile %u is scattered elsewhere",
            text_of(dims).c_str(), i);
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
    CHECK(placed.tile.box_count == tile.boxes.size(), "tile %u has %u boxes, expected %zu", i, placed.tile.box_count,
          tile.boxes.size());
    for (std::size_t b = 0; b < tile.boxes.size(); ++b) {
      CHECK(
          std::equal(std::begin(tile.boxes[b].extents), std::end(tile.boxes[b].extents), placed.tile.boxes[b].extents),
          "box %zu of tile %u", b, i);
    }
    CHECK(!geometry.is_linear() || geometry.first_value(i) == tile.values.front(), "tile %u begins elsewhere", i);
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
    const Part asked(values, first, count, value_bytes);
    const Region region = asked.region(geometry.dims());
    std::vector<std::uint32_t> found;
    geometry.for_tiles(region, [&](std::uint32_t tile) { found.push_back(tile); });
    CHECK(std::is_sorted(found.begin(), found.end(), std::less_equal<>()), "%zu tiles", found.size());
    for (std::uint32_t i = 0; i < geometry.tiles(); ++i) {
      const std::vector<std::uint64_t>& mine = expected[i].values;
      const bool holds = std::any_of(mine.begin(), mine.end(),
                                     [&](std::uint64_t value) { return value >= first && value < first + count; });
      CHECK(!holds || (i >= begin && i < end), "tile %u is not among %u to %u", i, begin, end);
      const bool is_found = std::find(found.begin(), found.end(), i) != found.end();
      CHECK(is_found || !holds, "tile %u is not found", i);
      if (!is_found) continue;
      const std::span<std::uint8_t> tile = tile_.at_end(mine.size() * value_bytes);
      for (std::size_t j = 0; j < mine.size(); ++j) {
        std::memcpy(tile.data() + j * value_bytes, chunk.data() + mine[j] * value_bytes, value_bytes);
      }
      geometry.for_rows(i, region, [&](std::uint64_t row, std::uint32_t in_tile, std::uint32_t row_values) {
        for (std::uint32_t j = 0; j < row_values; ++j) {
          CHECK(mine[in_tile + j] == row + j, "value %u of tile %u", in_tile + j, i);
        }
        asked.scatter(row, row_values, tile.data() + std::size_t{in_tile} * value_bytes, part.data());
      });
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
  const std::size_t longest = random.below(kAxes);
  for (std::size_t i = 0; i < kAxes; ++i) {
    if (i == longest) continue;
    const std::uint64_t extents[] = {1, 1 + random.below(4), 4, 5, 8, 9, 16, 17, 1 + random.below(200)};
    dims[i] = static_cast<std::uint32_t>(std::min(extents[random.below(9)], left));
    left /= dims[i];
  }
  dims[longest] = static_cast<std::uint32_t>(std::max<std::uint64_t>(left, 1));
}

// Dims that do not hold the values, whatever their product is modulo 2^32 or 2^64.
void check_wrong_dims(const TileLayout& layout) {
  const Dims wrong[] = {{1, 2, 5, 9},
                        {1, 1, 1, 101},
                        {1, 0, 10, 10},
                        {1, 10, 10, 0},
                        {0, 0, 0, 0},
                        {2, 1u << 31, 1, 100},
                        {1, 1u << 31, 1u << 31, 4},
                        {~0u, ~0u, ~0u, ~0u},
                        {1, 100, ~0u, ~0u},
                        {0, ~0u, ~0u, ~0u}};
  for (const Dims& dims : wrong) {
    const Geometry geometry(layout, 4, 100, dims);
    CHECK(geometry.tiles() == 0, "%s: %u tiles", text_of(dims).c_str(), geometry.tiles());
  }
}

// The examples of docs/format/interp.md, "Tiles". The boxes of a mode depend on its axes only: w, z, y, x from bit 3 down.
void check_pieces() {
  const struct {
    Dims dims;
    std::uint32_t axes;
    Dims box;
    std::uint32_t tiles;
  } examples[] = {
      {{1, 64, 64, 64}, 7, {1, 32, 32, 32}, 8},    {{1, 17, 96, 96}, 3, {1, 3, 96, 96}, 6},
      {{1, 1, 512, 512}, 3, {1, 1, 128, 256}, 8},  {{1, 1, 1, 262144}, 1, {1, 1, 1, 32768}, 8},
      {{6, 10, 41, 83}, 7, {1, 10, 41, 42}, 12},   {{1, 1, 1, 32769}, 1, {1, 1, 1, 16385}, 2},
      {{1, 1, 1, 262144}, 2, {1, 1, 1, 32768}, 8},  // an axis that the chunk does not have
      {{1, 32, 32, 32}, 7, {1, 32, 32, 32}, 1},    {{3, 5, 7, 11}, 7, {3, 5, 7, 11}, 1},
  };
  const Codec& codec = *codec_entry(H5L_CODEC_INTERP)->codec;
  for (const auto& example : examples) {
    for (const std::uint32_t rewritable : {0u, 16u}) {
      for (const std::uint32_t value_bytes : {4u, 8u}) {
        const TileLayout layout = codec.layout(example.axes | rewritable, value_bytes, example.dims);
        CHECK(std::equal(layout.box, layout.box + kAxes, example.box) && layout.boxes == 1, "%s, axes %u: boxes of %s",
              text_of(example.dims).c_str(), example.axes, text_of(layout.box).c_str());
        const auto& d = example.dims;
        const std::uint64_t count = std::uint64_t{d[0]} * d[1] * d[2] * d[3];
        CHECK(Geometry(layout, value_bytes, count, d).tiles() == example.tiles, "%s", text_of(d).c_str());
      }
    }
  }
}

// As the page defines them, for all modes. Dims are as in headers: unchecked.
void check_boxes_of_dims(Random& random, Walk& walk) {
  const std::uint32_t most = ~0u;
  const Dims wrong[] = {
      {0, 0, 0, 0},      {1, 0, 10, 10}, {most, most, most, most}, {0, most, most, 1}, {1, 1, 1u << 31, 1u << 31},
      {most, 1, 1, most}};
  for (const Method& method : all_methods()) {
    if (codec_entry(method.codec)->codec->header_dims(method.mode) != kAxes) continue;
    for (const Dims& dims : wrong) {
      std::uint64_t values = 1;
      for (const std::uint32_t extent : method.layout(4, dims).box) values *= extent;
      CHECK(values >= 1 && values <= kMaxTileValues, "%s, %s: boxes of %llu values", method.name.c_str(),
            text_of(dims).c_str(), static_cast<unsigned long long>(values));
      CHECK(Geometry(method.layout(4, dims), 4, 100, dims).tiles() == 0, "%s", text_of(dims).c_str());
    }
    for (int i = 0; i < 4; ++i) {
      Dims dims = {1, 1, 1, 1};
      make_dims(random, dims);
      dims[random.below(kAxes)] *= 1 + static_cast<std::uint32_t>(random.below(4));
      walk.check(random, method.layout(4, dims), random.one_in(2) ? 4 : 8, dims);
    }
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  Random random(18);
  Walk walk;
  const h5lossy::TileLayout layouts[] = {{{1, 1, 1, 1}},     {{1, 1, 1, 100}},     {{1, 1, 8, 8}, 64},
                                         {{1, 4, 4, 4}, 64}, {{1, 16, 12, 10}, 1}, {{2, 3, 5, 7}, 3}};
  for (const h5lossy::TileLayout& layout : layouts) {
    check_wrong_dims(layout);
    for (int i = 0; i < cases(150); ++i) {
      Dims dims = {1, 1, 1, 1};
      make_dims(random, dims);
      if (random.one_in(4)) dims[0] = dims[1] = dims[2] = 1;
      walk.check(random, layout, random.one_in(2) ? 4 : 8, dims);
    }
  }
  check_pieces();
  check_boxes_of_dims(random, walk);
}
