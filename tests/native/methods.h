// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// What the tests go through: every codec of this build with every mode that its frames have, as the library's own table
// says. So a codec that comes later is tested without a change.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "frames.h"
#include "random.h"
#include "runtime/registry.h"

namespace h5lossy::test {

// A codec and one of its modes, to be asked for.
struct Method {
  std::uint32_t codec = H5L_CODEC_AUTO;
  std::uint32_t mode = 0;
  bool is_default = false;  // what mode 0 stands for
  bool has_boxes = false;   // works on blocks in several dimensions
  std::string name;

  // Not for codec auto.
  [[nodiscard]] Blocking blocking(std::uint32_t value_bytes) const {
    Blocking made = {};
    CHECK(codec_entry(codec)->codec->blocking(mode, value_bytes, made), "%s", name.c_str());
    return made;
  }

  // Values of a full tile; with codec auto, of the largest that it may choose.
  [[nodiscard]] std::size_t tile_values(std::uint32_t value_bytes) const;
};

inline std::vector<Method> methods() {
  std::vector<Method> found;
  // The last backend runs everywhere.
  for (const CodecEntry& entry : backends().back().codecs) {
    for (std::uint32_t mode = 0; mode < 256; ++mode) {
      Blocking blocking;
      if (!entry.codec->blocking(mode, 4, blocking)) continue;
      const bool is_default = entry.codec->frame_mode(0, 1) == mode;
      found.push_back({entry.number, mode, is_default, blocking.extents[2] != 0,
                       std::string(entry.name) + ", mode " + std::to_string(mode)});
    }
  }
  return found;
}

// The same, and codec auto, which chooses among them.
inline std::vector<Method> methods_and_auto() {
  std::vector<Method> found = methods();
  found.push_back({H5L_CODEC_AUTO, 0, true, false, "auto"});
  return found;
}

inline std::size_t Method::tile_values(std::uint32_t value_bytes) const {
  if (codec != H5L_CODEC_AUTO) return blocking(value_bytes).tile_values;
  std::size_t largest = 0;
  for (const Method& method : methods()) largest = std::max(largest, method.tile_values(value_bytes));
  return largest;
}

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

}  // namespace h5lossy::test
