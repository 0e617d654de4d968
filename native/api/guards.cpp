// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "api/guards.h"

#include "chunk/open_frame.h"
#include "chunk/params.h"
#include "offload/chunks.h"
#include "runtime/entry.h"

namespace h5lossy {

h5l_status open_checked(const void* frame, std::size_t frame_bytes, Frame& opened, const Message& why) {
  if (const h5l_status status = check_pointer(frame, frame_bytes, "frame", why); status != H5L_OK) return status;
  return open_frame(bytes_of(frame, frame_bytes), opened, why);
}

h5l_status decode_opened(const Frame& frame, std::span<std::uint8_t> raw, const Message& why, std::uint32_t threads) {
  if (raw.size() != frame.header.raw_bytes) {
    return why.fail(H5L_INVALID_ARGUMENT, "the frame holds %u bytes, but raw has %zu", frame.header.raw_bytes,
                    raw.size());
  }
  return offload::decode_chunk(frame, raw, why, threads);
}

h5l_status encode_checked(const h5l_params* params, const void* raw, std::size_t raw_bytes, void* frame,
                          std::size_t capacity, size_t* frame_bytes, std::uint32_t threads,
                          h5l_message* message) noexcept {
  return guarded(message, [&](const Message& why) {
    if (params == nullptr || frame_bytes == nullptr) {
      return why.fail(H5L_INVALID_ARGUMENT, "params and frame_bytes must not be null");
    }
    *frame_bytes = 0;
    if (const h5l_status status = check_params(*params, why); status != H5L_OK) return status;
    if (const h5l_status status = check_pointer(raw, raw_bytes, "raw", why); status != H5L_OK) return status;
    if (const h5l_status status = check_pointer(frame, capacity, "frame", why); status != H5L_OK) return status;
    const std::size_t needed = h5l_max_encoded_size(raw_bytes);
    if (needed == 0) {
      return why.fail(H5L_INVALID_ARGUMENT, "a chunk has at most %zu bytes, got %zu", kMaxRawBytes, raw_bytes);
    }
    if (capacity < needed) {
      return why.fail(H5L_OUTPUT_TOO_SMALL, "frame needs room for %zu bytes, got %zu", needed, capacity);
    }
    return offload::encode_chunk(*params, bytes_of(raw, raw_bytes), bytes_of(frame, capacity), *frame_bytes, why,
                                 threads);
  });
}

h5l_status decode_checked(const void* frame, std::size_t frame_bytes, void* raw, std::size_t raw_bytes,
                          std::uint32_t threads, h5l_message* message) noexcept {
  return guarded(message, [&](const Message& why) {
    if (const h5l_status status = check_pointer(raw, raw_bytes, "raw", why); status != H5L_OK) return status;
    Frame opened;
    if (const h5l_status status = open_checked(frame, frame_bytes, opened, why); status != H5L_OK) return status;
    return decode_opened(opened, bytes_of(raw, raw_bytes), why, threads);
  });
}

}  // namespace h5lossy
