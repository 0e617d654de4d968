// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// libFuzzer: any bytes as a frame. Decoding gives an error or values, and never reads or writes outside its buffers.
// Both checksums are set right first, or no mutation would get past them. An input is a frame and nothing else, so any
// frame is a seed.

#include <cstdint>
#include <memory>
#include <span>

#include "check.h"
#include "frame/checksum.h"
#include "frames.h"
#include "seal.h"

namespace h5lossy::test {
namespace {

// A frame of empty tiles may rightly ask for 4 GiB; that is no finding, only slow.
constexpr std::uint64_t kMostBytes = 1 << 20;

bool is_expected(h5l_status status) {
  return status == H5L_OK || status == H5L_CORRUPT || status == H5L_TRUNCATED || status == H5L_UNSUPPORTED;
}

// A block of its own on the heap for each buffer, as long as need be and no longer: the sanitizer watches its ends.
std::unique_ptr<std::uint8_t[]> allocate(std::size_t size) { return std::make_unique<std::uint8_t[]>(size); }

void check(std::span<const std::uint8_t> input) {
  const auto memory = allocate(input.size());
  std::copy(input.begin(), input.end(), memory.get());
  const std::span<std::uint8_t> frame(memory.get(), input.size());
  seal(frame);

  h5l_frame_info info;
  h5l_message message;
  const h5l_status opened = h5l_inspect(frame.data(), frame.size(), &info, &message);
  CHECK(is_expected(opened), "%s", h5l_status_name(opened));
  if (opened != H5L_OK || info.raw_bytes > kMostBytes) return;

  const auto raw = allocate(info.raw_bytes);
  const h5l_status all = h5l_decode(frame.data(), frame.size(), raw.get(), info.raw_bytes, &message);
  CHECK(is_expected(all), "%s", h5l_status_name(all));

  // A range that depends on all of the input, and so changes with it.
  const std::uint64_t values = info.raw_bytes / info.value_bytes;
  const std::uint32_t number = checksum(input, 0);
  const std::uint64_t first = number % (values + 1), count = (number >> 16) % (values - first + 1);
  const std::size_t part_bytes = count * info.value_bytes;
  const auto part = allocate(part_bytes);
  const h5l_status some = h5l_decode_range(frame.data(), frame.size(), first, count, part.get(), part_bytes, &message);
  CHECK(is_expected(some), "%s", h5l_status_name(some));
  CHECK(all != H5L_OK ||
            (some == H5L_OK && std::equal(part.get(), part.get() + part_bytes, raw.get() + first * info.value_bytes)),
        "values %llu and %llu more differ from the whole", static_cast<unsigned long long>(first),
        static_cast<unsigned long long>(count));
}

}  // namespace
}  // namespace h5lossy::test

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  h5lossy::test::check({data, size});
  return 0;
}
