// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

// Encodes and decodes one chunk in the filter's buffers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "filter/caller.h"
#include "frame/message.h"
#include "h5lossy.h"
#include "platform/platform.h"

namespace h5lossy {

#ifndef H5L_MOST_CHUNK_BYTES  // smaller with a sanitizer, which marks every byte
#define H5L_MOST_CHUNK_BYTES 0xFFFFFFFFu
#endif

// An output buffer that HDF5 takes over and frees. data() is null if out of memory.
class Buffer {
 public:
  explicit Buffer(const platform::Allocator& allocator) : allocator_(allocator), memory_(nullptr, allocator.release) {}
  void allocate(std::size_t size) { memory_.reset(size == 0 ? nullptr : allocator_.allocate(size)); }
  // Zeros, as large as the largest chunk of HDF5 before 2.0. Only pages that are written to take memory.
  void allocate_for_any_chunk(std::size_t least) {
    memory_.reset(allocator_.allocate_zeros(1, std::max<std::size_t>(least, H5L_MOST_CHUNK_BYTES)));
  }
  [[nodiscard]] std::uint8_t* data() const { return static_cast<std::uint8_t*>(memory_.get()); }
  void* release() { return memory_.release(); }

 private:
  platform::Allocator allocator_;
  std::unique_ptr<void, void (*)(void*)> memory_;
};

// The parameters that set_local stored. The type is unknown (value_bytes 0) if set_local has not run. It has not run if
// the filter is still optional: HDF5 calls an optional filter on variable-length data without can_apply and set_local,
// with cd_values that may belong to another dataset.
h5l_params read_stored(std::span<const unsigned> cd_values, unsigned flags);

// Encodes a chunk and returns the frame's size, or 0 if the chunk is refused. Data of unknown type are stored
// uncompressed: if the filter refused them, HDF5 would lose them.
std::size_t encode_to_buffer(const h5l_params& params, std::span<const std::uint8_t> raw, Buffer& frame,
                             const Message& why);

// Decodes a frame and returns the chunk's size, or 0 if the frame is corrupt or does not belong to this dataset.
std::size_t decode_to_buffer(const Call& call, const h5l_params& params, std::span<const std::uint8_t> bytes,
                             Buffer& raw, const Message& why);

}  // namespace h5lossy
