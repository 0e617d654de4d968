// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "gpu/chunks.h"

#include <algorithm>
#include <cstring>

#include "frame/header.h"

namespace h5lossy::gpu {
namespace {

constexpr std::size_t kAlignment = 256;

// Uploads through pinned memory are split, so that the host fills one piece while the device copies the previous one.
constexpr std::size_t kPieceBytes = std::size_t{512} * 1024;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

CudaPointer address(const void* pointer) { return static_cast<CudaPointer>(reinterpret_cast<std::uintptr_t>(pointer)); }

// The copies of one call. After an error, nothing more is copied.
class Transfers {
 public:
  Transfers(Device& device, CudaStream stream) : device_(device), driver_(device.driver()), stream_(stream) {}
  // The buffers are reused, so wait for all copies to end.
  ~Transfers() {
    if (!is_idle_) driver_.wait_for_stream(stream_);
  }
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  void upload(std::uint8_t* to, std::uint8_t* pinned, std::span<const std::uint8_t> from) {
    for (std::size_t at = 0; at < from.size() && ok(); at += kPieceBytes) {
      is_idle_ = false;
      const std::size_t size = std::min(kPieceBytes, from.size() - at);
      std::memcpy(pinned + at, from.data() + at, size);
      note(driver_.copy_to_device(address(to + at), pinned + at, size, stream_), "copy to the device");
    }
  }
  void download(void* pinned, const void* from, std::size_t size) {
    is_idle_ = false;
    if (ok()) note(driver_.copy_to_host(pinned, address(from), size, stream_), "copy to the host");
  }
  void wait() {
    if (ok()) note(driver_.wait_for_stream(stream_), "kernels");
    is_idle_ = true;
  }
  [[nodiscard]] bool ok() const { return result_ == 0; }

 private:
  void note(CudaResult result, const char* what) {
    result_ = result;
    if (result != 0) device_.report(result, what);
  }

  Device& device_;
  const Driver& driver_;
  CudaStream stream_;
  CudaResult result_ = 0;
  bool is_idle_ = true;
};

}  // namespace

Outcome encode_chunk(Device& device, EncodeCall call, std::span<const std::uint8_t> raw, std::span<std::uint8_t> frame,
                     std::size_t& frame_bytes, bool is_check) {
  const Current current(device);
  if (!current.ok()) return Outcome::failed;
  const BorrowedStream buffers(device);
  const std::size_t room = aligned(raw.size() + kHeaderBytes), raw_room = aligned(raw.size());
  const std::size_t workspace = encode_workspace_bytes(call);
  if (!buffers->reserve(raw_room + room + kAlignment + workspace, room + kAlignment)) return Outcome::failed;
  std::uint8_t* const memory = buffers->memory();
  call.plan.encode.raw = memory;
  call.plan.encode.frames = memory + raw_room;
  call.plan.frame_bytes = reinterpret_cast<u64*>(memory + raw_room + room);
  std::uint8_t* const pinned = buffers->pinned();
  u64* const size = reinterpret_cast<u64*>(pinned + room);

  Transfers transfers(device, buffers->stream());
  StreamLauncher launcher(device, buffers->stream(), is_check);
  transfers.upload(memory, pinned, raw);
  if (!transfers.ok()) return Outcome::failed;
  const bool is_started =
      (call.plan.big_endian == 0 || swap(launcher, memory, call.variant.shape.count, call.plan.value_bytes)) &&
      encode(launcher, call, memory + raw_room + room + kAlignment);
  if (launcher.lacks_kernel()) return Outcome::unchecked;
  if (!is_started) return Outcome::failed;
  transfers.download(size, call.plan.frame_bytes, sizeof *size);
  transfers.wait();
  if (!transfers.ok()) return Outcome::failed;
  if (*size == 0) return Outcome::left;
  if (*size > raw.size() + kHeaderBytes || *size > frame.size()) return Outcome::invalid;
  transfers.download(pinned, call.plan.encode.frames, *size);
  transfers.wait();
  if (!transfers.ok()) return Outcome::failed;
  frame_bytes = *size;
  std::memcpy(frame.data(), pinned, frame_bytes);
  return Outcome::done;
}

Outcome decode_chunk(Device& device, DecodeCall call, std::span<const std::uint8_t> frame, std::span<std::uint8_t> raw,
                     bool is_check) {
  const Current current(device);
  if (!current.ok()) return Outcome::failed;
  const BorrowedStream buffers(device);
  const std::size_t frame_room = aligned(frame.size()), raw_room = aligned(raw.size());
  const std::size_t workspace = decode_workspace_bytes(call);
  if (!buffers->reserve(frame_room + raw_room + kAlignment + workspace, frame_room + raw_room + kAlignment)) {
    return Outcome::failed;
  }
  std::uint8_t* const memory = buffers->memory();
  std::uint8_t* const small = memory + frame_room + raw_room;  // everything except the values
  std::uint8_t* const pinned = buffers->pinned();
  std::uint8_t* const pinned_small = pinned + frame_room + raw_room;
  call.frame = memory;
  call.raw = memory + frame_room;
  call.frame_bytes = reinterpret_cast<u64*>(small);
  call.statuses = reinterpret_cast<u32*>(small + 8);
  const u64 size = frame.size();

  Transfers transfers(device, buffers->stream());
  StreamLauncher launcher(device, buffers->stream(), is_check);
  transfers.upload(memory, pinned, frame);
  transfers.upload(small, pinned_small, {reinterpret_cast<const std::uint8_t*>(&size), sizeof size});
  if (!transfers.ok()) return Outcome::failed;
  const bool is_started = decode(launcher, call, small + kAlignment) &&
                          (!call.big_endian || swap(launcher, call.raw, call.wanted, call.value_bytes));
  if (launcher.lacks_kernel()) return Outcome::unchecked;
  if (!is_started) return Outcome::failed;
  u32* const status = reinterpret_cast<u32*>(pinned_small + 64);
  transfers.download(status, call.statuses, sizeof *status);
  transfers.download(pinned + frame_room, call.raw, raw.size());
  transfers.wait();
  if (!transfers.ok()) return Outcome::failed;
  if (*status == static_cast<u32>(DecodeStatus::other)) return Outcome::left;
  if (*status != static_cast<u32>(DecodeStatus::ok)) return Outcome::invalid;
  std::memcpy(raw.data(), pinned + frame_room, raw.size());
  return Outcome::done;
}

}  // namespace h5lossy::gpu
