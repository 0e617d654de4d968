// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The largest chunk that a frame can hold, 4 GiB - 44 bytes of float32, is encoded by every codec, and the values at its
// ends come back. It is zero almost everywhere, in pages that are never written, so it takes little memory. Skipped if
// not enough address space is available.

#include <sys/mman.h>

#include <cstring>
#include <iterator>

#include "check.h"
#include "layout.h"
#include "methods.h"
#include "promise.h"

namespace h5lossy::test {
namespace {

constexpr std::size_t kMostValues = (0xFFFFFFFFu - 40u) / 4;
constexpr std::size_t kRoom = 4 * kMostValues + 40;

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

// All values of `raw` are zero, before and after.
void check(const Method& method, const std::vector<std::uint32_t>& extents, const Pages& raw, const Pages& frame) {
  h5l_params params = make_params(method, H5L_BOUND_ABSOLUTE, 0.01, 4);
  set_shape(params, extents);
  const std::size_t count = product(extents), raw_bytes = 4 * count;
  constexpr float values[] = {1.5f, -2.25f, 1e30f, 4.0f};
  const std::size_t last = count - std::size(values);
  std::memcpy(raw.data(), values, sizeof values);
  std::memcpy(raw.data() + 4 * last, values, sizeof values);

  std::size_t frame_bytes = 0;
  h5l_message message;
  const char* const name = method.name.c_str();
  h5l_status status = h5l_encode(&params, raw.data(), raw_bytes, frame.data(), kRoom, &frame_bytes, &message);
  CHECK(status == H5L_OK, "%s: %s", name, message.text);
  std::memset(raw.data(), 0, sizeof values);
  std::memset(raw.data() + 4 * last, 0, sizeof values);

  const Layout layout = layout_of({frame.data(), frame_bytes});
  const std::size_t least = layout.payload_at(), most = least + 4 * method.tile_values(4);
  CHECK(frame_bytes > least && frame_bytes < most, "%s: %zu bytes", name, frame_bytes);
  h5l_frame_info info;
  status = h5l_inspect(frame.data(), frame_bytes, &info, &message);
  CHECK(status == H5L_OK && info.raw_bytes == raw_bytes && info.tiles == layout.geometry.tiles(), "%s: %s", name,
        message.text);
  for (const std::size_t first : {std::size_t{0}, last}) {
    float decoded[std::size(values)];
    status = h5l_decode_range(frame.data(), frame_bytes, first, std::size(values), decoded, sizeof decoded, &message);
    CHECK(status == H5L_OK, "%s: %s", name, message.text);
    for (std::size_t i = 0; i < std::size(values); ++i) {
      const bool close =
          differ_by_at_most(static_cast<double>(decoded[i]), static_cast<double>(values[i]), params.bound);
      CHECK(close, "%s: value %zu is %g and came back as %g", name, first + i, static_cast<double>(values[i]),
            static_cast<double>(decoded[i]));
    }
  }
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  const Pages raw(kRoom), frame(kRoom);
  Method last_with_boxes;
  for (const Method& method : methods_and_auto()) {
    if (method.is_default) check(method, {static_cast<std::uint32_t>(kMostValues)}, raw, frame);
    if (method.has_boxes) last_with_boxes = method;
  }
  // Nearly as large, with a rest in each dimension. One of its modes has to do: seconds each.
  if (last_with_boxes.has_boxes) check(last_with_boxes, {1023, 1025, 1023}, raw, frame);
}
