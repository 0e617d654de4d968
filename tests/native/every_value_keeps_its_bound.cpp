// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The promise, for all codecs and modes, both types, all bound kinds, many sizes and hostile values: each value comes
// back within its bound; special values and the fill value come back bit for bit; and encoding the decoded values gives
// the same frame again or, with some codecs, the same values. All buffers are as small as the API allows, lie next to
// guard pages or at odd addresses, and a frame never takes more than raw_bytes + 40.
//
// usage: every_value_keeps_its_bound [SEED]

#include <algorithm>
#include <iterator>
#include <map>

#include "check.h"
#include "frames.h"
#include "guarded_memory.h"
#include "methods.h"
#include "values.h"

namespace h5lossy::test {
namespace {

// Sizes tried: up to three tiles, and some values more.
constexpr std::size_t kMostTiles = 3, kMore = 17;

// Places for a call's input and output: before a guard page, after one, or at an odd address.
class Place {
 public:
  explicit Place(std::size_t most_bytes) : memory_(most_bytes + 8) {}

  std::span<std::uint8_t> get(Random& random, std::size_t size) const {
    switch (random.below(3)) {
      case 0:
        return memory_.at_front(size);
      case 1:
        return memory_.at_end(size);
      default:
        return memory_.at_end(size + 1 + random.below(7)).first(size);
    }
  }

 private:
  GuardedMemory memory_;
};

struct Counts {
  std::map<std::uint32_t, int> frames;  // by codec
  int stored_tiles = 0;
  int with_dims = 0;
};

template <class T>
class Check {
 public:
  Check(const Method& method, std::uint64_t seed) : method_(method), random_(seed), safeguards_(seed) {}

  // A chunk with several dimensions may have somewhat fewer values than `count`.
  void run(const Setting& setting, std::size_t count, std::uint64_t hostile_one_in) {
    h5l_params params = make_params(method_, setting.kind, setting.bound, sizeof(T));
    if (method_.has_boxes || random_.one_in(4)) {
      const std::vector<std::uint32_t> extents = random_extents(random_, count);
      set_shape(params, extents);
      count = product(extents);
    }
    params.big_endian = random_.one_in(4) ? 1 : 0;
    params.no_checksum = random_.one_in(4) ? 1 : 0;
    if (setting.kind != H5L_BOUND_LOSSLESS && safeguards_.one_in(8)) safeguard(setting.bound, params);
    params.maybe_padded = random_.one_in(4) ? 1 : 0;
    Values<T> source(random_, setting, hostile_one_in);
    std::vector<Bits<T>> values = source.make(count);
    choose_fill(source, values, params);
    if (params.has_fill != 0) scatter_fill(static_cast<Bits<T>>(params.fill_bits), values);
    // As HDF5 pads the chunks at an array's edge.
    if (params.maybe_padded != 0)
      std::fill(values.begin() + static_cast<std::ptrdiff_t>(count - count / 3), values.end(), Bits<T>{0});
    if (setting.kind == H5L_BOUND_RANGE_RELATIVE) put_on_borders(params, values);

    const Bytes raw = to_bytes<T>(values, params.big_endian != 0);
    const std::span<const std::uint8_t> frame = encode_in_place(params, raw);
    const std::span<const std::uint8_t> decoded_raw = decode_in_place(frame, raw.size());
    const std::vector<Bits<T>> decoded = to_values<T>(decoded_raw, params.big_endian != 0);
    check_promise<T>(method_.name.c_str(), params, values, decoded);
    check_again(params, raw, Bytes(frame.begin(), frame.end()), Bytes(decoded_raw.begin(), decoded_raw.end()));
  }

  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  // Puts thresholds and ends of valid ranges where many values are, and next to each other.
  void safeguard(double bound, h5l_params& params) {
    const double numbers[] = {0, bound, -bound / 3, 1.5 * bound, 3 * bound, 1, 0x1p-149, -0x1p-1074, 0x1p127};
    const auto number = [&] { return std::clamp(numbers[safeguards_.below(std::size(numbers))], -1e300, 1e300); };
    params.threshold_count = static_cast<std::uint32_t>(safeguards_.below(H5L_MAX_THRESHOLDS + 1));
    std::generate_n(params.thresholds, params.threshold_count, number);
    if (safeguards_.one_in(2)) return;
    const double a = number(), b = number();
    params.has_valid_range = 1;
    params.valid_min = std::min(a, b);
    params.valid_max = std::max(a, b);
  }

  void choose_fill(Values<T>& source, std::span<const Bits<T>> values, h5l_params& params) {
    if (random_.one_in(2)) return;
    constexpr Bits<T> default_nan = kInf<T> | Bits<T>{1} << (kMantissa<T> - 1);
    const Bits<T> fills[] = {
        std::bit_cast<Bits<T>>(T{-999}),
        0,
        kSign<T>,
        12345,  // subnormal
        kSign<T> | 5,
        kSign<T> | default_nan,
        kInf<T>,
        source.hostile(),
        what_comes_back(values, params),
        what_comes_back(values, params),
    };
    params.has_fill = 1;
    params.fill_bits = fills[random_.below(std::size(fills))];
  }

  // The bits to which one of the values decodes if there is no fill value; others must not decode to them.
  Bits<T> what_comes_back(std::span<const Bits<T>> values, const h5l_params& params) {
    if (values.empty()) return 0;
    const bool big_endian = params.big_endian != 0;
    const Bytes decoded = decode(encode(params, to_bytes<T>(values, big_endian)));
    return to_values<T>(decoded, big_endian)[random_.below(values.size())];
  }

  // The fill value itself, and values so near it that they could decode to it.
  void scatter_fill(Bits<T> fill, std::vector<Bits<T>>& values) {
    for (Bits<T>& bits : values) {
      if (!random_.one_in(50)) continue;
      bits = random_.one_in(2) ? fill : static_cast<Bits<T>>(fill + static_cast<Bits<T>>(random_.between(-3, 3)));
    }
  }

  // Values exactly between the bins that the range gives, so that a bound that is one ulp too large is noticed.
  void put_on_borders(const h5l_params& params, std::vector<Bits<T>>& values) {
    const double border = inspect(encode(params, to_bytes<T>(values, params.big_endian != 0))).step / 2;
    for (Bits<T>& bits : values) {
      const T x = std::bit_cast<T>(bits);
      const bool inner = std::abs(static_cast<double>(x)) < 10 * border;  // hence neither the smallest nor the largest
      if (inner && random_.one_in(4)) bits = std::bit_cast<Bits<T>>(static_cast<T>(x < 0 ? -border : border));
    }
  }

  std::span<const std::uint8_t> encode_in_place(const h5l_params& params, const Bytes& raw) {
    const std::span<std::uint8_t> in = raw_place_.get(random_, raw.size());
    std::copy(raw.begin(), raw.end(), in.begin());
    const std::span<std::uint8_t> out = frame_place_.get(random_, raw.size() + 40);
    std::size_t frame_bytes = 0;
    h5l_message message;
    const h5l_status status = h5l_encode(&params, in.data(), in.size(), out.data(), out.size(), &frame_bytes, &message);
    CHECK(status == H5L_OK, "%s", message.text);
    CHECK(frame_bytes <= out.size(), "%zu bytes became %zu", raw.size(), frame_bytes);
    CHECK(std::equal(raw.begin(), raw.end(), in.begin()), "the input has changed");
    return out.first(frame_bytes);
  }

  std::span<const std::uint8_t> decode_in_place(std::span<const std::uint8_t> frame, std::size_t raw_bytes) {
    const h5l_frame_info info = inspect(frame);
    CHECK(info.raw_bytes == raw_bytes && info.frame_bytes == frame.size(), "%zu bytes", raw_bytes);
    ++counts_.frames[info.codec];
    counts_.stored_tiles += static_cast<int>(info.stored_tiles);
    counts_.with_dims += info.rank != 0 ? 1 : 0;

    const std::span<std::uint8_t> in = moved_frame_place_.get(random_, frame.size());
    std::copy(frame.begin(), frame.end(), in.begin());
    const std::span<std::uint8_t> out = decoded_place_.get(random_, raw_bytes);
    h5l_message message;
    const h5l_status status = h5l_decode(in.data(), in.size(), out.data(), out.size(), &message);
    CHECK(status == H5L_OK, "%s", message.text);
    return out;
  }

  // Encoding again changes nothing. For decoded values the range differs, so the bound that was used is requested as an
  // absolute one, and payloads are compared.
  void check_again(h5l_params params, const Bytes& raw, const Bytes& frame, const Bytes& decoded) {
    const h5l_frame_info info = inspect(frame);
    const bool is_resolved = params.bound_kind == H5L_BOUND_RANGE_RELATIVE;
    if (is_resolved) {
      if (info.codec == H5L_CODEC_STORED || info.bound_kind == H5L_BOUND_LOSSLESS) return;
      h5l_range range;
      CHECK(h5l_value_range(&params, raw.data(), raw.size(), 1, &range, nullptr) == H5L_OK, "%zu bytes", raw.size());
      params.bound_kind = H5L_BOUND_ABSOLUTE;
      params.bound = h5l_absolute_bound(params.bound, range.min, range.max);
    }
    const Bytes again = encode(params, decoded);
    if (!repeats_its_frames(params.codec, params.mode)) {
      const Bytes repeated = h5lossy::test::decode(again);
      if (repeated == decoded) return;
      CHECK(params.codec == H5L_CODEC_AUTO, "%s, float%zu, kind %u, bound %.17g, %zu bytes: other values again",
            method_.name.c_str(), 8 * sizeof(T), params.bound_kind, params.bound, decoded.size());
      check_moved(params, raw, decoded, repeated);
      check_moved(params, raw, repeated, h5lossy::test::decode(encode(params, repeated)));
      return;
    }
    const auto begin = is_resolved ? static_cast<std::ptrdiff_t>(payload_begin(frame)) : 0;
    CHECK(again.size() == frame.size() && std::equal(frame.begin() + begin, frame.end(), again.begin() + begin),
          "%s, float%zu, kind %u, bound %.17g, %zu bytes: %zu, then %zu bytes", method_.name.c_str(), 8 * sizeof(T),
          params.bound_kind, params.bound, decoded.size(), frame.size(), again.size());
  }

  // Each time, another codec may give the smallest frame. It may move values that the previous codec kept exactly, but
  // no value twice (docs/format/auto.md).
  void check_moved(const h5l_params& params, const Bytes& raw, const Bytes& before, const Bytes& after) {
    const bool big_endian = params.big_endian != 0;
    const std::vector<Bits<T>> given = to_values<T>(raw, big_endian), once = to_values<T>(before, big_endian),
                               now = to_values<T>(after, big_endian);
    for (std::size_t i = 0; i < given.size(); ++i) {
      CHECK(now[i] == once[i] || once[i] == given[i],
            "%s, float%zu, kind %u, bound %.17g: value %zu of %zu moves again", method_.name.c_str(), 8 * sizeof(T),
            params.bound_kind, params.bound, i, given.size());
    }
  }

  const Method& method_;
  Random random_;
  Random safeguards_;  // so that they change nothing else
  const std::size_t most_bytes_ = (kMostTiles * method_.tile_values(sizeof(T)) + kMore) * sizeof(T) + 40;
  Place raw_place_{most_bytes_}, frame_place_{most_bytes_}, moved_frame_place_{most_bytes_},
      decoded_place_{most_bytes_};
  Counts counts_;
};

template <class T>
void check_all(const Method& method, std::uint64_t seed) {
  const std::size_t tile = method.tile_values(sizeof(T));
  const std::size_t counts[] = {
      0,   1,   2,    31,   32,       33,       63,   64,       65,       127,
      128, 129, 1000, 1023, tile / 2, tile - 1, tile, tile + 1, 2 * tile, kMostTiles * tile + kMore};
  Check<T> check(method, seed);
  unsigned large = 0;
  for (const Setting& setting : settings<T>()) {
    for (const std::size_t count : counts) {
      for (const std::uint64_t hostile_one_in : {0u, 1000u, 30u, 1u}) {
        // The large ones take long: every third has to do; where there are few cases, every twenty-ninth.
        const bool is_large = count > 10000;
        if (is_large && ++large % (kCaseStep == 1 ? 3 : 29) != 0) continue;
        for (int repeat = count <= 1024 ? cases(3) : 1; repeat > 0; --repeat) check.run(setting, count, hostile_one_in);
      }
    }
  }
  // All ways through the encoder were taken, and often.
  const Counts& seen = check.counts();
  const auto frames = [&](std::uint32_t codec) {
    const auto found = seen.frames.find(codec);
    return found == seen.frames.end() ? 0 : found->second;
  };
  CHECK(frames(H5L_CODEC_STORED) > cases(300) && seen.stored_tiles > 0, "%s: %d stored frames, %d stored tiles",
        method.name.c_str(), frames(H5L_CODEC_STORED), seen.stored_tiles);
  for (const Method& other : methods()) {
    const bool is_candidate = method.mode == H5L_AUTO_SIZE || codec_entry(other.codec)->codec->auto_mode_count != 0;
    const bool expected = method.codec == H5L_CODEC_AUTO ? is_candidate : method.codec == other.codec;
    CHECK(!expected || frames(other.codec) > cases(20), "%s: %d frames of codec %u", method.name.c_str(),
          frames(other.codec), other.codec);
  }
  CHECK(!method.has_boxes || seen.with_dims > 270, "%s: %d frames with dims", method.name.c_str(), seen.with_dims);
}

}  // namespace
}  // namespace h5lossy::test

int main(int count, char** arguments) {
  const std::uint64_t seed = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 5;
  for (const h5lossy::test::Method& method : h5lossy::test::methods_and_auto()) {
    h5lossy::test::check_all<float>(method, seed);
    h5lossy::test::check_all<double>(method, seed);
  }
}
