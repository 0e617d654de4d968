// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The largest chunk that a frame can hold, 4 GiB - 44 bytes of float32, is encoded, and the values at its ends come
// back. It is zero almost everywhere, in pages that nobody has written, so it takes hardly any memory. Skipped where
// not even addresses are to be had.

#include <sys/mman.h>

#include <cstring>

#include "check.h"
#include "h5lossy.h"
#include "promise.h"

namespace h5lossy::test {
namespace {

constexpr std::size_t kRawBytes = (0xFFFFFFFFu - 40u) / 4 * 4;

// Memory that is there once it is written to.
class Pages {
 public:
  explicit Pages(std::size_t size) : size_(size) {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    memory_ = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory_ == MAP_FAILED) std::exit(kSkipped);
  }
  ~Pages() { munmap(memory_, size_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] std::uint8_t* data() const { return static_cast<std::uint8_t*>(memory_); }

 private:
  void* memory_;
  std::size_t size_;
};

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  const Pages raw(kRawBytes), frame(kRawBytes + 40);
  constexpr float values[] = {1.5f, -2.25f, 1e30f, 4.0f};
  constexpr std::size_t last = kRawBytes / 4 - std::size(values);
  std::memcpy(raw.data(), values, sizeof values);
  std::memcpy(raw.data() + 4 * last, values, sizeof values);

  h5l_params params = {};
  params.codec = H5L_CODEC_PFPL;
  params.bound_kind = H5L_BOUND_ABSOLUTE;
  params.bound = 0.01;
  params.value_bytes = 4;
  std::size_t frame_bytes = 0;
  h5l_message message;
  h5l_status status = h5l_encode(&params, raw.data(), kRawBytes, frame.data(), kRawBytes + 40, &frame_bytes, &message);
  CHECK(status == H5L_OK, "%s", message.text);
  constexpr std::size_t tiles = (kRawBytes + 16383) / 16384;
  CHECK(frame_bytes > 40 + 4 * tiles && frame_bytes < 40 + 4 * tiles + 200, "%zu bytes", frame_bytes);

  h5l_frame_info info;
  status = h5l_inspect(frame.data(), frame_bytes, &info, &message);
  CHECK(status == H5L_OK && info.raw_bytes == kRawBytes && info.tiles == tiles, "%s", message.text);
  for (const std::size_t first : {std::size_t{0}, last}) {
    float decoded[std::size(values)];
    status = h5l_decode_range(frame.data(), frame_bytes, first, std::size(values), decoded, sizeof decoded, &message);
    CHECK(status == H5L_OK, "%s", message.text);
    for (std::size_t i = 0; i < std::size(values); ++i) {
      const bool close =
          differ_by_at_most(static_cast<double>(decoded[i]), static_cast<double>(values[i]), params.bound);
      CHECK(close, "value %zu is %g and came back as %g", first + i, static_cast<double>(values[i]),
            static_cast<double>(decoded[i]));
    }
  }
}
