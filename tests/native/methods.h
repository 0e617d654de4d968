// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Every codec of this build with every mode of its frames that can be requested, from the library's own table, so that
// new codecs are tested without changes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "chunk/geometry.h"
#include "chunk/workspace.h"
#include "frames.h"
#include "random.h"
#include "runtime/registry.h"

namespace h5lossy::test {

// A codec and one of its modes, for requests.
struct Method {
  std::uint32_t codec = H5L_CODEC_AUTO;
  std::uint32_t mode = 0;
  bool is_default = false;  // whether mode 0 selects it
  bool has_boxes = false;   // its frames hold dims
  std::string name;

  // Of chunks with these dims. Not for codec auto.
  [[nodiscard]] TileLayout layout(std::uint32_t value_bytes, const std::uint32_t (&dims)[kAxes]) const {
    return codec_entry(codec)->codec->layout(mode, value_bytes, dims);
  }
  [[nodiscard]] TileLayout layout(std::uint32_t value_bytes) const { return layout(value_bytes, {1, 1, 1, 1 << 20}); }

  // Values of a full tile; with codec auto, of the largest that it may choose.
  [[nodiscard]] std::size_t tile_values(std::uint32_t value_bytes) const;
};

inline std::vector<Method> all_methods() {
  std::vector<Method> found;
  const Quantizer quantizer;
  const std::uint8_t value[8] = {};
  const Chunk run = {{1, 1, 1, 1}, 1, ValueClass::floating, 4, false, quantizer, value};
  for (const CodecEntry& entry : all_codecs()) {
    const Workspace workspace(entry.codec->choice_bytes);
    for (std::uint32_t mode = 0; mode < 256; ++mode) {
      const std::uint32_t header_dims = entry.codec->header_dims(mode);
      if (header_dims == kNoMode || !entry.codec->has_mode(mode)) continue;
      const bool is_default = entry.codec->choose_mode(run, 0, workspace.data()) == mode;
      found.push_back({entry.number, mode, is_default, header_dims != 0,
                       std::string(entry.name) + ", mode " + std::to_string(mode)});
    }
  }
  return found;
}

// Of a codec with more modes than the first number, about so many as the second says are tested, and its default one.
#ifdef H5L_FEW_CASES
inline constexpr std::uint32_t kManyModes = 4, kSomeModes = 3;
#else
inline constexpr std::uint32_t kManyModes = 12, kSomeModes = 8;
#endif

inline std::vector<Method> methods() {
  const std::vector<Method> all = all_methods();
  std::vector<Method> found;
  const auto of_codec = [&](std::uint32_t codec) {
    return std::count_if(all.begin(), all.end(), [&](const Method& method) { return method.codec == codec; });
  };
  std::uint32_t codec = H5L_CODEC_AUTO, turn = 0;
  for (const Method& method : all) {
    turn = method.codec == codec ? turn + 1 : 0;
    codec = method.codec;
    const auto modes = static_cast<std::uint32_t>(of_codec(codec));
    if (modes <= kManyModes || turn % (modes / kSomeModes + 1) == 0 || method.is_default) found.push_back(method);
  }
  return found;
}

// The same, and codec auto, for speed and for size.
inline std::vector<Method> methods_and_auto() {
  std::vector<Method> found = methods();
  found.push_back({H5L_CODEC_AUTO, H5L_AUTO_SPEED, true, false, "auto"});
  found.push_back({H5L_CODEC_AUTO, H5L_AUTO_SIZE, false, false, "auto-size"});
  return found;
}

inline std::size_t Method::tile_values(std::uint32_t value_bytes) const {
  if (codec != H5L_CODEC_AUTO) return Geometry(layout(value_bytes), value_bytes, 0, {1, 1, 1, 0}).max_tile_values();
  std::size_t largest = 0;
  for (const Method& method : methods()) largest = std::max(largest, method.tile_values(value_bytes));
  return largest;
}

// Two to five extents, some of them 1, thin, or just past a block, whose product is at most `most` and not far below.
inline std::vector<std::uint32_t> random_extents(Random& random, std::uint64_t most) {
  std::vector<std::uint32_t> extents(2 + random.below(4), 1);
  const std::size_t longest = random.below(extents.size());
  std::uint64_t left = most;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (i == longest) continue;
    const std::uint64_t largest[] = {1, 5, 9, 17, 65, left};
    extents[i] = static_cast<std::uint32_t>(
        1 + random.below(std::clamp<std::uint64_t>(largest[random.below(6)], 1, std::max<std::uint64_t>(left, 1))));
    left /= extents[i];
  }
  extents[longest] = static_cast<std::uint32_t>(left);
  return extents;
}

inline std::uint64_t product(const std::vector<std::uint32_t>& extents) {
  std::uint64_t values = 1;
  for (const std::uint32_t extent : extents) values *= extent;
  return values;
}

// A codec's tile of some shape: full, or of at most `most` values, or with boxes that the chunk's end cuts.
inline void place_some_tile(Random& random, const Method& method, std::uint32_t value_bytes, bool is_full,
                            std::uint64_t most, PlacedTile& placed) {
  const std::uint32_t header_dims = codec_entry(method.codec)->codec->header_dims(method.mode);
  const TileLayout layout = method.layout(value_bytes);
  std::uint32_t dims[kAxes] = {1, 1, 1, 1};
  if (header_dims == kAxes) {  // the extents of a box follow from those of the chunk
    const std::vector<std::uint32_t> full[] = {{1 << 17}, {512, 512}, {64, 64, 64}, {16, 16, 16, 32}, {128, 2, 1, 128}};
    const std::vector<std::uint32_t> extents =
        is_full ? full[random.below(std::size(full))] : random_extents(random, 1 + random.below(3 * most));
    for (std::size_t i = 0; i < extents.size(); ++i) {
      const std::size_t from_last = extents.size() - 1 - i;
      dims[from_last < kAxes ? kAxes - 1 - from_last : 0] *= extents[i];
    }
  }
  for (std::size_t i = kAxes - header_dims; i < kAxes && header_dims != kAxes; ++i) {
    const std::uint32_t extent = layout.box[i];
    dims[i] = is_full ? 4 * extent : static_cast<std::uint32_t>(1 + random.below(6 * std::uint64_t{extent}));
  }
  if (header_dims == 0) dims[3] = is_full ? layout.box[3] : static_cast<std::uint32_t>(1 + random.below(most));
  const std::uint64_t values = std::uint64_t{dims[0]} * dims[1] * dims[2] * dims[3];
  Geometry(method.layout(value_bytes, dims), value_bytes, values, dims).place(0, placed);
}

// Of exactly the requested size, so that sanitizers detect accesses beyond it.
inline Workspace workspace_of(const TileFunctions& functions) { return Workspace(functions.workspace_bytes); }

inline h5l_params make_params(const Method& method, std::uint32_t kind, double bound, std::uint32_t value_bytes) {
  h5l_params params = make_params(kind, bound, value_bytes);
  params.codec = method.codec;
  params.mode = method.mode;
  return params;
}

inline void set_shape(h5l_params& params, const std::vector<std::uint32_t>& extents) {
  params.rank = static_cast<std::uint32_t>(extents.size());
  std::copy(extents.begin(), extents.end(), params.shape);
}

}  // namespace h5lossy::test
