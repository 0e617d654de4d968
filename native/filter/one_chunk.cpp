// SPDX-FileCopyrightText: The h5lossy authors
// SPDX-License-Identifier: BSD-3-Clause

#include "filter/one_chunk.h"

#include <atomic>

#include "chunk/decode.h"
#include "chunk/encode.h"
#include "chunk/open_frame.h"
#include "filter/cd_values.h"
#include "filter/say_once.h"
#include "frame/frame.h"
#include "offload/chunks.h"
#include "runtime/threads.h"

namespace h5lossy {

h5l_params read_stored(std::span<const unsigned> cd_values, unsigned flags) {
  h5l_params params;
  if (unpack_cd_values(cd_values, params, Message(nullptr)) != H5L_OK) {
    params = {};
    params.bound_kind = H5L_BOUND_LOSSLESS;
  }
  if ((flags & hdf5::kFlagOptional) != 0) params.value_bytes = 0;
  params.maybe_padded = 1;
  return params;
}

std::size_t encode_to_buffer(const h5l_params& params, std::span<const std::uint8_t> raw, Buffer& frame,
                             const Message& why) {
  static std::atomic_flag said;
  if (params.value_bytes == 0) {
    say_once(said,
             "the type of a dataset is unknown, so its chunks are stored without compression; text and other values of "
             "variable length can't be compressed, so create their dataset without this filter; a program that links "
             "HDF5 statically hides the type: use the shared library, or give all 16 cd_values");
  } else if (chunk_bytes(params) != raw.size()) {
    // Decoding would refuse the frame.
    why.fail(H5L_INVALID_ARGUMENT, "the cd_values describe chunks of %llu bytes, but this chunk has %zu",
             static_cast<unsigned long long>(chunk_bytes(params)), raw.size());
    return 0;
  }
  const std::size_t capacity = h5l_max_encoded_size(raw.size());
  frame.allocate(capacity);
  if (frame.data() == nullptr) {
    why.fail(H5L_OUT_OF_MEMORY, "out of memory for the frame of a chunk of %zu bytes", raw.size());
    return 0;
  }
  const std::span<std::uint8_t> out(frame.data(), capacity);
  std::size_t written = 0;
  if (offload::encode_chunk(params, raw, out, written, Message(nullptr), filter_threads()) != H5L_OK) {
    store_chunk(params, raw, out, written);
  }
  return written;
}

namespace {

// Whether a frame matches the cd_values, if they describe the chunks.
h5l_status check_frame(const FrameHeader& header, const h5l_params& params, const Message& why) {
  if (params.value_bytes == 0) return H5L_OK;
  const std::uint64_t expected = chunk_bytes(params);
  if (header.raw_bytes != expected) {
    return why.fail(H5L_CORRUPT, "the frame holds %u bytes, but the cd_values describe chunks of %llu",
                    header.raw_bytes, static_cast<unsigned long long>(expected));
  }
  const bool same_type = header.value_bytes == params.value_bytes && header.value_class == params.value_class;
  if (header.is_typed() && (!same_type || header.big_endian != (params.big_endian != 0))) {
    return why.fail(H5L_CORRUPT, "the frame's type differs from that in the cd_values");
  }
  return H5L_OK;
}

// Allocates at least the bytes that HDF5 will read. Fails if the frame does not belong to the dataset.
h5l_status allocate_chunk(const Call& call, const h5l_params& params, const Frame& frame, Buffer& raw,
                          const Message& why) {
  using enum OpenDatasets::Verdict;
  const FrameHeader& header = frame.header;
  Caller* const caller = Caller::at(call.return_address);
  const bool is_described = params.value_bytes != 0;
  const auto verdict = caller != nullptr ? caller->check(call, is_described, header) : kUnknown;
  if (verdict == kContradicts) {
    return why.fail(H5L_CORRUPT, "the frame holds %u bytes, but the dataset's chunks have another size or type",
                    header.raw_bytes);
  }
  // A frame of a few bytes may claim 4 GiB. A frame of untyped bytes holds them all, so its size is
  // true.
  if (verdict == kUnknown && !is_described && header.is_typed()) {
    return why.fail(H5L_CORRUPT, "the frame claims %u bytes, but the chunk size is unknown", header.raw_bytes);
  }
  const bool is_size_certain = verdict == kFits || (caller != nullptr && caller->checks_sizes);
  if (is_size_certain) {
    raw.allocate(header.raw_bytes);
  } else {
    // Freeing a buffer that large is slow, so damaged frames are refused first.
    if (const h5l_status status = check_sum(frame, why); status != H5L_OK) return status;
    raw.allocate_for_any_chunk(header.raw_bytes);
  }
  if (raw.data() == nullptr)
    return why.fail(H5L_OUT_OF_MEMORY, "out of memory for a chunk of %u bytes", header.raw_bytes);
  return H5L_OK;
}

}  // namespace

std::size_t decode_to_buffer(const Call& call, const h5l_params& params, std::span<const std::uint8_t> bytes,
                             Buffer& raw, const Message& why) {
  Frame frame;
  if (open_frame(bytes, frame, why) != H5L_OK || check_frame(frame.header, params, why) != H5L_OK ||
      allocate_chunk(call, params, frame, raw, why) != H5L_OK) {
    return 0;
  }
  const std::size_t size = frame.header.raw_bytes;
  return offload::decode_chunk(frame, {raw.data(), size}, why, filter_threads()) == H5L_OK ? size : 0;
}

}  // namespace h5lossy
