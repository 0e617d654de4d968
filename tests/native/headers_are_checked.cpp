// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The rules of docs/format/frame.md for headers and tile tables, for frames of all codecs and modes: all entry points
// refuse a violation with the status that the page gives, even if the checksums match, and decode everything that the
// page allows.

#include <initializer_list>

#include "check.h"
#include "chunk/integers.h"
#include "frames.h"
#include "layout.h"
#include "samples.h"
#include "seal.h"

namespace h5lossy::test {
namespace {

constexpr std::size_t kVersionAt = 4, kHeaderWordsAt = 5, kCodecAt = 6, kTypeAt = 7, kBoundKindAt = 8, kModeAt = 9,
                      kFlagsAt = 10, kRawBytesAt = 12, kHeaderSumAt = 16, kPayloadSumAt = 20, kBoundAt = 24,
                      kStepAt = 32, kDimsAt = 40;

template <class Number>
Bytes with(Bytes frame, std::size_t at, Number number) {
  std::memcpy(frame.data() + at, &number, sizeof number);
  seal(frame);
  return frame;
}

// Refused by h5l_inspect, h5l_decode and h5l_decode_range alike.
void refused(const Bytes& frame, h5l_status expected, const char* what, unsigned long long number = 0) {
  h5l_frame_info info;
  h5l_message message = {};
  std::uint8_t raw[8];
  const h5l_status inspected = h5l_inspect(frame.data(), frame.size(), &info, &message);
  CHECK(inspected == expected, "%s %llu: %s (%s), expected %s", what, number, h5l_status_name(inspected), message.text,
        h5l_status_name(expected));
  CHECK(message.text[0] != '\0', "%s %llu: no message", what, number);
  CHECK(h5l_decode(frame.data(), frame.size(), raw, sizeof raw, nullptr) == expected, "%s %llu", what, number);
  CHECK(h5l_decode_range(frame.data(), frame.size(), 0, 1, raw, 4, nullptr) == expected, "%s %llu", what, number);
}

void taken(const Bytes& frame, const Bytes& raw, const char* what, unsigned long long number = 0) {
  h5l_message message = {};
  Bytes decoded(raw.size());
  const h5l_status status = h5l_decode(frame.data(), frame.size(), decoded.data(), decoded.size(), &message);
  CHECK(status == H5L_OK, "%s %llu: %s", what, number, message.text);
  CHECK(decoded == raw, "%s %llu: other values", what, number);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

bool has_mode(std::uint32_t codec, std::uint32_t mode) {
  const CodecEntry* const entry = codec_entry(codec);
  return entry == nullptr ? mode == 0 : entry->codec->header_dims(mode) != kNoMode;
}

// The rules for every frame.
void check_any(const Bytes& frame) {
  const Bytes raw = decode(frame);
  const h5l_frame_info info = inspect(frame);
  const bool is_stored = info.codec == H5L_CODEC_STORED;
  taken(with(frame, kHeaderSumAt, 0u), raw, "the frame, sealed");

  for (std::size_t at = 0; at < 4; ++at) refused(with(frame, at, 'x'), H5L_CORRUPT, "magic, byte", at);
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto u8 = static_cast<std::uint8_t>(byte);
    if (byte != 1) refused(with(frame, kVersionAt, u8), H5L_UNSUPPORTED, "version", byte);
    if (byte < kHeaderBytes / 4) refused(with(frame, kHeaderWordsAt, u8), H5L_CORRUPT, "header words", byte);
    if (4 * std::size_t{byte} > frame.size()) {
      refused(with(frame, kHeaderWordsAt, u8), H5L_TRUNCATED, "header words", byte);
    }
    const bool is_codec = byte == H5L_CODEC_STORED || codec_entry(byte) != nullptr;
    if (!is_codec) refused(with(frame, kCodecAt, u8), H5L_UNSUPPORTED, "codec", byte);
    if (byte > 3) refused(with(frame, kBoundKindAt, u8), H5L_CORRUPT, "bound kind", byte);
    if (!has_mode(info.codec, byte)) refused(with(frame, kModeAt, u8), H5L_UNSUPPORTED, "mode", byte);
    const unsigned size = byte & 0x7F;
    const unsigned value_class = size >> 4;
    // Pairs of floats are floats.
    const bool is_complex = value_class == H5L_CLASS_COMPLEX && ((size & 0xF) == 4 || (size & 0xF) == 8);
    const bool is_type = size == 4 || size == 8 || is_complex || (is_stored && byte == 1);
    const bool is_integer = is_integer_type(value_class, size & 0xF) && byte != 0x91 && byte != 0xA1;
    // In stored frames, integers are allowed as well as floats.
    if (is_type || (is_stored && is_integer && info.raw_bytes % (size & 0xF) == 0)) continue;
    const bool has_words = value_class != 0 && value_class != H5L_CLASS_COMPLEX;
    const bool takes_words = is_stored || codec_entry(info.codec)->codec->for_integers != nullptr;
    const bool needs_newer = value_class > H5L_CLASS_COMPLEX || (has_words && !takes_words);
    refused(with(frame, kTypeAt, u8), needs_newer ? H5L_UNSUPPORTED : H5L_CORRUPT, "type", byte);
  }
  for (unsigned bit = 1; bit < 16; ++bit) {
    const Bytes changed = with(frame, kFlagsAt, static_cast<std::uint16_t>(1u << bit | info.has_checksum));
    if (bit < 8) taken(changed, raw, "flag bit", bit);
    if (bit >= 8) refused(changed, H5L_UNSUPPORTED, "flag bit", bit);
  }
  for (const double bound : {-1.0, -0.0, kNan, kInfinity, -kInfinity}) {
    refused(with(frame, kBoundAt, bound), H5L_CORRUPT, "bound");
  }
  for (const double bound : {0.0, 1e300, 5e-324}) taken(with(frame, kBoundAt, bound), raw, "bound");

  Bytes changed = frame;
  changed[kHeaderSumAt] ^= 1;
  refused(changed, H5L_CORRUPT, "header_sum");
  changed = frame;
  changed[kPayloadSumAt] ^= 1;
  refused(changed, H5L_CORRUPT, "payload_sum, not sealed");
  if (info.has_checksum == 0) {
    set_word(changed, kHeaderSumAt, word_at(with(frame, kHeaderSumAt, 0u), kHeaderSumAt));
    refused(changed, H5L_CORRUPT, "payload_sum where there is none");
  }

  // Fields of a later minor version after ours.
  const std::size_t words = info.header_bytes / 4;
  for (const std::size_t more : {std::size_t{1}, std::size_t{3}, std::size_t{4}, 255 - words}) {
    const Bytes fields(4 * more, 0xA5);
    Bytes longer = frame;
    longer.insert(longer.begin() + info.header_bytes, fields.begin(), fields.end());
    longer[kHeaderWordsAt] = static_cast<std::uint8_t>(words + more);
    seal(longer);
    taken(longer, raw, "later fields, words of", more);
  }
}

// The rules for frames with a codec, of two tiles at least.
void check_tiles(const Bytes& frame) {
  const h5l_frame_info info = inspect(frame);
  const Layout layout = layout_of(frame);
  CHECK(info.tiles >= 2, "%llu tiles", static_cast<unsigned long long>(info.tiles));
  const std::uint32_t first_end = word_at(frame, layout.table_at());
  const std::size_t last_at = layout.payload_at() - 4;
  const std::uint32_t last_end = word_at(frame, last_at);
  refused(with(frame, layout.table_at() + 4, first_end - 1), H5L_CORRUPT, "a tile that ends before the one in front");
  refused(with(frame, last_at, last_end + 1), H5L_TRUNCATED, "payload that is not there");
  refused(with(frame, last_at, 0xFFFFFFFFu), H5L_TRUNCATED, "payload that is not there");
  refused(with(frame, last_at, last_end - 1), H5L_CORRUPT, "bytes behind the payload");
  if (info.rank == 0) refused(with(frame, kRawBytesAt, 0xFFFFFFF8u), H5L_TRUNCATED, "a tile table that is not there");
  refused(with(frame, kRawBytesAt, static_cast<std::uint32_t>(info.raw_bytes + 1)), H5L_CORRUPT, "raw_bytes");
  refused(with(frame, kTypeAt, std::uint8_t{1}), H5L_CORRUPT, "type of unknown bytes");

  // An empty payload is a tile of zeros.
  Bytes changed = frame;
  changed.resize(changed.size() - (last_end - word_at(frame, last_at - 4)));
  set_word(changed, last_at, word_at(frame, last_at - 4));
  seal(changed);
  Bytes raw = decode(frame);
  for (const std::uint64_t value : layout.values_of(static_cast<std::uint32_t>(info.tiles - 1))) {
    std::memset(raw.data() + value * info.value_bytes, 0, info.value_bytes);
  }
  taken(changed, raw, "a tile without payload");

  if (!codec_entry(info.codec)->codec->has_lossless) {
    const Bytes lossless = with(frame, kStepAt, std::uint64_t{0});
    refused(with(lossless, kBoundKindAt, std::uint8_t{H5L_BOUND_LOSSLESS}), H5L_CORRUPT, "a codec without lossless");
  }
}

// Dims of frames that have them.
void check_dims(const Bytes& frame) {
  const h5l_frame_info info = inspect(frame);
  const auto with_dims = [&](std::uint32_t z, std::uint32_t y, std::uint32_t x) {
    const std::size_t at = kDimsAt + 4 * (info.rank - 3);  // a fourth one in front stays
    return with(with(with(frame, at, z), at + 4, y), at + 8, x);
  };
  const std::uint32_t *const last = info.dims + info.rank - 3, z = last[0], y = last[1], x = last[2];
  taken(with_dims(z, y, x), decode(frame), "the frame, sealed");
  const auto values = static_cast<std::uint32_t>(info.raw_bytes / info.value_bytes);
  const std::uint32_t wrong[][3] = {
      {z + 1, y, x},
      {z - 1, y, x},
      {z, y, x + 1},
      {z, y + 1, x},
      {0, y, x},
      {z, 0, x},
      {z, y, 0},
      {1, 1, values + 1},
      {values + 1, 1, 1},
      {0, 0, 0},
      {1u << 31, 2, 1},
      {values, 1u << 31, 2},
      {1u << 16, 1u << 16, values},
      {~0u, ~0u, ~0u},
      {1u << 31, 1u << 31, 4},
      {0, ~0u, ~0u},
  };
  for (const auto& [a, b, c] : wrong) {
    refused(with_dims(a, b, c), H5L_CORRUPT, "dims that do not hold the values, the first is", a);
  }
  refused(with(frame, kRawBytesAt, 0xFFFFFFF8u), H5L_CORRUPT, "dims of other values");

  // A header without room for dims: the words after it are then those of the tile table.
  for (std::uint8_t words = kHeaderBytes / 4; words < header_bytes_of(info.rank) / 4; ++words) {
    refused(with(frame, kHeaderWordsAt, words), H5L_CORRUPT, "no room for dims, header words", words);
  }
}

// PFPL's payload for one float32, which is consistent, but longer than the value: an encoder would store the tile.
void check_long_payload() {
  constexpr std::uint8_t payload[] = {0xea, 0x01, 0x03, 0x00, 0x03, 0x00, 0x03, 0x00, 0x03, 0x00, 0x00, 0x00};
  Bytes frame = encode(make_params(H5L_BOUND_ABSOLUTE, 0.01, 4), Bytes(400));
  frame.resize(kHeaderBytes + 4);
  set_word(frame, kRawBytesAt, 4);
  set_word(frame, kHeaderBytes, sizeof payload);
  frame.insert(frame.end(), std::begin(payload), std::end(payload));
  seal(frame);
  h5l_message message;
  Bytes raw(4);
  const h5l_status status = h5l_decode(frame.data(), frame.size(), raw.data(), raw.size(), &message);
  CHECK(status == H5L_CORRUPT, "a payload of 12 bytes for a tile of 4: %s", h5l_status_name(status));
}

void check_steps(const Method& method) {
  const auto frame_of = [&](std::uint32_t kind, double bound, std::uint32_t value_bytes) {
    const Bytes raw(80000);
    h5l_params params = make_params(method, kind, bound, value_bytes);
    set_shape(params, {80000 / value_bytes / 100, 10, 10});
    return encode(params, raw);
  };
  const Bytes f32 = frame_of(H5L_BOUND_ABSOLUTE, 1, 4), f64 = frame_of(H5L_BOUND_ABSOLUTE, 1, 8);
  for (const double step : {0.0, -2.0, kNan, kInfinity, 1e-300, 0x1p-126, 0x1p126, 0x1.0000001p0, 0x1.fffffffp124}) {
    refused(with(f32, kStepAt, step), H5L_CORRUPT, "step of float32");
  }
  for (const double step : {0x1p-125, 0x1.000002p-125, 1.0, 0x1p125}) {
    taken(with(f32, kStepAt, step), Bytes(80000), "step of float32");
  }
  for (const double step : {0.0, -2.0, kNan, kInfinity, 0x1.fffffffffffffp-1022, 0x1.0000000000001p1021}) {
    refused(with(f64, kStepAt, step), H5L_CORRUPT, "step of float64");
  }
  for (const double step : {0x1p-1021, 1e-300, 0x1p1021}) {
    taken(with(f64, kStepAt, step), Bytes(80000), "step of float64");
  }

  const Bytes p32 = frame_of(H5L_BOUND_POINTWISE_RELATIVE, 1e-3, 4);
  const Bytes p64 = frame_of(H5L_BOUND_POINTWISE_RELATIVE, 1e-3, 8);
  using u64 = std::uint64_t;
  constexpr u64 most32 = (u64{1} << 23) + 1, most64 = (u64{1} << 52) + 1;
  for (const u64 scale : {u64{0}, u64{1}, u64{2}, u64{4}, most32 + 1, most32 + 2, ~u64{0}}) {
    refused(with(p32, kStepAt, scale), H5L_CORRUPT, "S of float32", scale);
  }
  for (const u64 scale : {u64{3}, most32}) taken(with(p32, kStepAt, scale), Bytes(80000), "S of float32", scale);
  for (const u64 scale : {u64{0}, u64{1}, u64{4}, most64 + 1, most64 + 2, ~u64{0}}) {
    refused(with(p64, kStepAt, scale), H5L_CORRUPT, "S of float64", scale);
  }
  for (const u64 scale : {u64{3}, most64}) taken(with(p64, kStepAt, scale), Bytes(80000), "S of float64", scale);

  const Bytes lossless = frame_of(H5L_BOUND_LOSSLESS, 0, 4);
  refused(with(lossless, kStepAt, 1.0), H5L_CORRUPT, "step of a lossless frame");
  refused(with(lossless, kStepAt, u64{1}), H5L_CORRUPT, "step of a lossless frame");
  refused(with(lossless, kStepAt, -0.0), H5L_CORRUPT, "step of a lossless frame");
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  for (const bool checksum : {true, false}) {
    for (const Sample& sample : make_all_samples(400, checksum)) {
      check_any(sample.frame);
      if (inspect(sample.frame).rank != 0) check_dims(sample.frame);
    }
    for (const Method& method : methods()) check_tiles(make_samples(method, 4096, checksum)[0].frame);

    const Sample stored = make_stored_sample(400, checksum);
    refused(with(stored.frame, kStepAt, 1.0), H5L_CORRUPT, "step of a stored frame");
    refused(with(stored.frame, kRawBytesAt, static_cast<std::uint32_t>(stored.raw.size() + 4)), H5L_TRUNCATED,
            "stored bytes that are not there");
    refused(with(stored.frame, kRawBytesAt, static_cast<std::uint32_t>(stored.raw.size() - 4)), H5L_CORRUPT,
            "bytes behind the payload");
  }
  check_long_payload();
  for (const Method& method : methods()) check_steps(method);
}
