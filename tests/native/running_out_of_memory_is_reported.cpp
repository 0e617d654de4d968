// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// If an allocation fails, a call returns H5L_OUT_OF_MEMORY, the filter returns 0 and keeps the buffer, and the next call with
// enough memory works, even if the process's first call failed.

#include <cstring>

#include "allocations.h"
#include "check.h"
#include "filter/hdf5_symbols.h"
#include "methods.h"
#include "values.h"

extern "C" const void* H5PLget_plugin_info(void);

namespace h5lossy::test {
namespace {

// Fails the first allocation of `call`, then the second, and so on, until it succeeds. Returns how many failures there
// were.
template <class Call>
int fail_one_after_the_other(const char* name, Call call) {
  for (int failing = 0; failing < 1000; ++failing) {
    h5l_message message = {};
    allocations.watch(failing);
    const h5l_status status = call(&message);
    allocations.stop();
    if (status == H5L_OK) return failing;
    CHECK(status == H5L_OUT_OF_MEMORY, "%s, allocation %d fails: %s", name, failing, h5l_status_name(status));
    CHECK(message.text[0] != '\0', "%s, allocation %d fails: no message", name, failing);
  }
  CHECK(false, "%s never ends", name);
}

constexpr std::uint32_t kExtent = 22, kValues = kExtent * kExtent * kExtent;

std::size_t run_filter(const Method& method, unsigned flags, const Bytes& in, long failing, Bytes& out) {
  const auto& filter = *static_cast<const hdf5::FilterClass*>(H5PLget_plugin_info());
  // Absolute 1.0; three dimensions of float32.
  const std::uint32_t cd_values[] = {
      method.codec, H5L_BOUND_ABSOLUTE, 0, 0x3FF00000, method.mode, 0x03000401, kExtent, kExtent, kExtent};
  void* buffer = std::malloc(in.size());
  void* const given = buffer;
  std::size_t capacity = in.size();
  std::memcpy(buffer, in.data(), in.size());
  allocations.watch(failing);
  const std::size_t size = filter.filter(flags, std::size(cd_values), cd_values, in.size(), &capacity, &buffer);
  allocations.stop();
  if (size == 0) {
    CHECK(buffer == given && capacity == in.size(), "a failure has changed the buffer, flags 0x%x", flags);
    CHECK(std::memcmp(buffer, in.data(), in.size()) == 0, "a failure has changed the bytes, flags 0x%x", flags);
  } else {
    const auto* const bytes = static_cast<const std::uint8_t*>(buffer);
    out.assign(bytes, bytes + size);
  }
  std::free(buffer);
  return size;
}

void check(const Method& method, const Bytes& raw) {
  const char* const name = method.name.c_str();
  h5l_params params = make_params(method, H5L_BOUND_ABSOLUTE, 1, 4);
  set_shape(params, {kExtent, kExtent, kExtent});
  Bytes frame(raw.size() + 40), decoded(raw.size());
  std::size_t frame_bytes = 0;

  const int encode_failures = fail_one_after_the_other("h5l_encode", [&](h5l_message* message) {
    return h5l_encode(&params, raw.data(), raw.size(), frame.data(), frame.size(), &frame_bytes, message);
  });
  CHECK(encode_failures > 0, "%s: allocations are not counted; does the linker wrap malloc?", name);
  frame.resize(frame_bytes);
  CHECK(frame == encode(params, raw), "%s: another frame of %zu bytes after failures", name, frame_bytes);

  fail_one_after_the_other("h5l_decode", [&](h5l_message* message) {
    return h5l_decode(frame.data(), frame.size(), decoded.data(), decoded.size(), message);
  });
  const int part_failures = fail_one_after_the_other("h5l_decode_range", [&](h5l_message* message) {
    return h5l_decode_range(frame.data(), frame.size(), 1, 5000, decoded.data(), 5000 * sizeof(float), message);
  });
  CHECK(part_failures > 0, "%s: h5l_decode_range needs a workspace for parts of tiles", name);
  h5l_frame_info info;
  fail_one_after_the_other(
      "h5l_inspect", [&](h5l_message* message) { return h5l_inspect(frame.data(), frame.size(), &info, message); });

  // At first it looks for HDF5, and goes on without.
  Bytes out;
  for (int failing = 0; failing < 4; ++failing) run_filter(method, hdf5::kFlagReverse, frame, failing, out);
  // Then the filter's output is its first allocation. A chunk for whose encoding there is no memory is stored, not lost.
  CHECK(run_filter(method, 0, raw, 0, out) == 0, "%s: encoding without memory", name);
  CHECK(run_filter(method, 0, raw, 1, out) == raw.size() + 40, "%s: encoding with memory for the output only", name);
  CHECK(run_filter(method, 0, raw, -1, out) == frame.size(), "%s: encoding", name);
  CHECK(run_filter(method, hdf5::kFlagReverse, frame, 0, out) == 0, "%s: decoding without memory", name);
  CHECK(run_filter(method, hdf5::kFlagReverse, frame, -1, out) == raw.size(), "%s: decoding", name);
}

}  // namespace
}  // namespace h5lossy::test

int main() {
  using namespace h5lossy::test;
  Random random(12);
  Values<float> source(random, {H5L_BOUND_ABSOLUTE, 1}, 0);
  const Bytes raw = to_bytes<float>(source.make(kValues), false);
  for (const Method& method : methods_and_auto()) check(method, raw);
}
