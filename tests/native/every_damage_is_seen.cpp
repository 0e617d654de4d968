// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Frames of 4 KiB of each codec, and of 512 bytes of each mode and sort: every truncation, every excess byte and every
// change of a single byte to any other value is an error (with few cases, every fifth is tried). Errors in header and
// tile table are the same if only the first bytes of a frame are available, as when the rest is on a GPU.

#include <algorithm>
#include <cstring>

#include "check.h"
#include "frames.h"
#include "guarded_memory.h"
#include "random.h"
#include "samples.h"

namespace h5lossy::test {
namespace {

h5l_status decode_into(std::span<const std::uint8_t> frame, Bytes& raw, h5l_message& message) {
  return h5l_decode(frame.data(), frame.size(), raw.data(), raw.size(), &message);
}

// Header and tile table: reads the first 64 bytes, which say how many are needed, and then these.
h5l_status inspect_front(std::span<const std::uint8_t> frame, h5l_frame_info& info, h5l_message& message) {
  static const GuardedMemory memory(1 << 16);
  const auto inspect_first = [&](std::size_t size) {
    const auto front = memory.at_end(std::min(size, frame.size()));
    std::copy_n(frame.begin(), front.size(), front.begin());
    return h5l_inspect_header(front.data(), front.size(), frame.size(), &info, &message);
  };
  const h5l_status status = inspect_first(64);
  const std::size_t needed = info.header_bytes + std::size_t{4} * info.tiles;
  return status == H5L_OK && needed > 64 ? inspect_first(needed) : status;
}

void check_front(const Sample& sample, std::span<const std::uint8_t> frame) {
  h5l_frame_info expected, found;
  h5l_message why = {}, message = {};
  const h5l_status status = h5l_inspect(frame.data(), frame.size(), &expected, &why);
  CHECK(inspect_front(frame, found, message) == status && std::strcmp(message.text, why.text) == 0,
        "%s, %zu bytes: got \"%s\", not \"%s\"", sample.name.c_str(), frame.size(), message.text, why.text);
  expected.stored_tiles = 0;
  CHECK(status != H5L_OK || std::memcmp(&found, &expected, sizeof found) == 0, "%s: another header",
        sample.name.c_str());
}

// A heap copy with exactly the length of the prefix, so that a sanitizer sees reads past its end.
void check_truncations(const Sample& sample) {
  Bytes raw(sample.raw.size());
  h5l_message message;
  for (std::size_t size = 0; size < sample.frame.size(); ++size) {
    const Bytes prefix(sample.frame.begin(), sample.frame.begin() + static_cast<std::ptrdiff_t>(size));
    const h5l_status status = decode_into(prefix, raw, message);
    CHECK(status == H5L_TRUNCATED, "%s, cut to %zu of %zu bytes: %s", sample.name.c_str(), size, sample.frame.size(),
          h5l_status_name(status));
    CHECK(message.text[0] != '\0', "%s, cut to %zu bytes: no message", sample.name.c_str(), size);
    check_front(sample, prefix);
  }
  for (const std::size_t more : {1u, 3u, 4u, 4096u}) {
    Bytes longer = sample.frame;
    longer.resize(longer.size() + more);
    const h5l_status status = decode_into(longer, raw, message);
    CHECK(status == H5L_CORRUPT, "%s, %zu bytes more: %s", sample.name.c_str(), more, h5l_status_name(status));
    check_front(sample, longer);
  }
}

void check_changes(const Sample& sample) {
  Bytes raw(sample.raw.size());
  Bytes frame = sample.frame;
  h5l_message message;
  for (std::size_t at = 0; at < frame.size(); ++at) {
    const std::uint8_t right = frame[at];
    for (unsigned change = 1; change < 256; change += kCaseStep) {
      frame[at] = static_cast<std::uint8_t>(right ^ change);
      const h5l_status status = decode_into(frame, raw, message);
      CHECK(status != H5L_OK && status != H5L_INTERNAL && status != H5L_OUT_OF_MEMORY,
            "%s, byte %zu is 0x%02x instead of 0x%02x: %s", sample.name.c_str(), at, frame[at], right,
            h5l_status_name(status));
      check_front(sample, frame);
    }
    frame[at] = right;
  }
  check_front(sample, frame);
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
