// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// A codec's decoder, given any payload of any allowed length, refuses it or gives some values. It neither reads nor
// writes outside of its buffers, which are next to guard pages and only as long as necessary. For all codecs and modes,
// without a frame around the payload and so without its checks.

#include <algorithm>
#include <cstring>

#include "check.h"
#include "chunk/geometry.h"
#include "codecs/bounds.h"
#include "guarded_memory.h"
#include "methods.h"
#include "quantizers.h"
#include "values.h"

namespace h5lossy::test {
namespace {

template <class T>
class Decoder {
 public:
  explicit Decoder(const Method& method)
      : method_(method),
        codec_(*codec_entry(method.codec)->codec),
        full_tile_(method.tile_values(sizeof(T))),
        functions_(sizeof(T) == 4 ? codec_.float32 : codec_.float64),
        workspace_(workspace_of(functions_)) {}

  void run() {
    place();
    for (const Setting& setting : settings<T>()) {
      if (!make_quantizer(setting)) continue;
      const Bytes right = encode(setting);
      for (int i = 0; i < cases(12) && right.size() > 1; ++i) decode(damaged(right));
      for (int i = 0; i < cases(4); ++i) decode(garbage());
    }
  }

  [[nodiscard]] int taken() const { return taken_; }
  [[nodiscard]] int refused() const { return refused_; }

 private:
  void place() {
    const bool is_full = random_.one_in(3);
    place_some_tile(random_, method_, sizeof(T), is_full, random_.one_in(2) ? 300 : full_tile_, placed_);
    raw_bytes_ = std::size_t{placed_.tile.count} * sizeof(T);
  }

  // False if the codec has no quantizer for this.
  bool make_quantizer(const Setting& setting) {
    quantizer_ = test::make_quantizer<T>(setting, false, 0);
    return quantizer_.kind != BoundKind::lossless || codec_.has_lossless;
  }

  // Encodes some values, including exceptions. Empty if the encoder gives nothing.
  Bytes encode(const Setting& setting) {
    constexpr std::uint64_t densities[] = {0, 1000, 50, 5};
    Values<T> source(random_, setting, densities[random_.below(4)]);
    const Bytes raw = to_bytes<T>(source.make(placed_.tile.count), false);
    Bytes payload(full_tile_ * sizeof(T) + codec_.spare_bytes);
    const u32 size =
        functions_.encode(quantizer_, method_.mode, placed_.tile, raw.data(), payload.data(), workspace_.data());
    payload.resize(size == kStoreTile ? 0 : size);
    return payload;
  }

  // Changes a few bytes, half of the time at the beginning, where the sizes are; or truncates or extends the payload.
  Bytes damaged(Bytes payload) {
    for (std::uint64_t changes = random_.below(4); changes > 0; --changes) {
      const std::size_t reach = random_.one_in(2) ? payload.size() : std::min<std::size_t>(payload.size(), 160);
      const std::size_t at = random_.one_in(3) ? payload.size() - 1 - random_.below(reach) : random_.below(reach);
      payload[at] =
          static_cast<std::uint8_t>(random_.one_in(2) ? payload[at] ^ 1u << random_.below(8) : random_.next());
    }
    if (random_.one_in(3)) payload.resize(random_.below(2 * payload.size() + 8));
    return payload;
  }

  Bytes garbage() {
    Bytes payload(random_.below(raw_bytes_ + 1));
    const std::uint64_t zeros = random_.below(8);
    for (std::uint8_t& byte : payload) byte = random_.below(8) < zeros ? 0 : static_cast<std::uint8_t>(random_.next());
    return payload;
  }

  void decode(const Bytes& payload) {
    // Others never reach the codec (docs/format/frame.md, "Tiles").
    if (payload.empty() || payload.size() >= raw_bytes_) return;
    for (const bool at_end : {true, false}) {
      const std::span<std::uint8_t> in = at_end ? payload_.at_end(payload.size()) : payload_.at_front(payload.size());
      const std::span<std::uint8_t> out = at_end ? values_.at_end(raw_bytes_) : values_.at_front(raw_bytes_);
      std::copy(payload.begin(), payload.end(), in.begin());
      const auto is_taken = [&] {
        return functions_.decode(quantizer_, method_.mode, placed_.tile, in.data(), static_cast<u32>(in.size()),
                                 out.data(), workspace_.data());
      };
      const bool taken = is_taken();
      ++(taken ? taken_ : refused_);
      // All values have been set: none still has what the memory held before.
      if (!taken) continue;
      const Bytes first(out.begin(), out.end());
      for (std::uint8_t& byte : out) byte = static_cast<std::uint8_t>(~byte);
      std::fill_n(workspace_.data(), functions_.workspace_bytes, static_cast<std::uint8_t>(random_.next()));
      CHECK(is_taken(), "%s: refused the second time", method_.name.c_str());
      CHECK(std::equal(out.begin(), out.end(), first.begin()), "%s: other values the second time",
            method_.name.c_str());
    }
  }

  const Method& method_;
  const Codec& codec_;
  std::size_t full_tile_;
  const TileFunctions& functions_;
  Workspace workspace_;
  Random random_{21};
  PlacedTile placed_;
  std::size_t raw_bytes_ = 0;
  Quantizer quantizer_;
  GuardedMemory payload_{full_tile_ * sizeof(T)}, values_{full_tile_ * sizeof(T)};
  int taken_ = 0;
  int refused_ = 0;
};

template <class T>
void check(const Method& method) {
  Decoder<T> decoder(method);
  const int times = method.tile_values(sizeof(T)) > 10000 ? cases(8) : cases(20);
  for (int i = 0; i < times; ++i) decoder.run();
  const int least = kCaseStep == 1 ? 100 : 3;  // seldom taken, so not a tenth
  CHECK(decoder.taken() > least && decoder.refused() > least, "%s: %d taken, %d refused", method.name.c_str(),
        decoder.taken(), decoder.refused());
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  for (const h5lossy::test::Method& method : h5lossy::test::methods()) {
    h5lossy::test::check<float>(method);
    h5lossy::test::check<double>(method);
  }
}
