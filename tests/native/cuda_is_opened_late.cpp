// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// When the CUDA driver is opened, and which functions are called, with H5LOSSY_DEVICE unset, "cpu" and "gpu". A fake
// libcuda.so.1 (fake_driver.c) records the calls. The bytes are always the CPU's.

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "check.h"
#include "frames.h"
#include "h5lossy_device.h"

namespace h5lossy::test {
namespace {

// A variable of the fake driver; null if the driver has not been loaded.
void* variable(const char* name) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  return driver == nullptr ? nullptr : dlsym(driver, name);
}

// The calls that the driver has received since the last call; "no driver" if it has not been opened.
std::string take_calls() {
  char* const calls = static_cast<char*>(variable("fake_calls"));
  if (calls == nullptr) return "no driver";
  std::string taken = calls;
  *calls = '\0';
  return taken;
}

class Chunk {
 public:
  explicit Chunk(std::size_t bytes, std::uint32_t codec = H5L_CODEC_PFPL, std::uint32_t mode = 0)
      : codec_(codec), mode_(mode), raw_(bytes), frame_(bytes + 40) {
    for (std::size_t i = 0; i < bytes; ++i) raw_[i] = static_cast<std::uint8_t>(i % 4 == 3 ? 0x40 : i / 4 % 61);
    encode();
  }
  void encode() {
    h5l_params params = make_params(H5L_BOUND_ABSOLUTE, 1e-3, 4);
    params.codec = codec_;
    params.mode = mode_;
    h5l_message message;
    std::size_t size = 0;
    CHECK(h5l_encode(&params, raw_.data(), raw_.size(), frame_.data(), frame_.size(), &size, &message) == H5L_OK, "%s",
          message.text);
    CHECK(size_ == 0 || size == size_, "%zu bytes, then %zu", size_, size);
    size_ = size;
  }
  void decode() {
    Bytes decoded(raw_.size());
    CHECK(h5l_decode(frame_.data(), size_, decoded.data(), decoded.size(), nullptr) == H5L_OK, "%zu bytes", size_);
  }

 private:
  std::uint32_t codec_, mode_;
  Bytes raw_, frame_;
  std::size_t size_ = 0;
};

void with_auto() {
  const bool encodes = h5l_gpu_speedup(H5L_CODEC_PFPL, 0) >= 2, decodes = h5l_gpu_speedup(H5L_CODEC_PFPL, 1) >= 2;
  Chunk chunk(1 << 20);
  for (int i = 1; i < 128; ++i) chunk.encode(), chunk.decode();
  CHECK(take_calls() == "no driver", "%s", "opened before 256 MiB");
  chunk.encode(), chunk.encode();
  CHECK(take_calls() == (encodes ? "init cuGetErrorName " : "no driver"), "%s", "encoding behind 256 MiB");
  chunk.decode();
  CHECK((take_calls() == "no driver") == (!encodes && !decodes), "%s", "decoding behind 256 MiB");
}

void with_a_context() {
  CHECK(dlopen("libcuda.so.1", RTLD_NOW) != nullptr, "%s", dlerror());
  const auto is_active = static_cast<int*>(variable("fake_is_active"));
  Chunk small((128 << 10) - 4);
  CHECK(take_calls().empty(), "%s", "a first chunk below 128 KiB");
  Chunk chunk(128 << 10);
  CHECK(take_calls() == "count device state ", "%s",
        "only the context state is queried from a driver without a context");
  *is_active = 1;
  small.encode(), small.decode();
  CHECK(take_calls().empty(), "%s", "chunks below 128 KiB");
  for (int i = 0; i < 512; ++i) chunk.encode();
  CHECK(take_calls() == "count device state init cuGetErrorName ", "%s", "a context, seen within 64 MiB of chunks");
}

void with_cpu() {
  Chunk chunk(1 << 20);
  for (int i = 0; i < 300; ++i) chunk.decode();
  CHECK(take_calls() == "no driver", "%s", "H5LOSSY_DEVICE=cpu");
}

bool has_kernels(std::uint32_t codec, std::uint32_t mode, int decode) {
  return h5l_has_kernels(codec, mode, H5L_CLASS_FLOAT, H5L_BOUND_ABSOLUTE, decode) != 0;
}

void with_gpu() {
  // Codecs without kernels have no use for a GPU.
  for (std::uint32_t codec = 1; h5l_codec_name(codec) != nullptr; ++codec) {
    if (!has_kernels(codec, 0, 0)) Chunk(1 << 20, codec);
    if (!has_kernels(codec, 0, 0) && !has_kernels(codec, 0, 1)) Chunk(1 << 20, codec).decode();
  }
  // Encoded only: the frame may be of a codec that has kernels.
  if (!has_kernels(H5L_CODEC_AUTO, H5L_AUTO_SIZE, 0)) Chunk(1 << 20, H5L_CODEC_AUTO, H5L_AUTO_SIZE);
  CHECK(take_calls() == "no driver", "%s", "no codec so far has kernels");
  Chunk chunk(1000);
  CHECK(take_calls() == "init cuGetErrorName ", "%s", "H5LOSSY_DEVICE=gpu");
}

}  // namespace
}  // namespace h5lossy::test

int main(int, char** arguments) {
  using namespace h5lossy::test;
  const std::string which = arguments[1];
  if (which != "auto" && which != "context") setenv("H5LOSSY_DEVICE", arguments[1], 1);
  if (which == "auto") with_auto();
  if (which == "context") with_a_context();
  if (which == "cpu") with_cpu();
  if (which == "gpu") with_gpu();
}
