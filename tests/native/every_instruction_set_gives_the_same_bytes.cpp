// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Every backend that this machine can run, and the codecs compiled once more with all of the machine's instructions,
// give the same payloads and the same values as the scalar backend, bit for bit, also for hostile values and fill
// values. What compilers do to floating-point code depends on the available instructions: where one of them rounds, gcc
// 12 mistook a rounding for a conversion to an integer and back, and lost the sign of zero.

#include <algorithm>
#include <cinttypes>
#include <string>
#include <vector>

#include "check.h"
#include "chunk/geometry.h"
#include "chunk/workspace.h"
#include "codecs/bounds.h"
#include "codecs/codec.h"
#include "frame/checksum.h"
#include "frames.h"
#include "methods.h"
#include "quantizers.h"
#include "runtime/registry.h"
#include "values.h"

namespace h5lossy::this_machine {
#include "runtime/of_backend.def"
}  // namespace h5lossy::this_machine

namespace h5lossy::test {
namespace {

struct Other {
  std::string name;
  const Codec* codec;
};

std::vector<Other> others(std::uint32_t codec) {
  std::vector<Other> found = {{"this machine", find_codec(this_machine::kCodecs, codec)->codec}};
  for (const Backend& backend : backends()) {
    if (backend.runs_here()) found.push_back({backend.name, find_codec(backend.codecs, codec)->codec});
  }
  return found;
}

// Encodes one tile; for codecs with boxes, the first tile of a chunk with random extents.
template <class T>
const TileFunctions& functions_of(const Codec& codec) {
  if constexpr (sizeof(T) == 4) return codec.float32;
  return codec.float64;
}

template <class T>
void check(const Method& method, const Setting& setting, Random& random, std::uint64_t hostile_one_in) {
  const Codec& codec = *codec_entry(method.codec)->codec;  // the scalar backend's
  const TileFunctions& expected = functions_of<T>(codec);
  const std::size_t full_tile = method.tile_values(sizeof(T));
  PlacedTile placed;
  // Large tiles take long on an emulated processor, so there are fewer of them.
  const std::uint64_t full_one_in = full_tile > 1 << 14 ? 32 : 2;
  place_some_tile(random, method, sizeof(T), random.one_in(full_one_in), 2 * full_tile / full_one_in, placed);
  const Tile& tile = placed.tile;
  Values<T> source(random, setting, hostile_one_in);
  const std::vector<Bits<T>> values = source.make(tile.count);
  const Bits<T> fills[] = {kSign<T>, std::bit_cast<Bits<T>>(T{-999}), 12345, source.hostile()};
  const Quantizer quantizer = make_quantizer<T>(setting, random.one_in(2), fills[random.below(std::size(fills))]);
  if (quantizer.kind == BoundKind::lossless && !codec.has_lossless) return;
  const Bytes raw = to_bytes<T>(values, false);

  Bytes payload(full_tile * sizeof(T) + codec.spare_bytes), decoded(raw.size());
  const Workspace memory = workspace_of(expected);
  const u32 size = expected.encode(quantizer, method.mode, tile, raw.data(), payload.data(), memory.data());
  const bool is_decoded = size != kStoreTile && size != 0;
  if (is_decoded) {
    CHECK(expected.decode(quantizer, method.mode, tile, payload.data(), size, decoded.data(), memory.data()),
          "%u bytes", size);
  }
  for (const Other& other : others(method.codec)) {
    const TileFunctions& actual = functions_of<T>(*other.codec);
    Bytes other_payload(payload.size()), other_decoded(raw.size());
    const Workspace own = workspace_of(actual);
    const u32 other_size = actual.encode(quantizer, method.mode, tile, raw.data(), other_payload.data(), own.data());
    const auto payload_bytes = static_cast<std::ptrdiff_t>(size == kStoreTile ? 0 : size);
    CHECK(size == other_size && std::equal(payload.begin(), payload.begin() + payload_bytes, other_payload.begin()),
          "%s, %s, payloads of %u and %u bytes: float%zu, kind %u, bound %.17g, fill %d 0x%" PRIx64, other.name.c_str(),
          method.name.c_str(), size, other_size, 8 * sizeof(T), setting.kind, setting.bound, quantizer.has_fill ? 1 : 0,
          std::uint64_t{quantizer.fill_bits});
    if (!is_decoded) continue;
    // A copy of exactly its size, so that sanitizers see reads past its end.
    const Bytes tight(payload.begin(), payload.begin() + payload_bytes);
    CHECK(actual.decode(quantizer, method.mode, tile, tight.data(), size, other_decoded.data(), own.data()), "%u bytes",
          size);
    CHECK(decoded == other_decoded, "%s, %s, values differ: float%zu, kind %u, bound %.17g", other.name.c_str(),
          method.name.c_str(), 8 * sizeof(T), setting.kind, setting.bound);
  }
}

// The checksums too, of every length up to some vectors.
void check_checksums() {
  Random random(16);
  for (std::size_t size = 0; size < 600; ++size) {
    Bytes bytes(size);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
    const std::uint32_t expected = checksum(bytes, 7, 3);
    for (const Backend& backend : backends()) {
      if (!backend.runs_here()) continue;
      CHECK(backend.checksum(bytes.data(), static_cast<u32>(size), 7, 3) == expected, "%s, %zu bytes", backend.name,
            size);
    }
  }
}

template <class T>
void check_all(const Method& method) {
  Random random(15);
  for (const Setting& setting : settings<T>()) {
    for (const std::uint64_t hostile_one_in : {0u, 1000u, 30u, 2u, 1u}) {
      for (int i = 0; i < (method.is_default ? cases(4) : 1); ++i) check<T>(method, setting, random, hostile_one_in);
    }
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  h5lossy::test::check_checksums();
  for (const h5lossy::test::Method& method : h5lossy::test::methods()) {
    h5lossy::test::check_all<float>(method);
    h5lossy::test::check_all<double>(method);
  }
}
