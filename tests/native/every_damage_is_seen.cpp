// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Frames of 4 KiB of each codec, and of 512 bytes of each mode and sort: every truncation, every byte too many and every
// change of a single byte, to any other value, is an error.

#include "check.h"
#include "frames.h"
#include "samples.h"

namespace h5lossy::test {
namespace {

h5l_status decode_into(std::span<const std::uint8_t> frame, Bytes& raw, h5l_message& message) {
  return h5l_decode(frame.data(), frame.size(), raw.data(), raw.size(), &message);
}

// A copy on the heap that is as long as the prefix, so that a sanitizer sees what is read behind it.
void check_truncations(const Sample& sample) {
  Bytes raw(sample.raw.size());
  h5l_message message;
  for (std::size_t size = 0; size < sample.frame.size(); ++size) {
    const Bytes prefix(sample.frame.begin(), sample.frame.begin() + static_cast<std::ptrdiff_t>(size));
    const h5l_status status = decode_into(prefix, raw, message);
    CHECK(status == H5L_TRUNCATED, "%s, cut to %zu of %zu bytes: %s", sample.name.c_str(), size, sample.frame.size(),
          h5l_status_name(status));
    CHECK(message.text[0] != '\0', "%s, cut to %zu bytes: no message", sample.name.c_str(), size);
  }
  for (const std::size_t more : {1u, 3u, 4u, 4096u}) {
    Bytes longer = sample.frame;
    longer.resize(longer.size() + more);
    const h5l_status status = decode_into(longer, raw, message);
    CHECK(status == H5L_CORRUPT, "%s, %zu bytes more: %s", sample.name.c_str(), more, h5l_status_name(status));
  }
}

void check_changes(const Sample& sample) {
  Bytes raw(sample.raw.size());
  Bytes frame = sample.frame;
  h5l_message message;
  for (std::size_t at = 0; at < frame.size(); ++at) {
    const std::uint8_t right = frame[at];
    for (unsigned change = 1; change < 256; ++change) {
      frame[at] = static_cast<std::uint8_t>(right ^ change);
      const h5l_status status = decode_into(frame, raw, message);
      CHECK(status != H5L_OK && status != H5L_INTERNAL && status != H5L_OUT_OF_MEMORY,
            "%s, byte %zu is 0x%02x instead of 0x%02x: %s", sample.name.c_str(), at, frame[at], right,
            h5l_status_name(status));
    }
    frame[at] = right;
  }
  CHECK(decode_into(frame, raw, message) == H5L_OK, "%s: %s", sample.name.c_str(), message.text);
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  std::vector<Sample> samples = make_all_samples(512, true);
  for (const Method& method : methods()) {
    if (method.is_default) samples.push_back(make_samples(method, 4096, true)[0]);
  }
  samples.push_back(make_stored_sample(4096, true));
  for (const Sample& sample : samples) {
    check_truncations(sample);
    check_changes(sample);
  }
}
