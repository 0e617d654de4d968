// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The library, loaded as HDF5 loads it, writes the golden frames byte for byte, and reads them, on a machine without
// Python: under an emulator, for other processors.
//
//   golden_frames_come_out LIBRARY BACKEND CASE...
//
// BACKEND must be in use. `python -m tests.golden export FOLDER` writes the cases.

#include <cstdio>
#include <cstring>

#include "check.h"
#include "frames.h"
#include "platform/platform.h"

namespace h5lossy::test {
namespace {

template <class Function>
Function* find(void* library, const char* name, Function*) {
  void* const found = platform::find_symbol(library, name);
  CHECK(found != nullptr, "the library has no %s", name);
  return reinterpret_cast<Function*>(found);
}

Bytes read_file(const char* path) {
  std::FILE* const file = std::fopen(path, "rb");
  CHECK(file != nullptr, "cannot open %s", path);
  Bytes bytes;
  std::uint8_t buffer[1 << 14];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, file)) != 0;) {
    bytes.insert(bytes.end(), buffer, buffer + n);
  }
  std::fclose(file);
  return bytes;
}

// The contents of a case, in order: h5l_params, the number of bytes of the values, the values, what they decode to, and
// the frame.
struct Case {
  h5l_params params = {};
  Bytes raw, decoded, frame;
};

Case read_case(const char* path) {
  const Bytes bytes = read_file(path);
  std::size_t at = 0;
  const auto take = [&](void* to, std::size_t size) {
    CHECK(size <= bytes.size() - at, "%s ends too early", path);
    if (size != 0) std::memcpy(to, bytes.data() + at, size);
    at += size;
  };
  Case found;
  std::uint64_t raw_bytes = 0;
  take(&found.params, sizeof found.params);
  take(&raw_bytes, sizeof raw_bytes);
  CHECK(raw_bytes <= bytes.size(), "%s ends too early", path);
  for (Bytes* const part : {&found.raw, &found.decoded}) {
    part->resize(raw_bytes);
    take(part->data(), raw_bytes);
  }
  found.frame.assign(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end());
  return found;
}

void check_all(int arguments, char** argument) {
  CHECK(arguments > 3, "usage: %s LIBRARY BACKEND CASE...", argument[0]);
  void* const library = platform::open_library(argument[1]);
  CHECK(library != nullptr, "cannot open %s", argument[1]);
  const auto encode_frame = find(library, "h5l_encode", &h5l_encode);
  const auto decode_frame = find(library, "h5l_decode", &h5l_decode);
  const char* const backend = find(library, "h5l_backend_name", &h5l_backend_name)();
  CHECK(backend != nullptr && std::strcmp(backend, argument[2]) == 0, "backend %s is in use, %s was expected",
        backend == nullptr ? "(none)" : backend, argument[2]);
  for (int i = 3; i < arguments; ++i) {
    const char* const path = argument[i];
    const Case expected = read_case(path);
    Bytes frame(expected.raw.size() + 40);
    std::size_t frame_bytes = 0;
    h5l_message message;
    CHECK(encode_frame(&expected.params, expected.raw.data(), expected.raw.size(), frame.data(), frame.size(),
                       &frame_bytes, &message) == H5L_OK,
          "%s: %s", path, message.text);
    frame.resize(frame_bytes);
    CHECK(frame == expected.frame, "%s: another frame, of %zu bytes for %zu", path, frame_bytes, expected.frame.size());
    Bytes decoded(expected.raw.size());
    CHECK(decode_frame(frame.data(), frame.size(), decoded.data(), decoded.size(), &message) == H5L_OK, "%s: %s", path,
          message.text);
    CHECK(decoded == expected.decoded, "%s: other values", path);
  }
  std::printf("%d golden frames, %s\n", arguments - 3, backend);
}

}  // namespace
}  // namespace h5lossy::test

int main(int arguments, char** argument) { h5lossy::test::check_all(arguments, argument); }
