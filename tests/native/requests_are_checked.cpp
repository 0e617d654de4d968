// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Invalid requests (parameters, sizes, null pointers, cd_values) are refused with a status and a message, and nothing
// is written. What pack writes, unpack reads.

#include <cstring>
#include <limits>

#include "check.h"
#include "frames.h"
#include "methods.h"
#include "promise.h"
#include "values.h"

namespace h5lossy::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

h5l_params valid() { return make_params(H5L_BOUND_ABSOLUTE, 1e-3, 4); }

void refused(const h5l_params& params, h5l_status expected, const char* what) {
  const Bytes raw(400);
  Bytes frame(440);
  std::size_t frame_bytes = 7;
  h5l_message message = {};
  const h5l_status status =
      h5l_encode(&params, raw.data(), raw.size(), frame.data(), frame.size(), &frame_bytes, &message);
  CHECK(status == expected, "%s: %s", what, h5l_status_name(status));
  CHECK(message.text[0] != '\0' && frame_bytes == 0 && frame == Bytes(440), "%s", what);
  std::uint32_t words[H5L_MAX_CD_VALUES];
  std::size_t count = 0;
  CHECK(h5l_pack_cd_values(&params, words, &count, nullptr) == expected, "%s, as cd_values", what);
}

template <class Change>
void refused_with(h5l_status expected, const char* what, Change change) {
  h5l_params params = valid();
  change(params);
  refused(params, expected, what);
}

// The bits of the bound are compared by memcmp, as all else: h5l_params has no padding that matters once it is zeroed.
bool equal(const h5l_params& a, const h5l_params& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

void check_params() {
  const auto check = [](const char* what, auto change) { refused_with(H5L_INVALID_ARGUMENT, what, change); };
  for (const double bound : {0.0, -0.0, -1.0, kNan, kInfinity, -kInfinity}) {
    check("absolute bound", [&](h5l_params& p) { p.bound = bound; });
    check("range-relative bound", [&](h5l_params& p) { p.bound_kind = H5L_BOUND_RANGE_RELATIVE, p.bound = bound; });
  }
  for (const double bound : {0.0, -0.1, 1.0, 2.0, kNan, kInfinity}) {
    check("pointwise bound", [&](h5l_params& p) { p.bound_kind = H5L_BOUND_POINTWISE_RELATIVE, p.bound = bound; });
  }
  for (const double bound : {-0.0, 1.0, kNan}) {
    check("bound beside lossless", [&](h5l_params& p) { p.bound_kind = H5L_BOUND_LOSSLESS, p.bound = bound; });
  }
  check("bound kind", [](h5l_params& p) { p.bound_kind = 4; });
  for (const std::uint32_t size : {1u, 2u, 3u, 5u, 16u, 0xFFFFFFFFu}) {
    check("value size", [&](h5l_params& p) { p.value_bytes = size; });
  }
  check("rank", [](h5l_params& p) { p.rank = 9; });
  check("fill bits", [](h5l_params& p) { p.has_fill = 1, p.fill_bits = 1ull << 32; });
  const auto of_integers = [](h5l_params& p, std::int64_t exact) {
    p.value_class = H5L_CLASS_UNSIGNED, p.exact_count = 1, p.exact[0] = exact;
  };
  for (const std::int64_t exact : {std::int64_t{-1}, std::int64_t{1} << 32}) {
    check("an exact value of another type", [&](h5l_params& p) { of_integers(p, exact); });
  }
  check("three exact values", [&](h5l_params& p) { of_integers(p, 7), p.exact_count = 3; });
  check("exact values beside lossless",
        [&](h5l_params& p) { of_integers(p, 7), p.bound_kind = H5L_BOUND_LOSSLESS, p.bound = 0; });
  const auto threshold = [](h5l_params& p, double number) { p.threshold_count = 1, p.thresholds[0] = number; };
  for (const double number : {kNan, kInfinity}) {
    check("a threshold", [&](h5l_params& p) { threshold(p, number); });
    check("a valid range", [&](h5l_params& p) { p.has_valid_range = 1, p.valid_max = number; });
  }
  check("an empty valid range", [](h5l_params& p) { p.has_valid_range = 1, p.valid_min = 1; });
  check("a threshold beside lossless",
        [&](h5l_params& p) { threshold(p, 0), p.bound_kind = H5L_BOUND_LOSSLESS, p.bound = 0; });
  refused_with(H5L_UNSUPPORTED, "five thresholds", [](h5l_params& p) { p.threshold_count = 5; });
  refused_with(H5L_UNSUPPORTED, "a threshold of complex numbers",
               [&](h5l_params& p) { threshold(p, 0), p.value_class = H5L_CLASS_COMPLEX; });
  refused_with(H5L_UNSUPPORTED, "a threshold of integers other than 0",
               [&](h5l_params& p) { threshold(p, 1), p.value_class = H5L_CLASS_SIGNED; });
  refused_with(H5L_UNSUPPORTED, "a threshold and two other exact values",
               [&](h5l_params& p) { threshold(p, 0), of_integers(p, 7), p.exact_count = 2, p.exact[1] = 9; });
  refused_with(H5L_UNSUPPORTED, "an exact value of floats", [](h5l_params& p) { p.exact_count = 1; });
  refused_with(H5L_UNSUPPORTED, "two exact values and a fill value",
               [&](h5l_params& p) { of_integers(p, 7), p.exact_count = 2, p.has_fill = 1, p.fill_bits = 9; });
}

// A flag is set by any number but 0.
void check_flags() {
  Bytes raw(400);
  for (std::size_t i = 0; i < raw.size(); i += 4) raw[i] = static_cast<std::uint8_t>(i);
  for (std::uint32_t h5l_params::* const flag :
       {&h5l_params::no_checksum, &h5l_params::big_endian, &h5l_params::has_fill, &h5l_params::maybe_padded,
        &h5l_params::wide, &h5l_params::has_valid_range}) {
    h5l_params params = valid();
    params.fill_bits = 4;
    params.valid_max = 1;
    if (flag == &h5l_params::wide) params.value_class = H5L_CLASS_UNSIGNED, params.bound = 3;
    params.*flag = 1;
    h5l_params other = params;
    other.*flag = 2;
    CHECK(encode(other, raw) == encode(params, raw), "a flag of 2");
  }
}

// Mode 0, and what frames may say; for codec auto, for speed or for size.
void check_codecs_and_modes() {
  const Bytes raw(400);
  for (std::uint32_t codec = 0; codec < 300; ++codec) {
    const CodecEntry* const entry = codec_entry(codec);
    for (std::uint32_t mode = 0; mode < 600; ++mode) {
      h5l_params params = valid();
      params.codec = codec;
      params.mode = mode;
      const bool is_right =
          entry == nullptr ? codec == H5L_CODEC_AUTO && mode <= H5L_AUTO_SIZE : entry->codec->has_mode(mode);
      if (!is_right) {
        refused(params, H5L_UNSUPPORTED, "codec or mode");
        continue;
      }
      CHECK(decode(encode(params, raw)) == raw, "codec %u, mode %u", codec, mode);
      params.value_bytes = 0;
      std::uint32_t words[H5L_MAX_CD_VALUES];
      std::size_t count = 0;
      h5l_params unpacked;
      CHECK(h5l_pack_cd_values(&params, words, &count, nullptr) == H5L_OK, "codec %u, mode %u", codec, mode);
      CHECK(h5l_unpack_cd_values(words, count, &unpacked, nullptr) == H5L_OK && equal(params, unpacked),
            "codec %u, mode %u", codec, mode);
    }
  }
  refused_with(H5L_UNSUPPORTED, "codec", [](h5l_params& p) { p.codec = 0xFFFFFFFFu; });
  refused_with(H5L_UNSUPPORTED, "mode", [](h5l_params& p) { p.mode = 0xFFFFFFFFu; });
}

// More dimensions than the chunk has are taken as those that it has, whatever shape says otherwise.
void check_shapes() {
  for (const Method& method : methods()) {
    // `dims` are w, z, y, x; a frame holds none, the last three, or all.
    const auto check_dims = [&](const std::vector<std::uint32_t>& extents, const std::uint32_t (&dims)[kAxes]) {
      Bytes raw(8000);
      raw[3] = raw[7999] = 0x40;  // 2.0
      h5l_params params = make_params(method, H5L_BOUND_ABSOLUTE, 0.5, 4);
      set_shape(params, extents);
      const Bytes frame = encode(params, raw);
      CHECK(inspect(frame).codec == method.codec, "%s", method.name.c_str());
      check_promise<float>(method.name.c_str(), params, to_values<float>(raw, false),
                           to_values<float>(decode(frame), false));
      const h5l_frame_info info = inspect(frame);
      CHECK(info.rank == codec_entry(method.codec)->codec->header_dims(info.mode), "%s", method.name.c_str());
      const bool has_axes = dims[kAxes - 1] != 2000;
      CHECK(has_axes ? (info.rank != 0) == method.has_boxes : info.rank != 3, "%s: %u dims", method.name.c_str(),
            info.rank);
      const std::uint32_t last[] = {dims[0] * dims[1], dims[2], dims[3]};
      CHECK(std::equal(info.dims, info.dims + info.rank, info.rank == 3 ? last : dims), "%s: other dims",
            method.name.c_str());
    };
    // No shape, one that is not the chunk's, and one dimension.
    for (const std::vector<std::uint32_t>& extents : std::vector<std::vector<std::uint32_t>>{
             {}, {2000}, {1, 2000, 1}, {40, 51}, {0, 40, 50}, {40, 50, 0}, {~0u, ~0u, ~0u}}) {
      check_dims(extents, {1, 1, 1, 2000});
    }
    check_dims({40, 50}, {1, 1, 40, 50});
    check_dims({40, 1, 50, 1}, {1, 1, 40, 50});
    check_dims({1, 20, 10, 10}, {1, 20, 10, 10});
    check_dims({2, 2, 5, 10, 10}, {4, 5, 10, 10});
    check_dims({2, 1, 5, 2, 2, 5, 5, 2}, {40, 5, 5, 2});
  }
}

void check_pointers_and_sizes() {
  const h5l_params params = valid();
  Bytes raw(400), frame(440);
  std::size_t frame_bytes = 0;
  h5l_frame_info info;
  const auto encode_into = [&](const void* from, std::size_t size, void* to, std::size_t capacity) {
    return h5l_encode(&params, from, size, to, capacity, &frame_bytes, nullptr);
  };
  CHECK(h5l_encode(nullptr, raw.data(), 400, frame.data(), 440, &frame_bytes, nullptr) == H5L_INVALID_ARGUMENT,
        "params");
  CHECK(h5l_encode(&params, raw.data(), 400, frame.data(), 440, nullptr, nullptr) == H5L_INVALID_ARGUMENT, "size");
  CHECK(encode_into(nullptr, 400, frame.data(), 440) == H5L_INVALID_ARGUMENT, "raw");
  CHECK(encode_into(raw.data(), 400, nullptr, 440) == H5L_INVALID_ARGUMENT, "frame");
  CHECK(encode_into(raw.data(), 400, frame.data(), 439) == H5L_OUTPUT_TOO_SMALL, "capacity");
  CHECK(encode_into(raw.data(), 400, nullptr, 0) == H5L_OUTPUT_TOO_SMALL, "capacity");
  CHECK(encode_into(raw.data(), 400, frame.data(), 440) == H5L_OK, "capacity of raw_bytes + 40");
  CHECK(encode_into(nullptr, 0, frame.data(), 40) == H5L_OK && frame_bytes == 40, "an empty chunk");
  CHECK(h5l_decode(frame.data(), 40, nullptr, 0, nullptr) == H5L_OK, "an empty chunk");
  CHECK(h5l_decode_range(frame.data(), 40, 0, 0, nullptr, 0, nullptr) == H5L_OK, "an empty chunk");

  // Looked at only for their size: 4 GiB - 40 is the limit.
  constexpr std::size_t most = 0xFFFFFFFFu - 40u;
  CHECK(h5l_max_encoded_size(most) == 0xFFFFFFFFu && h5l_max_encoded_size(most + 1) == 0, "largest chunk");
  CHECK(h5l_max_encoded_size(std::numeric_limits<std::size_t>::max()) == 0, "largest chunk");
  CHECK(
      encode_into(raw.data(), most + 1, frame.data(), std::numeric_limits<std::size_t>::max()) == H5L_INVALID_ARGUMENT,
      "a chunk of 4 GiB");

  const Bytes good = encode(params, raw);
  CHECK(h5l_inspect(nullptr, good.size(), &info, nullptr) == H5L_INVALID_ARGUMENT, "frame");
  CHECK(h5l_inspect(good.data(), good.size(), nullptr, nullptr) == H5L_INVALID_ARGUMENT, "info");
  CHECK(h5l_decode(nullptr, good.size(), raw.data(), 400, nullptr) == H5L_INVALID_ARGUMENT, "frame");
  CHECK(h5l_decode(good.data(), good.size(), nullptr, 400, nullptr) == H5L_INVALID_ARGUMENT, "raw");
  for (const std::size_t size : {0u, 399u, 401u}) {
    Bytes other(size);
    CHECK(h5l_decode(good.data(), good.size(), other.data(), size, nullptr) == H5L_INVALID_ARGUMENT, "%zu bytes", size);
  }

  h5l_range range;
  CHECK(h5l_value_range(&params, raw.data(), 399, 1, &range, nullptr) == H5L_INVALID_ARGUMENT, "part of a value");
  CHECK(h5l_value_range(nullptr, raw.data(), 400, 1, &range, nullptr) == H5L_INVALID_ARGUMENT, "params");
  CHECK(h5l_value_range(&params, raw.data(), 400, 1, nullptr, nullptr) == H5L_INVALID_ARGUMENT, "range");
  const double zero_bounds[][3] = {{kNan, 0, 1}, {0, 0, 1},         {-1, 0, 1},      {kInfinity, 0, 1}, {1, 1, 1},
                                   {1, 1, 0},    {1, 0, kInfinity}, {1, kNan, kNan}, {1, -kInfinity, 0}};
  for (const auto& [bound, min, max] : zero_bounds) {
    CHECK(h5l_absolute_bound(bound, min, max) == 0, "bound %g over %g to %g", bound, min, max);
  }
}

void check_cd_values() {
  h5l_params params = valid();
  std::uint32_t words[H5L_MAX_CD_VALUES];
  std::size_t count = 0;
  h5l_params unpacked;
  params.value_bytes = 0;
  CHECK(h5l_pack_cd_values(&params, words, &count, nullptr) == H5L_OK && count == 5, "%zu words", count);
  for (const std::size_t given : {4u, 5u, 16u}) {
    CHECK(h5l_unpack_cd_values(words, given, &unpacked, nullptr) == H5L_OK && equal(params, unpacked), "%zu words",
          given);
  }
  for (const std::size_t given : {0u, 2u, 3u}) {
    CHECK(h5l_unpack_cd_values(words, given, &unpacked, nullptr) == H5L_INVALID_ARGUMENT, "%zu words", given);
  }
  CHECK(h5l_unpack_cd_values(words, 1, &unpacked, nullptr) == H5L_OK && unpacked.codec == params.codec &&
            unpacked.bound_kind == H5L_BOUND_LOSSLESS,
        "a codec alone is lossless");
  const std::uint32_t lossless[] = {1, 3, 0, 0x80000000u};
  CHECK(h5l_unpack_cd_values(lossless, 2, &unpacked, nullptr) == H5L_OK, "lossless in 2 words");
  CHECK(h5l_unpack_cd_values(lossless, 4, &unpacked, nullptr) == H5L_INVALID_ARGUMENT, "lossless beside -0.0");

  // Every field; the example of docs/format/cd_values.md.
  const std::uint32_t expected[] = {1, 0, 3539053052u, 1062232653u, 256, 33555457, 100,         200,
                                    0, 0, 0,           0,           0,   0,        3296313344u, 0};
  params = valid();
  params.rank = 2;
  params.shape[0] = 100;
  params.shape[1] = 200;
  params.has_fill = 1;
  params.fill_bits = 0xC479C000u;
  CHECK(h5l_pack_cd_values(&params, words, &count, nullptr) == H5L_OK && count == 16, "%zu words", count);
  for (std::size_t i = 0; i < 16; ++i)
    CHECK(words[i] == expected[i], "word %zu is %u, expected %u", i, words[i], expected[i]);
  CHECK(h5l_unpack_cd_values(words, count, &unpacked, nullptr) == H5L_OK && equal(params, unpacked), "16 words");

  const auto refused_word = [&](std::size_t at, std::uint32_t word, h5l_status status) {
    std::uint32_t changed[16];
    std::memcpy(changed, expected, sizeof changed);
    changed[at] = word;
    const h5l_status given = h5l_unpack_cd_values(changed, 16, &unpacked, nullptr);
    CHECK(given == status, "word %zu is %u: %s", at, word, h5l_status_name(given));
  };
  refused_word(0, 99, H5L_UNSUPPORTED);
  refused_word(1, 4, H5L_INVALID_ARGUMENT);
  refused_word(3, 0x7FF00000u, H5L_INVALID_ARGUMENT);
  refused_word(4, 1u << 10, H5L_UNSUPPORTED);
  refused_word(4, 1, H5L_UNSUPPORTED);
  refused_word(5, 33555456, H5L_UNSUPPORTED);  // layout version 0
  refused_word(5, 33555458, H5L_UNSUPPORTED);  // layout version 2
  refused_word(5, 33555457 | 1u << 17, H5L_UNSUPPORTED);
  refused_word(5, 0x02000301, H5L_INVALID_ARGUMENT);   // 3 bytes
  refused_word(5, 0x09000401, H5L_INVALID_ARGUMENT);   // rank 9
  refused_word(6, 0xFFFFFFFFu, H5L_INVALID_ARGUMENT);  // chunk of more than 4 GiB
  refused_word(15, 1, H5L_INVALID_ARGUMENT);           // fill value of more than 32 bits
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  h5lossy::test::check_params();
  h5lossy::test::check_flags();
  h5lossy::test::check_codecs_and_modes();
  h5lossy::test::check_shapes();
  h5lossy::test::check_pointers_and_sizes();
  h5lossy::test::check_cd_values();
}
