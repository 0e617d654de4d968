// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "runtime/device_speeds.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "runtime/registry.h"

namespace h5lossy {

namespace {

constexpr struct {
  const char *codec, *backend;
  Direction direction;
  double cpu, gpu;  // GB/s
} kSpeeds[] = {
#define H5L_DEVICE_SPEED(codec, direction, backend, cpu, gpu) {#codec, #backend, Direction::direction, cpu, gpu},
#include "runtime/device_speeds.def"
#undef H5L_DEVICE_SPEED
};

}  // namespace

bool has_gpu_speed(Direction direction, std::uint32_t codec) {
  if (codec == H5L_CODEC_AUTO) return true;
  const char* const name = codec_name(codec);
  return name != nullptr && std::any_of(std::begin(kSpeeds), std::end(kSpeeds), [&](const auto& speed) {
           return speed.direction == direction && std::strcmp(speed.codec, name) == 0;
         });
}

double gpu_speedup(Direction direction, std::uint32_t codec) {
  const Backend* backend = nullptr;
  const char* const name = codec == H5L_CODEC_AUTO ? "auto" : codec_name(codec);
  if (name == nullptr || choose_backend(backend, Message(nullptr)) != H5L_OK) return 0;
  for (const auto& speed : kSpeeds) {
    if (speed.direction == direction && std::strcmp(speed.codec, name) == 0 &&
        std::strcmp(speed.backend, backend->name) == 0) {
      return speed.gpu / speed.cpu;
    }
  }
  return 0;
}

}  // namespace h5lossy
