// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "offload/device_selection.h"

#include <atomic>
#include <cstdio>

#include "platform/platform.h"
#include "runtime/device_speeds.h"
#include "runtime/registry.h"

namespace h5lossy {
namespace {

constexpr std::size_t kLeastChunk = std::size_t{128} << 10;          // below this, copying takes longer than computing
constexpr std::uint64_t kBytesBeforeGpu = std::uint64_t{256} << 20;  // opening a GPU takes tenths of a second
// Looking for a CUDA context takes tens of microseconds, so it is not done for every chunk.
constexpr std::uint64_t kBytesBetweenLooks = std::uint64_t{64} << 20;
constexpr double kLeastSpeedup = 2;
constexpr char kInstead[] = "; the CPU does the work, with the same bytes";

struct DevicePolicy {
  enum class Kind { automatic, cpu, gpu };
  Kind kind = Kind::automatic;
  int ordinal = 0;
  std::string problem;  // with the variable's value

  DevicePolicy() {
    const platform::Variable value("H5LOSSY_DEVICE");
    const std::string text = value.text() == nullptr ? "auto" : value.text();
    char behind = 0;
    if (text == "auto") return;
    if (text == "cpu") {
      kind = Kind::cpu;
    } else if (text == "gpu" || (std::sscanf(text.c_str(), "gpu:%d%c", &ordinal, &behind) == 1 && ordinal >= 0)) {
      kind = Kind::gpu;
    } else {
      ordinal = 0;
      problem = "H5LOSSY_DEVICE is \"" + text.substr(0, 40) + "\"; auto is used; auto, cpu, gpu and gpu:N are allowed";
    }
  }
};

const DevicePolicy& policy() {
  static const DevicePolicy all;
  return all;
}

// Trivially destructible, because HDF5 also calls filters at exit.
constinit std::atomic<std::uint64_t> chunk_bytes{0};
constinit std::atomic<std::uint64_t> next_look{0};  // chunk_bytes from which the process is searched for a context
constinit std::atomic<bool> has_warned{false};
constinit std::atomic<int> known_ordinal{-1};  // a GPU on which this process has a context

// Prints the first warning of the process. A plugin cannot return warnings through HDF5.
void warn(const std::string& what) {
  if (!has_warned.exchange(true)) std::fprintf(stderr, "h5lossy: %s\n", what.c_str());
}

gpu::Device* select_automatically(Direction direction, std::uint32_t codec, std::size_t raw_bytes) {
  if (!policy().problem.empty()) warn(policy().problem);
  const std::uint64_t before = chunk_bytes.fetch_add(raw_bytes, std::memory_order_relaxed);
  if (raw_bytes < kLeastChunk || !has_gpu_speed(direction, codec)) return nullptr;
  std::uint64_t due = next_look;
  if (known_ordinal < 0 && before >= due && next_look.compare_exchange_strong(due, before + kBytesBetweenLooks)) {
    if (const int found = gpu::device_with_context(); found >= 0) known_ordinal = found;
  }
  std::string why;
  if (const int ordinal = known_ordinal; ordinal >= 0) return gpu::Device::open(ordinal, why);
  if (before < kBytesBeforeGpu) return nullptr;
  const double speedup = gpu_speedup(direction, codec);
  if (speedup < kLeastSpeedup) return nullptr;
  gpu::Device* const device = gpu::Device::open(0, why);
  if (device != nullptr && known_ordinal.exchange(0) < 0 && prints_counts()) {
    std::fprintf(stderr, "h5lossy: opened %s after 256 MiB of chunks: %s is %.1f times as fast there\n",
                 device->name().c_str(), direction == Direction::encode ? "encoding" : "decoding", speedup);
  }
  return device;
}

}  // namespace

gpu::Device* select_device(Direction direction, std::uint32_t codec, std::uint32_t mode, std::uint32_t value_class,
                           std::uint32_t bound_kind, std::size_t raw_bytes) {
  if (policy().kind == DevicePolicy::Kind::cpu) return nullptr;
  if (!has_kernels(direction, codec, mode, value_class, bound_kind)) return nullptr;
  if (policy().kind == DevicePolicy::Kind::automatic) return select_automatically(direction, codec, raw_bytes);
  std::string why;
  gpu::Device* const device = gpu::Device::open(policy().ordinal, why);
  if (device == nullptr) warn("H5LOSSY_DEVICE selects the GPU, but " + why + kInstead);
  return device;
}

void report_failure(gpu::Device& device) {
  if (const std::string error = device.take_error(); !error.empty()) warn("the GPU failed (" + error + ")" + kInstead);
}

std::string describe_device_selection() {
  std::string problem = policy().problem.empty() ? "" : policy().problem + "\n";
  if (policy().kind == DevicePolicy::Kind::cpu) return "chunks go to the CPU (H5LOSSY_DEVICE)\n";
  std::string why;
  gpu::Device* const device = gpu::Device::open(policy().ordinal, why);
  if (device == nullptr) return problem + "chunks go to the CPU: " + why + "\n";
  if (const std::string refused = device->describe_refused(); !refused.empty()) {
    problem += "the CPU does the work of kernels that gave wrong results: " + refused + "\n";
  }
  if (policy().kind == DevicePolicy::Kind::gpu) {
    return problem + "chunks go to GPU " + std::to_string(policy().ordinal) + " (H5LOSSY_DEVICE)\n";
  }
  return problem +
         "chunks go to the CPU; those of 128 KiB and more go to the GPU if the process has a CUDA context, or, after "
         "256 MiB of chunks, if the GPU is at least twice as fast\n";
}

}  // namespace h5lossy
