// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The library reports its version, build, and the names of statuses, codecs and backends. If H5LOSSY_BACKEND names a
// backend that does not exist, calls fail instead of using another one.

#include <cstring>
#include <string>

#include "check.h"
#include "frames.h"
#include "runtime/registry.h"

namespace h5lossy::test {
namespace {

void check_names() {
  CHECK(std::string(h5l_version()).find('.') != std::string::npos, "%s", h5l_version());
  CHECK(std::strlen(h5l_build()) > 0, "no build");
  std::string seen;
  for (int status = H5L_OK; status <= H5L_INTERNAL; ++status) {
    const std::string name = h5l_status_name(static_cast<h5l_status>(status));
    CHECK(name != "unknown" && seen.find(name + ";") == std::string::npos, "status %d is \"%s\"", status, name.c_str());
    seen += name + ";";
  }
  // All backends have the same codecs, each with a name and a number of its own.
  std::string codecs;
  for (std::uint32_t number = 0; number < 300; ++number) {
    const char* const name = h5l_codec_name(number);
    for (const Backend& backend : backends()) {
      const CodecEntry* const entry = find_codec(backend.codecs, number);
      CHECK((entry == nullptr) == (name == nullptr), "codec %u in backend %s", number, backend.name);
      CHECK(entry == nullptr || std::strcmp(entry->name, name) == 0, "codec %u in backend %s", number, backend.name);
    }
    if (name == nullptr) continue;
    CHECK(codecs.find(std::string(name) + ";") == std::string::npos, "codec %u is \"%s\", too", number, name);
    codecs += std::string(name) + ";";
  }
  CHECK(h5l_codec_name(0) == nullptr && h5l_codec_name(99) == nullptr, "unknown codecs");
  int usable = 0;
  CHECK(h5l_backend_at(0, nullptr) != nullptr, "no backend");
  bool scalar = false;
  for (std::uint32_t i = 0; const char* const name = h5l_backend_at(i, &usable); ++i) {
    scalar = scalar || (std::strcmp(name, "scalar") == 0 && usable == 1);
  }
  CHECK(scalar, "the scalar backend is always there");
}

}  // namespace
}  // namespace h5lossy::test

int main(int count, char** arguments) {
  using namespace h5lossy::test;
  check_names();
  const Bytes raw(400);
  Bytes frame(440);
  std::size_t frame_bytes = 0;
  h5l_message message;
  const h5l_params params = make_params(H5L_BOUND_ABSOLUTE, 1, 4);
  if (count == 1) {
    CHECK(h5l_self_test(&message) == H5L_OK && h5l_backend_name() != nullptr, "%s", message.text);
    CHECK(h5l_encode(&params, raw.data(), 400, frame.data(), 440, &frame_bytes, &message) == H5L_OK, "%s",
          message.text);
    return 0;
  }
  // As ctest runs it a second time, with H5LOSSY_BACKEND set to this.
  for (int repeat = 0; repeat < 2; ++repeat) {
    const h5l_status status = h5l_encode(&params, raw.data(), 400, frame.data(), 440, &frame_bytes, &message);
    CHECK(status == H5L_INVALID_ARGUMENT, "%s", h5l_status_name(status));
    CHECK(std::strstr(message.text, arguments[1]) != nullptr, "%s", message.text);
    CHECK(h5l_self_test(&message) == H5L_INVALID_ARGUMENT && h5l_backend_name() == nullptr, "%s", message.text);
  }
}
