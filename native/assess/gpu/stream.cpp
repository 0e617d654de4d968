// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "assess/gpu/stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "assess/gpu/plans.h"

namespace h5lossy::gpu {
namespace {

constexpr std::size_t kPinnedBytes = std::size_t{4} << 20;

// Up to this size, a kernel writes results to the host, since a kernel has a lower latency than a copy.
constexpr std::size_t kMostCopiedByKernel = std::size_t{64} << 10;

CudaPointer address(const void* pointer) { return static_cast<CudaPointer>(reinterpret_cast<std::uintptr_t>(pointer)); }

}  // namespace

AssessStream::AssessStream(Device& device)
    : device_(device),
      current_(device),
      buffers_(device),
      is_ready_(current_.ok() && buffers_->reserve(0, kPinnedBytes)),
      launcher_(device, buffers_->stream()) {}

std::unique_ptr<AssessStream> AssessStream::open(const void* values, std::string& why) {
  if (Device::count(why) == 0) return nullptr;
  const int ordinal = Device::of_pointer(values);
  if (ordinal < 0) {
    why = "the values must be in the memory of a GPU";
    return nullptr;
  }
  Device* const device = Device::open(ordinal, why);
  if (device == nullptr) return nullptr;
  std::unique_ptr<AssessStream> stream(new AssessStream(*device));
  if (stream->is_ready_) return stream;
  why = stream->error();
  return nullptr;
}

AssessStream::~AssessStream() { device_.driver().wait_for_stream(buffers_->stream()); }

// Reusing the memory is safe, because the stream runs kernels in order. Only reallocating it needs a wait.
std::uint8_t* AssessStream::reserve(std::size_t bytes) {
  const bool is_large_enough = bytes <= buffers_->memory_bytes() || (wait() && buffers_->reserve(bytes, kPinnedBytes));
  return is_large_enough ? buffers_->memory() : nullptr;
}

bool AssessStream::download(void* to, const void* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    if (pinned_used_ == kPinnedBytes && !wait()) return false;
    const std::size_t now = std::min(bytes - done, kPinnedBytes - pinned_used_);
    if (!start_copy(buffers_->pinned() + pinned_used_, static_cast<const std::uint8_t*>(from) + done, now))
      return false;
    copies_.push_back({static_cast<std::uint8_t*>(to) + done, pinned_used_, now});
    pinned_used_ += now;
    done += now;
  }
  return true;
}

bool AssessStream::start_copy(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  const bool has_words =
      ((reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from) | bytes) & 7) == 0;
  if (has_words && bytes <= kMostCopiedByKernel) {
    const CopyPlan plan = {reinterpret_cast<const u64*>(from), reinterpret_cast<u64*>(to), bytes / sizeof(u64)};
    const auto blocks = static_cast<std::uint32_t>((plan.words + kThreads - 1) / kThreads);
    return launcher_.launch("assess_copy_to_host", blocks, 1, &plan, sizeof plan, false);
  }
  const CudaResult result = device_.driver().copy_to_host(to, address(from), bytes, buffers_->stream());
  if (result != 0) device_.report(result, "copy to the host");
  return result == 0;
}

bool AssessStream::wait() {
  const CudaResult result = device_.driver().wait_for_stream(buffers_->stream());
  if (result != 0) device_.report(result, "kernels");
  for (const Copy& copy : copies_) {
    if (result == 0) std::memcpy(copy.to, buffers_->pinned() + copy.at, copy.bytes);
  }
  copies_.clear();
  pinned_used_ = 0;
  const auto functions = std::exchange(after_copies_, {});
  for (const auto& function : functions) {
    if (result == 0) function();
  }
  return result == 0;
}

std::string AssessStream::error() const {
  const std::string error = device_.take_error();
  return error.empty() ? device_.name() + " cannot run the kernels of the assessment" : error;
}

}  // namespace h5lossy::gpu
