// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The parts of a cuSZp2 or AATROX payload that carry no values (docs/format/block-codecs.md) are written as zero, and
// anything else is refused when reading: nonzero padding, and missing or excess bytes. Bits of positions outside the
// data are zero, so that the same values always give the same bytes.

#include <algorithm>

#include "check.h"
#include "codecs/aatrox.h"
#include "codecs/bounds.h"
#include "codecs/cuszp2.h"
#include "methods.h"
#include "values.h"

namespace h5lossy::test {
namespace {

namespace blocks = scalar::blocks;
namespace cuszp2 = scalar::cuszp2;

// A pad: this many bytes from this offset on.
struct Pad {
  std::size_t at, size;
};

template <class T>
class Payload {
 public:
  Payload(const Method& method, const Tile& tile, Random& random)
      : method_(method),
        tile_(tile),
        codec_(*codec_entry(method.codec)->codec),
        functions_(sizeof(T) == 4 ? codec_.float32 : codec_.float64),
        workspace_(workspace_of(functions_)) {
    const Setting setting = {H5L_BOUND_ABSOLUTE, 1e-3};
    quantizer_.kind = BoundKind::absolute;
    quantizer_ = scalar::make_absolute<T>(quantizer_, setting.bound);
    Values<T> source(random, setting, 0);
    raw_ = to_bytes<T>(source.make(tile.count), false);
    bytes_.resize(method.tile_values(sizeof(T)) * sizeof(T) + codec_.spare_bytes, 0xEE);
    const u32 size = functions_.encode(quantizer_, method.mode, tile, raw_.data(), bytes_.data(), workspace_.data());
    CHECK(size != kStoreTile && size > sizeof(T), "%s: payload of %u bytes for %u values", method.name.c_str(), size,
          tile.count);
    bytes_.resize(size);
  }

  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

  void check_pads(const std::vector<Pad>& pads) const {
    CHECK(is_taken(bytes_), "%s: refused", method_.name.c_str());
    for (const Pad& pad : pads) {
      for (std::size_t at = pad.at; at < pad.at + pad.size; ++at) {
        CHECK(bytes_[at] == 0, "%s: byte %zu of %zu is %u", method_.name.c_str(), at, bytes_.size(), bytes_[at]);
        Bytes changed = bytes_;
        changed[at] = 1;
        CHECK(!is_taken(changed), "%s: byte %zu of %zu is taken as 1", method_.name.c_str(), at, bytes_.size());
      }
    }
    for (std::size_t more = 1; more <= 8; ++more) {
      Bytes longer = bytes_;
      longer.resize(bytes_.size() + more);
      CHECK(!is_taken(longer), "%s: %zu bytes more are taken", method_.name.c_str(), more);
      Bytes shorter = bytes_;
      shorter.resize(bytes_.size() - more);
      if (shorter.size() > sizeof(T)) CHECK(!is_taken(shorter), "%s: %zu bytes less", method_.name.c_str(), more);
    }
  }

 private:
  [[nodiscard]] bool is_taken(const Bytes& payload) const {
    Bytes decoded(raw_.size());
    return functions_.decode(quantizer_, method_.mode, tile_, payload.data(), static_cast<u32>(payload.size()),
                             decoded.data(), workspace_.data());
  }

  const Method& method_;
  const Tile& tile_;
  const Codec& codec_;
  const TileFunctions& functions_;
  const Workspace workspace_;
  Quantizer quantizer_;
  Bytes raw_, bytes_;
};

template <class T>
std::vector<cuszp2::Code> read_codes(const Bytes& payload, u32 count) {
  std::vector<cuszp2::Code> codes(count);
  for (u32 b = 0; b < count; ++b) {
    u32 packed = 0;
    std::memcpy(&packed, payload.data() + b * cuszp2::kCodeBytes<T>, cuszp2::kCodeBytes<T>);
    CHECK(cuszp2::unpack_code<T>(packed, true, cuszp2::max_width<T>(true), codes[b]), "code 0x%x", packed);
  }
  return codes;
}

// Reads codes, planes and first residuals. Returns how many bytes the last are short of a multiple of 4.
template <class T, u32 n>
std::size_t check_cuszp2(const Method& method, const Tile& tile, const blocks::Insides<n>& insides, Random& random) {
  const Payload<T> payload(method, tile, random);
  const u32 count = insides.blocks();
  const std::vector<cuszp2::Code> codes = read_codes<T>(payload.bytes(), count);
  const std::size_t codes_bytes = count * cuszp2::kCodeBytes<T>;
  std::size_t first_bytes = 0, plane_at = (codes_bytes + 3) / 4 * 4;
  for (u32 b = 0; b < count; ++b) {
    const u64 inside = insides[b];
    first_bytes += codes[b].first_size;
    for (const std::size_t end = plane_at + cuszp2::planes_bytes<n>(codes[b]); plane_at < end; plane_at += n / 8) {
      for (u32 e = 0; e < n; ++e) {
        const bool is_set = (payload.bytes()[plane_at + e / 8] >> (7 - e % 8) & 1) != 0;
        CHECK(!is_set || (inside >> e & 1) != 0, "%s: block %u, position %u", method.name.c_str(), b, e);
      }
    }
  }
  const std::size_t short_of = (4 - first_bytes % 4) % 4, size = payload.bytes().size();
  CHECK(size == plane_at + first_bytes + short_of, "%s: %zu bytes, expected %zu", method.name.c_str(), size,
        plane_at + first_bytes + short_of);
  payload.check_pads({{codes_bytes, (4 - codes_bytes % 4) % 4}, {size - short_of, short_of}});
  return short_of;
}

template <class T>
void check_cuszp2(const Method& method) {
  Random random(23);
  std::size_t pads = 0;
  for (u32 i = 1; i <= 40; ++i) {
    if (!method.has_boxes) {
      const Tile tile = {32 * i - i % 5, 1, nullptr};
      pads += check_cuszp2<T, 32>(method, tile, blocks::Insides<32>(tile.count), random);
      continue;
    }
    // Boxes that are whole or cut off along each axis, and the positions of their values in a whole box.
    const auto& whole = method.layout(sizeof(T)).box;
    std::vector<Box> boxes(i);
    std::vector<u64> masks(i);
    u32 count = 0;
    for (u32 b = 0; b < i; ++b) {
      auto& size = boxes[b].extents;
      for (u32 axis = 0; axis < kAxes; ++axis) {
        size[axis] = static_cast<u16>(b % 2 != 0 ? whole[axis] : 1 + random.below(whole[axis]));
      }
      for (u32 e = 0; e < 64; ++e) {
        const bool is_inside =
            e / whole[3] / whole[2] < size[1] && e / whole[3] % whole[2] < size[2] && e % whole[3] < size[3];
        masks[b] |= u64{is_inside} << e;
      }
      count += scalar::count_ones(masks[b]);
    }
    const Tile tile = {count, i, boxes.data()};
    if (i > 1) pads += check_cuszp2<T, 64>(method, tile, blocks::Insides<64>(i, masks.data()), random);
  }
  cuszp2::Mode mode;
  CHECK(cuszp2::unpack_mode(method.mode, mode), "mode %u", method.mode);
  CHECK((pads > 0) == (mode.selection == cuszp2::Selection::outlier), "%s: %zu bytes of pads", method.name.c_str(),
        pads);
}

// The layers' bits and their codes.
template <class T>
void check_aatrox(const Method& method) {
  Random random(24);
  for (u32 i = 1; i <= 100; ++i) {
    const Tile tile = {32 * i - i % 5, 1, nullptr};
    const Payload<T> payload(method, tile, random);
    const u32 count = (tile.count + scalar::aatrox::kBlockValues - 1) / scalar::aatrox::kBlockValues;
    // With these values, every layer has differences.
    payload.check_pads({{4 + count, (4 - count % 4) % 4}});
    for (u32 layer = (count + 31) / 32; layer < 32; ++layer) {
      CHECK((payload.bytes()[layer / 8] >> layer % 8 & 1) == 0, "layer %u of a tile of %u blocks", layer, count);
    }
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  for (const Method& method : methods()) {
    if (method.codec == H5L_CODEC_CUSZP2) {
      check_cuszp2<float>(method);
      check_cuszp2<double>(method);
    }
    if (method.codec == H5L_CODEC_AATROX) {
      check_aatrox<float>(method);
      check_aatrox<double>(method);
    }
  }
}
