// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// The check of the kernels that copy chunks and frames.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "gpu/arena.h"
#include "offload/kernel_check.h"

namespace h5lossy {
namespace {

// Chunks of an array that begins and ends inside chunks.
constexpr std::uint32_t kExtents[] = {5, 9, 21}, kChunk[] = {2, 4, 8}, kStart[] = {1, 3, 5}, kCounts[] = {3, 3, 4};
constexpr std::size_t kValues = 5 * 9 * 21, kChunkValues = 2 * 4 * 8, kChunks = 3 * 3 * 4;
constexpr std::uint64_t kPadding = 0xF1E2D3C4B5A69788u;

std::uint8_t source_byte(std::size_t i) { return static_cast<std::uint8_t>(i * 151 + i / 97); }
u64 frame_bytes(std::size_t i, std::size_t value_bytes) { return i * 13 % (kChunkValues * value_bytes + 1); }

// All buffers of a check, on the host or on the GPU.
struct Buffers {
  Buffers(std::uint8_t* memory, std::size_t value_bytes) {
    gpu::Arena arena(memory);
    array = arena.take<std::uint8_t>(kValues * value_bytes);
    sizes = arena.take<u64>(kChunks);
    chunks = arena.take<std::uint8_t>(kChunks * kChunkValues * value_bytes);
    again = arena.take<std::uint8_t>(kValues * value_bytes);
    packed = arena.take<std::uint8_t>(kChunks * kChunkValues * value_bytes);
    bytes = arena.bytes();
  }
  std::uint8_t *array, *chunks, *again, *packed;
  u64* sizes;  // of the chunks, taken for frames
  std::size_t bytes;
};

// Whether the kernels made of the array and the sizes what they have to, a value at a time.
bool is_right(const Buffers& buffers, std::size_t value_bytes) {
  bool right = true;
  for (std::size_t i = 0; i < kValues * value_bytes; ++i) {
    right = right && buffers.array[i] == source_byte(i) && buffers.again[i] == source_byte(i);
  }
  for (std::size_t i = 0; i < kChunks * kChunkValues; ++i) {
    std::size_t chunk = i / kChunkValues, in_chunk = i % kChunkValues, at = 0, step = 1;
    bool is_inside = true;
    for (std::uint32_t axis = 3; axis-- > 0;) {
      const std::size_t place = chunk % kCounts[axis] * kChunk[axis] + in_chunk % kChunk[axis];
      is_inside = is_inside && place >= kStart[axis] && place < kStart[axis] + kExtents[axis];
      at += (place - kStart[axis]) * step;
      step *= kExtents[axis];
      chunk /= kCounts[axis];
      in_chunk /= kChunk[axis];
    }
    const void* const from = is_inside ? static_cast<const void*>(buffers.again + at * value_bytes) : &kPadding;
    right = right && std::memcmp(buffers.chunks + i * value_bytes, from, value_bytes) == 0;
  }
  const std::uint8_t* frame = buffers.packed;  // up to a multiple of 16 there may be anything behind each
  for (std::size_t i = 0; i < kChunks; ++i) {
    const u64 size = frame_bytes(i, value_bytes);
    right = right && buffers.sizes[i] == size &&
            std::equal(frame, frame + size, buffers.chunks + i * kChunkValues * value_bytes);
    frame += (size + 15) / 16 * 16;
  }
  return right;
}

bool launch(gpu::Launcher& launcher, const Buffers& buffers, std::uint32_t value_bytes) {
  gpu::ChunkPlan plan = {};
  plan.array = buffers.array;
  plan.rank = 3;
  plan.value_bytes = value_bytes;
  plan.chunks = kChunks;
  plan.chunk_values = buffers.chunks;
  plan.chunk_stride = kChunkValues * value_bytes;
  plan.padding = kPadding;
  std::int64_t stride = value_bytes;
  for (std::uint32_t axis = 3; axis-- > 0; stride *= kExtents[axis]) {
    plan.strides[axis] = stride;
    plan.extents[axis] = kExtents[axis];
    plan.chunk[axis] = kChunk[axis];
    plan.start[axis] = kStart[axis];
  }
  gpu::ChunkPlan back = plan;
  back.array = buffers.again;
  const gpu::PackPlan packing = {buffers.chunks, plan.chunk_stride, buffers.sizes, buffers.packed};
  return gpu::gather(launcher, plan) && gpu::scatter(launcher, back) &&
         gpu::pack(launcher, packing, kChunks, plan.chunk_stride);
}

}  // namespace

gpu::Outcome compare_copies(gpu::Device& device) {
  const gpu::Current current(device);
  if (!current.ok()) return gpu::Outcome::failed;
  const gpu::BorrowedStream stream(device);
  const gpu::Driver& driver = device.driver();
  for (const std::uint32_t value_bytes : {1u, 2u, 4u, 8u}) {
    const std::size_t bytes = Buffers(nullptr, value_bytes).bytes;
    if (!stream->reserve(bytes, bytes)) return gpu::Outcome::failed;
    const Buffers on_host(stream->pinned(), value_bytes);
    std::fill_n(stream->pinned(), bytes, std::uint8_t{0});
    for (std::size_t i = 0; i < kValues * value_bytes; ++i) on_host.array[i] = source_byte(i);
    for (std::size_t i = 0; i < kChunks; ++i) on_host.sizes[i] = frame_bytes(i, value_bytes);
    const auto address = static_cast<gpu::CudaPointer>(reinterpret_cast<std::uintptr_t>(stream->memory()));
    gpu::StreamLauncher launcher(device, stream->stream(), true);
    const bool is_done = driver.copy_to_device(address, stream->pinned(), bytes, stream->stream()) == 0 &&
                         launch(launcher, Buffers(stream->memory(), value_bytes), value_bytes) &&
                         driver.copy_to_host(stream->pinned(), address, bytes, stream->stream()) == 0;
    if (driver.wait_for_stream(stream->stream()) != 0 || !is_done) return gpu::Outcome::failed;
    if (!is_right(on_host, value_bytes)) return gpu::Outcome::invalid;
  }
  return gpu::Outcome::done;
}

}  // namespace h5lossy
